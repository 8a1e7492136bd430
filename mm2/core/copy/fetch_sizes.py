"""How much to ask of a source broker at once: follows round trip times bandwidth.

Over a long line a fetch that comes back full right away was too small: the line stood empty for a
round trip. Over a short line larger answers only cost memory.
"""

from __future__ import annotations

from dataclasses import dataclass

SMALLEST_BYTES = 1024 * 1024
LARGEST_BYTES = 16 * 1024 * 1024
FULL = 0.75
"""A response counts as full from this share of what was asked on."""
WORTH_IT = 0.2
"""Grow while the round trip is more than this share of the whole exchange."""
NEAR_S = 0.002
"""A broker with a shorter round trip than this needs no larger answers: they would cost memory."""


@dataclass(slots=True)
class FetchSizes:
    """`partition_bytes` is what to ask of each partition; doubled and halved, never below
    `least_bytes`."""

    partition_bytes: int = SMALLEST_BYTES
    least_bytes: int = SMALLEST_BYTES

    def answered(self, size: int, *, asked: int, elapsed_s: float, rtt_s: float) -> None:
        """A fetch for `asked` bytes over all its partitions brought `size` in `elapsed_s`."""
        if elapsed_s <= 0 or size < FULL * asked:
            return
        share = rtt_s / elapsed_s
        if share > WORTH_IT and rtt_s > NEAR_S:
            self.partition_bytes = max(
                min(self.partition_bytes * 2, LARGEST_BYTES), self.partition_bytes
            )
        elif share < WORTH_IT / 8:
            self.partition_bytes = max(self.partition_bytes // 2, self.least_bytes)
