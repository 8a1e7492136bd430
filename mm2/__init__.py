"""Replicates topics and consumer group offsets between Apache Kafka clusters.

Each subpackage is one capability: `replication` copies a partition, `offsets` translates offsets,
`topics` decides which topics are mirrored, `config` reads configuration files, `failover` moves
consumer groups, `status` builds status reports, `cli` is the command `mm2`. The root contains what
every layer uses: exit codes, the commands that messages suggest to operators, and number formats.

Import order, bottom to top: formats, topics < offsets < replication, kafka < config < copier,
client < connectors < clusters < preflight, status < repair < failover, metrics < ui < node <
sandbox < cli.
"""
