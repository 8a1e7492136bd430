"""When a cluster, or the leader of a partition, counts as unreachable.

If a broker has not responded for `unreachable.after.seconds`, the end offsets that it reported,
and the lag computed from them, are unknown.
"""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass

PROBE_INTERVAL_S = 2.5
"""A broker that had nothing to answer for this long is sent a small request."""
MIN_UNREACHABLE_AFTER_S, MAX_UNREACHABLE_AFTER_S = 5, 3600
"""What `unreachable.after.seconds` may be: at least the time of two probes."""


class ClusterSide(enum.Enum):
    """The part that a cluster plays in a flow."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableCluster:
    """A cluster, or one of its brokers, that does not answer. `since_ms`: wall-clock time of its
    last answer, or of the first attempt where it never answered; None if unknown. `reason`: the
    last connection error, "" if none was seen. `broker`: "" for the whole cluster."""

    side: ClusterSide
    cluster: str
    reason: str
    since_ms: int | None = None
    broker: str = ""

    def describe(self) -> str:
        """`source east unreachable since 22:03:28Z: connection to 127.0.0.1:9092: refused`."""
        broker = f" broker {self.broker}" if self.broker else ""
        since = "" if self.since_ms is None else f" since {format_utc_time(self.since_ms)}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.side.value} {self.cluster}{broker} unreachable{since}{reason}"


def format_utc_time(at_ms: int) -> str:
    """Wall-clock milliseconds as `22:03:28Z`."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%H:%M:%SZ")
