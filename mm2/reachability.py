"""When a cluster, or the leader of a partition, counts as unreachable.

If a broker has not responded for `unreachable.after.seconds`, the end offsets that it reported,
and the lag computed from them, are unknown.
"""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass

PROBE_INTERVAL_S = 2.5
"""A broker without requests in flight for this long is sent a probe request."""
MIN_UNREACHABLE_AFTER_S, MAX_UNREACHABLE_AFTER_S = 5, 3600
"""Limits of `unreachable.after.seconds`; the minimum is the time of two probes."""


class ClusterSide(enum.Enum):
    """The role of a cluster in a flow."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableCluster:
    """A cluster, or one of its brokers, that does not answer."""

    side: ClusterSide
    cluster: str
    reason: str
    """The last connection error; "" if there was none."""
    since_ms: int | None = None
    """Wall-clock time of the last answer, or of the first attempt if it never answered; None if
    unknown."""
    broker: str = ""
    """Address of the broker; empty if the whole cluster is unreachable."""

    def describe(self) -> str:
        """For example `source east unreachable since 22:03:28Z: connection to … refused`."""
        broker = f" broker {self.broker}" if self.broker else ""
        since = "" if self.since_ms is None else f" since {format_utc_time(self.since_ms)}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.side.value} {self.cluster}{broker} unreachable{since}{reason}"


def format_utc_time(timestamp_ms: int) -> str:
    """Wall-clock milliseconds as `22:03:28Z`."""
    return datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).strftime("%H:%M:%SZ")
