"""Preflight checks before a flow runs (`mm2 check`), and capabilities of its clusters (`mm2
probe`).

`PreflightCheck` concurrently connects to every cluster, checks each flow whose clusters respond,
and counts the copy engine's slots (copy processes that can run at the same time). Each problem is a
`CheckFinding`: an observation, its effect, and how to fix it. `CheckReport` is the result, as a
table and as JSON.

Modules named `*_findings`, `broker_limits`, `mirror_topic_check`, `replication_factor_check` and
`required_acls` contain pure rules; the other modules connect to clusters.

May import everything up to `mm2.clusters`; must not import `mm2.failover`.
"""
