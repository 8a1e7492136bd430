"""Reading a stretch of a log, as far as time and bytes reach."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from connect_runtime.base.clock_and_deadline import Deadline
from mm2.failover import foreign_record_scan
from mm2.failover.foreign_record_scan import ForeignRecordScan, ScanBudget
from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

OURS, OTHERS = 70, 90


@dataclass
class Clock:
    """A look takes a second."""

    s: float = 0.0

    def now_s(self) -> float:
        return self.s

    def wall_ms(self) -> int:
        return 0


@dataclass
class Log:
    """Batches of two records from `first` on; an answer holds one."""

    clock: Clock
    producers: list[int]
    first: int = 0
    asked: list[int] = field(default_factory=list)

    def find_start_offset(self) -> int:
        return self.first

    def read_batches(self, offset: int) -> list[tuple[BatchHeader, memoryview]]:
        self.asked.append(offset)
        self.clock.s += 1.0
        number = offset // 2
        if number >= len(self.producers):
            return []
        records = [Record(value=b"x", timestamp=1) for _ in range(2)]
        stamp = Stamp(base_offset=2 * number, producer_id=self.producers[number])
        data = memoryview(batches.data(records, stamp))
        return [(record_batch.read_batch_header(data), data)]


def scan(
    log: Log, start: int, end: int, *, within_s: float = 100.0
) -> tuple[bool, ForeignRecordScan]:
    found = ForeignRecordScan(flow_producers={OURS}, start=start, end=end)
    limit = Deadline.after(within_s, now_s=log.clock.now_s())
    return foreign_record_scan.scan_log(log, found, clock=log.clock, end=limit), found


def test_all_of_a_stretch_is_read():
    log = Log(Clock(), [OURS, OTHERS, OURS, OURS])
    whole, found = scan(log, 2, 6)
    assert (whole, found.flow_records, sum(each.records for each in found.foreign)) == (True, 2, 2)
    assert log.asked == [2, 4]


def test_what_is_deleted_is_not_asked_for():
    log = Log(Clock(), [OURS] * 4, first=4)
    assert scan(log, 0, 6)[0]
    assert log.asked == [4]


def test_of_nothing_nothing_is_read():
    log = Log(Clock(), [])
    assert scan(log, 6, 6)[0]
    assert log.asked == []


@pytest.mark.parametrize(
    ("within_s", "asked"), [(3.0, 3), (1_000.0, int(foreign_record_scan.SCAN_TIMEOUT_S))]
)
def test_it_ends_in_time_also_where_nothing_comes(within_s, asked):
    log = Log(Clock(), [])
    whole, _ = scan(log, 0, 6, within_s=within_s)
    assert (whole, len(log.asked)) == (False, asked)


def test_no_more_than_so_many_bytes_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(foreign_record_scan, "MAX_SCAN_BYTES", 100)
    whole, found = scan(Log(Clock(), [OURS] * 50), 0, 100)
    assert not whole
    assert 0 < found.flow_records < 100


def test_all_scans_share_the_room_for_what_they_keep():
    """A stretch for each second batch, and none of the own ones between."""
    room, end = ScanBudget(5), Deadline.after(1_000.0, now_s=0.0)

    def scan_for(batches_: int) -> tuple[bool, int]:
        log = Log(Clock(), [OTHERS, OURS] * batches_)
        found = ForeignRecordScan(flow_producers={OURS}, start=0, end=4 * batches_)
        return foreign_record_scan.scan_log(
            log, found, clock=log.clock, end=end, budget=room
        ), found.range_count

    assert scan_for(3) == (True, 3)
    assert scan_for(3) == (False, 3)  # and what it had is free again
    assert scan_for(2) == (True, 2)
    assert not room.reserve_memory_for_ranges(1)


def test_a_scan_that_ends_too_early_keeps_no_room():
    room, log = ScanBudget(5), Log(Clock(), [OTHERS, OURS] * 10)
    found = ForeignRecordScan(flow_producers={OURS}, start=0, end=40)
    end = Deadline.after(4.0, now_s=0.0)
    assert not foreign_record_scan.scan_log(log, found, clock=log.clock, end=end, budget=room)
    assert room.reserve_memory_for_ranges(5)
