"""Since when flows and partitions are in their state, and what went wrong last: a fold over
snapshots of the flows."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import ids
from mm2.app import overview
from mm2.app.reports import flow_report
from mm2.connectors import flow_status

TROUBLES_MAX = 20
"""So many are remembered of a flow."""

_BROKEN = (flow_status.TaskState.RESTARTING, flow_status.TaskState.FAILED)
_Of = tuple[str, ids.TopicPartition | None]
"""A flow, or a partition of it."""


DRIFT_MS = 1_000
"""The two clocks drift apart: a stamp stays what it was until they are so far apart, and then is
made again."""


class _Since(NamedTuple):
    """A state, and when it began on either clock."""

    state: str
    since_s: float
    stamp_ms: int


@dataclass(slots=True)
class _Flow:
    """`told` is what is wrong now: it is noted when it begins, and not again while it lasts."""

    told: frozenset[str] = frozenset()
    troubles: deque[flow_report.Trouble] = field(default_factory=lambda: deque(maxlen=TROUBLES_MAX))


@dataclass(slots=True)
class History:
    """Invariant: nothing is remembered of what is no longer shown, but for troubles of flows."""

    _since: dict[_Of, _Since] = field(default_factory=dict)
    _flows: dict[str, _Flow] = field(default_factory=dict)
    _seen: tuple[flow_status.FlowStatus, ...] = ()
    _apart_ms: int | None = None

    def observe(
        self, statuses: Sequence[flow_status.FlowStatus], *, now_s: float, wall_ms: int
    ) -> None:
        """As of now on both clocks. An unchanged status is the same object, and costs nothing."""
        self._stamp_again(wall_ms - round(now_s * 1000))
        if [*map(id, statuses)] == [*map(id, self._seen)]:
            return
        self._seen = tuple(statuses)
        since: dict[_Of, _Since] = {}
        for status in statuses:
            for of, state in _states(status):
                known = self._since.get(of)
                same = known is not None and known.state == state
                since[of] = known if known is not None and same else _Since(state, now_s, wall_ms)
            self._note(status, wall_ms)
        self._since = since  # whole: others may look

    def _stamp_again(self, apart_ms: int) -> None:
        """`apart_ms`: what the wall clock shows more than the monotonic one."""
        if self._apart_ms is not None and abs(apart_ms - self._apart_ms) < DRIFT_MS:
            return
        self._apart_ms = apart_ms
        self._since = {
            of: found._replace(stamp_ms=round(found.since_s * 1000) + apart_ms)
            for of, found in self._since.items()
        }

    def since_ms(self, flow: str, partition: ids.TopicPartition | None = None) -> int | None:
        """None: it is not shown. However the wall clock was set since, it is as long ago as has
        passed by the monotonic one."""
        found = self._since.get((flow, partition))
        if found is None:
            return None
        return found.stamp_ms

    def troubles(self, flow: str) -> tuple[flow_report.Trouble, ...]:
        """Newest first."""
        found = self._flows.get(flow)
        return () if found is None else tuple(reversed(found.troubles))

    def _note(self, status: flow_status.FlowStatus, wall_ms: int) -> None:
        kept = self._flows.setdefault(status.flow, _Flow())
        wrong = dict.fromkeys(_wrong(status))
        for at, each in enumerate(kept.troubles):
            if each.resolved_ms is None and each.text not in wrong:
                kept.troubles[at] = dataclasses.replace(each, resolved_ms=wall_ms)
        for text in wrong:
            if text not in kept.told:
                kept.troubles.append(flow_report.Trouble(text=text, at_ms=wall_ms))
        kept.told = frozenset(wrong)

    def check_invariants(self) -> None:
        shown = {(each.flow, None) for each in self._seen}
        shown_flows = {flow for flow, _ in shown}
        assert {flow for flow, _ in self._since} == shown_flows
        assert all(len(each.troubles) <= TROUBLES_MAX for each in self._flows.values())


def _states(status: flow_status.FlowStatus) -> Iterator[tuple[_Of, str]]:
    paused = " paused" if status.holds.paused else ""
    yield (status.flow, None), status.state.value + paused
    for each in status.partitions:
        paused_topic = status.holds.pauses(each.partition.topic)
        yield (status.flow, each.partition), overview.state_of(each, paused=paused_topic)


def _wrong(status: flow_status.FlowStatus) -> Iterator[str]:
    if status.state is flow_status.FlowState.FAILED and status.reason:
        yield status.reason
    for task in status.tasks:
        if task.state in _BROKEN and task.reason:
            yield f"task {task.index}: {task.reason}"
    stopped = tuple(each for each in status.partitions if each.stopped)
    for each in overview.standstills([dataclasses.replace(status, partitions=stopped)]):
        told = each.told.removeprefix(f"{status.flow}: ")
        yield flow_report.unnumbered(each.partition, told)
