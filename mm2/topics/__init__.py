"""Selects, names and configures the topics of a flow, and assigns their partitions to tasks.

`Flow` (`flow_config`) is one replication flow `source->target` with its options. The replication
policies (`replication_policy`) map topic names between clusters. `mirror_topic_plan` compares both
clusters and plans mirror topics; `task_assignment` assigns partitions to tasks.

Uses no sockets, threads or Kafka client. May import `mm2.formats`, `mm2.suggested_commands`, and
`base` and `api` of `connect_runtime`. Planners read snapshots (`TopicsSnapshot`) that `mm2.kafka`
fills in, and return plans that `mm2.connectors` applies.
"""
