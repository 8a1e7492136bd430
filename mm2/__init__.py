"""Replicates topics and consumer group offsets between Apache Kafka clusters.

Each subpackage is one capability: `replication` copies a partition, `offsets` translates offsets,
`topics` decides which topics are replicated, `config` reads configuration files, `failover` moves
consumer groups to the other cluster, `status` builds status reports, `cli` is the command `mm2`.
The root contains modules for every layer: exit codes, the commands that messages suggest to
operators, and number formats.

A subpackage may import only subpackages to its left in this order: formats, topics < offsets <
replication, kafka < config < copier, client < connectors < clusters < preflight, status < repair <
failover, metrics < ui < node < sandbox < cli.
"""
