"""What mm2 run can show on /metrics, and what the recording rules make of it, as a catalogue."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from prometheus_client import utils

from connect_runtime.base import metrics
from connect_runtime.core.task import metric_groups, metric_names
from mm2.app import metrics as metrics_of_flows
from mm2.connectors import flow_status
from mm2.core import holds, measures
from mm2.core.configs import dedicated
from mm2.core.copy import stops
from mm2.formats import receipt
from tests.support import promql, rules

FLOW = "flow"


def catalogue(
    declared: Sequence[metrics.Metric] = measures.ALL, recorded: Sequence[rules.Rule] | None = None
) -> promql.Catalogue:
    """`declared` are mm2's own; what a flow's worker measures has the flow as a label more."""
    found = promql.Catalogue()
    for metric in declared:
        found.declare(metric, buckets=buckets(metric))
    for group in metric_names.EVERY:
        for metric in metric_groups.declared(group).values():
            found.labels[metric.name] = promql.SCRAPED | {*metric.labels, FLOW}
    _take(found)
    for rule in rules.read() if recorded is None else recorded:
        if not rule.alert:
            found.record(rule.name, rule.expr, rule.labels)
    return found


def buckets(metric: metrics.Metric) -> tuple[str, ...]:
    """Values of `le`, as they are written; none where it is no histogram."""
    bounds = [utils.floatToGoString(each) for each in metric.bounds]
    return (*bounds, "+Inf") if bounds else ()


def _take(found: promql.Catalogue) -> None:
    found.take("mm2_flow_state", "state", _of(flow_status.FlowState))
    found.take("mm2_flow_tasks", "state", _of(flow_status.TaskState))
    found.take("mm2_flow_partitions", "phase", metrics_of_flows.PHASES)
    found.take("mm2_flow_held", "by", _of(holds.By))
    found.take("mm2_connector_held", "by", _of(holds.By))
    found.take("mm2_connector_held", "connector", dedicated.CONNECTORS)
    found.take("mm2_receipts_total", "kind", _of(receipt.ReceiptKind))
    found.take("mm2_stopped_partitions", "cause", _of(stops.Cause))
    found.take("mm2_replicated_batches_total", "path", ("passed", "opened"))
    found.take("mm2_spark_slots", "use", ("used", "free"))
    for group in metric_names.EVERY:
        for metric in metric_groups.declared(group).values():
            if "connector" in metric.labels:
                found.take(metric.name, "connector", dedicated.CONNECTORS)


def _of(kinds: type[enum.Enum]) -> Iterable[str]:
    return [each.value for each in kinds]
