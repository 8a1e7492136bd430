"""What is worth a log line between one snapshot of the flows and the next.

Tasks and copies log what happens to them themselves; this is what only the whole shows: states of
flows, slots that are missing, topics that cannot be copied as things are, partitions that go on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.base import amounts, ids
from mm2.app import overview
from mm2.connectors import flow_status
from mm2.core import commands

SHORTAGE_S = 3.0
"""A shorter shortage is how every start looks from outside."""

_Place = tuple[str, ids.TopicPartition]


@dataclass(frozen=True, slots=True)
class Line:
    """`level` is one of `logging`'s; `fields` are what it is about, by names of `log_context`."""

    level: int
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Changes:
    """A fold over snapshots. Invariant: saying the same again says nothing."""

    _states: dict[str, str] = field(default_factory=dict)
    _short_since_s: dict[str, float] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _empty: set[str] = field(default_factory=set)
    _unfenced: set[str] = field(default_factory=set)
    _refused: set[tuple[str, str, str]] = field(default_factory=set)
    _standing: frozenset[_Place] = frozenset()

    def observe(
        self, seen: overview.Overview, statuses: Iterable[flow_status.FlowStatus], now_s: float
    ) -> list[Line]:
        """`seen` was made of `statuses`."""
        lines: list[Line] = []
        for row in seen.flows:
            found = (*self._flow(row), *self._slots(row, now_s))
            lines.extend(replace(each, fields={"flow": row.flow}) for each in found)
        lines.extend(self._standstills(seen))
        lines.extend(self._moving_again(seen, statuses))
        return lines

    def _flow(self, row: overview.FlowRow) -> Iterable[Line]:
        before, now = self._states.get(row.flow), _state(row)
        self._states[row.flow] = now
        if now != before:
            yield _state_line(row)
        running = row.state is flow_status.FlowState.RUNNING
        if running and row.empty and row.flow not in self._empty:
            self._empty.add(row.flow)
            yield Line(logging.WARNING, f"{row.flow}: {overview.NO_TOPIC}")
        if row.fencing and row.flow not in self._unfenced:
            self._unfenced.add(row.flow)
            yield Line(
                logging.WARNING,
                f"{row.flow}: its principal is not authorized for its transactional ids, so zombie "
                f"writers cannot be fenced: {amounts.counted(row.unfenced, 'partition')} "
                "replicated at least once. The remedy grants the right and restarts the tasks, "
                "which then replicate exactly once. "
                f"{commands.to_go_on(row.fencing)}",
            )

    def _slots(self, row: overview.FlowRow, now_s: float) -> Iterable[Line]:
        told = self._missing.get(row.flow, 0)
        if not row.slots_missing:
            self._short_since_s.pop(row.flow, None)
            self._missing[row.flow] = 0
            if told:
                yield Line(logging.INFO, f"{row.flow}: every task has its Spark slot")
            return
        since_s = self._short_since_s.setdefault(row.flow, now_s)
        if row.slots_missing != told and now_s - since_s >= SHORTAGE_S:
            self._missing[row.flow] = row.slots_missing
            yield Line(
                logging.WARNING,
                f"{row.flow}: needs {amounts.counted(row.slots_missing, 'more Spark slot')}; "
                "until then its waiting tasks copy nothing. "
                "Give the cluster more cores or lower tasks.max",
            )

    def _standstills(self, seen: overview.Overview) -> Iterable[Line]:
        for each in seen.standstills:
            key = (each.flow, each.partition.topic, each.reason)
            if not each.has_copy and key not in self._refused:
                self._refused.add(key)
                yield Line(logging.ERROR, each.told, _fields(each.flow, each.partition))

    def _moving_again(
        self, seen: overview.Overview, statuses: Iterable[flow_status.FlowStatus]
    ) -> Iterable[Line]:
        """What is only on its way, as its task starts again, may stand still as before."""
        standing = frozenset((each.flow, each.partition) for each in seen.standstills)
        gone = self._standing - standing
        phases = {
            (status.flow, each.partition): each.phase
            for status in (statuses if gone else ())
            for each in status.partitions
            if (status.flow, each.partition) in gone
        }
        for flow, partition in sorted(phases):
            if phases[flow, partition] in flow_status.MOVING:
                del phases[flow, partition]
                text = f"{flow}: {partition} is no longer halted"
                yield Line(logging.INFO, text, _fields(flow, partition))
        self._standing = standing | phases.keys()


def _state(row: overview.FlowRow) -> str:
    """As `mm2 status` names it."""
    paused = row.paused and row.state is flow_status.FlowState.RUNNING
    return "PAUSED" if paused else row.state.value


def _state_line(row: overview.FlowRow) -> Line:
    reason = f": {row.reason}" if row.reason else ""
    failed = row.state is flow_status.FlowState.FAILED
    return Line(logging.ERROR if failed else logging.INFO, f"{row.flow} is {_state(row)}{reason}")


def _fields(flow: str, partition: ids.TopicPartition) -> Mapping[str, object]:
    return {"flow": flow, "topic": partition.topic, "partition": partition.partition}
