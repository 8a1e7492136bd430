"""Byte budgets per second: of a copy as a whole, and of single topics in it.

Bytes are counted as the source's brokers send them. A budget may be overdrawn by one answer, and is
then closed until it has earned that back: over any stretch of time no more passes than the budget,
a quarter of a second's worth, and what was asked for while it was open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_BURST_S = 0.25
_ANSWERS_S = 0.5
_LEAST_BYTES = 16 * 1024


@dataclass(slots=True)
class Throttle:
    """A byte budget per second as a bucket that may run into debt by one response. 0: no limit."""

    bytes_per_s: int
    _level: float = 0.0
    _at_s: float = -1.0

    def open(self, now_s: float) -> bool:
        if not self.bytes_per_s:
            return True
        most = self.bytes_per_s * _BURST_S
        if self._at_s < 0:
            self._level += most
        else:
            earned = (now_s - self._at_s) * self.bytes_per_s
            self._level = min(self._level + earned, most)
        self._at_s = now_s
        return self._level > 0

    def spent(self, size: int) -> None:
        self._level -= size


@dataclass(slots=True)
class Throttles:
    """The budgets of one copy; `topics` are by the source's names."""

    flow: Throttle
    topics: Mapping[str, Throttle] = field(default_factory=dict)

    def open_for(self, topic: str, now_s: float) -> bool:
        """May more of this topic be asked for? The flow's own budget is another question."""
        found = self.topics.get(topic)
        return found is None or found.open(now_s)

    def spent_on(self, topic: str, size: int) -> None:
        found = self.topics.get(topic)
        if found is not None:
            found.spent(size)

    def most_at_once(self, wanted: int) -> int:
        """What one answer may bring in all: a large one would make a small budget jump, and then
        close it for long, to fresh records too."""
        return _bounded(wanted, self.flow, sharers=1)

    def most_bytes(self, topic: str, wanted: int, *, sharers: int) -> int:
        """What one answer may bring of one partition, where so many of its topic want as much."""
        found = self.topics.get(topic)
        return wanted if found is None else _bounded(wanted, found, sharers=sharers)


def _bounded(wanted: int, by: Throttle, *, sharers: int) -> int:
    if not by.bytes_per_s:
        return wanted
    return min(wanted, max(_LEAST_BYTES, int(by.bytes_per_s * _ANSWERS_S / max(1, sharers))))


def make(flow_bytes_s: int, topics: Mapping[str, int]) -> Throttles:
    """Budgets in bytes per second; 0 for the flow: no limit."""
    return Throttles(
        Throttle(flow_bytes_s), {topic: Throttle(each) for topic, each in topics.items()}
    )
