"""The read-only status page of a running process, at `/ui`, without external resources.

`status_page.StatusPage` hosts the page. `SnapshotWatch` takes snapshots of the flows on demand,
`json_documents` turns them into bounded JSON, `lag_timeline.Timeline` keeps the lag and throughput
of the last hour, and `page_routes.StatusSite` serves the documents and the static files. Incident
records and failover plans come from mm2's own commands, which `command_runner` starts as child
processes.

May import `mm2.metrics`, `mm2.failover`, `mm2.status` and all packages below them. A failure in
this package does not affect replication.
"""
