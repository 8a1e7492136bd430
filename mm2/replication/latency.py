"""Record ages and end-to-end latency histograms of a copy, computed per batch without decoding it.

Of a batch only the newest and roughly the oldest timestamp are known; the records in between are
taken to be spread evenly. Where a record's clock runs ahead of ours, its age is 0 ms. The
histogram is one object that all partitions of a copy share.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader


class RecordAges(NamedTuple):
    """Of so many records: their ages (ms) all together, the youngest and the oldest one's."""

    records: int = 0
    sum_ms: int = 0
    min_ms: int = 0
    max_ms: int = 0

    def __bool__(self) -> bool:
        """Are there any?"""
        return self.records > 0

    def plus(self, more: RecordAges) -> RecordAges:
        if not self or not more:
            return more or self
        return RecordAges(
            self.records + more.records,
            self.sum_ms + more.sum_ms,
            min(self.min_ms, more.min_ms),
            max(self.max_ms, more.max_ms),
        )


NO_AGES = RecordAges()
CLOCK_SKEW_MAX_MS = 60_000
"""A stamp so little in the future may be of another machine's clock."""


def compute_age_ms(stamp_ms: int, now_ms: int) -> int | None:
    """Of a wall-clock stamp; None where it lies in the future by more than `CLOCK_SKEW_MAX_MS`: a
    clock was set, and how old it really is is not known."""
    return None if stamp_ms - now_ms > CLOCK_SKEW_MAX_MS else max(0, now_ms - stamp_ms)


def compute_batch_ages(records: int, *, oldest_ms: int, newest_ms: int, wall_ms: int) -> RecordAges:
    """As of `wall_ms`. None where they have no timestamps, as records of format 0."""
    if records <= 0 or newest_ms < 0:
        return NO_AGES
    youngest = max(0, wall_ms - newest_ms)
    oldest = max(youngest, wall_ms - oldest_ms) if oldest_ms >= 0 else youngest
    return RecordAges(records, records * (youngest + oldest) // 2, youngest, oldest)


def compute_source_ages(header: BatchHeader, *, wall_ms: int) -> RecordAges:
    """Of a batch as the source has it: where its broker stamped it, all records are that old."""
    stamped = header.attributes & record_batch.LOG_APPEND_TIME
    newest_ms = header.max_timestamp
    return compute_batch_ages(
        header.record_count,
        oldest_ms=newest_ms if stamped else header.oldest_timestamp,
        newest_ms=newest_ms,
        wall_ms=wall_ms,
    )


BUCKET_BOUNDS_MS = (
    5,
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    30_000,
    60_000,
    300_000,
)
"""Of the buckets of latencies; a last one has all above."""
BUCKET_COUNT = len(BUCKET_BOUNDS_MS) + 1
AHEAD_MAX_MS = 24 * 60 * 60 * 1000
"""What lies further in the future was made by no clock."""

NEVER_S = -math.inf
"""Of a moment that has not been yet."""

_UNBOUNDED_MS = 2**63


class LatencySnapshot(NamedTuple):
    """A copy as of one moment, since it began: by bucket how many records were how old when the
    target acknowledged them, and all these ages (ms) together.

    `ahead_ms`: by how much the newest timestamp lay in the future, of what came since the pulse
    before. `crossed_s` and `idle_s` are on the monotonic clock of the process that holds the pulse,
    so that no step of the wall clock makes them younger; `NEVER_S` while there is none.
    `crossed_s`: when the target last acknowledged a batch. `idle_s`: the last moment at which all
    of the source that is copied here is known to have been copied, since each of its brokers has
    answered then. `life`: another number where all that is counted began at nothing; 0 in what a
    copy itself tells.
    """

    counts: tuple[int, ...] = (0,) * BUCKET_COUNT
    sum_ms: int = 0
    ahead_ms: int = 0
    crossed_s: float = NEVER_S
    idle_s: float = NEVER_S
    life: int = 0

    def since(self, before: LatencySnapshot) -> LatencySnapshot:
        """What was counted since that pulse; all, where it has begun anew meanwhile."""
        if self.life != before.life or any(
            now < was for now, was in zip(self.counts, before.counts, strict=True)
        ):
            return self
        counts = tuple(now - was for now, was in zip(self.counts, before.counts, strict=True))
        return self._replace(counts=counts, sum_ms=max(0, self.sum_ms - before.sum_ms))

    def followed_by(self, later: LatencySnapshot) -> LatencySnapshot:
        """Of what both count, the later one from nothing; all else is the later one's, where it
        has it."""
        return later._replace(
            counts=tuple(one + other for one, other in zip(self.counts, later.counts, strict=True)),
            sum_ms=self.sum_ms + later.sum_ms,
            crossed_s=max(self.crossed_s, later.crossed_s),
            idle_s=max(self.idle_s, later.idle_s),
        )


@dataclass(slots=True)
class LatencyHistogram:
    """One thread's. Invariant: `counts` add up to all records acknowledged that bore a time."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKET_COUNT)
    sum_ms: int = 0
    ahead_ms: int = 0
    crossed_s: float = NEVER_S
    idle_s: float = NEVER_S
    _bucket: int = 0
    _above: int = -1
    _most: int = BUCKET_BOUNDS_MS[0]
    """The bucket of the newest batch: mostly the next batch's, too."""

    def came(self, newest_ms: int, wall_ms: int) -> None:
        """A batch of the source whose newest record bears this time."""
        ahead_ms = newest_ms - wall_ms
        if self.ahead_ms < ahead_ms <= AHEAD_MAX_MS:
            self.ahead_ms = ahead_ms

    def acknowledged(self, found: RecordAges, now_s: float) -> None:
        """The target has stored a batch of records that are so old now."""
        self.crossed_s = now_s
        records, sum_ms, youngest, oldest = found
        if not records:
            return
        self.sum_ms += sum_ms
        if self._above < youngest and oldest <= self._most:
            self.counts[self._bucket] += records
        else:
            self._spread(records, youngest, oldest)

    def _spread(self, records: int, youngest: int, oldest: int) -> None:
        done = 0
        last = bisect_left(BUCKET_BOUNDS_MS, oldest)
        for bucket in range(bisect_left(BUCKET_BOUNDS_MS, youngest), last):
            below = records * (BUCKET_BOUNDS_MS[bucket] - youngest + 1) // (oldest - youngest + 1)
            self.counts[bucket] += below - done
            done = below
        self.counts[last] += records - done
        self._bucket = last
        self._above = BUCKET_BOUNDS_MS[last - 1] if last else -1
        self._most = BUCKET_BOUNDS_MS[last] if last < len(BUCKET_BOUNDS_MS) else _UNBOUNDED_MS

    def take(self, *, idle_s: float) -> LatencySnapshot:
        """As of now; `ahead_ms` begins anew. `idle_s`: as in `LatencySnapshot`, `NEVER_S` if that
        is not so now."""
        ahead_ms, self.ahead_ms = self.ahead_ms, 0
        self.idle_s = max(self.idle_s, idle_s)
        return LatencySnapshot(
            tuple(self.counts), self.sum_ms, ahead_ms, self.crossed_s, self.idle_s
        )
