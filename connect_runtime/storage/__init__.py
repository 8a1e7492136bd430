"""The three internal topics of a Connect cluster: record formats, folds and backing stores.

For each of config, offset and status: records and their bytes, compatible with Java's; a fold that
turns the topic into an immutable snapshot; and a backing store that writes to a log and reads its
own writes back. `SharedLog` is the interface to the log, implemented on topics by
`connect_runtime.kafka`, and for standalone workers by a file or in memory. `ClusterConfigState` is
the snapshot that most of the runtime reads.

May import `connect_runtime.base`, `.system` and `.api`. Uses no Kafka client.
"""
