"""Kafka clusters on this machine for `mm2 sandbox`, `mm2 demo`, `mm2 drill` and the tests.

`sandbox_cluster.SandboxCluster` is a Kafka cluster of one or three brokers, run from published jars
or in containers. `sandbox_supervisor` is the process that owns the clusters of `mm2 sandbox up`.
`sandbox_lifecycle` starts, finds and stops the supervisor. `replication_proof` compares mirror
topics with their source topics, as read by an ordinary consumer. Every server process ends when the
process that started it ends.

Test traffic is in `mm2.sandbox.traffic`; the demo and the drill are in `mm2.sandbox.scenarios`. The
other modules of this package import neither of them. They may import `connect_runtime`,
`mm2.formats`, `mm2.topics` and `mm2.copier`.
"""
