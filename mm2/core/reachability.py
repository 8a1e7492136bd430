"""When a cluster, or the broker that leads a partition, counts as unreachable.

What a broker last said is true for as long as it keeps answering. After `LIMIT_S` without an
answer its log ends, and with them the lag, are unknown.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

LIMIT_S = 10.0
"""Without any answer for longer than this, a broker or cluster is unreachable."""
PROBE_S = 2.5
"""A broker that had nothing to answer for this long is sent a small request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """A cluster that does not answer. `since_ms`: wall-clock time of its last answer, or of the
    first attempt where it never answered; None if unknown. `reason`: the last connection error."""

    cluster: str
    reason: str
    since_ms: int | None = None

    def describe(self, side: str) -> str:
        """`source east unreachable since 22:03:28Z: connection refused (127.0.0.1:9092)`."""
        since = "" if self.since_ms is None else f" since {clock_time(self.since_ms)}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{side} {self.cluster} unreachable{since}{reason}"


def clock_time(at_ms: int) -> str:
    """Wall-clock milliseconds as `22:03:28Z`."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%H:%M:%SZ")
