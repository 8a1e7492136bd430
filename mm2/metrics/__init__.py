"""Prometheus metrics of a running `mm2` process.

`declarations` declares every metric of mm2 once, with its help text, unit and labels; the
generated reference is made from it. `collector.FlowMetricsCollector` fills the metrics from
status snapshots. `exposition` joins them with the metrics of each flow's Connect worker and
serves two sets, `/metrics` and `/metrics/java`; `jmx_aliases` adds the names under which
dashboards made for Java MirrorMaker 2 look for them.

May import `mm2.status` and everything below it.
"""
