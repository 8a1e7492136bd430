"""Tells the records of a flow from foreign records in a range of a log.

Writers are told apart by producer id. Only committed records count: the records of a transaction
wait for its marker. A scan is limited by time, by bytes, and by the record ranges kept in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from connect_runtime.base.timing import Clock, Deadline
from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader

MAX_MERGED_RECORDS = 1_000
"""So many records at most are one stretch together: their times are those of the whole."""


class RecordRange(NamedTuple):
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
class Provenance:
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
    others: list[RecordRange] = field(default_factory=list)
    _open: dict[int, list[RecordRange]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mine_end = self.start

    def take(self, header: BatchHeader, control: int | None) -> None:
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
        found = RecordRange(first, last, records, header.oldest_timestamp, header.max_timestamp)
        if header.is_transactional:
            _append_range(self._open.setdefault(header.producer_id, []), found)
        else:
            self._count(header.producer_id, [found])

    def _count(self, producer: int, found: list[RecordRange]) -> None:
        if producer in self.ours:
            self.mine += sum(each.records for each in found)
            self.mine_end = max([self.mine_end, *(each.last + 1 for each in found)])
        else:
            for each in found:
                _append_range(self.others, each)

    @property
    def held(self) -> int:
        """How many stretches stand in memory."""
        return len(self.others) + sum(len(each) for each in self._open.values())


def _append_range(found: list[RecordRange], more: RecordRange) -> None:
    """With the last one, where they are neighbours."""
    last = found[-1] if found else None
    if (
        last is not None
        and more.first == last.last + 1
        and last.is_dense
        and more.is_dense
        and last.records + more.records <= MAX_MERGED_RECORDS
    ):
        found[-1] = RecordRange(
            last.first,
            more.last,
            last.records + more.records,
            min(last.first_ms, more.first_ms),
            max(last.last_ms, more.last_ms),
        )
    else:
        found.append(more)


def skip_records(others: Collection[RecordRange], passed: int) -> list[RecordRange]:
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


def count_records_within(found: Collection[RecordRange], start: int, end: int) -> int:
    """How many of the records stand from `start` on and before `end`; of a stretch that is cut,
    offsets count as records."""
    count = 0
    for each in found:
        first, last = max(start, each.first), min(end - 1, each.last)
        if first <= last:
            count += min(each.records, last - first + 1)
    return count


SCAN_TIMEOUT_S = 30.0
MAX_SCAN_BYTES = 256 << 20


MAX_HELD_RANGES = 400_000
"""So many may be held by all scans together: 100 MB."""


class ScanBudget:
    """For the stretches that scans hold; several threads share it."""

    def __init__(self, most: int = MAX_HELD_RANGES) -> None:
        self._left = most
        self._lock = threading.Lock()

    def takes(self, more: int) -> bool:
        """Is there room for so many more? It is taken then; fewer than none are given back."""
        with self._lock:
            if more > self._left:
                return False
            self._left -= more
            return True


class ReadableLog(Protocol):
    """A partition's log: a `fenced_partition.FencedPartition`."""

    def start(self) -> int: ...

    def batches(self, offset: int) -> list[tuple[BatchHeader, memoryview]]: ...


def scan_log(
    place: ReadableLog,
    found: Provenance,
    *,
    clock: Clock,
    end: Deadline,
    room: ScanBudget | None = None,
) -> bool:
    """Is it read to its end? Batches are taken from `found.start` on, or from where the log begins
    by now, for `SCAN_TIMEOUT_S` at most and up to `end`, as long as there is `room` for what is
    kept of them; what is read to its end keeps it. Raises `ConnectError` where the cluster does not
    answer."""
    room, held = room or ScanBudget(), 0
    end_s = clock.now_s() + min(SCAN_TIMEOUT_S, end.left_s(clock.now_s()))
    at, read = found.start, 0
    if at < found.end:
        at = max(at, place.start())
    while at < found.end:
        if clock.now_s() >= end_s or read >= MAX_SCAN_BYTES:
            room.takes(-held)
            return False
        for header, batch in place.batches(at):
            control = record_batch.read_control_type(batch) if header.is_control else None
            found.take(header, control)
            at = max(at, header.last_offset + 1)
            read += header.size
        if not room.takes(found.held - held):
            room.takes(-held)
            return False
        held = found.held
    return True
