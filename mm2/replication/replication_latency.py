"""Computes record ages and end-to-end latency histograms of a copy process per batch, without
decoding the batch.

Only the newest timestamp of a batch and roughly its oldest one are known; the records in between
are assumed to be spread evenly. A record with a timestamp in the future has an age of 0 ms. All
partitions of a copy process share one histogram object.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader


class RecordAges(NamedTuple):
    """Number of records, and the sum, minimum and maximum of their ages in milliseconds."""

    records: int = 0
    sum_ms: int = 0
    min_ms: int = 0
    max_ms: int = 0

    def __bool__(self) -> bool:
        """Return True if any record was counted."""
        return self.records > 0

    def merge(self, more: RecordAges) -> RecordAges:
        """Merge two sets of record ages."""
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
"""Maximum time in ms by which a timestamp may be in the future and still be attributed to clock
skew."""


def compute_age_ms(timestamp_ms: int, now_ms: int) -> int | None:
    """Compute the age of a wall-clock timestamp in milliseconds. Return None if the timestamp is
    more than `CLOCK_SKEW_MAX_MS` in the future, because the age is then unknown."""
    return None if timestamp_ms - now_ms > CLOCK_SKEW_MAX_MS else max(0, now_ms - timestamp_ms)


def compute_batch_ages(records: int, *, oldest_ms: int, newest_ms: int, wall_ms: int) -> RecordAges:
    """Compute the ages of a batch's records at `wall_ms`. The result is empty without timestamps
    (message format 0)."""
    if records <= 0 or newest_ms < 0:
        return NO_AGES
    youngest = max(0, wall_ms - newest_ms)
    oldest = max(youngest, wall_ms - oldest_ms) if oldest_ms >= 0 else youngest
    return RecordAges(records, records * (youngest + oldest) // 2, youngest, oldest)


def compute_source_ages(header: BatchHeader, *, wall_ms: int) -> RecordAges:
    """Compute the ages of a source batch's records. With LogAppendTime, all records have the
    batch's timestamp."""
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
"""Upper bounds of the latency buckets. One more bucket counts all higher ages."""
BUCKET_COUNT = len(BUCKET_BOUNDS_MS) + 1
AHEAD_MAX_MS = 24 * 60 * 60 * 1000
"""Maximum time in ms by which a timestamp may be in the future. Later timestamps are ignored as
invalid in the clock skew metric."""

NEVER_S = -math.inf
"""Time value that means that the event has not happened yet."""

_UNBOUNDED_MS = 2**63


class LatencySnapshot(NamedTuple):
    """Latency histogram of a copy process since its start, and the time of its last replication.

    `replicated_at_s` and `caught_up_at_s` use the monotonic clock of the process that keeps the
    snapshot, so that wall-clock changes do not affect them. They are `NEVER_S` if unset.
    """

    counts: tuple[int, ...] = (0,) * BUCKET_COUNT
    """Number of records per bucket, by age at the time of the target's acknowledgement."""
    sum_ms: int = 0
    """Sum of all ages (ms)."""
    ahead_ms: int = 0
    """Time in milliseconds by which the newest timestamp since the previous snapshot was in the
    future."""
    replicated_at_s: float = NEVER_S
    """Time at which the target last acknowledged a batch."""
    caught_up_at_s: float = NEVER_S
    """Time up to which all source records are known to be replicated. Set while no partition lags:
    the earliest of the times of the source brokers' last Fetch responses."""
    incarnation: int = 0
    """Number that changes when the counts restart from zero; 0 in snapshots from the copy
    process."""

    def subtract(self, before: LatencySnapshot) -> LatencySnapshot:
        """Return the counts added since the earlier snapshot `before`; all counts if counting has
        restarted since then."""
        if self.incarnation != before.incarnation or any(
            now < was for now, was in zip(self.counts, before.counts, strict=True)
        ):
            return self
        counts = tuple(now - was for now, was in zip(self.counts, before.counts, strict=True))
        return self._replace(counts=counts, sum_ms=max(0, self.sum_ms - before.sum_ms))

    def add_counts_of_later_snapshot(self, later: LatencySnapshot) -> LatencySnapshot:
        """Add the counts of a later snapshot whose counting started from zero. All other values are
        taken from the later snapshot."""
        return later._replace(
            counts=tuple(one + other for one, other in zip(self.counts, later.counts, strict=True)),
            sum_ms=self.sum_ms + later.sum_ms,
            replicated_at_s=max(self.replicated_at_s, later.replicated_at_s),
            caught_up_at_s=max(self.caught_up_at_s, later.caught_up_at_s),
        )


@dataclass(slots=True)
class LatencyHistogram:
    """Latency histogram of one thread.

    Invariant: the sum of `counts` is the number of acknowledged records with a timestamp.
    """

    counts: list[int] = field(default_factory=lambda: [0] * BUCKET_COUNT)
    sum_ms: int = 0
    ahead_ms: int = 0
    replicated_at_s: float = NEVER_S
    caught_up_at_s: float = NEVER_S
    _bucket: int = 0
    _above: int = -1
    _most: int = BUCKET_BOUNDS_MS[0]
    """Cached upper bound of the newest batch's latency bucket. The next batch usually belongs to
    the same bucket."""

    def record_fetched_batch(self, newest_ms: int, wall_ms: int) -> None:
        """Record the newest timestamp of a fetched batch."""
        ahead_ms = newest_ms - wall_ms
        if self.ahead_ms < ahead_ms <= AHEAD_MAX_MS:
            self.ahead_ms = ahead_ms

    def record_acknowledged_batch(self, found: RecordAges, now_s: float) -> None:
        """Record the ages of a batch that the target acknowledged."""
        self.replicated_at_s = now_s
        records, sum_ms, youngest, oldest = found
        if not records:
            return
        self.sum_ms += sum_ms
        if self._above < youngest and oldest <= self._most:
            self.counts[self._bucket] += records
        else:
            self._distribute_over_buckets(records, youngest, oldest)

    def _distribute_over_buckets(self, records: int, youngest: int, oldest: int) -> None:
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

    def take_snapshot(self, *, caught_up_at_s: float) -> LatencySnapshot:
        """Return a snapshot of the histogram, and reset `ahead_ms`, the maximum time by which a
        timestamp was in the future."""
        ahead_ms, self.ahead_ms = self.ahead_ms, 0
        self.caught_up_at_s = max(self.caught_up_at_s, caught_up_at_s)
        return LatencySnapshot(
            tuple(self.counts), self.sum_ms, ahead_ms, self.replicated_at_s, self.caught_up_at_s
        )
