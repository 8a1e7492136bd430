"""How old records were when something happened to them, of many at once: batches stay unopened.

Of a batch only the newest and about the oldest timestamp are known; what is between is taken to be
spread evenly. Where a clock runs ahead of ours no record is younger than 0 ms.
"""

from __future__ import annotations

from typing import NamedTuple

from mm2.formats import record_batch


class Ages(NamedTuple):
    """Of so many records: their ages (ms) all together, the youngest and the oldest one's."""

    records: int = 0
    sum_ms: int = 0
    min_ms: int = 0
    max_ms: int = 0

    def __bool__(self) -> bool:
        """Are there any?"""
        return self.records > 0

    def plus(self, more: Ages) -> Ages:
        if not self or not more:
            return more or self
        return Ages(
            self.records + more.records,
            self.sum_ms + more.sum_ms,
            min(self.min_ms, more.min_ms),
            max(self.max_ms, more.max_ms),
        )


NONE = Ages()
SKEW_MAX_MS = 60_000
"""A stamp so little in the future may be of another machine's clock."""


def age_ms(stamp_ms: int, now_ms: int) -> int | None:
    """Of a wall-clock stamp; None where it lies in the future by more than `SKEW_MAX_MS`: a clock
    was set, and how old it really is is not known."""
    return None if stamp_ms - now_ms > SKEW_MAX_MS else max(0, now_ms - stamp_ms)


def of_batch(records: int, *, oldest_ms: int, newest_ms: int, wall_ms: int) -> Ages:
    """As of `wall_ms`. None where they have no timestamps, as records of format 0."""
    if records <= 0 or newest_ms < 0:
        return NONE
    youngest = max(0, wall_ms - newest_ms)
    oldest = max(youngest, wall_ms - oldest_ms) if oldest_ms >= 0 else youngest
    return Ages(records, records * (youngest + oldest) // 2, youngest, oldest)


def of_source(header: record_batch.BatchHeader, *, wall_ms: int) -> Ages:
    """Of a batch as the source has it: where its broker stamped it, all records are that old."""
    stamped = header.attributes & record_batch.LOG_APPEND_TIME
    newest_ms = header.max_timestamp
    return of_batch(
        header.record_count,
        oldest_ms=newest_ms if stamped else header.oldest_timestamp,
        newest_ms=newest_ms,
        wall_ms=wall_ms,
    )
