from __future__ import annotations

import pytest

from mm2.formats import record_batch
from mm2.formats.offset_map_records import OffsetRun
from mm2.replication import target_log_tail_matching
from mm2.replication.target_log_tail import TargetTail
from mm2.replication.target_log_tail_matching import (
    RequiredMatchingInput,
    SegmentSplitPoint,
    TailMatcher,
)
from tests.fakes import copying, scripts
from tests.fakes.transforms import Filter

OURS = (7, 3)
END = 1000
NOTHING, SOURCE, TARGET = (
    RequiredMatchingInput.NOTHING,
    RequiredMatchingInput.SOURCE,
    RequiredMatchingInput.TARGET,
)


def ours(base, *values, **more):
    return scripts.data(base, *values or (b"v",), producer=OURS, **more)


def source(base, *values, **more):
    return scripts.data(base, *values, **more)


def header(batch):
    return record_batch.read_batch_header(memoryview(batch))


def begun(*on_target, position=100, transform=None):
    found = TargetTail(own_producers=frozenset({7}), start=10, marker=1000)
    for each in on_target:
        found.add_batch(header(each), memoryview(each))
    return TailMatcher(
        tail=found.committed_batches, position=position, start=10, transform=transform
    )


def walk(*fetches, on_target, position=100, aborted=(), transform=None):
    """Source batches held against a tail, fetch by fetch, opening the tail's where need be."""
    pairs = begun(*on_target, position=position, transform=transform)
    held = {header(each).base_offset: each for each in on_target}
    needs = []
    for fetch in fetches:
        need = pairs.add_source_records(scripts.records(*fetch, aborted=aborted, end=END))
        while need is TARGET:
            needs.append(need)
            batch = held[pairs.next_offset]
            need = pairs.add_target_batch(header(batch), memoryview(batch))
        needs.append(need)
    return pairs, needs


def paired(*fetches, on_target, **more):
    pairs, _ = walk(*fetches, on_target=on_target, **more)
    assert (pairs.mismatch, pairs.is_complete) == ("", True)
    return pairs


# Whole batches


def test_equal_batches_pair_one_to_one_and_say_where_they_stand():
    held = [source(100, b"a", b"b", leader_epoch=4), source(102, b"c", leader_epoch=5)]
    pairs, needs = walk(held, on_target=[ours(10, b"a", b"b"), ours(12, b"c")])
    assert (pairs.is_complete, pairs.mismatch, pairs.position) == (True, "", 103)
    assert (pairs.source_epoch, pairs.matched_to, pairs.matched_records) == (5, 13, 3)
    assert pairs.runs == [OffsetRun(100, -90)]
    assert needs == [NOTHING]


def test_each_change_of_the_distance_begins_a_run():
    held = [source(100, b"a"), source(103, b"b"), source(104, b"c"), source(105, b"d")]
    on_target = [ours(10, b"a"), ours(11, b"b"), ours(14, b"c"), ours(15, b"d")]
    assert paired(held, on_target=on_target).runs == [(100, -90), (103, -92), (104, -90)]


def test_a_map_that_grows_long_may_be_cut_between_batches(monkeypatch):
    monkeypatch.setattr(target_log_tail_matching, "JUNCTION_RUNS", 2)
    held = [source(100 + 2 * at, b"%d" % at, leader_epoch=at) for at in range(5)]
    on_target = [ours(10, b"0"), ours(11, b"1", b"2", b"3"), ours(14, b"4")]
    pairs = paired(held, on_target=on_target)
    assert len(pairs.runs) == 5
    assert pairs.junctions == [SegmentSplitPoint(runs=4, source=107, target=14, source_epoch=3)]
    assert pairs.matched_records == 5
    pairs.discard_matches()
    assert (pairs.junctions, pairs.matched_records) == ([], 0)


def test_pairing_stops_when_the_tail_is_used_up():
    pairs = paired([source(100, b"a"), source(101, b"b")], on_target=[ours(10, b"a")])
    assert (pairs.position, pairs.matched_to) == (101, 11)


def test_an_empty_tail_pairs_with_nothing_and_does_not_move():
    pairs, needs = walk([source(100, b"a")], on_target=[])
    assert (pairs.is_complete, pairs.position, pairs.runs) == (True, 100, [])
    assert (pairs.matched_to, needs) == (10, [NOTHING])


def test_what_is_not_copied_is_passed_over():
    held = [
        source(100, b"dead", producer=(1, 0), transactional=True),
        scripts.marker(101, (1, 0), commit=False),
        source(102, b"a"),
    ]
    pairs = paired(held, on_target=[ours(10, b"a")], aborted=((1, 100),))
    assert pairs.runs == [OffsetRun(102, -92)]


def test_pairing_goes_on_with_the_next_fetch():
    pairs = begun(ours(10, b"a"), ours(15, b"b"))
    assert (
        pairs.add_source_records(scripts.records(source(100, b"a"), scripts.marker(101, (1, 0))))
        is SOURCE
    )
    assert (pairs.is_complete, pairs.matched_batches, pairs.position, pairs.next_offset) == (
        False,
        1,
        102,
        15,
    )
    assert pairs.add_source_records(scripts.records(source(103, b"b"), end=104)) is NOTHING
    assert (pairs.is_complete, pairs.position) == (True, 104)


def test_a_fetch_that_brings_nothing_asks_for_another():
    pairs = begun(ours(10, b"a"))
    assert pairs.add_source_records(scripts.records()) is SOURCE
    assert pairs.position == 100


def test_the_leader_epoch_is_that_of_what_was_passed_over_too():
    """The source would say that its log diverged: an older epoch ended before the position."""
    pairs = begun(ours(10, b"a"), ours(11, b"b"))
    passed_over = scripts.marker(101, (1, 0), leader_epoch=5)
    assert (
        pairs.add_source_records(scripts.records(source(100, b"a", leader_epoch=4), passed_over))
        is SOURCE
    )
    assert (pairs.position, pairs.source_epoch) == (102, 5)
    assert pairs.add_source_records(scripts.records(source(102, b"x", leader_epoch=6))) is TARGET
    other = ours(11, b"b")
    assert pairs.add_target_batch(header(other), memoryview(other)) is NOTHING
    assert pairs.mismatch
    assert (pairs.position, pairs.source_epoch) == (102, 5)


# Record by record


def test_batches_that_were_joined_pair_record_by_record():
    held = [source(100, b"a"), source(101, b"b", b"c"), source(103, b"d")]
    pairs, needs = walk(held, on_target=[ours(10, b"a", b"b", b"c", b"d")])
    assert (pairs.is_complete, pairs.position, pairs.matched_to) == (True, 104, 14)
    assert pairs.runs == [(100, -90)]
    assert needs == [TARGET, NOTHING]


def test_a_batch_that_was_divided_pairs_with_all_its_pieces():
    held = [source(100, b"a", b"b", b"c", b"d", b"e")]
    on_target = [ours(10, b"a", b"b"), ours(13, b"c", b"d"), ours(15, b"e")]
    pairs, needs = walk(held, on_target=on_target)
    assert (pairs.is_complete, pairs.position, pairs.runs) == (True, 105, [(100, -90), (102, -89)])
    assert needs == [TARGET, TARGET, TARGET, NOTHING]


def test_a_batch_with_gaps_pairs_with_the_dense_one_made_of_it():
    held = [source(100, b"a", b"b", b"c", deltas=(1, 4, 5), last_delta=8)]
    pairs = paired(held, on_target=[ours(10, b"a", b"b", b"c")])
    assert pairs.runs == [(101, -91), (104, -93)]
    assert pairs.position == 109


@pytest.mark.parametrize("codecs", [(0, 1), (1, 0), (4, 4), (3, 2)])
def test_what_was_compressed_otherwise_pairs_by_what_it_holds(codecs):
    theirs, mine = codecs
    held = [source(100, b"a" * 60, b"b", codec=theirs)]
    assert paired(held, on_target=[ours(10, b"a" * 60, b"b", codec=mine)]).position == 102


def test_a_source_with_log_append_time_pairs_by_the_times_that_readers_see():
    held = [source(100, b"a", b"b", attributes=8)]
    assert paired(held, on_target=[ours(10, b"a", b"b")]).runs == [(100, -90)]


def test_a_start_inside_a_batch_pairs_with_what_is_left_of_it():
    pairs = paired([source(98, b"x", b"y", b"a")], on_target=[ours(10, b"a")])
    assert (pairs.position, pairs.runs) == (101, [(100, -90)])


def test_a_tail_that_ends_inside_a_source_batch_goes_on_with_the_rest_of_it():
    held = [source(100, b"a", b"b", b"c", deltas=(0, 3, 6), leader_epoch=4)]
    pairs = paired(held, on_target=[ours(10, b"a", b"b")])
    assert (pairs.position, pairs.source_epoch, pairs.matched_to) == (106, 4, 12)


def test_the_records_of_a_fetch_may_run_out_inside_a_joined_batch():
    pairs = begun(ours(10, b"a", b"b", b"c"))
    assert pairs.add_source_records(scripts.records(source(100, b"a"))) is TARGET
    joined = ours(10, b"a", b"b", b"c")
    assert pairs.add_target_batch(header(joined), memoryview(joined)) is SOURCE
    assert (pairs.position, pairs.matched_batches, pairs.matched_to) == (101, 0, 11)
    assert pairs.mismatch_offset == 11
    assert pairs.add_source_records(scripts.records(source(101, b"b", b"c"))) is NOTHING
    assert (pairs.is_complete, pairs.position) == (True, 103)


def test_whole_and_opened_batches_follow_each_other_in_any_way():
    held = [
        source(100, b"a", b"b"),
        source(102, b"c", deltas=(0,), last_delta=2),
        source(105, b"d"),
        source(106, b"e", b"f"),
        source(108, b"g", b"h"),
    ]
    on_target = [
        ours(10, b"a", b"b"),
        ours(12, b"c", b"d", b"e"),
        ours(15, b"f"),
        ours(17, b"g", b"h", transactional=True),
        scripts.marker(19, OURS),
    ]
    pairs, needs = walk(held[:2], held[2:], on_target=on_target)
    assert (pairs.is_complete, pairs.position) == (True, 110)
    assert needs == [TARGET, SOURCE, TARGET, NOTHING]
    assert pairs.runs == [(100, -90), (105, -92), (108, -91)]


# Transforms


def test_what_a_transform_left_out_or_changed_pairs_with_what_it_makes_again():
    held = [source(100, b"a", b"x"), source(102, b"x"), source(103, b"b")]
    on_target = [ours(10, b"new a"), ours(11, b"new b")]
    transform = Filter(b"x", change=b"new ")
    pairs = paired(held, on_target=on_target, transform=transform)
    assert (pairs.position, pairs.runs) == (104, [(100, -90), (103, -92)])


def test_under_a_transform_no_batch_pairs_unopened():
    pairs, needs = walk([source(100, b"a")], on_target=[ours(10, b"a")], transform=Filter())
    assert (pairs.is_complete, needs) == (True, [TARGET, NOTHING])


def test_a_source_of_which_nothing_is_left_is_read_on():
    pairs, needs = walk(
        [source(100, b"x"), source(101, b"x")],
        [source(102, b"a")],
        on_target=[ours(10, b"a")],
        transform=Filter(b"x"),
    )
    assert (pairs.is_complete, pairs.position, needs) == (True, 103, [SOURCE, TARGET, NOTHING])


# What does not pair


@pytest.mark.parametrize(
    ("held", "on_target", "position", "paired_to"),
    [
        ([source(100, b"a")], [ours(10, b"b")], 100, 10),
        ([source(100, b"a"), source(101, b"b")], [ours(10, b"b"), ours(11, b"a")], 100, 10),
        ([source(100, b"a"), source(101, b"b")], [ours(10, b"a"), ours(11, b"x")], 101, 11),
        ([source(100, b"a", b"b")], [ours(10, b"a", b"x")], 101, 11),
        ([source(100, b"a", timestamp=5)], [ours(10, b"a")], 100, 10),
        ([source(100, b"a", b"b", b"c")], [ours(10, b"a", b"b"), ours(12, b"x")], 102, 12),
        ([source(100, b"b"), source(101, b"c")], [ours(10, b"a", b"b", b"c")], 100, 10),
    ],
    ids=[
        "another value",
        "another order",
        "another second batch",
        "another second record",
        "another time",
        "another third record",
        "compacted away",
    ],
)
def test_anything_but_the_same_records_in_the_same_order_does_not_pair(
    held, on_target, position, paired_to
):
    pairs, needs = walk(held, on_target=on_target)
    assert f"target offset {paired_to} does not match the record at source offset {position}" in (
        pairs.mismatch
    )
    assert (pairs.is_complete, pairs.position, pairs.matched_to) == (False, position, paired_to)
    assert needs[-1] is NOTHING


def test_a_start_inside_a_batch_does_not_pair_with_all_of_it():
    whole = (b"x", b"a")
    pairs, _ = walk([source(99, *whole)], on_target=[ours(10, *whole)])
    assert "target offset 10 does not match the record at source offset 100" in pairs.mismatch
    assert (pairs.position, pairs.runs) == (100, [])


def test_a_mismatch_behind_skipped_offsets_may_begin_anew_behind_them():
    """Nothing copyable stands there."""
    fetches = [[source(100, b"a"), scripts.marker(101, (1, 0))], [source(102, b"b")]]
    pairs, _ = walk(*fetches, on_target=[ours(10, b"a"), ours(11, b"x")])
    assert "source offset 102" in pairs.mismatch
    assert (pairs.position, pairs.matched_to) == (102, 11)


def test_damage_before_the_tail_is_paired_says_nothing_of_the_tail():
    pairs = begun(ours(10, b"a"), ours(11, b"b"))
    assert (
        pairs.add_source_records(scripts.records(source(100, b"a"), copying.damaged(101))) is SOURCE
    )
    assert (pairs.mismatch, pairs.position, pairs.matched_to) == ("", 101, 11)
    assert pairs.obstacle is not None
    assert pairs.obstacle.offset == 101
    assert pairs.add_source_records(scripts.records(source(101, b"b"))) is NOTHING
    assert (pairs.obstacle, pairs.is_complete, pairs.position) == (None, True, 102)


def test_a_source_batch_that_cannot_be_opened_is_a_mismatch():
    pairs, _ = walk(
        [source(100, b"a"), copying.unreadable(101)], on_target=[ours(10, b"a"), ours(11)]
    )
    assert "source offset 101: the gzip data is damaged" in pairs.mismatch
    assert (pairs.is_complete, pairs.position) == (False, 101)


def test_a_target_batch_that_cannot_be_opened_is_a_mismatch():
    broken = bytearray(copying.unreadable(11, last_delta=1))
    pairs = begun(ours(10, b"a"))
    assert pairs.add_source_records(scripts.records(source(100, b"b"))) is TARGET
    assert pairs.add_target_batch(header(broken), memoryview(broken)) is NOTHING
    assert "target offset 11: the gzip data is damaged" in pairs.mismatch


def test_damage_behind_the_last_pair_is_none_of_pairings_business():
    for behind in (copying.damaged(101), copying.unreadable(101)):
        pairs = paired([source(100, b"a"), behind], on_target=[ours(10, b"a")])
        assert pairs.position == 101


def test_a_batch_that_nobody_can_open_pairs_unopened_with_its_like():
    """It was passed through."""
    pairs = paired([source(100, b"a", attributes=6)], on_target=[ours(10, b"a", attributes=6)])
    assert pairs.position == 101


# What may be gone


@pytest.mark.parametrize(
    ("end", "could"), [(100, False), (104, False), (105, True), (106, True), (200, True)]
)
def test_a_source_had_room_for_the_tail_where_it_has_an_offset_for_each_record(end, could):
    pairs = begun(ours(10, b"a", b"b"), ours(12, b"c", b"d", b"e"))
    assert pairs.can_source_contain_unmatched_records(end) is could


@pytest.mark.parametrize(("end", "could"), [(102, False), (103, False), (104, True)])
def test_what_is_paired_needs_no_room(end, could):
    joined = ours(10, b"a", b"b", b"c")
    pairs = begun(joined, ours(13, b"d"))
    pairs.add_source_records(scripts.records(source(100, b"a")))
    pairs.add_target_batch(header(joined), memoryview(joined))
    assert (pairs.matched_batches, pairs.matched_to) == (0, 11)
    assert pairs.can_source_contain_unmatched_records(end) is could


def test_offsets_that_were_read_and_not_paired_still_count():
    """Those that compaction emptied once held the tail's records."""
    pairs = begun(ours(10, b"a", b"b"))
    pairs.add_source_records(scripts.records(source(100, last_delta=9)))
    assert pairs.position == 110
    assert pairs.can_source_contain_unmatched_records(110)
