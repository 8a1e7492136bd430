"""What `mm2 run` measures: declared here, filled from the flows' snapshots.

Per topic, not per partition: a thousand partitions must not cost a Prometheus server more than
they are worth. What stands still is counted by topic and cause, so that alerts can name it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import ids, metrics
from mm2.app import overview, version
from mm2.connectors import flow_status

_TOPIC = ("flow", "topic")

BUILD = metrics.Metric(
    name="mm2_build_info",
    kind=metrics.Kind.GAUGE,
    help="Always 1; the label says which release runs.",
    labels=("version",),
)
ENGINE_READY = metrics.Metric(
    name="mm2_engine_ready",
    kind=metrics.Kind.GAUGE,
    help="1 when the engine that runs the copies (Spark) is up, else 0.",
)
FLOW_STATE = metrics.Metric(
    name="mm2_flow_state",
    kind=metrics.Kind.GAUGE,
    help="1 for the state that the flow is in, 0 for the others.",
    labels=("flow", "state"),
)
TASKS = metrics.Metric(
    name="mm2_flow_tasks",
    kind=metrics.Kind.GAUGE,
    help="Tasks of the flow by state.",
    unit="tasks",
    labels=("flow", "state"),
)
RESTARTS = metrics.Metric(
    name="mm2_task_restarts_total",
    kind=metrics.Kind.COUNTER,
    help="Copies of the flow that ended unasked and were started again.",
    unit="restarts",
    labels=("flow",),
)
RECEIPTS = metrics.Metric(
    name="mm2_receipts_total",
    kind=metrics.Kind.COUNTER,
    help="Receipts stored: what was lost, may stand twice, or could not be ruled out, by kind.",
    labels=("flow", "topic", "kind"),
)
SLOTS_MISSING = metrics.Metric(
    name="mm2_spark_missing_slots",
    kind=metrics.Kind.GAUGE,
    help="Task slots that the Spark cluster lacks for all tasks to run.",
    unit="slots",
    labels=("flow",),
)
PARTITIONS = metrics.Metric(
    name="mm2_flow_partitions",
    kind=metrics.Kind.GAUGE,
    help="Source partitions of the flow by the phase of their copy.",
    unit="partitions",
    labels=("flow", "phase"),
)
STOPPED = metrics.Metric(
    name="mm2_stopped_partitions",
    kind=metrics.Kind.GAUGE,
    help="Partitions that stand still until somebody acts, by topic and cause.",
    unit="partitions",
    labels=("flow", "topic", "cause"),
)
OPENED = metrics.Metric(
    name="mm2_opened_partitions",
    kind=metrics.Kind.GAUGE,
    help="Partitions whose newest batch was opened instead of passed through, by why.",
    unit="partitions",
    labels=("flow", "topic", "why"),
)
UNFENCED = metrics.Metric(
    name="mm2_unfenced_partitions",
    kind=metrics.Kind.GAUGE,
    help="Partitions that are copied at least once, because no transactional id may be used.",
    unit="partitions",
    labels=_TOPIC,
)
IN_TRANSACTIONS = metrics.Metric(
    name="mm2_transactional_partitions",
    kind=metrics.Kind.GAUGE,
    help="Partitions that are copied in transactions, because their records are old.",
    unit="partitions",
    labels=_TOPIC,
)
RECORDS = metrics.Metric(
    name="mm2_replicated_records_total",
    kind=metrics.Kind.COUNTER,
    help="Records that the target has acknowledged.",
    unit="records",
    labels=_TOPIC,
)
BYTES = metrics.Metric(
    name="mm2_replicated_bytes_total",
    kind=metrics.Kind.COUNTER,
    help="Bytes of record batches, as compressed, that the target has acknowledged.",
    unit="bytes",
    labels=_TOPIC,
)
LAG_RECORDS = metrics.Metric(
    name="mm2_replication_lag_records",
    kind=metrics.Kind.GAUGE,
    help="Source last stable offset minus next offset to copy, summed over partitions where both "
    "are known; an upper bound where the log has gaps.",
    unit="records",
    labels=_TOPIC,
)
LAG_SECONDS = metrics.Metric(
    name="mm2_replication_lag_seconds",
    kind=metrics.Kind.GAUGE,
    help="Age of the oldest record not yet copied, 0 if none; absent while unknown.",
    unit="seconds",
    labels=_TOPIC,
)
LATENCY = metrics.Metric(
    name="mm2_replication_latency_seconds",
    kind=metrics.Kind.GAUGE,
    help="Age of the newest copied record when the target acknowledged it, "
    "the topic's slowest partition.",
    unit="seconds",
    labels=_TOPIC,
)
LOSS_SECONDS = metrics.Metric(
    name="mm2_source_loss_seconds",
    kind=metrics.Kind.GAUGE,
    help="Until the source deletes the oldest record not yet copied, if nothing is copied until "
    "then; 0 once it has. Absent while that is not known, or nothing deletes it.",
    unit="seconds",
    labels=_TOPIC,
)

ALL = (
    BUILD,
    ENGINE_READY,
    FLOW_STATE,
    TASKS,
    RESTARTS,
    RECEIPTS,
    SLOTS_MISSING,
    PARTITIONS,
    STOPPED,
    OPENED,
    UNFENCED,
    IN_TRANSACTIONS,
    RECORDS,
    BYTES,
    LAG_RECORDS,
    LAG_SECONDS,
    LATENCY,
    LOSS_SECONDS,
)

_PHASES = ("waiting", "taking", "copying", "boundary", "stopped", "fenced", "closed")


def make_registry() -> metrics.Registry:
    """A registry that knows every metric of this module."""
    registry = metrics.Registry()
    for metric in ALL:
        registry.declare(metric)
    return registry


@dataclass(slots=True)
class FlowMetrics:
    """A fold from snapshots to metrics.

    `losses` are by flow and topic, in seconds.

    Invariant: the counters have grown by exactly what each reading rose by; one that fell had
    begun again at 0, as a process does that was restarted.
    """

    registry: metrics.Registry = field(default_factory=make_registry)
    losses: Callable[[], metrics.Series] = dict
    _copied: dict[tuple[str, ids.TopicPartition], tuple[int, int]] = field(default_factory=dict)
    _restarts: dict[tuple[str, int], int] = field(default_factory=dict)
    _receipts: dict[tuple[str, int, str, str], int] = field(default_factory=dict)

    def observe(
        self,
        statuses: Sequence[flow_status.FlowStatus],
        seen: overview.Overview,
        *,
        engine_ready: bool,
    ) -> None:
        """`seen` is made of `statuses`. Publishes."""
        replace = self.registry.replace
        replace(BUILD, {(version.VERSION,): 1})
        replace(ENGINE_READY, {(): int(engine_ready)})
        replace(FLOW_STATE, _flow_states(seen))
        replace(TASKS, _tasks(seen))
        replace(SLOTS_MISSING, {(row.flow,): row.slots_missing for row in seen.flows})
        replace(PARTITIONS, _phases(statuses))
        replace(STOPPED, _stopped(seen))
        self._set_topics(seen.topics)
        replace(LATENCY, _latencies(statuses))
        replace(LOSS_SECONDS, self.losses())
        self._count(statuses)
        self.registry.publish()

    def _set_topics(self, rows: Iterable[overview.TopicRow]) -> None:
        lag_records: dict[tuple[str, ...], float] = {}
        lag_seconds: dict[tuple[str, ...], float] = {}
        transactional: dict[tuple[str, ...], float] = {}
        opened: dict[tuple[str, ...], float] = {}
        unfenced: dict[tuple[str, ...], float] = {}
        for row in rows:
            labels = (row.flow, row.topic)
            transactional[labels] = row.transactional
            unfenced[labels] = row.unfenced
            opened.update({(*labels, why): count for why, count in row.opened.items()})
            if row.lag.records is not None:
                lag_records[labels] = row.lag.records
            if row.lag.seconds is not None:
                lag_seconds[labels] = row.lag.seconds
        self.registry.replace(IN_TRANSACTIONS, transactional)
        self.registry.replace(OPENED, opened)
        self.registry.replace(UNFENCED, unfenced)
        self.registry.replace(LAG_RECORDS, lag_records)
        self.registry.replace(LAG_SECONDS, lag_seconds)

    def _count(self, statuses: Iterable[flow_status.FlowStatus]) -> None:
        for status in statuses:
            self.registry.add(RESTARTS, 0, labels=(status.flow,))
            for task in status.tasks:
                self._count_restarts(status.flow, task)
                self._count_receipts(status.flow, task)
            for each in status.partitions:
                self._count_copied(status.flow, each)

    def _count_restarts(self, flow: str, task: flow_status.TaskStatus) -> None:
        key = (flow, task.index)
        self.registry.add(
            RESTARTS, _rise(self._restarts.get(key, 0), task.restarts), labels=(flow,)
        )
        self._restarts[key] = task.restarts

    def _count_receipts(self, flow: str, task: flow_status.TaskStatus) -> None:
        for each in task.receipts:
            key = (flow, task.index, each.topic, each.kind)
            rise = _rise(self._receipts.get(key, 0), each.count)
            self.registry.add(RECEIPTS, rise, labels=(flow, each.topic, each.kind))
            self._receipts[key] = each.count

    def _count_copied(self, flow: str, partition: flow_status.PartitionStatus) -> None:
        key = (flow, partition.partition)
        now = (partition.records, partition.bytes)
        before = self._copied.get(key)
        if before == now:
            return
        self._copied[key] = now
        records, size = before or (0, 0)
        labels = (flow, partition.partition.topic)
        self.registry.add(RECORDS, _rise(records, partition.records), labels=labels)
        self.registry.add(BYTES, _rise(size, partition.bytes), labels=labels)


def _rise(before: int, now: int) -> int:
    return now - before if now >= before else now


def _flow_states(seen: overview.Overview) -> metrics.Series:
    return {
        (row.flow, state.value): int(row.state is state)
        for row in seen.flows
        for state in flow_status.FlowState
    }


def _tasks(seen: overview.Overview) -> metrics.Series:
    return {
        (row.flow, state.value): row.tasks.get(state, 0)
        for row in seen.flows
        for state in flow_status.TaskState
    }


def _phases(statuses: Iterable[flow_status.FlowStatus]) -> metrics.Series:
    found: dict[tuple[str, ...], float] = {}
    for status in statuses:
        phases = Counter(each.phase for each in status.partitions)
        for phase in _PHASES:
            found[status.flow, phase] = phases[phase]
    return found


def _stopped(seen: overview.Overview) -> metrics.Series:
    return Counter((each.flow, each.partition.topic, each.cause) for each in seen.standstills)


def _latencies(statuses: Iterable[flow_status.FlowStatus]) -> metrics.Series:
    found: dict[tuple[str, ...], float] = {}
    for status in statuses:
        for each in status.partitions:
            if each.records:
                labels = (status.flow, each.partition.topic)
                found[labels] = max(found.get(labels, 0.0), each.age_ms / 1000.0)
    return found
