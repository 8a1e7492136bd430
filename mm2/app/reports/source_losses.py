"""Asks the source of one flow what it still has of what is not copied, and tells who should know.

What a process does not know of a partition that stands still since its start, how far it was
copied, the flow's map on the target does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from connect_runtime.base import amounts, ids
from connect_runtime.base import clock as base_clock
from mm2.app.reports import source_looks, words
from mm2.cluster import admin, logs
from mm2.connectors import flow_status
from mm2.core import commands, time_to_loss
from mm2.core.offsets import log_ends

ASK_S = 15.0
TIMES_S = 5.0
TIMES_MAX = 500
SETTINGS_S = 300.0
"""So long settings of topics are taken as they were, and positions in the flow's map."""
TOLD_SETTINGS_S = 15.0
"""The same of topics that were warned of, whose settings somebody may be changing."""
LINES_MAX = 5
"""So many topics are told of one by one, those first that lose first."""
AGAIN_S = 3600.0
"""What still lasts is told again."""

_log = logging.getLogger(__name__)

Positions = Callable[[], Mapping[ids.TopicPartition, int]]
"""The next source offset to copy, by the flow's map. Raises `ConnectError`."""


class Source(Protocol):
    """As much of a cluster as is asked; `kafka_cluster.KafkaCluster`."""

    @property
    def admin(self) -> admin.Admin: ...

    @property
    def logs(self) -> logs.Logs: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Aged:
    """What was asked at `at_s`, and is not asked again soon."""

    at_s: float = float("-inf")
    retentions: dict[str, time_to_loss.Retention | None] = field(default_factory=dict)
    told_at_s: float = float("-inf")
    positions: Mapping[ids.TopicPartition, int] = field(default_factory=dict)
    has_positions: bool = False


class SourceLosses:
    """One thread's. Clients connect when they are first asked."""

    def __init__(
        self,
        flow: str,
        source: Source,
        *,
        positions: Positions,
        close: Callable[[], None],
        operator: commands.Operator,
        clock: base_clock.Clock,
    ) -> None:
        self._flow = flow
        self._source = source
        self._positions = positions
        self._close = close
        self._operator = operator
        self._clock = clock
        self._known = _Aged()
        self._folds: dict[ids.TopicPartition, time_to_loss.TimeToLoss] = {}
        self._told: dict[str, float] = {}

    def close(self) -> None:
        self._close()

    def look(
        self, waiting: Mapping[ids.TopicPartition, flow_status.PartitionStatus]
    ) -> source_looks.Looks:
        """At these. Raises `ConnectError` where the source does not answer, or refuses us."""
        if self._clock.now_s() - self._known.at_s >= SETTINGS_S:
            self._known = _Aged(at_s=self._clock.now_s())
        ends = self._source.logs.ends(waiting, ASK_S).done
        copied = self._copied(waiting, ends)
        lagging = {
            each: max(at, ends[each].start) for each, at in copied.items() if at < ends[each].end
        }
        times = self._times(lagging, waiting)
        retentions = self._retentions({each.topic for each in lagging})
        self._folds = {each: self._folds.get(each) or time_to_loss.TimeToLoss() for each in copied}
        found = {}
        for each, at in copied.items():
            outlook = self._outlook(
                time_to_loss.Look(
                    at_ms=self._clock.wall_ms(),
                    start=ends[each].start,
                    end=ends[each].end,
                    copied_to=at,
                    waiting_since_ms=times.get(each),
                    bytes_each=_bytes_each(waiting[each]),
                ),
                of=each,
                retention=retentions.get(each.topic),
            )
            found[each] = source_looks.Seen(
                ends=ends[each],
                copied_to=at,
                waiting_since_ms=times.get(each),
                outlook=outlook,
            )
        self._tell(found, retentions)
        return found

    def _outlook(
        self,
        seen: time_to_loss.Look,
        *,
        of: ids.TopicPartition,
        retention: time_to_loss.Retention | None,
    ) -> time_to_loss.Outlook:
        self._folds[of].look(seen)
        return self._folds[of].outlook(retention)

    def _times(
        self,
        lagging: Mapping[ids.TopicPartition, int],
        waiting: Mapping[ids.TopicPartition, flow_status.PartitionStatus],
    ) -> Mapping[ids.TopicPartition, int]:
        """Of the oldest records that wait. What moves knows its own; of the others only so many
        are read."""
        known = {each: waiting[each].oldest_ms for each in lagging if waiting[each].oldest_ms >= 0}
        asked = [
            each
            for each in sorted(lagging)
            if each not in known or waiting[each].phase not in flow_status.MOVING
        ]
        wanted = {each: lagging[each] for each in asked[:TIMES_MAX]}
        return {**known, **(self._source.logs.times_ms(wanted, TIMES_S) if wanted else {})}

    def _copied(
        self,
        waiting: Mapping[ids.TopicPartition, flow_status.PartitionStatus],
        ends: Mapping[ids.TopicPartition, log_ends.Ends],
    ) -> dict[ids.TopicPartition, int]:
        """How far each was copied; what is nowhere known is left out."""
        unknown = [each for each in ends if waiting[each].copied_to < 0]
        if unknown and not self._known.has_positions:
            self._known.positions = self._positions()
            self._known.has_positions = True
        by_map = self._known.positions if unknown else {}
        found = {each: waiting[each].copied_to for each in ends}
        found.update((each, by_map.get(each, -1)) for each in unknown)
        return {each: at for each, at in found.items() if at >= 0}

    def _retentions(self, topics: Collection[str]) -> Mapping[str, time_to_loss.Retention | None]:
        known, now_s = self._known.retentions, self._clock.now_s()
        if now_s - self._known.told_at_s >= TOLD_SETTINGS_S:
            self._known.told_at_s = now_s
            for topic in self._told.keys() & known.keys():
                del known[topic]
        fresh = sorted(set(topics) - known.keys())
        if fresh:
            answered = self._source.admin.topic_configs(fresh, ASK_S).done
            known.update((name, source_looks.retention(answered.get(name))) for name in fresh)
        return known

    def _tell(
        self,
        found: source_looks.Looks,
        retentions: Mapping[str, time_to_loss.Retention | None],
    ) -> None:
        """One line for a topic: of the partition that is lost first."""
        worst: dict[str, tuple[ids.TopicPartition, time_to_loss.Outlook]] = {}
        for each, seen in sorted(found.items(), key=lambda item: item[1].outlook.left_ms or 0):
            if seen.outlook.is_short:
                worst.setdefault(each.topic, (each, seen.outlook))
        now_s = self._clock.now_s()
        due = [topic for topic in worst if now_s - self._told.get(topic, float("-inf")) >= AGAIN_S]
        self._told.update(dict.fromkeys(due, now_s))
        for topic in due[:LINES_MAX]:
            each, outlook = worst[topic]
            line = words.way_on(
                topic,
                outlook,
                retention=retentions.get(topic),
                source=self._operator.source,
            )
            way = f". {commands.to_go_on(line)}" if line else ""
            _log.warning("%s: %s: %s%s", self._flow, each, words.loss(outlook), way)
        if len(due) > LINES_MAX:
            more = amounts.counted(len(due) - LINES_MAX, "more topic")
            _log.warning("%s: so it is with %s; see mm2 lag", self._flow, more)
        over = sorted(self._told.keys() - worst.keys())
        for topic in over:
            del self._told[topic]
        if over:
            others = len(over) - 1
            more_over = f" and {amounts.counted(others, 'more topic')}" if others else ""
            _log.info("%s: %s%s: what waits is in time again", self._flow, over[0], more_over)


def _bytes_each(each: flow_status.PartitionStatus) -> float | None:
    return each.bytes / each.records if each.records else None
