"""The read-only status page of a running process, at `/ui`, without external resources.

`status_page.StatusPage` hosts the page. `SnapshotWatch` takes snapshots of the flows on demand.
`status_page_json` converts snapshots to JSON documents of limited size. `lag_timeline.Timeline`
keeps the lag and throughput of the last hour. `page_routes.StatusSite` serves the documents and the
static files. `status_page_command_runner` runs the mm2 commands that read incident records and
build failover plans, as child processes.

May import `mm2.metrics`, `mm2.failover`, `mm2.status` and all packages below them. A failure in
this package does not affect replication.
"""
