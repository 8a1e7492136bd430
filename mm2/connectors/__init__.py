"""The three MirrorMaker 2 connectors and their tasks, which use MirrorMaker 2's configuration keys.

`MirrorSourceConnector` refreshes topics, mirror topics, configs and ACLs, and assigns partitions to
tasks. `MirrorSourceTask` supervises the copy process that replicates the records
(`CopySupervisor`), and writes the offset map and incidents to the flow's internal topics
(`FlowStateStore`). `MirrorCheckpointConnector` and its task translate consumer group offsets.
`MirrorHeartbeatConnector` emits heartbeats.

Each connector and task publishes its status in `StatusRegistry`. The status page, metrics and
commands read the status from this registry.

May import `mm2.copier`, `mm2.config`, `mm2.kafka` and everything below them, but nothing from
status, metrics, UI or CLI.
"""
