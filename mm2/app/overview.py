"""What a person wants to know of the running flows: a row per topic, a summary per flow.

Made of the flows' frozen snapshots; tables, log lines and metrics all show this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.app import figures
from mm2.app import rates as app_rates
from mm2.connectors import flow_status

NO_TOPIC = "no topic of the source matches; see topics and topics.exclude of the flow"
NOTHING_TO_COPY = f"it has nothing to copy: {NO_TOPIC}"

PAUSED = "paused"
_ALL_ANSWER: Mapping[str, str] = {}
_WORST_FIRST = ("fenced", "stopped", "waiting", "taking", PAUSED, "closed", "copying")
_REASONS = {
    flow_status.TaskState.STARTING.value: "its copy starts",
    flow_status.TaskState.WAITING_FOR_SLOT.value: "its copy waits for a Spark slot",
    flow_status.TaskState.RESTARTING.value: "its copy is started again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """`records` and `seconds` over those partitions where they are known, None where none is.

    Sum and maximum; `complete` says whether all are known, else they are lower bounds.
    """

    records: int | None
    seconds: float | None
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic of one flow. `state` is its worst partition's phase, `in_state` how many have it.

    `transactional` partitions are copied in transactions; `opened` counts those whose batches are
    opened, by why; the others pass through; `unfenced` are copied at least once. `records` and
    `bytes` were copied since the start. `throttle`: bytes per second at most, 0 for no limit of its
    own.
    """

    flow: str
    topic: str
    partitions: int
    records: int
    bytes: int
    rate: app_rates.Rate
    lag: Lag
    transactional: int
    opened: Mapping[str, int]
    unfenced: int
    state: str
    in_state: int
    reason: str
    throttle: int = 0

    @property
    def badness(self) -> tuple[int, int, float, str, str]:
        """Sorts the worst first: what stands still, what does not move yet, what lags most."""
        return (
            _WORST_FIRST.index(self.state),
            -(self.lag.records or 0).bit_length(),
            -self.rate.bytes_s,
            self.flow,
            self.topic,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRow:
    """One flow. `tasks` counts its tasks by state; `slots_missing` is 0 until Spark is up;
    `unfenced` partitions are copied at least once, which `fencing` would change, a command.
    `elsewhere` as in `flow_status.FlowStatus`. `paused`, and `throttle` in bytes per second or 0,
    are of the whole flow. `unreachable`: which of its clusters does not answer, "" while both do.
    """

    flow: str
    state: flow_status.FlowState
    reason: str
    tasks: dict[flow_status.TaskState, int]
    slots_missing: int
    engine_ready: bool
    topics: int
    partitions: int
    stopped: int
    records: int
    bytes: int
    rate: app_rates.Rate
    lag: Lag
    unfenced: int
    fencing: str
    elsewhere: int
    paused: bool = False
    throttle: int = 0
    unreachable: str = ""

    @property
    def empty(self) -> bool:
        """Has it nothing to copy, on any node?"""
        return not self.partitions and not self.elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A partition that does not move until somebody acts, or until it is tried again.

    `has_copy`: its copy found that out, else it was given to none.
    """

    flow: str
    partition: ids.TopicPartition
    has_copy: bool
    cause: str
    reason: str

    @property
    def told(self) -> str:
        """A line that says which partition and why; most reasons name it themselves."""
        name = str(self.partition)
        named = re.search(rf"(?<![\w.-]){re.escape(name)}(?!\d)", self.reason) is not None
        return f"{self.flow}: {'' if named else name + ': '}{self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Flows in order of the settings, topics and standstills by flow and name."""

    flows: tuple[FlowRow, ...]
    topics: tuple[TopicRow, ...]
    standstills: tuple[Standstill, ...]


def make(
    statuses: Sequence[flow_status.FlowStatus],
    rates: app_rates.Rates,
    *,
    wall_ms: int,
    engine_ready: bool,
    unreachable: Mapping[str, str] = _ALL_ANSWER,
) -> Overview:
    """`wall_ms` is now; lags in seconds are ages. `unreachable` by flow, as in `FlowRow`."""
    flow_rows: list[FlowRow] = []
    topic_rows: list[TopicRow] = []
    for status in statuses:
        rows = [
            _topic_row(status, name, partitions, rates=rates, wall_ms=wall_ms)
            for name, partitions in _by_topic(status.partitions)
        ]
        topic_rows.extend(rows)
        flow_rows.append(
            _flow_row(
                status,
                rows,
                engine_ready=engine_ready,
                unreachable=unreachable.get(status.flow, ""),
            )
        )
    return Overview(
        flows=tuple(flow_rows), topics=tuple(topic_rows), standstills=standstills(statuses)
    )


def standstills(statuses: Iterable[flow_status.FlowStatus]) -> tuple[Standstill, ...]:
    """Every partition that has stopped, flow by flow, in order."""
    return tuple(
        Standstill(
            flow=status.flow,
            partition=each.partition,
            has_copy=each.task >= 0,
            cause=each.cause,
            reason=each.reason,
        )
        for status in statuses
        for each in sorted(status.partitions, key=_partition)
        if each.stopped
    )


def reason_in_words(reason: str) -> str:
    """Reasons of partitions are sentences, but for those that are their task's state."""
    return _REASONS.get(reason, reason)


def throttled(bytes_s: int) -> list[str]:
    """`throttled to 5.0 MB/s`; nothing where there is no limit."""
    return [f"throttled to {figures.size(bytes_s)}/s"] if bytes_s else []


def _partition(each: flow_status.PartitionStatus) -> ids.TopicPartition:
    return each.partition


def _by_topic(
    partitions: Iterable[flow_status.PartitionStatus],
) -> list[tuple[str, list[flow_status.PartitionStatus]]]:
    found: dict[str, list[flow_status.PartitionStatus]] = {}
    for each in partitions:
        found.setdefault(each.partition.topic, []).append(each)
    return sorted(found.items())


def _topic_row(
    status: flow_status.FlowStatus,
    topic: str,
    partitions: list[flow_status.PartitionStatus],
    *,
    rates: app_rates.Rates,
    wall_ms: int,
) -> TopicRow:
    paused = status.holds.pauses(topic)
    found = [(state_of(each, paused=paused), each) for each in partitions]
    states = Counter(state for state, _ in found)
    state = min(states, key=_WORST_FIRST.index)
    worst = min((each for its, each in found if its == state), key=_partition)
    return TopicRow(
        flow=status.flow,
        topic=topic,
        partitions=len(partitions),
        records=sum(each.records for each in partitions),
        bytes=sum(each.bytes for each in partitions),
        rate=rates.of(status.flow, topic),
        lag=_lag(partitions, wall_ms=wall_ms, paused=paused),
        transactional=sum(each.transactional for each in partitions),
        opened=Counter(each.opened for each in partitions if each.opened),
        unfenced=sum(not each.fenced for each in partitions),
        state=state,
        in_state=states[state],
        reason="" if state == PAUSED else reason_in_words(worst.reason),
        throttle=status.holds.budgets.of_topic(topic) or 0,
    )


def state_of(partition: flow_status.PartitionStatus, *, paused: bool) -> str:
    """What stands still does so whether it is paused or not."""
    if paused and not partition.stopped:
        return PAUSED
    return "copying" if partition.phase in flow_status.MOVING else partition.phase


def _lag(partitions: list[flow_status.PartitionStatus], *, wall_ms: int, paused: bool) -> Lag:
    records: list[int] = []
    seconds: list[float] = []
    for each in partitions:
        behind, age_s = each.lag_records, each.lag_s(wall_ms)
        # That nothing was missing when it last moved says nothing about now.
        stale = paused or each.phase not in flow_status.MOVING
        if behind is not None and not (stale and behind == 0):
            records.append(behind)
        if age_s is not None and not (stale and age_s == 0):
            seconds.append(age_s)
    return Lag(
        records=sum(records) if records else None,
        seconds=max(seconds, default=None),
        complete=len(records) == len(partitions) == len(seconds),
    )


def _flow_row(
    status: flow_status.FlowStatus,
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
        stopped=sum(each.stopped for each in status.partitions),
        records=sum(each.records for each in rows),
        bytes=sum(each.bytes for each in rows),
        rate=app_rates.Rate(
            sum(each.rate.records_s for each in rows), sum(each.rate.bytes_s for each in rows)
        ),
        lag=Lag(
            records=sum(known_records) if known_records else None,
            seconds=max(known_seconds, default=None),
            complete=all(each.lag.complete for each in rows),
        ),
        unfenced=sum(each.unfenced for each in rows),
        fencing=status.fencing,
        elsewhere=status.elsewhere,
        paused=status.holds.paused,
        throttle=status.holds.budgets.flow,
        unreachable=unreachable,
    )
