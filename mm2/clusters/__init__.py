"""Collects the state of a flow's two clusters, whether or not a process runs the flow.

Commands, status, repair and failover use this package to find out which partitions are mirrored and
how far, where consumer groups are, and what the Connect group is doing.

- `FlowPair` (`flow_pair`) connects to both clusters of a flow.
- `MirrorState` (`mirror_state`) and `GroupPositions` (`group_state`) are what was collected.
- `ClusterPairSnapshot` (`pair_snapshot`) is everything that the plan of a failover reads.

`pair_snapshot`, `fencing_results` and `reread_estimate` are pure; the other files connect to
clusters. May import everything up to `mm2.connectors`; must not import `mm2.failover`.
"""
