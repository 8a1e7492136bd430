"""Defines when a cluster, or the leader of a partition, counts as unreachable.

If a broker has not responded for `unreachable.after.seconds`, the end offsets that it reported are
considered unknown. The lag is computed from the end offsets and is then unknown, too.
"""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass

PROBE_INTERVAL_S = 2.5
"""Seconds without in-flight requests after which a probe request is sent to a broker."""
MIN_UNREACHABLE_AFTER_S, MAX_UNREACHABLE_AFTER_S = 5, 3600
"""Minimum and maximum of `unreachable.after.seconds`, in seconds. The minimum is twice the probe
interval."""


class ClusterSide(enum.Enum):
    """Role of a cluster in a flow."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableCluster:
    """A cluster, or one of its brokers, that does not respond."""

    side: ClusterSide
    cluster: str
    reason: str
    """Last connection error; "" if there was no error."""
    since_ms: int | None = None
    """Wall-clock time of the last response in milliseconds, or of the first attempt if there was no
    response; None if unknown."""
    broker: str = ""
    """Address of the unreachable broker; empty if the whole cluster is unreachable."""

    def format_description(self) -> str:
        """Describe the unreachable cluster or broker with the time of its last response and the
        last connection error, for example `source east unreachable since 22:03:28Z: connection to …
        refused`."""
        broker = f" broker {self.broker}" if self.broker else ""
        since = "" if self.since_ms is None else f" since {format_utc_time(self.since_ms)}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.side.value} {self.cluster}{broker} unreachable{since}{reason}"


def format_utc_time(timestamp_ms: int) -> str:
    """Format a wall-clock time in milliseconds as a UTC time of day, such as `22:03:28Z`."""
    return datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).strftime("%H:%M:%SZ")
