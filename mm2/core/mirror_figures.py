"""What the mirror tasks measure, as folds: observed as it happens, read as Java's attributes.

Two windows of 30 s, as Java's, whose mirror tasks take no setting for it. Other than there, a
value without `-max`, `-min` or `-avg` goes when nothing was observed for so long: Java's stays as
it was, and looks like a lag that does not pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from connect_runtime.base import sampled
from mm2.core.copy import ages, messages, standing

_WINDOWS = sampled.Sampling()


@dataclass(slots=True)
class Times:
    """Milliseconds of one kind; of many at once the youngest counts as the last."""

    _newest_ms: float = math.nan
    _sampled: sampled.Sampled = field(default_factory=lambda: sampled.Sampled(_WINDOWS))

    def observe(self, found: ages.Ages, now_s: float) -> None:
        if found:
            self._newest_ms = found.min_ms
            self._sampled.observe_many(
                found.records,
                found.sum_ms,
                least=found.min_ms,
                most=found.max_ms,
                now_s=now_s,
            )

    def numbers(self, name: str, now_s: float) -> dict[str, float]:
        figures = self._sampled.figures(now_s)
        return {
            name: math.nan if math.isnan(figures.avg) else self._newest_ms,
            f"{name}-max": figures.max,
            f"{name}-min": figures.min,
            f"{name}-avg": figures.avg,
        }


def checkpoint_numbers(latencies: Times, now_s: float) -> dict[str, float]:
    """The attributes of `mirror_metrics.CHECKPOINT`."""
    return latencies.numbers("checkpoint-latency-ms", now_s)


@dataclass(slots=True)
class PartitionFigures:
    """Of one source partition, over all copies that the task had of it.

    Invariant: `_records`, `_bytes` are what the newest copy has told of itself. Every copy's first
    gauge comes before it has copied anything, so one that counts fewer is of another copy.
    """

    _counted: sampled.Sampled = field(default_factory=lambda: sampled.Sampled(_WINDOWS))
    _sized: sampled.Sampled = field(default_factory=lambda: sampled.Sampled(_WINDOWS))
    _ages: Times = field(default_factory=Times)
    _latencies: Times = field(default_factory=Times)
    _records: int = 0
    _bytes: int = 0
    _behind: tuple[int, int, int] = (-1, -1, -1)
    stopped_by: str = ""
    """Why it is not copied until somebody acts; "" where that is not so."""

    def observe(self, gauge: messages.Gauge, now_s: float) -> None:
        """Each gauge of the partition once, in their order."""
        if gauge.records < self._records:
            self._records = self._bytes = 0
        if gauge.records > self._records:
            self._counted.observe(gauge.records - self._records, now_s)
            self._sized.observe(gauge.bytes - self._bytes, now_s)
        self._records, self._bytes = gauge.records, gauge.bytes
        self._ages.observe(gauge.arrived, now_s)
        self._latencies.observe(gauge.stored, now_s)
        self._behind = (gauge.copied_to, gauge.source_end, gauge.oldest_ms)
        self.stopped_by = gauge.cause if gauge.phase == standing.Phase.STOPPED.value else ""

    def numbers(self, now_s: float) -> dict[str, float]:
        """The attributes of `mirror_metrics.SOURCE`."""
        counted, sized = self._counted.figures(now_s), self._sized.figures(now_s)
        return {
            "record-count": counted.total,
            "record-rate": counted.rate,
            **self._ages.numbers("record-age-ms", now_s),
            "byte-count": sized.total,
            "byte-rate": sized.rate,
            **self._latencies.numbers("replication-latency-ms", now_s),
        }

    @property
    def lag_records(self) -> int | None:
        """None as long as the copy has not seen both ends."""
        copied_to, source_end, _ = self._behind
        return None if copied_to < 0 or source_end < 0 else max(0, source_end - copied_to)

    def lag_s(self, wall_ms: int) -> float | None:
        """Never negative; None while unknown."""
        oldest_ms = self._behind[2]
        if oldest_ms >= 0:
            age_ms = ages.age_ms(oldest_ms, wall_ms)
            return None if age_ms is None else age_ms / 1000.0
        return 0.0 if self.lag_records == 0 else None
