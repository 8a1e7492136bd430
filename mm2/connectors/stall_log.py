"""Rate-limited log lines about lasting errors and about partitions that wait.

Retries that succeed within seconds are not logged; longer ones are logged once, then every
minute with the newest reason, and once when they are over.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from connect_runtime.base import plurals
from connect_runtime.base.timing import Clock
from mm2.copier.control_messages import PartitionGauge

REPEAT_INTERVAL_S = 60.0


class RateLimitedWarnings:
    """For one thread. `about` is one of a few."""

    def __init__(self, log: logging.Logger, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._due_s: dict[str, float] = {}

    def say(self, about: str, text: object) -> None:
        """Warn, unless of the same was warned within a minute."""
        now_s = self._clock.now_s()
        quiet = now_s < self._due_s.get(about, now_s)
        if not quiet:
            self._due_s[about] = now_s + REPEAT_INTERVAL_S
        self._log.log(logging.DEBUG if quiet else logging.WARNING, "%s: %s", about, text)

    def over(self, about: str) -> None:
        """It works: what comes next is news."""
        self._due_s.pop(about, None)


_Key = TypeVar("_Key", int, str)

STALL_THRESHOLD_S = 8.0
STALL_REPEAT_INTERVAL_S = 60.0
"""What still lasts is told again, with the newest reason."""

_WAITING_PHASES = ("waiting", "taking")
_CLOSED_PHASE = "closed"


@dataclass(slots=True)
class _Stall:
    """Lasting since `since_s`; last told at `told_s`, never: -inf."""

    since_s: float
    reason: str = ""
    told_s: float = float("-inf")

    def due(self, now_s: float) -> bool:
        return (
            now_s - self.since_s >= STALL_THRESHOLD_S
            and now_s - self.told_s >= STALL_REPEAT_INTERVAL_S
        )


@dataclass(slots=True)
class StallLog:
    """A fold over a task's gauges and what its copy cannot reach.

    Invariant: what was told is told again after it was over, or a minute later.
    """

    _waits: dict[int, _Stall] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)
    _troubles: dict[str, _Stall] = field(default_factory=dict)
    _told_troubles: set[str] = field(default_factory=set)

    def note(self, gauge: PartitionGauge, now_s: float) -> None:
        """How one partition stands now."""
        if gauge.phase not in _WAITING_PHASES:
            self._waits.pop(gauge.index, None)
            if gauge.phase == _CLOSED_PHASE:  # it has ended as it was
                self._told.discard(gauge.index)
            return
        self._waits.setdefault(gauge.index, _Stall(now_s)).reason = gauge.reason

    def note_troubles(self, troubles: Mapping[str, str], now_s: float) -> None:
        """All that the copy cannot reach at present, with why."""
        for place in self._troubles.keys() - troubles.keys():
            del self._troubles[place]
        for place, why in troubles.items():
            self._troubles.setdefault(place, _Stall(now_s)).reason = why

    def news(self, names: Sequence[str], now_s: float) -> list[str]:
        """Lines to log; `names` are the task's partitions."""
        return [*self._trouble_news(now_s), *self._wait_news(names, now_s)]

    def _trouble_news(self, now_s: float) -> list[str]:
        new, over = _update_reported(self._troubles, self._told_troubles, now_s)
        lines = [
            f"{place} cannot be reached: {self._troubles[place].reason}; it is tried until it can"
            for place in sorted(new)
        ]
        if over and not self._told_troubles:
            lines.append("everything can be reached again")
        return lines

    def _wait_news(self, names: Sequence[str], now_s: float) -> list[str]:
        new, over = _update_reported(self._waits, self._told, now_s)
        lines = []
        if new:
            first = min(new)
            others = len(new) - 1
            more = f" (and {plurals.format_count(others, 'more partition')})" if others else ""
            reason = self._waits[first].reason
            lines.append(f"{names[first]} waits{more}: {reason}; it is tried until it works")
        if over and not self._told:
            lines.append("no partition waits any more")
        return lines


def _update_reported(
    waits: Mapping[_Key, _Stall], told: set[_Key], now_s: float
) -> tuple[set[_Key], bool]:
    """What is to be told now, which from now on counts as told, and whether anything is over."""
    over = bool(told - waits.keys())
    told.intersection_update(waits)
    due = {key for key, wait in waits.items() if wait.due(now_s)}
    for key in due:
        waits[key].told_s = now_s
    told.update(due)
    return due, over
