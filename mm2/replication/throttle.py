"""Byte-rate limits: for a copy as a whole and for single topics.

Counts bytes as the source's brokers send them. A limit may be exceeded by one response and then
blocks until the debt is paid off: over any period no more passes than the rate allows, plus a
quarter of a second's worth, plus what was requested while it was open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_BURST_S = 0.25
_RESPONSE_WINDOW_S = 0.5
_FETCH_BYTES_MIN = 16 * 1024


@dataclass(slots=True)
class ByteRateLimit:
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
class ByteRateLimits:
    """The budgets of one copy; `topics` are by the source's names."""

    flow: ByteRateLimit
    topics: Mapping[str, ByteRateLimit] = field(default_factory=dict)

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
        return _limit_bytes(wanted, self.flow, sharers=1)

    def most_bytes(self, topic: str, wanted: int, *, sharers: int) -> int:
        """What one answer may bring of one partition, where so many of its topic want as much."""
        found = self.topics.get(topic)
        return wanted if found is None else _limit_bytes(wanted, found, sharers=sharers)


def _limit_bytes(wanted: int, by: ByteRateLimit, *, sharers: int) -> int:
    if not by.bytes_per_s:
        return wanted
    return min(
        wanted, max(_FETCH_BYTES_MIN, int(by.bytes_per_s * _RESPONSE_WINDOW_S / max(1, sharers)))
    )


def create_limits(flow_bytes_s: int, topics: Mapping[str, int]) -> ByteRateLimits:
    """Budgets in bytes per second; 0 for the flow: no limit."""
    return ByteRateLimits(
        ByteRateLimit(flow_bytes_s), {topic: ByteRateLimit(each) for topic, each in topics.items()}
    )
