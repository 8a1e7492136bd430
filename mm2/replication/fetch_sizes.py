"""Adapts fetch sizes per source broker to round-trip time and bandwidth.

On a long line, a fetch that comes back full at once was too small: the line was idle for a round
trip. On a short line, larger responses only cost memory.
"""

from __future__ import annotations

from dataclasses import dataclass

FETCH_BYTES_MIN = 1024 * 1024
FETCH_BYTES_MAX = 16 * 1024 * 1024
FULL_RESPONSE_SHARE = 0.75
"""A response counts as full from this share of what was asked on."""
ROUND_TRIP_SHARE_MIN = 0.2
"""Grow while the round trip is more than this share of the whole exchange."""
NEARBY_ROUND_TRIP_S = 0.002
"""A broker with a shorter round trip than this needs no larger answers: they would cost memory."""


@dataclass(slots=True)
class AdaptiveFetchSize:
    """`partition_bytes` is what to ask of each partition; doubled and halved, never below
    `least_bytes`."""

    partition_bytes: int = FETCH_BYTES_MIN
    least_bytes: int = FETCH_BYTES_MIN

    def answered(self, size: int, *, asked: int, elapsed_s: float, rtt_s: float) -> None:
        """A fetch for `asked` bytes over all its partitions brought `size` in `elapsed_s`."""
        if elapsed_s <= 0 or size < FULL_RESPONSE_SHARE * asked:
            return
        share = rtt_s / elapsed_s
        if share > ROUND_TRIP_SHARE_MIN and rtt_s > NEARBY_ROUND_TRIP_S:
            self.partition_bytes = max(
                min(self.partition_bytes * 2, FETCH_BYTES_MAX), self.partition_bytes
            )
        elif share < ROUND_TRIP_SHARE_MIN / 8:
            self.partition_bytes = max(self.partition_bytes // 2, self.least_bytes)
