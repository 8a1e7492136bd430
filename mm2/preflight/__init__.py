"""Checks before a flow runs (`mm2 check`), and what its clusters are capable of (`mm2 probe`).

`PreflightCheck` connects to every cluster, checks each flow whose clusters answer, and counts the
slots of the engine, all at the same time. Each problem is a `CheckFinding`: what was found, what
follows from it, and how to fix it. `CheckReport` is the result, as a table and as JSON.

Files named `*_findings`, `broker_limits`, `mirror_topic_check`, `replication_factor_check` and
`required_acls` are pure rules; the other files connect to clusters.

May import everything up to `mm2.clusters`; must not import `mm2.failover`.
"""
