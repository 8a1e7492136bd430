"""What one process compares: both logs in full, up to where it was told, or an answer why not.

What was fetched of a log, as items: what counts, what is nobody's, and where something is
missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.copier import partition_log_comparison_process
from mm2.copier.partition_log_comparison_messages import (
    LogCompareRange,
    LogCompareRequest,
    LogCompareResult,
)
from mm2.copier.partition_log_comparison_process import (
    ComparedLog,
    LogCompareProcess,
    LogTooLargeError,
)
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.fakes.plugin_contexts import Clock
from tests.fakes.transforms import Filter

PLACE = TopicPartition("orders", 3)
WHERE = cast(Any, SimpleNamespace(remote_topic="east.orders", partition=3))

BUILT = SimpleNamespace(
    ListOffsetsTopic=SimpleNamespace,
    ListOffsetsPartition=SimpleNamespace,
    ListOffsetsRequest=SimpleNamespace,
)


class Questions:
    """A log from offset 0 on, of which all before `stable` can be read."""

    def __init__(self, *values: bytes, stable: int) -> None:
        records = [Record(value=each, timestamp=5) for each in values]
        self.held = batches.data(records, Stamp(base_offset=0))
        self.stable = stable

    def find_leader(self, topic, partition):
        return 1

    def send_request(self, to, message):
        request = message.build(11, BUILT)
        latest = request.topics[0].partitions[0].timestamp == -1
        offset = self.stable if latest else 0
        found = SimpleNamespace(error_code=0, offset=offset)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])

    def fetch(self, topic, offset, **more):
        return SimpleNamespace(records=self.held, aborted=())


def compared(
    source: Questions, target: Questions, *, target_to: int, memory_bytes: int = 10_000
) -> LogCompareResult:
    made = LogCompareProcess("unix:/nowhere", b"token")
    clock = Clock()
    made._clock = cast(Any, clock)

    def turn(wait_s: float) -> None:
        clock.now += wait_s

    cast(Any, made)._poll_channel = turn
    bounds = LogCompareRange(partition=PLACE, target_end=target_to)
    sides = cast(Any, (source, target))
    asked = LogCompareRequest(ranges=(bounds,), memory_bytes=memory_bytes)
    return made._compare_partition(bounds, WHERE, None, sides=sides, request=asked)


def test_both_are_read_up_to_where_it_was_told():
    source = Questions(b"a", b"b", b"c", stable=3)
    found = compared(source, Questions(b"a", b"b", b"c", stable=3), target_to=2)
    assert (found.failure, found.source_records, found.target_records) == ("", 3, 2)
    assert found.alignment is not None
    assert found.alignment.source_end == 2


def test_a_mirror_that_can_be_read_in_part_only_is_not_compared():
    source, target = Questions(b"a", b"b", stable=2), Questions(b"a", b"b", stable=1)
    found = compared(source, target, target_to=2)
    assert found.alignment is None
    assert "only up to offset 1, not 2" in found.failure


def test_what_would_take_more_memory_than_it_may_is_left():
    source, target = Questions(b"a", b"b", stable=2), Questions(b"a", b"b", stable=2)
    assert compared(source, target, target_to=2, memory_bytes=860).failure == ""
    found = compared(source, target, target_to=2, memory_bytes=859)
    assert found.alignment is None
    assert "more than 1 records" in found.failure


def data(offset, *values, producer=-1, transactional=False, last=None):
    attributes = batches.TRANSACTIONAL if transactional else 0
    stamp = Stamp(base_offset=offset, producer_id=producer, attributes=attributes)
    records = [Record(value=each, timestamp=5) for each in values]
    return batches.data(records, stamp, last_offset_delta=last)


def marker(offset, producer, *, commit):
    stamp = Stamp(base_offset=offset, producer_id=producer)
    return batches.marker(stamp, commit=commit, timestamp=6)


def log(*held, start=0, upto=100, aborted=(), records_max=100, **more):
    found = ComparedLog(start=start, end=upto, max_records=records_max, **more)
    found.add_batches(memoryview(b"".join(held)), aborted)
    return found


def offsets(found):
    return list(found.digests.offsets)


def holes(found):
    return [at for at in range(len(found.digests)) if found.digests.has_compaction_gap(at, at)]


def test_every_record_has_its_offset_digest_and_writer():
    one = log(data(0, b"a", b"b", producer=7), data(2, b"a"))
    digests = list(one.digests.digests)
    assert offsets(one) == [0, 1, 2]
    assert digests[0] == digests[2] != digests[1]
    assert list(one.digests.producer_ids) == [7, 7, -1]
    assert (one.next_offset, one.is_complete) == (3, False)
    other = log(data(40, b"a"), start=40)
    assert list(other.digests.digests) == digests[:1]


def test_batches_go_on_where_the_last_fetch_ended():
    found = log(data(0, b"a", b"b"))
    found.add_batches(memoryview(data(0, b"a", b"b") + data(2, b"c")), ())
    assert offsets(found) == [0, 1, 2]


def test_markers_are_no_holes_and_what_the_cleaner_took_is_one():
    found = log(
        data(0, b"a"), marker(1, 7, commit=True), data(2, b"b"), data(5, b"c", b"d", last=4)
    )
    assert (offsets(found), holes(found), found.next_offset) == ([0, 2, 5, 6], [2], 10)
    found.add_batches(memoryview(data(10, b"e")), ())
    assert holes(found) == [2, 4]


@pytest.mark.parametrize(("optional", "expected"), [(True, [0, 2]), (False, [2])])
def test_what_was_aborted_counts_where_it_may_have_been_copied(optional, expected):
    found = log(
        data(0, b"a", producer=7, transactional=True),
        marker(1, 7, commit=False),
        data(2, b"b"),
        aborted=((7, 0),),
        optional_aborted=optional,
    )
    assert (offsets(found), holes(found)) == (expected, [])
    assert [found.digests.is_counterpart_required(at) for at in range(len(expected))][-1]
    assert found.digests.is_counterpart_required(0) is not optional


def test_what_a_flow_back_wrote_is_nobodys():
    found = log(data(0, b"a", producer=9), data(1, b"b"), reverse_producers=frozenset({9}))
    assert (offsets(found), holes(found)) == ([1], [])


def test_it_ends_where_it_is_told_to():
    found = log(data(0, b"a", b"b", b"c"), data(3, b"d"), upto=2)
    assert (offsets(found), found.next_offset, found.is_complete) == ([0, 1], 2, True)
    assert log(data(0, b"a"), data(1, b"b"), upto=1).is_complete
    assert not log(data(0, b"a"), upto=9).is_complete


def test_what_a_transform_left_out_is_no_hole_and_what_it_changed_counts_as_changed():
    found = log(data(0, b"a", b"b", b"c"), transform=Filter(b"b", change=b"x"))
    there = log(data(0, b"xa", b"xc"))
    assert (offsets(found), holes(found)) == ([0, 2], [])
    assert list(found.digests.digests) == list(there.digests.digests)


def test_what_cannot_be_read_is_told():
    broken = bytearray(data(0, b"a"))
    broken[-1] ^= 1
    found = ComparedLog(start=0, end=9, max_records=100)
    with pytest.raises(partition_log_comparison_process.UNREADABLE_LOG_ERRORS):
        found.add_batches(memoryview(bytes(broken)), ())


def test_more_records_than_may_be_held_are_not_compared():
    assert len(log(data(0, b"a", b"b"), records_max=2).digests) == 2
    with pytest.raises(LogTooLargeError, match=r"more than 1 records.*--memory-gb"):
        log(data(0, b"a", b"b"), records_max=1)
