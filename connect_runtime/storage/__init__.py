"""The three internal topics of a Connect cluster: record formats, folds and backing stores.

There are three parts for each of config, offset and status: the record format, which is compatible
with Java; a fold, which applies the topic's records one by one and returns an immutable snapshot;
and a backing store that writes to a log and reads its own writes back. `SharedLog` is the interface
to the log. `connect_runtime.kafka` implements it with topics; for standalone workers it is
implemented with a file or in memory. `ClusterConfigState` is the snapshot that most of the runtime
reads.

May import `connect_runtime.base`, `.system` and `.api`. Uses no Kafka client.
"""
