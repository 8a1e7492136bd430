"""The three internal topics of a Connect cluster: record formats, topic states and backing stores.

For each of the config, offsets and status topics there are three parts: the record format, which is
compatible with Java; a topic state, which applies the topic's records one by one and returns
immutable snapshots; and a backing store, which writes to a log and reads its own writes back.
`SharedLog` is the interface to the log. `connect_runtime.kafka` implements it with topics; for
standalone workers it is implemented with a file or in memory. `ClusterConfigState` is the snapshot
that most of the runtime reads.

May import `connect_runtime.base`, `.system` and `.api`. Uses no Kafka client.
"""
