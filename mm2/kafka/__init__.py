"""Kafka clients of mm2: the interfaces that the rest of mm2 calls, and their implementations.

`kafka_client_interfaces` declares one protocol per concern: `Admin` (topics and configs),
`ConsumerGroups`, `LogOffsets` (offsets and timestamps), `AclAdmin`, `StateTopics`, `RecordWriter`
and `FlowStateLog` (a flow's own topics). The other modules implement these protocols with
confluent-kafka or with `connect_runtime`'s connections. `KafkaCluster` creates the clients of one
cluster lazily and closes them together.

Every call has a timeout in seconds. Failures of individual topics, groups or partitions are
returned (`PerTopicResult`, `PerGroupResult`, `PerPartitionResult`). Failures of the whole cluster
are raised.

May import `mm2.formats`, `mm2.topics`, `mm2.offsets`, `mm2.replication`, `mm2.suggested_commands`
and `connect_runtime`.
"""
