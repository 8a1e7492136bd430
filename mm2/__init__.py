"""Replicates topics and consumer group offsets between Apache Kafka clusters.

Each package below is one capability: `replication` copies a partition, `offsets` translates
offsets, `topics` decides what is mirrored, `config` reads the files, `failover` moves consumer
groups, `status` reports, `cli` is the command `mm2`. The root holds what every layer uses: exit
codes, the command lines that messages tell an operator to type, and number formats.

Import order, bottom to top: formats, topics < offsets < replication, kafka < config < copier,
client < connectors < clusters < preflight, status < repair < failover, metrics < ui < node
< sandbox < cli.
"""
