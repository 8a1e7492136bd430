"""Collects the state of a flow's two clusters, whether or not a process is running the flow.

Commands, status, repair and failover use this package to determine the replication progress of each
partition, the positions of consumer groups, and the state of the Connect group.

- `FlowPair` (`flow_cluster_pair`) connects to both clusters of a flow. - `MirrorState`
(`replication_progress`) and `GroupPositions` (`consumer_group_state`) contain the collected data.
- `ClusterPairSnapshot` (`cluster_pair_snapshot`) is the complete input of a failover plan.

`cluster_pair_snapshot`, `fencing_results` and `reread_estimate` are pure (no I/O); the other
modules connect to clusters. May import everything up to `mm2.connectors`; must not import
`mm2.failover`.
"""
