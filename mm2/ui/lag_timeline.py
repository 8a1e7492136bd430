"""Lag and throughput of the last hour, for the charts of the status page.

The timeline is built from snapshots of all flows and kept in memory, so the charts are empty after
a restart. An unknown value is a gap in the chart, not zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.connectors.status_registry import FlowStatus
from mm2.status import status_document
from mm2.status.status_document import FlowReport

POINT_INTERVAL_S = 10.0
TIMELINE_LENGTH_S = 3_600.0
TIMELINE_POINTS_MAX = int(TIMELINE_LENGTH_S / POINT_INTERVAL_S)
"""Maximum number of timeline points per flow."""

CopiedCounts = tuple[int, int]
"""Number of records and number of bytes of a partition that its copy process has copied since it
started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePoint:
    """Lag and rates of a flow at one point in time.

    A lag is None if the lag of any partition is unknown. Rates are averages since the previous
    point, and None for the first point.
    """

    at_ms: int
    lag_records: int | None
    lag_ms: int | None
    records_s: float | None
    bytes_s: float | None


@dataclass(slots=True)
class _FlowTimeline:
    """Timeline points of a flow. `counted` contains the counts of copied records and bytes per
    partition, as of the snapshot at monotonic time `at_s`; None before the first snapshot."""

    points: deque[TimelinePoint] = field(default_factory=lambda: deque(maxlen=TIMELINE_POINTS_MAX))
    at_s: float = 0.0
    counted: Mapping[TopicPartition, CopiedCounts] | None = None


@dataclass(slots=True)
class Timeline:
    """Timeline points of all flows.

    Invariants: each flow has at most `TIMELINE_POINTS_MAX` points, in time order. Removed flows
    have no points.
    """

    _flows: dict[str, _FlowTimeline] = field(default_factory=dict)

    def add_snapshot(
        self,
        statuses: Sequence[FlowStatus],
        reports: Sequence[FlowReport],
        *,
        now_s: float,
        wall_ms: int,
    ) -> None:
        """Add a timeline point for each flow. `statuses` provides the copied records and bytes,
        `reports` the lags."""
        by_name = {each.flow: each for each in reports}
        self._flows = {
            each.flow: self._flows.get(each.flow, _FlowTimeline())
            for each in statuses
            if each.flow in by_name
        }
        for status in statuses:
            if status.flow in by_name:
                self._add_point(status, by_name[status.flow], now_s=now_s, wall_ms=wall_ms)

    def get_points(self, flow: str) -> Sequence[TimelinePoint]:
        """Return a flow's timeline points, oldest first."""
        found = self._flows.get(flow)
        return () if found is None else tuple(found.points)

    def _add_point(
        self,
        status: FlowStatus,
        report: FlowReport,
        *,
        now_s: float,
        wall_ms: int,
    ) -> None:
        """Append a point with the flow's current lag and its rates since the previous point."""
        known = self._flows[status.flow]
        passed_s = now_s - known.at_s
        counted = {each.partition: (each.records, each.bytes) for each in status.partitions}
        records = size = None
        if known.counted is not None and passed_s > 0:
            records, size = _count_records_copied_since(known.counted, counted)
        lag = status_document.sum_lag(report.partitions, report.at_ms)
        told = bool(report.partitions)
        known.points.append(
            TimelinePoint(
                at_ms=wall_ms,
                lag_records=lag.records if told and lag.complete else None,
                lag_ms=lag.ms if told and lag.age_complete else None,
                records_s=None if records is None else records / passed_s,
                bytes_s=None if size is None else size / passed_s,
            )
        )
        known.at_s, known.counted = now_s, counted

    def check_invariants(self) -> None:
        for each in self._flows.values():
            times = [point.at_ms for point in each.points]
            assert len(times) <= TIMELINE_POINTS_MAX, len(times)
            assert times == sorted(times), times


def _count_records_copied_since(
    before: Mapping[TopicPartition, CopiedCounts], now: Mapping[TopicPartition, CopiedCounts]
) -> CopiedCounts:
    """Return the records and bytes copied between the snapshots `before` and `now`.

    If a partition's count has decreased, counting has restarted from zero. Partitions that are now
    assigned to other nodes are ignored.
    """
    records = size = 0
    for place, (records_now, bytes_now) in now.items():
        records_then, bytes_then = before.get(place, (0, 0))
        anew = records_now < records_then
        records += records_now if anew else records_now - records_then
        size += bytes_now if anew else max(0, bytes_now - bytes_then)
    return records, size


def timeline_to_json(points: Sequence[TimelinePoint]) -> dict[str, Any]:
    """Encode timeline points as one JSON array per field. This is more compact than one object per
    point."""
    return {
        "step_ms": int(POINT_INTERVAL_S * 1000),
        "kept_ms": int(TIMELINE_LENGTH_S * 1000),
        "at_ms": [each.at_ms for each in points],
        "lag_records": [each.lag_records for each in points],
        "lag_ms": [each.lag_ms for each in points],
        "records_s": [_round_rate(each.records_s) for each in points],
        "bytes_s": [_round_rate(each.bytes_s) for each in points],
    }


def _round_rate(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
