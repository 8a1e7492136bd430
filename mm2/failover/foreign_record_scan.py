"""Separates the records that a flow wrote from the records of other producers (foreign records) in
an offset range of a log.

Writers are distinguished by producer id. Only committed records are counted: the records of a
transaction are buffered until its marker is read. A scan is limited by time, by bytes, and by the
number of ranges kept in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader

MAX_MERGED_RECORDS = 1_000
"""Maximum number of records in a merged range. A merged range has only one pair of timestamps for
all its records, so a longer range would be less precise."""


class RecordRange(NamedTuple):
    """Records from offset `first` to `last`, both inclusive: one batch, or adjacent batches without
    gaps. Timestamps are UTC milliseconds."""

    first: int
    last: int
    records: int
    first_ms: int
    last_ms: int

    @property
    def is_contiguous(self) -> bool:
        """Return True if every offset of the range has a record."""
        return self.records == self.last - self.first + 1


@dataclass(slots=True, kw_only=True)
class ForeignRecordScan:
    """Counts the records that a flow wrote in a log range, and collects the records of other
    producers (foreign records)."""

    flow_producers: Collection[int]
    """Producer ids of the flow."""
    start: int
    """First offset of the range."""
    end: int
    """End of the range, exclusive."""
    collects_foreign: bool = True
    """True to collect the records of other producers; False to only count the flow's records."""
    flow_records: int = 0
    """Number of records that the flow wrote."""
    flow_end: int = field(init=False)
    """Offset after the flow's last record; `start` if there is none."""
    foreign: list[RecordRange] = field(default_factory=list)
    """Committed records of other producers, in commit order."""
    _open: dict[int, list[RecordRange]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flow_end = self.start

    def add_log_batch(self, header: BatchHeader, control: int | None) -> None:
        """Process the next batch of the log. `control` is the control record type, or None for a
        data batch."""
        if control is not None:
            if header.base_offset < self.end:
                waiting = self._open.pop(header.producer_id, [])
                if control == record_batch.COMMIT_MARKER:
                    self._count_committed_records(header.producer_id, waiting)
            return
        first, last = max(self.start, header.base_offset), min(self.end - 1, header.last_offset)
        if first > last or not (self.collects_foreign or header.producer_id in self.flow_producers):
            return
        records = min(header.record_count, last - first + 1)
        found = RecordRange(first, last, records, header.oldest_timestamp, header.max_timestamp)
        if header.is_transactional:
            _append_record_range(self._open.setdefault(header.producer_id, []), found)
        else:
            self._count_committed_records(header.producer_id, [found])

    def _count_committed_records(self, producer: int, found: list[RecordRange]) -> None:
        if producer in self.flow_producers:
            self.flow_records += sum(each.records for each in found)
            self.flow_end = max([self.flow_end, *(each.last + 1 for each in found)])
        else:
            for each in found:
                _append_record_range(self.foreign, each)

    @property
    def range_count(self) -> int:
        """Number of record ranges that this scan keeps in memory."""
        return len(self.foreign) + sum(len(each) for each in self._open.values())


def _append_record_range(found: list[RecordRange], more: RecordRange) -> None:
    """Append a record range, or merge it with the last range if the two are adjacent."""
    last = found[-1] if found else None
    if (
        last is not None
        and more.first == last.last + 1
        and last.is_contiguous
        and more.is_contiguous
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


def skip_foreign_records(others: Collection[RecordRange], skipped: int) -> list[RecordRange]:
    """Return the ranges of foreign records (which the flow did not write) in log order, without the
    first `skipped` records. Within a range, each offset counts as one record."""
    found = []
    for each in sorted(others):
        if skipped >= each.records:
            skipped -= each.records
            continue
        if skipped:
            first = each.first + skipped
            each = each._replace(first=first, records=each.records - skipped)
            skipped = 0
        found.append(each)
    return found


def count_records_within(found: Collection[RecordRange], start: int, end: int) -> int:
    """Count the records in the ranges `found` with offsets from `start` (inclusive) to `end`
    (exclusive). Within a range, each offset counts as one record."""
    count = 0
    for each in found:
        first, last = max(start, each.first), min(end - 1, each.last)
        if first <= last:
            count += min(each.records, last - first + 1)
    return count


SCAN_TIMEOUT_S = 30.0
MAX_SCAN_BYTES = 256 << 20


MAX_HELD_RANGES = 400_000
"""Maximum number of ranges that all scans together may keep in memory: about 100 MB."""


class ScanBudget:
    """Limits the number of record ranges that scans keep in memory. Thread-safe."""

    def __init__(self, most: int = MAX_HELD_RANGES) -> None:
        self._left = most
        self._lock = threading.Lock()

    def reserve_memory_for_ranges(self, more: int) -> bool:
        """Reserve memory for `more` ranges; return False if the budget would be exceeded. A
        negative number releases ranges."""
        with self._lock:
            if more > self._left:
                return False
            self._left -= more
            return True


class ReadableLog(Protocol):
    """Reads the log of one partition; implemented by `PartitionFencer`."""

    def find_start_offset(self) -> int: ...

    def read_batches(self, offset: int) -> list[tuple[BatchHeader, memoryview]]: ...


def scan_log(
    log: ReadableLog,
    scan: ForeignRecordScan,
    *,
    clock: Clock,
    end: Deadline,
    budget: ScanBudget | None = None,
) -> bool:
    """Read the offset range of `scan` from the log and add its batches to `scan`; return True if
    the end of the range was reached.

    The scan begins at `scan.start`, or at the log start if that is later. It stops early at the
    deadline `end`, after `SCAN_TIMEOUT_S` or `MAX_SCAN_BYTES`, or when `budget` is exhausted. A
    scan that stops early releases the ranges that it reserved in `budget`. Raises `ConnectError` if
    the cluster does not respond.
    """
    budget, held = budget or ScanBudget(), 0
    end_s = clock.now_s() + min(SCAN_TIMEOUT_S, end.remaining_s(clock.now_s()))
    at, read = scan.start, 0
    if at < scan.end:
        at = max(at, log.find_start_offset())
    while at < scan.end:
        if clock.now_s() >= end_s or read >= MAX_SCAN_BYTES:
            budget.reserve_memory_for_ranges(-held)
            return False
        for header, batch in log.read_batches(at):
            control = record_batch.read_control_type(batch) if header.is_control else None
            scan.add_log_batch(header, control)
            at = max(at, header.last_offset + 1)
            read += header.size
        if not budget.reserve_memory_for_ranges(scan.range_count - held):
            budget.reserve_memory_for_ranges(-held)
            return False
        held = scan.range_count
    return True
