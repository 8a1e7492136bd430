"""Whose the records of a stretch of a log are."""

from __future__ import annotations

import pytest

from mm2.failover import foreign_record_scan
from mm2.failover.foreign_record_scan import ForeignRecordScan, RecordRange
from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader

OURS, OTHER = 7, 8
COMMIT, ABORT = record_batch.COMMIT_MARKER, record_batch.ABORT_MARKER


def batch(base, count=1, *, producer=OTHER, transactional=False, last=None):
    last = base + count - 1 if last is None else last
    return BatchHeader(
        base_offset=base,
        length=0,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=record_batch.TRANSACTIONAL if transactional else 0,
        last_offset_delta=last - base,
        base_timestamp=100 + base,
        max_timestamp=200 + base,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        record_count=count,
    )


def found(*batches, start=0, end=100):
    result = ForeignRecordScan(flow_producers=[OURS], start=start, end=end)
    for each in batches:
        header, control = each if isinstance(each, tuple) and len(each) == 2 else (each, None)
        result.add_log_batch(header, control)
    return result


def test_own_records_are_counted_and_others_named():
    result = found(batch(0, 3, producer=OURS), batch(3, 2), batch(6, producer=-1))
    assert (result.flow_records, result.flow_end) == (3, 3)
    assert [each[:3] for each in result.foreign] == [(3, 4, 2), (6, 6, 1)]
    assert result.foreign[0][3:] == (103, 203)


def test_a_transaction_counts_once_it_is_committed():
    open_one = batch(0, 2, transactional=True)
    assert found(open_one).foreign == []
    assert found(open_one, (batch(2), ABORT)).foreign == []
    assert [each[:3] for each in found(open_one, (batch(2), COMMIT)).foreign] == [(0, 1, 2)]


def test_a_marker_of_another_producer_decides_nothing():
    open_one = batch(0, 2, transactional=True)
    assert found(open_one, (batch(2, producer=OURS), COMMIT)).foreign == []


def test_a_marker_at_the_end_or_behind_does_not_count():
    open_one = batch(0, 2, transactional=True)
    assert found(open_one, (batch(2), COMMIT), end=2).foreign == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 100, (10, 14, 5)), (12, 100, (12, 14, 3)), (0, 12, (10, 11, 2)), (12, 13, (12, 12, 1))],
)
def test_what_is_outside_does_not_count(start, end, expected):
    (stretch,) = found(batch(10, 5), start=start, end=end).foreign
    assert stretch[:3] == expected


@pytest.mark.parametrize(("start", "end"), [(15, 100), (0, 10)])
def test_what_is_wholly_outside_is_passed_over(start, end):
    assert found(batch(10, 5), start=start, end=end).foreign == []


def test_compacted_batches_hold_fewer_records_than_offsets():
    (stretch,) = found(batch(10, 2, last=19), start=12).foreign
    assert stretch[:3] == (12, 19, 2)


STRETCHES = [RecordRange(10, 14, 5, 0, 0), RecordRange(3, 4, 2, 0, 0)]


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        (0, [(3, 4, 2), (10, 14, 5)]),
        (1, [(4, 4, 1), (10, 14, 5)]),
        (2, [(10, 14, 5)]),
        (4, [(12, 14, 3)]),
        (7, []),
        (9, []),
    ],
)
def test_the_first_records_are_passed(passed, expected):
    assert [
        each[:3] for each in foreign_record_scan.skip_foreign_records(STRETCHES, passed)
    ] == expected


@pytest.mark.parametrize(
    ("start", "end", "count"), [(0, 100, 7), (4, 12, 3), (5, 10, 0), (14, 15, 1), (3, 3, 0)]
)
def test_records_within(start, end, count):
    assert foreign_record_scan.count_records_within(STRETCHES, start, end) == count


def test_the_flows_records_end_behind_the_last_of_them():
    assert found(start=7).flow_end == 7
    assert found(batch(8, 2, producer=OURS), batch(10, 4), start=7).flow_end == 10


def test_neighbours_are_one_stretch():
    (stretch,) = found(batch(3, 2), batch(5, producer=-1), batch(6, 4)).foreign
    assert stretch == (3, 9, 7, 103, 206)
    (stretch,) = found(
        batch(3, 2, transactional=True), batch(5, 2, transactional=True), (batch(7), COMMIT)
    ).foreign
    assert stretch[:3] == (3, 6, 4)


@pytest.mark.parametrize(
    "second",
    [
        batch(6, 2),  # a gap
        batch(5, 2, last=9),  # compacted
        batch(5, foreign_record_scan.MAX_MERGED_RECORDS - 1),
    ],
)
def test_what_would_no_longer_be_counted_exactly_stays_apart(second):
    assert len(found(batch(3, 2), second, end=2_000).foreign) == 2


def test_so_many_tiny_batches_as_a_tail_may_have_are_few_stretches():
    result = found(*(batch(number) for number in range(5_000)), end=5_000)
    assert (
        result.range_count,
        foreign_record_scan.count_records_within(result.foreign, 0, 5_000),
    ) == (
        5,
        5_000,
    )
    assert foreign_record_scan.skip_foreign_records(result.foreign, 1_001)[0][:3] == (
        1_001,
        1_999,
        999,
    )


def test_others_need_not_be_kept():
    result = ForeignRecordScan(flow_producers=[OURS], start=0, end=100, collects_foreign=False)
    result.add_log_batch(batch(0, 2), None)
    result.add_log_batch(batch(2, 2, transactional=True), None)
    result.add_log_batch(batch(4, 3, producer=OURS), None)
    result.add_log_batch(batch(7, 2, producer=OURS, transactional=True), None)
    assert (result.flow_records, result.range_count) == (3, 1)
    result.add_log_batch(batch(9, producer=OURS), COMMIT)
    assert (result.flow_records, result.flow_end, result.range_count) == (5, 9, 0)
