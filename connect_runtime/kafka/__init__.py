"""Kafka clients of a worker: librdkafka clients, internal topics, and admin requests.

Every client is created from a `KafkaClusterAccess`, the connection settings of one cluster.
`KafkaSharedLog` and `KafkaFencedWriter` implement the interfaces of `connect_runtime.storage` on a
topic. `TopicAdmin` and `InternalTopicManager` create and check topics. `AdminClient` sends admin
requests over connections of `network`, many at once with `AdminRequestClient`. Errors are
translated to the types in `client_errors`, whose messages include the remedy.

May import `connect_runtime.base`, `.system`, `.protocol`, `.network`, `.group` and `.storage`.
"""
