"""Logs one line for each change between two status snapshots of the running flows.

Tasks and copy processes log their own events. This module logs changes that no single task can see:
flow states, missing Spark slots, topics that cannot be replicated with the current configuration,
and partitions that are replicated again after a halt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowState, FlowStatus
from mm2.status import topic_rows
from mm2.status.topic_rows import FlowRow, FlowsOverview

SLOT_SHORTAGE_GRACE_S = 3.0
"""Minimum duration in seconds of a shortage of Spark slots that is logged. Shorter shortages are
normal during startup."""

_FlowPartition = tuple[str, TopicPartition]


@dataclass(frozen=True, slots=True)
class StatusLogLine:
    """A log line. `level` is a level of `logging`; `fields` are structured context."""

    level: int
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class StatusChangeLog:
    """Converts status snapshots into log lines. Invariant: an unchanged snapshot logs nothing."""

    _states: dict[str, str] = field(default_factory=dict)
    _short_since_s: dict[str, float] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _empty: set[str] = field(default_factory=set)
    _unfenced: set[str] = field(default_factory=set)
    _reported_halts: set[tuple[str, str, str]] = field(default_factory=set)
    _halted: frozenset[_FlowPartition] = frozenset()

    def observe(
        self, seen: FlowsOverview, statuses: Iterable[FlowStatus], now_s: float
    ) -> list[StatusLogLine]:
        """Process a status snapshot and return the lines to log. `seen` is the `FlowsOverview` made
        from `statuses`."""
        lines: list[StatusLogLine] = []
        for row in seen.flows:
            found = (*self._log_flow_state(row), *self._log_slot_usage(row, now_s))
            lines.extend(replace(each, fields={"flow": row.flow}) for each in found)
        lines.extend(self._log_halts(seen))
        lines.extend(self._log_resumed_partitions(seen, statuses))
        return lines

    def _log_flow_state(self, row: FlowRow) -> Iterable[StatusLogLine]:
        before, now = self._states.get(row.flow), _describe_state(row)
        self._states[row.flow] = now
        if now != before:
            yield _make_state_line(row)
        running = row.state is FlowState.RUNNING
        if running and row.is_empty and row.flow not in self._empty:
            self._empty.add(row.flow)
            yield StatusLogLine(logging.WARNING, f"{row.flow}: {topic_rows.NO_MATCHING_TOPIC}")
        if row.fencing_command and row.flow not in self._unfenced:
            self._unfenced.add(row.flow)
            yield StatusLogLine(
                logging.WARNING,
                f"{row.flow}: mm2 is not authorized for its transactional ids on the target, so "
                "zombie writers cannot be fenced: "
                f"{plurals.format_count(row.unfenced, 'partition', 'are')} replicated "
                "at least "
                "once. The remedy grants the permission and restarts the tasks. The tasks then "
                "replicate exactly once. "
                f"{suggested_commands.format_remedy(row.fencing_command)}",
            )

    def _log_slot_usage(self, row: FlowRow, now_s: float) -> Iterable[StatusLogLine]:
        told = self._missing.get(row.flow, 0)
        if not row.slots_missing:
            self._short_since_s.pop(row.flow, None)
            self._missing[row.flow] = 0
            if told:
                yield StatusLogLine(logging.INFO, f"{row.flow}: every task has its Spark slot")
            return
        since_s = self._short_since_s.setdefault(row.flow, now_s)
        if row.slots_missing != told and now_s - since_s >= SLOT_SHORTAGE_GRACE_S:
            self._missing[row.flow] = row.slots_missing
            yield StatusLogLine(
                logging.WARNING,
                f"{row.flow}: needs "
                f"{plurals.format_count(row.slots_missing, 'more Spark slot')}; "
                "the tasks that are waiting for a slot replicate nothing. Give the Spark cluster "
                "more cores, or lower tasks.max",
            )

    def _log_halts(self, seen: FlowsOverview) -> Iterable[StatusLogLine]:
        for each in seen.halts:
            key = (each.flow, each.partition.topic, each.reason)
            if not each.has_copy and key not in self._reported_halts:
                self._reported_halts.add(key)
                yield StatusLogLine(
                    logging.ERROR, each.describe, _make_log_fields(each.flow, each.partition)
                )

    def _log_resumed_partitions(
        self, seen: FlowsOverview, statuses: Iterable[FlowStatus]
    ) -> Iterable[StatusLogLine]:
        """Log the partitions that are replicated again after a halt. A partition whose task is
        restarting may still be halted and is not logged."""
        standing = frozenset((each.flow, each.partition) for each in seen.halts)
        gone = self._halted - standing
        phases = {
            (status.flow, each.partition): each.phase
            for status in (statuses if gone else ())
            for each in status.partitions
            if (status.flow, each.partition) in gone
        }
        for flow, partition in sorted(phases):
            if phases[flow, partition] in status_registry.COPYING_PHASES:
                del phases[flow, partition]
                text = f"{flow}: {partition} is no longer halted"
                yield StatusLogLine(logging.INFO, text, _make_log_fields(flow, partition))
        self._halted = standing | phases.keys()


def _describe_state(row: FlowRow) -> str:
    """Return the flow state as `mm2 status` shows it."""
    paused = row.paused and row.state is FlowState.RUNNING
    return "PAUSED" if paused else row.state.value


def _make_state_line(row: FlowRow) -> StatusLogLine:
    reason = f": {row.reason}" if row.reason else ""
    failed = row.state is FlowState.FAILED
    return StatusLogLine(
        logging.ERROR if failed else logging.INFO, f"{row.flow} is {_describe_state(row)}{reason}"
    )


def _make_log_fields(flow: str, partition: TopicPartition) -> Mapping[str, object]:
    return {"flow": flow, "topic": partition.topic, "partition": partition.partition}
