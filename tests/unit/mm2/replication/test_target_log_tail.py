from __future__ import annotations

import pytest

from mm2.formats import record_batch
from mm2.replication import target_log_tail
from mm2.replication.target_log_tail import ForeignBatch, TargetTail
from tests.fakes import scripts

OURS, OLDER, STRANGER = (7, 3), (6, 9), (99, 0)


def read(*held, start=10, marker=20, **more):
    """Batches as the target holds them, read in order."""
    found = TargetTail(own_producers=frozenset({7, 6}), start=start, marker=marker, **more)
    for each in held:
        view = memoryview(each)
        found.add_batch(record_batch.read_batch_header(view), view)
    return found


def offsets(found):
    return [each.offset for each in found.committed_batches]


def ours(base, *values, **more):
    return scripts.data(base, *values or (b"v",), producer=OURS, **more)


def fingerprint(batch):
    view = memoryview(batch)
    return target_log_tail.fingerprint_batch(record_batch.read_batch_header(view), view)


def crc(batch):
    return record_batch.read_batch_header(memoryview(batch)).crc


# Fingerprints


def test_what_a_copy_changes_does_not_change_the_fingerprint():
    source = scripts.data(5, b"a", b"b", leader_epoch=3, producer=STRANGER)
    assert fingerprint(source) == fingerprint(ours(70, b"a", b"b", transactional=True))


@pytest.mark.parametrize(
    "other",
    [
        scripts.data(5, b"a", b"c"),
        scripts.data(5, b"a"),
        scripts.data(5, b"a", b"b", timestamp=scripts.NOW_MS + 1),
        scripts.data(5, b"a", b"b", attributes=1),
        scripts.data(5, b"a", b"b", attributes=0x08),
        scripts.data(5, b"a", b"b", last_delta=2),
    ],
)
def test_other_records_timestamps_codec_or_gaps_do(other):
    assert fingerprint(scripts.data(5, b"a", b"b")) != fingerprint(other)


@pytest.mark.parametrize("header_only", [0x10, 0x40, 0x50])
def test_whose_transaction_it_is_and_when_a_delete_falls_due_is_no_difference(header_only):
    assert fingerprint(scripts.data(5, b"a")) == fingerprint(
        scripts.data(5, b"a", attributes=header_only)
    )


# The tail


def test_the_tail_is_read_up_to_our_own_marker():
    found = read(ours(10), ours(11))
    assert (found.next_offset, found.is_complete) == (12, False)
    found = read(ours(10), ours(11), scripts.marker(20, OURS))
    assert (offsets(found), found.is_complete) == ([10, 11], True)


def test_batches_before_the_start_or_behind_our_marker_do_not_count():
    found = read(ours(8, b"a", b"b"), ours(10), scripts.marker(20, OURS), ours(21))
    assert offsets(found) == [10]


def test_ids_of_earlier_producers_are_ours_too():
    assert offsets(read(scripts.data(10, b"a", producer=OLDER), ours(11))) == [10, 11]


def test_a_batch_of_somebody_else_is_told_and_does_not_count():
    found = read(ours(10), scripts.data(11, b"x", producer=STRANGER), scripts.data(12, b"y"))
    assert found.foreign == ForeignBatch(offset=11, producer_id=99)
    assert offsets(found) == [10]


def test_somebody_elses_markers_are_nobodys_writes():
    found = read(scripts.marker(10, STRANGER), scripts.marker(20, OURS))
    assert (found.foreign, offsets(found)) == (None, [])


def test_a_committed_transaction_counts_and_an_aborted_one_does_not():
    found = read(
        ours(10, transactional=True),
        scripts.marker(11, OURS),
        ours(12, transactional=True),
        scripts.marker(13, OURS, commit=False),
        scripts.marker(20, OURS),
    )
    assert (offsets(found), found.hanging_transaction) == ([10], None)


def test_a_transaction_whose_marker_was_lost_is_ended_by_our_own():
    found = read(ours(10, transactional=True), scripts.marker(20, OURS))
    assert (offsets(found), found.hanging_transaction) == ([10], None)


def test_a_marker_ends_only_its_own_producers_transaction():
    older = scripts.data(10, b"a", producer=OLDER, transactional=True)
    found = read(older, ours(11, transactional=True), scripts.marker(20, OURS))
    assert offsets(found) == [11]
    assert found.hanging_transaction is not None
    assert found.hanging_transaction.start == 10


def test_interleaved_transactions_count_in_the_order_of_their_offsets():
    older = scripts.data(11, b"b", producer=OLDER, transactional=True)
    found = read(
        ours(10, transactional=True), older, scripts.marker(12, OLDER), scripts.marker(13, OURS)
    )
    assert offsets(found) == [10, 11]


# The batch before the tail


def test_the_batch_before_the_tail_must_be_the_one_recorded():
    last = ours(8, b"a", b"b")
    found = read(last, ours(10), last_crc=crc(last))
    assert (found.lost, offsets(found)) == ("", [10])
    assert (
        "is not the one recorded in the offset map"
        in read(last, ours(10), last_crc=crc(last) + 1).lost
    )


def test_a_batch_across_the_start_is_not_the_one_recorded():
    across = ours(8, b"a", b"b", b"c")
    assert "offset 10" in read(across, last_crc=crc(across)).lost


def test_what_is_lost_is_read_no_further():
    found = read(ours(8, b"a", b"b"), last_crc=1)
    assert found.is_complete


def test_a_reading_with_a_crc_begins_one_offset_earlier():
    assert (read(last_crc=1).next_offset, read().next_offset) == (9, 10)


def test_retention_may_take_the_recorded_batch_but_nothing_behind_it():
    found = read(last_crc=1)
    found.handle_deleted_batches(10)
    assert (found.next_offset, found.lost) == (10, "")
    found.handle_deleted_batches(11)
    assert found.lost == "the target's log no longer has offset 10"


def test_of_each_batch_is_kept_where_it_begins_and_how_many_records_it_holds():
    gapped = ours(12, b"b", b"c", deltas=(1, 5))
    found = read(ours(10, b"a", b"b"), gapped, scripts.data(18, producer=OURS, last_delta=1))
    assert [(each.offset, each.count) for each in found.committed_batches] == [(10, 2), (12, 2)]
    assert found.next_offset == 20


# Everybody's


def everybodys(*held, start=10):
    found = TargetTail(own_producers=None, start=start, marker=20)
    for each in held:
        view = memoryview(each)
        found.add_batch(record_batch.read_batch_header(view), view)
    return found


def test_everybodys_batches_count_as_ours_where_nobody_is_asked_for():
    held = [
        scripts.data(10, b"a"),
        ours(11),
        scripts.data(12, b"c", producer=STRANGER, transactional=True),
        scripts.data(13, b"d", producer=(98, 0), transactional=True),
        scripts.marker(14, STRANGER),
        scripts.marker(15, (98, 0), commit=False),
    ]
    found = everybodys(*held)
    assert (offsets(found), found.foreign, found.hanging_transaction) == ([10, 11, 12], None, None)


def test_everybodys_batch_in_which_the_tail_begins_is_the_first():
    found = everybodys(scripts.data(8, b"a", b"b", b"c"), scripts.data(11, b"d"))
    assert (offsets(found), found.lost) == ([8, 11], "")
