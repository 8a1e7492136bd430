"""What mm2 run can show on /metrics, and what the recording rules make of it, as a catalogue."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from prometheus_client import utils

from connect_runtime.base.metrics import Metric
from connect_runtime.worker import connect_metrics_registry
from mm2.config import dedicated_mode
from mm2.config.pause_and_throttle_overrides import OverrideKind
from mm2.connectors.status_registry import FlowState, TaskState
from mm2.formats.incident_records import IncidentKind
from mm2.metrics import collector, metric_declarations
from mm2.replication.partition_halt_messages import HaltCause
from tests.support import promql, rules
from tests.support.promql import Catalogue
from tests.support.rules import Rule

FLOW = "flow"


def catalogue(
    declared: Sequence[Metric] = metric_declarations.ALL_METRICS,
    recorded: Sequence[Rule] | None = None,
) -> Catalogue:
    """`declared` are mm2's own; what a flow's worker measures has the flow as a label more."""
    found = Catalogue()
    for metric in declared:
        found.declare(metric, buckets=buckets(metric))
    for group in connect_metrics_registry.ALL_GROUPS:
        for metric in connect_metrics_registry.declare_metrics(group).values():
            found.labels[metric.name] = promql.SCRAPED | {*metric.labels, FLOW}
    _take(found)
    for rule in rules.read() if recorded is None else recorded:
        if not rule.alert:
            found.record(rule.name, rule.expr, rule.labels)
    return found


def buckets(metric: Metric) -> tuple[str, ...]:
    """Values of `le`, as they are written; none where it is no histogram."""
    bounds = [utils.floatToGoString(each) for each in metric.bounds]
    return (*bounds, "+Inf") if bounds else ()


def _take(found: Catalogue) -> None:
    found.take("mm2_flow_state", "state", _of(FlowState))
    found.take("mm2_flow_tasks", "state", _of(TaskState))
    found.take("mm2_flow_partitions", "phase", collector.PARTITION_STATES)
    found.take("mm2_flow_override", "override", _of(OverrideKind))
    found.take("mm2_connector_override", "override", _of(OverrideKind))
    found.take("mm2_connector_override", "connector", dedicated_mode.CONNECTORS)
    found.take("mm2_incidents_total", "kind", _of(IncidentKind))
    found.take("mm2_halted_partitions", "reason", _of(HaltCause))
    found.take("mm2_replicated_batches_total", "path", ("pass-through", "re-encoded"))
    found.take("mm2_spark_slots", "use", ("used", "free"))
    for group in connect_metrics_registry.ALL_GROUPS:
        for metric in connect_metrics_registry.declare_metrics(group).values():
            if "connector" in metric.labels:
                found.take(metric.name, "connector", dedicated_mode.CONNECTORS)


def _of(kinds: type[enum.Enum]) -> Iterable[str]:
    return [each.value for each in kinds]
