"""Determines what `mm2 status`, `mm2 lag`, `mm2 why`, the live table and the health endpoints
report.

`status_document.FlowReport` is the status of one flow, as an object and as JSON. It is built from
the state of the process that runs the flow (`status_from_process`) or, if no local process runs the
flow, from data stored in both clusters (`status_from_clusters`). `status_query` queries the running
processes over their Unix socket (`process_socket`) and falls back to the clusters.

`topic_rows.FlowsOverview` summarizes the snapshots of a running process for the live table, the log
and the metrics. `replication_health.evaluate_flow` decides whether a flow is healthy; exit codes,
`/health/replicating`, the status page and `mm2_flow_healthy` all use its result.

May import `mm2.clusters`, `mm2.connectors`, `mm2.config` and every package below; not
`mm2.preflight` and `mm2.repair`.
"""
