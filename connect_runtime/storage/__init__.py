"""The three internal topics of a Connect cluster: record formats, folds and backing stores.

For each of config, offset and status: records and their bytes, compatible with Java's; a fold that
turns the topic into a frozen view; and a backing store that writes to a log and reads its own
writes back. `SharedLog` is the port to the log itself, implemented by `connect_runtime.kafka`, or
for standalone workers by a file or in memory. `ClusterConfigState` is the view that most of the
runtime reads.

May import `connect_runtime.base`, `.system` and `.api`. No Kafka client.
"""
