"""Adapts the fetch size of each source broker to round-trip time and bandwidth.

On a long-distance link, a full response that takes little more than a round trip means that the
fetch size was too small, because the link was mostly idle. On a short link, larger responses only
cost memory.
"""

from __future__ import annotations

from dataclasses import dataclass

FETCH_BYTES_MIN = 1024 * 1024
FETCH_BYTES_MAX = 16 * 1024 * 1024
FULL_RESPONSE_SHARE = 0.75
"""A response with at least this share of the requested bytes counts as full."""
ROUND_TRIP_SHARE_MIN = 0.2
"""The fetch size is increased if the round-trip time takes up more than this share of a fetch
request's duration."""
NEARBY_ROUND_TRIP_S = 0.002
"""Below this round-trip time, fetch sizes do not grow, because larger responses would only cost
memory."""


@dataclass(slots=True)
class AdaptiveFetchSize:
    """Fetch size for one source broker, which is doubled or halved but never below `min_bytes`."""

    partition_bytes: int = FETCH_BYTES_MIN
    """Bytes to request per partition (`partition.fetch.bytes`)."""
    min_bytes: int = FETCH_BYTES_MIN

    def adapt_to_response(
        self, size: int, *, requested_bytes: int, elapsed_s: float, rtt_s: float
    ) -> None:
        """Adapt the fetch size to a response of `size` bytes. The request asked for
        `requested_bytes` bytes and took `elapsed_s`."""
        if elapsed_s <= 0 or size < FULL_RESPONSE_SHARE * requested_bytes:
            return
        share = rtt_s / elapsed_s
        if share > ROUND_TRIP_SHARE_MIN and rtt_s > NEARBY_ROUND_TRIP_S:
            self.partition_bytes = max(
                min(self.partition_bytes * 2, FETCH_BYTES_MAX), self.partition_bytes
            )
        elif share < ROUND_TRIP_SHARE_MIN / 8:
            self.partition_bytes = max(self.partition_bytes // 2, self.min_bytes)
