"""Watches, while `mm2 run` runs, over what is not copied yet: how long its source still keeps it.

Copies know of their sources as long as they read them. Of partitions that stand still, wait, are
paused or lag behind, the source is asked here, now and then, on a thread of its own that may fail
without a word to those who copy. The same thread notes since when everything is as it is.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from connect_runtime.system import clock as system_clock
from mm2.app import connections, overview
from mm2.app.looks import mirrors, sides
from mm2.app.reports import flow_report, from_process, history, source_looks, source_losses
from mm2.app.settings import settings as app_settings
from mm2.connectors import board, flow_status
from mm2.core import commands, flows, health, reachability

TURN_S = 1.0
LOOK_EVERY_S = 5.0
STALE_S = 24 * LOOK_EVERY_S
"""What was seen longer ago says nothing about now: the looks take too long, or have ended."""
NOTE_SHARE = 0.01
"""Of a core: thousands of partitions are noted less often."""
LATE_S = 10.0
"""What lags by less is surely still there."""
STAYS_MS = 60_000
"""What has not moved for so long is looked at, whatever it waits for."""
MAP_S = 30.0

_log = logging.getLogger(__name__)


class Running(Protocol):
    """What is watched: `mm2.app.node.Node`."""

    @property
    def settings(self) -> app_settings.Settings: ...

    def statuses(self) -> Sequence[flow_status.FlowStatus]: ...


def open_source(settings: app_settings.Settings, flow: flows.Flow) -> source_losses.SourceLosses:
    """With clients of its own, on both clusters. Raises `FatalError` for settings that cannot be
    honoured."""
    clock = system_clock.SystemClock()
    both = sides.Sides(settings, flow, purpose="losses", clock=clock)

    def positions() -> Mapping[ids.TopicPartition, int]:
        known = mirrors.read_map(both.target, flow.source, MAP_S)
        found = {each: known.partition(each).copied_to for each in known.partitions()}
        return {each: at for each, at in found.items() if at is not None}

    return source_losses.SourceLosses(
        flow.name,
        both.source,
        positions=positions,
        close=both.close,
        operator=connections.operator(settings, flow),
        clock=clock,
    )


OpenSource = Callable[[app_settings.Settings, flows.Flow], source_losses.SourceLosses]


FindUnreachable = Callable[[flows.Flow], tuple[reachability.Unreachable, ...]]
"""Clusters of a flow, or brokers of theirs, that do not answer: `cluster_watch.ClusterWatch`."""


def _nothing_unreachable(_: flows.Flow) -> tuple[reachability.Unreachable, ...]:
    return ()


class LossWatch:
    """`run` is its thread's body; `reports` may be asked by any."""

    def __init__(
        self,
        running: Running,
        *,
        open_source: OpenSource,
        clock: base_clock.Clock,
        unreachable: FindUnreachable = _nothing_unreachable,
    ) -> None:
        self._running = running
        self._unreachable = unreachable
        self._crossings = health.Crossings()
        self._open = open_source
        self._clock = clock
        self._history = history.History()
        self._lock = threading.Lock()
        self._looks: dict[str, source_looks.Looks] = {}
        self._looked_s: dict[str, float] = {}
        self._sources: dict[str, tuple[app_settings.Settings, source_losses.SourceLosses]] = {}
        self._troubled: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        due_s, pause_s = self._clock.now_s() + TURN_S, TURN_S
        try:
            while not stop.wait(pause_s):
                began_s = self._clock.now_s()
                self.note()
                took_s = self._clock.now_s() - began_s
                pause_s = min(LOOK_EVERY_S, max(TURN_S, took_s / NOTE_SHARE))
                if self._clock.now_s() >= due_s:
                    self.look(stop)
                    due_s = self._clock.now_s() + LOOK_EVERY_S
        finally:
            with self._lock:
                self._looks.clear()
            for flow in list(self._sources):
                self._forget(flow)

    def reports(self) -> list[flow_report.FlowReport]:
        """Of all flows of this process, as of now; what was asked of sources is older by up to
        `LOOK_EVERY_S`."""
        statuses = {each.flow: each for each in self._running.statuses()}
        now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
        with self._lock:
            self._history.observe(list(statuses.values()), now_s=now_s, wall_ms=wall_ms)
            operator = commands.Operator(file=os.path.abspath(self._running.settings.file))
            looks = self._fresh()
            crossed = self._crossed(statuses.values(), now_s=now_s, wall_ms=wall_ms)
            return [
                from_process.report(
                    flow,
                    statuses[flow.name],
                    self._history,
                    looks=looks.get(flow.name, {}),
                    looks_recent=self._is_recent(flow),
                    unreachable=self._unreachable(flow),
                    crossed=crossed[flow.name],
                    resume=operator.go_on(flow.name, None),
                    process=os.getpid(),
                    wall_ms=wall_ms,
                )
                for flow in self._running.settings.flows
                if flow.name in statuses
            ]

    def _crossed(
        self, statuses: Iterable[flow_status.FlowStatus], *, now_s: float, wall_ms: int
    ) -> dict[str, health.Crossed | None]:
        """By flow, when its last batch was replicated here."""
        pulses, found = board.BOARD.seen().pulses, {}
        for each in statuses:
            found[each.flow] = self._crossings.look(
                each.flow,
                pulses.get(each.flow, {}).values(),
                copies=each.copies_here,
                all_move=each.all_move,
                now_s=now_s,
                wall_ms=wall_ms,
            )
        self._crossings.keep(found.keys())
        return found

    def left_s(self) -> dict[tuple[str, ...], float]:
        """By flow and topic: after how many seconds what waits begins to be deleted, 0 where it has
        begun; without what nobody knows of."""
        found: dict[tuple[str, ...], float] = {}
        with self._lock:
            for flow, looks in self._fresh().items():
                for place, seen in looks.items():
                    if seen.outlook.left_ms is not None:
                        key, left_s = (flow, place.topic), seen.outlook.left_ms / 1000
                        found[key] = min(left_s, found.get(key, left_s))
        return found

    def _is_recent(self, flow: flows.Flow) -> bool:
        """With the lock: may its last look speak of where logs end now?"""
        age_s = self._clock.now_s() - self._looked_s.get(flow.name, float("-inf"))
        return age_s <= flow.unreachable_after_s + LOOK_EVERY_S

    def _fresh(self) -> dict[str, source_looks.Looks]:
        """With the lock: looks that count."""
        since_s = self._clock.now_s() - STALE_S
        return {
            flow: looks for flow, looks in self._looks.items() if self._looked_s[flow] >= since_s
        }

    def note(self) -> None:
        """Since when everything is as it is."""
        with self._lock:
            now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
            self._history.observe(self._running.statuses(), now_s=now_s, wall_ms=wall_ms)

    def look(self, stop: threading.Event) -> None:
        """At what waits on the sources of all flows."""
        settings = self._running.settings
        by_name = {each.name: each for each in settings.flows}
        statuses = [each for each in self._running.statuses() if each.flow in by_name]
        self._drop_gone({each.flow for each in statuses})
        for status in statuses:
            if stop.is_set():
                return
            flow = by_name[status.flow]
            lost = {each.side for each in self._unreachable(flow) if not each.broker}
            if reachability.Side.SOURCE in lost:
                self._store(flow.name, {})  # what it said last is old; asking would only wait
                continue
            target_lost = reachability.Side.TARGET in lost
            waiting = self._waiting(status, target_lost=target_lost)
            found: source_looks.Looks = {}
            if waiting:
                found = self._ask(settings, flow, waiting)
            else:
                self._forget(flow.name)
            self._store(flow.name, found)

    def _store(self, flow: str, found: source_looks.Looks) -> None:
        with self._lock:
            self._looks[flow] = found
            self._looked_s[flow] = self._clock.now_s()

    def _drop_gone(self, there: Set[str]) -> None:
        """Of flows that are no more nothing is told."""
        with self._lock:
            self._looks = {name: looks for name, looks in self._looks.items() if name in there}
            self._looked_s = {name: at for name, at in self._looked_s.items() if name in there}
        self._troubled &= there
        for name in self._sources.keys() - there:
            self._forget(name)

    def _waiting(
        self, status: flow_status.FlowStatus, *, target_lost: bool
    ) -> dict[ids.TopicPartition, flow_status.PartitionStatus]:
        """What lags, is paused or stopped, or has not moved for a while; what of the flow is
        elsewhere is looked at there."""
        wall_ms, found = self._clock.wall_ms(), {}
        for each in status.partitions:
            state = overview.state_of(each, paused=status.holds.pauses(each.partition.topic))
            age_s = each.lag_s(wall_ms)
            late = age_s is not None and age_s >= LATE_S
            known = state == flow_report.COPYING and age_s is not None
            paused = state == overview.PAUSED
            if (
                late
                or paused
                or each.stopped
                or (not known and (target_lost or self._stays(status.flow, each, wall_ms)))
            ):
                found[each.partition] = each
        return found

    def _stays(self, flow: str, each: flow_status.PartitionStatus, wall_ms: int) -> bool:
        """At a start everything waits, and soon moves."""
        since_ms = self._history.since_ms(flow, each.partition)
        return since_ms is not None and wall_ms - since_ms >= STAYS_MS

    def _ask(
        self,
        settings: app_settings.Settings,
        flow: flows.Flow,
        waiting: Mapping[ids.TopicPartition, flow_status.PartitionStatus],
    ) -> source_looks.Looks:
        try:
            found = self._source(settings, flow).look(waiting)
        except errors.ConnectError as error:
            if flow.name not in self._troubled:
                self._troubled.add(flow.name)
                _log.warning(
                    "%s: how long %s keeps what is not copied yet cannot be told: %s; it is tried "
                    "again",
                    *(flow.name, flow.source, error),
                )
            return {}
        self._troubled.discard(flow.name)
        return found

    def _source(
        self, settings: app_settings.Settings, flow: flows.Flow
    ) -> source_losses.SourceLosses:
        known = self._sources.get(flow.name)
        if known is not None and known[0] is settings:
            return known[1]
        self._forget(flow.name)
        made = self._open(settings, flow)
        self._sources[flow.name] = (settings, made)
        return made

    def _forget(self, flow: str) -> None:
        known = self._sources.pop(flow, None)
        if known is not None:
            known[1].close()
