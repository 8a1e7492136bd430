"""Builds the rows of the live table: one row per topic and one row per flow of the running process,
with lag and copy rates.

The rows are built from immutable status snapshots. The log and the metrics use the same rows as the
live table. Rates are averages over a sliding window.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2 import text_format
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowState, FlowStatus, PartitionStatus, TaskState

RATE_WINDOW_S = 5.0
"""Sliding window over which rates are averaged, in seconds. A longer window smooths the rates, but
changes become visible later."""

TopicKey = tuple[str, str]
"""Flow name and source topic."""


@dataclass(frozen=True, slots=True)
class CopyRate:
    """Copy rate in records and bytes per second. Bytes are counted in compressed form, as stored in
    the log."""

    records_s: float
    bytes_s: float


ZERO_RATE = CopyRate(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _RateSample:
    """Records and bytes that each topic had replicated at monotonic time `at_s`."""

    at_s: float
    totals: Mapping[TopicKey, tuple[int, int]]


@dataclass(slots=True)
class CopyRates:
    """Computes copy rates from status snapshots.

    Invariant: samples are in time order, and all but the newest two are within the window.
    """

    _samples: deque[_RateSample] = field(default_factory=deque)

    def observe(self, statuses: Sequence[FlowStatus], now_s: float) -> None:
        """Add a snapshot of the status of all flows."""
        if self._samples and now_s <= self._samples[-1].at_s:
            return
        totals: dict[TopicKey, tuple[int, int]] = {}
        for status in statuses:
            for each in status.partitions:
                key = (status.flow, each.partition.topic)
                records, size = totals.get(key, (0, 0))
                totals[key] = (records + each.records, size + each.bytes)
        self._samples.append(_RateSample(now_s, totals))
        while len(self._samples) > 2 and now_s - self._samples[0].at_s > RATE_WINDOW_S:
            self._samples.popleft()

    def get_rate(self, flow: str, topic: str) -> CopyRate:
        """Return a topic's copy rate; zero until two samples are available."""
        if len(self._samples) < 2:
            return ZERO_RATE
        first, last = self._samples[0], self._samples[-1]
        passed_s = last.at_s - first.at_s
        records, size = last.totals.get((flow, topic), (0, 0))
        records_before, size_before = first.totals.get((flow, topic), (0, 0))
        return CopyRate(
            max(0, records - records_before) / passed_s, max(0, size - size_before) / passed_s
        )

    def check_invariants(self) -> None:
        times = [sample.at_s for sample in self._samples]
        assert times == sorted(set(times)), times
        assert all(times[-1] - each <= RATE_WINDOW_S for each in times[1:-1]), times


NO_MATCHING_TOPIC = "no topic of the source matches topics and topics.exclude of the flow"
NOTHING_TO_COPY = f"nothing to replicate: {NO_MATCHING_TOPIC}"

PAUSED_STATE = "paused"
_ALL_REACHABLE: Mapping[str, str] = {}
_WORST_STATE_FIRST = ("fenced", "halted", "waiting", "acquiring", PAUSED_STATE, "closed", "copying")
_TASK_STATE_REASONS = {
    TaskState.STARTING.value: "its copy process is starting",
    TaskState.WAITING_FOR_SLOT.value: "its task is waiting for a Spark slot",
    TaskState.RESTARTING.value: "its copy process is restarting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LagTotal:
    """Total lag over partitions: sum of the lags in records and maximum of the lags in seconds.
    Partitions with an unknown lag are ignored.

    `records` and `seconds` are None if unknown for all partitions, and lower bounds if `complete`
    is false.
    """

    records: int | None
    seconds: float | None
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """Status of one topic of one flow."""

    flow: str
    topic: str
    partitions: int
    records: int
    """Number of records that the topic's current tasks have replicated since they started."""
    bytes: int
    """Number of bytes that the topic's current tasks have replicated since they started."""
    rate: CopyRate
    lag: LagTotal
    transactional: int
    """Number of partitions that are replicated in transactions."""
    reencoded: Mapping[str, int]
    """Number of partitions whose batches are re-encoded, by reason. Batches of other partitions are
    copied unchanged."""
    unfenced: int
    """Number of partitions that are replicated with at-least-once delivery because their writers
    are not fenced."""
    state: str
    """State of the topic's partition in the worst state: a copy phase, or "paused"."""
    in_state: int
    """Number of partitions in the state `state`, the worst state of the topic's partitions."""
    reason: str
    throttle: int = 0
    """Rate limit of the topic in bytes per second, or 0 if the topic has no limit of its own."""

    @property
    def sort_key(self) -> tuple[int, int, float, str, str]:
        """Sort key that orders topics by severity: halted first, then not replicating, then by
        largest lag."""
        return (
            _WORST_STATE_FIRST.index(self.state),
            -(self.lag.records or 0).bit_length(),
            -self.rate.bytes_s,
            self.flow,
            self.topic,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRow:
    """Status of one flow."""

    flow: str
    state: FlowState
    reason: str
    tasks: dict[TaskState, int]
    """Number of tasks by state."""
    slots_missing: int
    """Number of Spark task slots that the flow's tasks still need; 0 until Spark has started."""
    engine_ready: bool
    topics: int
    partitions: int
    stopped: int
    records: int
    bytes: int
    rate: CopyRate
    lag: LagTotal
    unfenced: int
    """Number of partitions that are replicated with at-least-once delivery because their writers
    are not fenced."""
    fencing_command: str
    """Command that grants mm2 the ACLs for its transactional ids on the target. mm2 needs these
    ACLs to fence zombie writers. "" if mm2 is already authorized."""
    remote_partitions: int
    """Number of partitions on other nodes."""
    paused: bool = False
    """True if the whole flow is paused."""
    throttle: int = 0
    """Rate limit of the whole flow in bytes per second, or 0 if unlimited."""
    unreachable: str = ""
    """Cluster of the flow that does not respond, or "" if both respond."""

    @property
    def is_empty(self) -> bool:
        """True if the flow has nothing to replicate on any node."""
        return not self.partitions and not self.remote_partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltedPartition:
    """A partition that is not replicated until an operator acts or a retry succeeds."""

    flow: str
    partition: TopicPartition
    has_copy: bool
    """True if the partition's copy process detected the cause of the halt. False if the source
    connector detected it, and the partition was therefore not assigned to a task."""
    cause: str
    reason: str

    @property
    def describe(self) -> str:
        """Describe the partition and the reason for its halt in one line. Most reasons already name
        the partition."""
        name = str(self.partition)
        named = re.search(rf"(?<![\w.-]){re.escape(name)}(?!\d)", self.reason) is not None
        return f"{self.flow}: {'' if named else name + ': '}{self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowsOverview:
    """Overview of all flows in configuration order. Topics and halted partitions are ordered by
    flow and name."""

    flows: tuple[FlowRow, ...]
    topics: tuple[TopicRow, ...]
    halts: tuple[HaltedPartition, ...]


def make_overview(
    statuses: Sequence[FlowStatus],
    rates: CopyRates,
    *,
    wall_ms: int,
    engine_ready: bool,
    unreachable: Mapping[str, str] = _ALL_REACHABLE,
) -> FlowsOverview:
    """Summarize the flow statuses. `wall_ms` is the current time. `unreachable` describes the
    source or target cluster that does not respond, by flow; flows whose clusters respond are
    absent."""
    flow_rows: list[FlowRow] = []
    topic_rows: list[TopicRow] = []
    for status in statuses:
        rows = [
            _make_topic_row(status, name, partitions, rates=rates, wall_ms=wall_ms)
            for name, partitions in _group_by_topic(status.partitions)
        ]
        topic_rows.extend(rows)
        flow_rows.append(
            _make_flow_row(
                status,
                rows,
                engine_ready=engine_ready,
                unreachable=unreachable.get(status.flow, ""),
            )
        )
    return FlowsOverview(
        flows=tuple(flow_rows),
        topics=tuple(topic_rows),
        halts=list_halted_partitions(statuses),
    )


def list_halted_partitions(statuses: Iterable[FlowStatus]) -> tuple[HaltedPartition, ...]:
    """Return all halted partitions, ordered by flow and name."""
    return tuple(
        HaltedPartition(
            flow=status.flow,
            partition=each.partition,
            has_copy=each.task >= 0,
            cause=each.cause,
            reason=each.reason,
        )
        for status in statuses
        for each in sorted(status.partitions, key=_get_topic_partition)
        if each.is_halted
    )


def describe_state_reason(reason: str) -> str:
    """Return the reason for a partition's state. If the reason is only the name of a task state,
    return a description of the task state instead."""
    return _TASK_STATE_REASONS.get(reason, reason)


def describe_throttle(bytes_s: int) -> list[str]:
    """Format a rate limit, for example `throttled to 5.0 MB/s`; return an empty list without a
    limit."""
    return [f"throttled to {text_format.format_size(bytes_s)}/s"] if bytes_s else []


def _get_topic_partition(each: PartitionStatus) -> TopicPartition:
    return each.partition


def _group_by_topic(
    partitions: Iterable[PartitionStatus],
) -> list[tuple[str, list[PartitionStatus]]]:
    found: dict[str, list[PartitionStatus]] = {}
    for each in partitions:
        found.setdefault(each.partition.topic, []).append(each)
    return sorted(found.items())


def _make_topic_row(
    status: FlowStatus,
    topic: str,
    partitions: list[PartitionStatus],
    *,
    rates: CopyRates,
    wall_ms: int,
) -> TopicRow:
    paused = status.overrides.is_topic_paused(topic)
    found = [(find_partition_state(each, paused=paused), each) for each in partitions]
    states = Counter(state for state, _ in found)
    state = min(states, key=_WORST_STATE_FIRST.index)
    worst = min((each for its, each in found if its == state), key=_get_topic_partition)
    return TopicRow(
        flow=status.flow,
        topic=topic,
        partitions=len(partitions),
        records=sum(each.records for each in partitions),
        bytes=sum(each.bytes for each in partitions),
        rate=rates.get_rate(status.flow, topic),
        lag=_sum_lag(partitions, wall_ms=wall_ms, paused=paused),
        transactional=sum(each.transactional for each in partitions),
        reencoded=Counter(each.reencode_reason for each in partitions if each.reencode_reason),
        unfenced=sum(not each.fenced for each in partitions),
        state=state,
        in_state=states[state],
        reason="" if state == PAUSED_STATE else describe_state_reason(worst.reason),
        throttle=status.overrides.budgets.get_topic_throttle(topic) or 0,
    )


def find_partition_state(partition: PartitionStatus, *, paused: bool) -> str:
    """Return a partition's state. A halt takes precedence over a pause."""
    if paused and not partition.is_halted:
        return PAUSED_STATE
    return "copying" if partition.phase in status_registry.COPYING_PHASES else partition.phase


def _sum_lag(partitions: list[PartitionStatus], *, wall_ms: int, paused: bool) -> LagTotal:
    records: list[int] = []
    seconds: list[float] = []
    for each in partitions:
        behind, age_s = each.lag_records, each.compute_lag_s(wall_ms)
        # A lag of 0 when it was last replicated says nothing about now.
        stale = paused or each.phase not in status_registry.COPYING_PHASES
        if behind is not None and not (stale and behind == 0):
            records.append(behind)
        if age_s is not None and not (stale and age_s == 0):
            seconds.append(age_s)
    return LagTotal(
        records=sum(records) if records else None,
        seconds=max(seconds, default=None),
        complete=len(records) == len(partitions) == len(seconds),
    )


def _make_flow_row(
    status: FlowStatus,
    rows: list[TopicRow],
    *,
    engine_ready: bool,
    unreachable: str,
) -> FlowRow:
    known_records = [each.lag.records for each in rows if each.lag.records is not None]
    known_seconds = [each.lag.seconds for each in rows if each.lag.seconds is not None]
    return FlowRow(
        flow=status.flow,
        state=status.state,
        reason=status.reason,
        tasks=dict(Counter(task.state for task in status.tasks)),
        slots_missing=status.slots_missing if engine_ready else 0,
        engine_ready=engine_ready,
        topics=len(rows),
        partitions=len(status.partitions),
        stopped=sum(each.is_halted for each in status.partitions),
        records=sum(each.records for each in rows),
        bytes=sum(each.bytes for each in rows),
        rate=CopyRate(
            sum(each.rate.records_s for each in rows), sum(each.rate.bytes_s for each in rows)
        ),
        lag=LagTotal(
            records=sum(known_records) if known_records else None,
            seconds=max(known_seconds, default=None),
            complete=all(each.lag.complete for each in rows),
        ),
        unfenced=sum(each.unfenced for each in rows),
        fencing_command=status.fencing_command,
        remote_partitions=status.remote_partitions,
        paused=status.overrides.paused,
        throttle=status.overrides.budgets.flow,
        unreachable=unreachable,
    )
