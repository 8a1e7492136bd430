from __future__ import annotations

import struct

import pytest

from mm2.core.copy import source_batches
from tests.fakes import scripts

A, B, C = (1, 0), (2, 0), (3, 0)


def scan(*held, position=0, aborted=(), target_codec=None):
    joined = memoryview(b"".join(held))
    return source_batches.scan(
        joined, position=position, aborted=aborted, target_codec=target_codec
    )


def bases(found):
    return [each.header.base_offset for each in found.batches]


def of(base, producer, count=1):
    """A transactional batch."""
    return scripts.data(base, *[b"v"] * count, producer=producer, transactional=True)


def abort(base, producer):
    return scripts.marker(base, producer, commit=False)


def commit(base, producer):
    return scripts.marker(base, producer)


def test_nothing_read_moves_nothing():
    found = scan(position=5)
    assert (found.position, found.leader_epoch, found.batches, found.obstacle) == (5, -1, [], None)


def test_plain_batches_are_copied_whole_and_the_position_is_behind_them():
    first, second = scripts.data(3, b"a", b"b"), scripts.data(5, b"c", leader_epoch=4)
    found = scan(first, second, position=3)
    assert [bytes(each.batch) for each in found.batches] == [first, second]
    assert (found.position, found.leader_epoch) == (6, 4)


def test_batches_before_the_position_are_not_copied_again():
    found = scan(scripts.data(3, b"a", b"b"), scripts.data(5, b"c"), position=5)
    assert bases(found) == [5]


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch():
    found = scan(scripts.data(0, b"a"), scripts.data(1, b"b")[:-1])
    assert (bases(found), found.position, found.obstacle) == ([0], 1, None)


def test_gaps_between_batches_are_no_obstacle():
    found = scan(scripts.data(0, b"a"), scripts.data(9, b"b"))
    assert (bases(found), found.position) == ([0, 9], 10)


# Transactions


def test_markers_are_skipped_and_committed_data_is_copied():
    found = scan(of(0, A), commit(1, A), scripts.data(2, b"x"))
    assert (bases(found), found.position) == ([0, 2], 3)


def test_an_aborted_transaction_ends_at_its_abort_marker():
    found = scan(of(0, A), abort(1, A), of(2, A), commit(3, A), aborted=[(1, 0)])
    assert bases(found) == [2]
    assert found.position == 4


def test_a_producers_batches_before_its_aborted_transaction_are_copied():
    found = scan(of(0, A), commit(1, A), of(2, A), abort(3, A), aborted=[(1, 2)])
    assert bases(found) == [0]


def test_only_the_producer_that_aborted_loses_its_batches():
    found = scan(
        of(0, A), of(1, B), of(2, A), abort(3, A), of(4, B), commit(5, B), aborted=[(1, 0)]
    )
    assert bases(found) == [1, 4]


def test_the_list_of_aborted_transactions_need_not_be_sorted():
    log = [
        of(0, A),
        of(1, B),
        abort(2, A),
        of(3, C),
        abort(4, B),
        of(5, A),
        commit(6, C),
        abort(7, A),
        of(8, B),
        commit(9, B),
    ]
    aborted = [(1, 0), (2, 1), (1, 5)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]):
        assert bases(scan(*log, aborted=[aborted[at] for at in order])) == [3, 8]


def test_one_producer_may_abort_twice_in_a_row():
    found = scan(
        of(0, A), abort(1, A), of(2, A), abort(3, A), of(4, A), commit(5, A),
        aborted=[(1, 0), (1, 2)],
    )  # fmt: skip
    assert bases(found) == [4]


def test_a_fetch_from_inside_an_aborted_transaction_skips_what_is_left_of_it():
    found = scan(of(5, A), abort(6, A), of(7, A), commit(8, A), position=5, aborted=[(1, 0)])
    assert bases(found) == [7]


def test_an_aborted_transaction_whose_marker_lies_behind_the_fetch_is_still_skipped():
    found = scan(of(0, A), of(1, A), aborted=((1, 0),))
    assert (bases(found), found.position) == ([], 2)


def test_a_commit_marker_does_not_end_an_aborted_transaction():
    found = scan(of(0, A), commit(1, A), of(2, A), abort(3, A), aborted=[(1, 0)])
    assert bases(found) == []


def test_data_outside_transactions_is_copied_even_of_a_producer_that_aborted():
    found = scan(of(0, A), scripts.data(1, b"x", producer=A), abort(2, A), aborted=[(1, 0)])
    assert bases(found) == [1]


def test_aborted_batches_need_not_be_copyable():
    gap = scripts.data(0, b"v", producer=A, transactional=True, last_delta=4)
    found = scan(gap, abort(5, A), aborted=[(1, 0)])
    assert (bases(found), found.obstacle) == ([], None)


# What holds nothing


def test_an_empty_batch_that_compaction_kept_is_skipped():
    found = scan(scripts.data(0, last_delta=7), scripts.data(8, b"a"))
    assert (bases(found), found.position, found.obstacle) == ([8], 9, None)


# Obstacles


def stopped(found, *, at, saying, corrupt=False, copied=()):
    assert found.obstacle is not None
    assert (found.obstacle.offset, found.position) == (at, at)
    assert saying in found.obstacle.why
    assert found.obstacle.corrupt is corrupt
    assert bases(found) == list(copied)


BEHIND = scripts.data(100, b"behind")


@pytest.mark.parametrize(
    ("batch", "saying"),
    [
        (scripts.data(2, b"a", attributes=0x08), "append time"),
        (scripts.data(2, b"a", b"b", last_delta=4), "compaction left 2 of 5 records"),
    ],
)
def test_a_batch_that_must_be_opened_stops_the_scan_behind_what_precedes_it(batch, saying):
    found = scan(scripts.data(0, b"x", b"y"), batch, BEHIND)
    stopped(found, at=2, saying=saying, copied=[0])


@pytest.mark.parametrize("magic", [0, 1])
def test_older_record_formats_stop_the_scan(magic):
    old = bytearray(scripts.data(1, b"a"))
    old[16] = magic
    stopped(scan(scripts.data(0, b"x"), old, BEHIND), at=1, saying=f"v{magic}", copied=[0])


def test_one_changed_byte_is_found():
    whole = scripts.data(1, b"abc")
    for at in (21, 40, 60, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        found = scan(scripts.data(0, b"x"), damaged, BEHIND)
        stopped(found, at=1, saying="checksum", corrupt=True, copied=[0])


def test_an_impossible_length_is_damage_where_the_copy_stands():
    damaged = bytearray(scripts.data(1, b"a"))
    struct.pack_into(">i", damaged, 8, 4)
    found = scan(scripts.data(0, b"x"), damaged)
    stopped(found, at=1, saying="claims a length of 4 bytes", corrupt=True, copied=[0])


def test_a_damaged_batch_is_not_even_skipped():
    damaged = bytearray(of(0, A))
    damaged[-1] ^= 1
    stopped(scan(damaged, aborted=[(1, 0)]), at=0, saying="checksum", corrupt=True)


def test_a_start_inside_a_batch_must_be_opened():
    found = scan(scripts.data(0, b"a", b"b", b"c"), position=1)
    stopped(found, at=1, saying="inside the batch of 0..2")


def test_a_start_inside_a_batch_without_records_of_interest_is_none():
    found = scan(scripts.data(0, last_delta=4), of(5, A), abort(6, A), position=2, aborted=[(1, 5)])
    assert (found.position, found.obstacle) == (7, None)


def test_a_codec_other_than_the_forced_one_must_be_opened():
    plain, zstd = scripts.data(0, b"a"), scripts.data(1, b"b", attributes=4)
    assert bases(scan(plain, zstd)) == [0, 1]
    stopped(
        scan(plain, zstd, target_codec=0), at=1, saying="zstd and the mirror topic forces none",
        copied=[0],
    )  # fmt: skip
    assert bases(scan(zstd, target_codec=4, position=1)) == [1]
    unknown = scripts.data(0, b"a", attributes=7)
    stopped(scan(unknown, target_codec=1), at=0, saying="an unknown codec")
