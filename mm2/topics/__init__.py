"""Which topics a flow replicates, how they are named, configured and divided among tasks. Pure.

`Flow` (`flow_config`) is one replication flow `source->target` with its options. The
replication policies (`naming`) map topic names between clusters. `mirror_plan` compares both
clusters and plans mirror topics; `assignment` divides partitions among tasks.

No sockets, threads or Kafka client. May import `mm2.formats`, `mm2.operator_commands` and, from
`connect_runtime`, `base` and `api`. Planners read snapshots (`TopicsSnapshot`) that `mm2.kafka`
fills in, and return plans that `mm2.connectors` carries out.
"""
