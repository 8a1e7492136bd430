"""The three internal topics of a Connect cluster: record formats, topic states and backing stores.

The config, offsets and status topics have three parts each. The record format is compatible with
Java. The topic state applies the topic's records one by one and returns immutable snapshots. The
backing store writes records to a log and reads them back.

`SharedLog` is the interface to a log. Distributed workers use topics (`connect_runtime.kafka`).
Standalone workers use logs in memory and in a file (`memory_and_offset_file_logs`).
`ClusterConfigState` is the snapshot of the config topic, which most of the runtime reads.

May import `connect_runtime.base`, `.system` and `.api`. Uses no Kafka client.
"""
