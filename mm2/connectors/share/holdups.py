"""What holds a task's copy up without stopping it: worth a line once it lasts, and when it is over.

Retries that are over within seconds are nobody's business; a broker that stays away is, and so is a
partition that is refused again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from connect_runtime.base import amounts
from mm2.core.copy import messages

_Key = TypeVar("_Key", int, str)

LASTS_S = 8.0
AGAIN_S = 60.0
"""What still lasts is told again, with the newest reason."""

_WAITING = ("waiting", "taking")
_CLOSED = "closed"


@dataclass(slots=True)
class _Wait:
    """Lasting since `since_s`; last told at `told_s`, never: -inf."""

    since_s: float
    reason: str = ""
    told_s: float = float("-inf")

    def due(self, now_s: float) -> bool:
        return now_s - self.since_s >= LASTS_S and now_s - self.told_s >= AGAIN_S


@dataclass(slots=True)
class Holdups:
    """A fold over a task's gauges and what its copy cannot reach.

    Invariant: what was told is told again after it was over, or a minute later.
    """

    _waits: dict[int, _Wait] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)
    _troubles: dict[str, _Wait] = field(default_factory=dict)
    _told_troubles: set[str] = field(default_factory=set)

    def note(self, gauge: messages.Gauge, now_s: float) -> None:
        """How one partition stands now."""
        if gauge.phase not in _WAITING:
            self._waits.pop(gauge.index, None)
            if gauge.phase == _CLOSED:  # it has ended as it was
                self._told.discard(gauge.index)
            return
        self._waits.setdefault(gauge.index, _Wait(now_s)).reason = gauge.reason

    def note_troubles(self, troubles: Mapping[str, str], now_s: float) -> None:
        """All that the copy cannot reach at present, with why."""
        for place in self._troubles.keys() - troubles.keys():
            del self._troubles[place]
        for place, why in troubles.items():
            self._troubles.setdefault(place, _Wait(now_s)).reason = why

    def news(self, names: Sequence[str], now_s: float) -> list[str]:
        """Lines to log; `names` are the task's partitions."""
        return [*self._trouble_news(now_s), *self._wait_news(names, now_s)]

    def _trouble_news(self, now_s: float) -> list[str]:
        new, over = _turn_over(self._troubles, self._told_troubles, now_s)
        lines = [
            f"{place} cannot be reached: {self._troubles[place].reason}; it is tried until it can"
            for place in sorted(new)
        ]
        if over and not self._told_troubles:
            lines.append("everything can be reached again")
        return lines

    def _wait_news(self, names: Sequence[str], now_s: float) -> list[str]:
        new, over = _turn_over(self._waits, self._told, now_s)
        lines = []
        if new:
            first = min(new)
            others = len(new) - 1
            more = f" (and {amounts.counted(others, 'more partition')})" if others else ""
            reason = self._waits[first].reason
            lines.append(f"{names[first]} waits{more}: {reason}; it is tried until it works")
        if over and not self._told:
            lines.append("no partition waits any more")
        return lines


def _turn_over(
    waits: Mapping[_Key, _Wait], told: set[_Key], now_s: float
) -> tuple[set[_Key], bool]:
    """What is to be told now, which from now on counts as told, and whether anything is over."""
    over = bool(told - waits.keys())
    told.intersection_update(waits)
    due = {key for key, wait in waits.items() if wait.due(now_s)}
    for key in due:
        waits[key].told_s = now_s
    told.update(due)
    return due, over
