"""Lag and throughput of the last hour, as a fold over looks at all flows: what the page draws.

In memory alone: who restarts begins with an empty picture. What nobody knew is a hole, not zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base import ids
from mm2.app.reports import flow_report
from mm2.connectors import flow_status

STEP_S = 10.0
KEPT_S = 3_600.0
POINTS_MAX = int(KEPT_S / STEP_S)
"""Of one flow."""

Copied = tuple[int, int]
"""Records and bytes of a partition, since whoever copies it began to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One flow at one moment. Lags as DESIGN has them, None unless they are known of every
    partition; rates are means since the look before, None where there was none."""

    at_ms: int
    lag_records: int | None
    lag_ms: int | None
    records_s: float | None
    bytes_s: float | None


@dataclass(slots=True)
class _Flow:
    """`counted` None: nobody has looked yet."""

    points: deque[Point] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))
    at_s: float = 0.0
    counted: Mapping[ids.TopicPartition, Copied] | None = None


@dataclass(slots=True)
class Timeline:
    """Invariants: of each flow at most `POINTS_MAX` points, in order of time; none of flows that
    are no more."""

    _flows: dict[str, _Flow] = field(default_factory=dict)

    def observe(
        self,
        statuses: Sequence[flow_status.FlowStatus],
        reports: Sequence[flow_report.FlowReport],
        *,
        now_s: float,
        wall_ms: int,
    ) -> None:
        """A look at all flows: what was copied, by `statuses`, and how they stand."""
        by_name = {each.flow: each for each in reports}
        self._flows = {
            each.flow: self._flows.get(each.flow, _Flow())
            for each in statuses
            if each.flow in by_name
        }
        for status in statuses:
            if status.flow in by_name:
                self._note(status, by_name[status.flow], now_s=now_s, wall_ms=wall_ms)

    def of(self, flow: str) -> Sequence[Point]:
        """Oldest first."""
        found = self._flows.get(flow)
        return () if found is None else tuple(found.points)

    def _note(
        self,
        status: flow_status.FlowStatus,
        report: flow_report.FlowReport,
        *,
        now_s: float,
        wall_ms: int,
    ) -> None:
        known = self._flows[status.flow]
        passed_s = now_s - known.at_s
        counted = {each.partition: (each.records, each.bytes) for each in status.partitions}
        records = size = None
        if known.counted is not None and passed_s > 0:
            records, size = _copied_since(known.counted, counted)
        lag = flow_report.lag(report.partitions, report.at_ms)
        told = bool(report.partitions)
        known.points.append(
            Point(
                at_ms=wall_ms,
                lag_records=lag.records if told and lag.complete else None,
                lag_ms=lag.ms if told and lag.dated else None,
                records_s=None if records is None else records / passed_s,
                bytes_s=None if size is None else size / passed_s,
            )
        )
        known.at_s, known.counted = now_s, counted

    def check_invariants(self) -> None:
        for each in self._flows.values():
            times = [point.at_ms for point in each.points]
            assert len(times) <= POINTS_MAX, len(times)
            assert times == sorted(times), times


def _copied_since(
    before: Mapping[ids.TopicPartition, Copied], now: Mapping[ids.TopicPartition, Copied]
) -> Copied:
    """Whoever counts less than before has begun anew; what is no longer here counts nothing."""
    records = size = 0
    for place, (records_now, bytes_now) in now.items():
        records_then, bytes_then = before.get(place, (0, 0))
        anew = records_now < records_then
        records += records_now if anew else records_now - records_then
        size += bytes_now if anew else max(0, bytes_now - bytes_then)
    return records, size


def as_json(points: Sequence[Point]) -> dict[str, Any]:
    """By columns: short, for it is asked for every few seconds."""
    return {
        "step_ms": int(STEP_S * 1000),
        "kept_ms": int(KEPT_S * 1000),
        "at_ms": [each.at_ms for each in points],
        "lag_records": [each.lag_records for each in points],
        "lag_ms": [each.lag_ms for each in points],
        "records_s": [_short(each.records_s) for each in points],
        "bytes_s": [_short(each.bytes_s) for each in points],
    }


def _short(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
