"""HTTP server for Prometheus metrics and additional pages.

`MetricsExporter` (`exporter`) listens on its own threads. `prometheus_text` renders metric families
in the Prometheus text format. A failure of this server never affects replication.

May import `connect_runtime.base`, `system` and the page types of `connect_runtime.rest`.
"""
