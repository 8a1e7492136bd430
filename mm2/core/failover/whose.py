"""Whose the records of a stretch of a log are: a flow's own, or others' (a fold over its batches).

Only what was committed counts: a transaction's records wait for its marker.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.formats import record_batch

MERGED_RECORDS_MAX = 1_000
"""So many records at most are one stretch together: their times are those of the whole."""


class Stretch(NamedTuple):
    """Records from offset `first` to `last`, both included, of one batch, or of several without a
    gap in between; times are UTC milliseconds."""

    first: int
    last: int
    records: int
    first_ms: int
    last_ms: int

    @property
    def is_dense(self) -> bool:
        """Does every offset hold a record?"""
        return self.records == self.last - self.first + 1


@dataclass(slots=True, kw_only=True)
class Whose:
    """Of offsets from `start` up to, not including, `end`. `ours`: ids of the flow's producers.

    `mine` counts the flow's records, `mine_end` is the offset behind the last of them (`start`
    where there is none); `others` are everybody else's, in order of their decision, unless it
    `keeps_others` not.
    """

    ours: Collection[int]
    start: int
    end: int
    keeps_others: bool = True
    mine: int = 0
    mine_end: int = field(init=False)
    others: list[Stretch] = field(default_factory=list)
    _open: dict[int, list[Stretch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mine_end = self.start

    def take(self, header: record_batch.BatchHeader, control: int | None) -> None:
        """The batches of the log in order; `control` is the kind of a marker, None for records."""
        if control is not None:
            if header.base_offset < self.end:
                waiting = self._open.pop(header.producer_id, [])
                if control == record_batch.COMMIT_MARKER:
                    self._count(header.producer_id, waiting)
            return
        first, last = max(self.start, header.base_offset), min(self.end - 1, header.last_offset)
        if first > last or not (self.keeps_others or header.producer_id in self.ours):
            return
        records = min(header.record_count, last - first + 1)
        found = Stretch(first, last, records, header.oldest_timestamp, header.max_timestamp)
        if header.is_transactional:
            _append(self._open.setdefault(header.producer_id, []), found)
        else:
            self._count(header.producer_id, [found])

    def _count(self, producer: int, found: list[Stretch]) -> None:
        if producer in self.ours:
            self.mine += sum(each.records for each in found)
            self.mine_end = max([self.mine_end, *(each.last + 1 for each in found)])
        else:
            for each in found:
                _append(self.others, each)

    @property
    def held(self) -> int:
        """How many stretches stand in memory."""
        return len(self.others) + sum(len(each) for each in self._open.values())


def _append(found: list[Stretch], more: Stretch) -> None:
    """With the last one, where they are neighbours."""
    last = found[-1] if found else None
    if (
        last is not None
        and more.first == last.last + 1
        and last.is_dense
        and more.is_dense
        and last.records + more.records <= MERGED_RECORDS_MAX
    ):
        found[-1] = Stretch(
            last.first,
            more.last,
            last.records + more.records,
            min(last.first_ms, more.first_ms),
            max(last.last_ms, more.last_ms),
        )
    else:
        found.append(more)


def behind(others: Collection[Stretch], passed: int) -> list[Stretch]:
    """Others' stretches in the order of the log, without the first `passed` records; where a part
    of a stretch is passed, offsets count as records."""
    found = []
    for each in sorted(others):
        if passed >= each.records:
            passed -= each.records
            continue
        if passed:
            first = each.first + passed
            each = each._replace(first=first, records=each.records - passed)
            passed = 0
        found.append(each)
    return found


def within(found: Collection[Stretch], start: int, end: int) -> int:
    """How many of the records stand from `start` on and before `end`; of a stretch that is cut,
    offsets count as records."""
    count = 0
    for each in found:
        first, last = max(start, each.first), min(end - 1, each.last)
        if first <= last:
            count += min(each.records, last - first + 1)
    return count
