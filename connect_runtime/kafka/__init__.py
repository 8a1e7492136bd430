"""Kafka clients of a worker: librdkafka clients, the internal topics, and batched admin requests.

`KafkaClusterAccess` says how to reach one cluster and is what every client is made from.
`KafkaSharedLog` and `KafkaFencedWriter` implement the ports of `connect_runtime.storage` over a
topic; `TopicAdmin` and `InternalTopicManager` create and check topics; `AdminRequestClient` sends
requests that librdkafka does not have. Errors of librdkafka become those of `client_errors`, with
what to do about them.

May import `connect_runtime.base`, `.system`, `.protocol`, `.network`, `.group` and `.storage`.
"""
