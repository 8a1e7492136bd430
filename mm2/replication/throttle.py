"""Byte-rate limits for a whole copy process and for individual topics.

The limits count bytes received from the source brokers. One response may exceed a limit; further
fetches are then blocked until the deficit is refilled. Over any period, the fetched bytes are at
most the rate times the period, plus a quarter of a second at that rate, plus the bytes requested
before the limit was reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_BURST_S = 0.25
_RESPONSE_WINDOW_S = 0.5
_FETCH_BYTES_MIN = 16 * 1024


@dataclass(slots=True)
class ByteRateLimit:
    """Token bucket in bytes per second, which one response may overdraw. 0 means no limit."""

    bytes_per_s: int
    _level: float = 0.0
    _at_s: float = -1.0

    def may_fetch(self, now_s: float) -> bool:
        """Refill the bucket and return True if more bytes may be fetched."""
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

    def deduct_bytes(self, size: int) -> None:
        """Deduct received bytes from the token bucket."""
        self._level -= size


@dataclass(slots=True)
class ByteRateLimits:
    """Rate limits of one copy process. `topics` maps source topic names to limits."""

    flow: ByteRateLimit
    topics: Mapping[str, ByteRateLimit] = field(default_factory=dict)

    def may_fetch_topic(self, topic: str, now_s: float) -> bool:
        """Return True if more records of this topic may be fetched. Checks only the topic's limit,
        not the flow's."""
        found = self.topics.get(topic)
        return found is None or found.may_fetch(now_s)

    def deduct_topic_bytes(self, topic: str, size: int) -> None:
        """Deduct received bytes from a topic's limit."""
        found = self.topics.get(topic)
        if found is not None:
            found.deduct_bytes(size)

    def limit_response_bytes(self, wanted: int) -> int:
        """Limit the size of one response.

        A large response would overdraw a small limit and then block other partitions for a long
        time.
        """
        return _limit_bytes_by_rate(wanted, self.flow, sharers=1)

    def limit_partition_bytes(self, topic: str, wanted: int, *, partition_count: int) -> int:
        """Limit the bytes of one partition per response if `partition_count` partitions of its
        topic are fetched."""
        found = self.topics.get(topic)
        return (
            wanted
            if found is None
            else _limit_bytes_by_rate(wanted, found, sharers=partition_count)
        )


def _limit_bytes_by_rate(wanted: int, by: ByteRateLimit, *, sharers: int) -> int:
    if not by.bytes_per_s:
        return wanted
    return min(
        wanted, max(_FETCH_BYTES_MIN, int(by.bytes_per_s * _RESPONSE_WINDOW_S / max(1, sharers)))
    )


def create_byte_rate_limits(flow_bytes_s: int, topics: Mapping[str, int]) -> ByteRateLimits:
    """Create rate limits in bytes per second; 0 means no limit."""
    return ByteRateLimits(
        ByteRateLimit(flow_bytes_s), {topic: ByteRateLimit(each) for topic, each in topics.items()}
    )
