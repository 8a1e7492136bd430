"""Prometheus metrics of a running `mm2` process.

`metric_declarations` declares every metric of mm2 once, with its help text, unit and labels. The
metrics reference is generated from these declarations. `collector.FlowMetricsCollector` sets the
metrics from status snapshots. `metrics_exposition` merges them with the metrics of each flow's
Connect worker and serves two sets, `/metrics` and `/metrics/java`. `jmx_aliases` adds the metric
names that dashboards made for Java MirrorMaker 2 use.

Allowed imports: `mm2.status` and the packages below it.
"""
