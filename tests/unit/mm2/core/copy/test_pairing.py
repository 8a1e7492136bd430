from __future__ import annotations

import pytest

from mm2.core.copy import pairing
from mm2.formats import map_record, record_batch
from tests.fakes import scripts

OURS, OLDER, STRANGER = (7, 3), (6, 9), (99, 0)


def tail(*held, start=10, marker=20, **more):
    """Batches as the target holds them, read in order."""
    found = pairing.Tail(ours=frozenset({7, 6}), start=start, marker=marker, **more)
    for each in held:
        view = memoryview(each)
        found.add(record_batch.read_header(view), view)
    return found


def offsets(found):
    return [each.offset for each in found.committed]


def ours(base, *values, **more):
    return scripts.data(base, *values or (b"v",), producer=OURS, **more)


def fingerprint(batch):
    view = memoryview(batch)
    return pairing.fingerprint(record_batch.read_header(view), view)


def crc(batch):
    return record_batch.read_header(memoryview(batch)).crc


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


# The tail


def test_the_tail_is_read_up_to_our_own_marker():
    found = tail(ours(10), ours(11))
    assert (found.at, found.complete) == (12, False)
    found = tail(ours(10), ours(11), scripts.marker(20, OURS))
    assert (offsets(found), found.complete) == ([10, 11], True)


def test_batches_before_the_start_or_behind_our_marker_do_not_count():
    found = tail(ours(8, b"a", b"b"), ours(10), scripts.marker(20, OURS), ours(21))
    assert offsets(found) == [10]


def test_ids_of_earlier_producers_are_ours_too():
    assert offsets(tail(scripts.data(10, b"a", producer=OLDER), ours(11))) == [10, 11]


def test_a_batch_of_somebody_else_is_told_and_does_not_count():
    found = tail(ours(10), scripts.data(11, b"x", producer=STRANGER), scripts.data(12, b"y"))
    assert found.foreign == pairing.Foreign(offset=11, producer_id=99)
    assert offsets(found) == [10]


def test_somebody_elses_markers_are_nobodys_writes():
    found = tail(scripts.marker(10, STRANGER), scripts.marker(20, OURS))
    assert (found.foreign, offsets(found)) == (None, [])


def test_a_committed_transaction_counts_and_an_aborted_one_does_not():
    found = tail(
        ours(10, transactional=True),
        scripts.marker(11, OURS),
        ours(12, transactional=True),
        scripts.marker(13, OURS, commit=False),
        scripts.marker(20, OURS),
    )
    assert (offsets(found), found.hanging) == ([10], None)


def test_a_transaction_whose_marker_was_lost_is_ended_by_our_own():
    found = tail(ours(10, transactional=True), scripts.marker(20, OURS))
    assert (offsets(found), found.hanging) == ([10], None)


def test_a_marker_ends_only_its_own_producers_transaction():
    older = scripts.data(10, b"a", producer=OLDER, transactional=True)
    found = tail(older, ours(11, transactional=True), scripts.marker(20, OURS))
    assert offsets(found) == [11]
    assert found.hanging is not None
    assert found.hanging.offset == 10


def test_interleaved_transactions_count_in_the_order_of_their_offsets():
    older = scripts.data(11, b"b", producer=OLDER, transactional=True)
    found = tail(
        ours(10, transactional=True), older, scripts.marker(12, OLDER), scripts.marker(13, OURS)
    )
    assert offsets(found) == [10, 11]


# The batch before the tail


def test_the_batch_before_the_tail_must_be_the_one_recorded():
    last = ours(8, b"a", b"b")
    found = tail(last, ours(10), last_crc=crc(last))
    assert (found.lost, offsets(found)) == ("", [10])
    assert "is not the one recorded" in tail(last, ours(10), last_crc=crc(last) + 1).lost


def test_a_batch_across_the_start_is_not_the_one_recorded():
    across = ours(8, b"a", b"b", b"c")
    assert "offset 10" in tail(across, last_crc=crc(across)).lost


def test_what_is_lost_is_read_no_further():
    found = tail(ours(8, b"a", b"b"), last_crc=1)
    assert found.complete


def test_a_reading_with_a_crc_begins_one_offset_earlier():
    assert (tail(last_crc=1).at, tail().at) == (9, 10)


def test_retention_may_take_the_recorded_batch_but_nothing_behind_it():
    found = tail(last_crc=1)
    found.deleted_before(10)
    assert (found.at, found.lost) == (10, "")
    found.deleted_before(11)
    assert found.lost == "the target no longer has offset 10"


# Pairing


def walk(*held, on_target, position=100, aborted=()):
    """Source batches held against a tail, in one fetch."""
    pairs = pairing.Pairing(tail=tail(*on_target).committed, position=position)
    pairs.feed(scripts.records(*held, aborted=aborted))
    return pairs


def test_equal_batches_pair_one_to_one_and_say_where_they_stand():
    pairs = walk(
        scripts.data(100, b"a", b"b", leader_epoch=4),
        scripts.data(102, b"c", leader_epoch=5),
        on_target=[ours(10, b"a", b"b"), ours(12, b"c")],
    )
    assert (pairs.complete, pairs.mismatch, pairs.position, pairs.source_epoch) == (
        True,
        "",
        103,
        5,
    )
    assert pairs.runs == [map_record.Run(100, -90), map_record.Run(102, -90)]


def test_pairing_stops_when_the_tail_is_used_up():
    pairs = walk(scripts.data(100, b"a"), scripts.data(101, b"b"), on_target=[ours(10, b"a")])
    assert (pairs.complete, pairs.position) == (True, 101)


def test_an_empty_tail_pairs_with_nothing_and_does_not_move():
    pairs = walk(scripts.data(100, b"a"), on_target=[])
    assert (pairs.complete, pairs.position, pairs.runs) == (True, 100, [])


def test_what_is_not_copied_is_passed_over():
    pairs = walk(
        scripts.data(100, b"dead", producer=(1, 0), transactional=True),
        scripts.marker(101, (1, 0), commit=False),
        scripts.data(102, b"a"),
        on_target=[ours(10, b"a")],
        aborted=((1, 100),),
    )
    assert (pairs.complete, pairs.runs) == (True, [map_record.Run(102, -92)])


def test_pairing_goes_on_with_the_next_fetch():
    pairs = walk(scripts.data(100, b"a"), on_target=[ours(10, b"a"), ours(15, b"b")])
    assert (pairs.complete, pairs.paired, pairs.position) == (False, 1, 101)
    pairs.feed(scripts.records(scripts.data(103, b"b")))
    assert (pairs.complete, pairs.position) == (True, 104)


@pytest.mark.parametrize(
    "on_target",
    [[ours(10, b"b")], [ours(10, b"b"), ours(11, b"a")], [ours(10, b"a", b"b")]],
    ids=["one is missing", "another order", "cut otherwise"],
)
def test_anything_but_the_same_batches_in_the_same_order_does_not_pair(on_target):
    pairs = walk(scripts.data(100, b"a"), scripts.data(101, b"b"), on_target=on_target)
    assert "target offset 10 does not hold what source offset 100 holds" in pairs.mismatch
    assert (pairs.complete, pairs.position, pairs.runs) == (False, 100, [])


def test_an_obstacle_before_the_tail_is_paired_is_a_mismatch():
    pairs = walk(scripts.data(100, b"a", last_delta=3), on_target=[ours(10, b"a")])
    assert "source offset 100: compaction left" in pairs.mismatch


def test_an_obstacle_behind_the_last_pair_is_none_of_pairings_business():
    pairs = walk(
        scripts.data(100, b"a"), scripts.data(101, b"b", last_delta=3), on_target=[ours(10, b"a")]
    )
    assert (pairs.complete, pairs.mismatch, pairs.position) == (True, "", 101)
