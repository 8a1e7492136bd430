from __future__ import annotations

from mm2.offsets import partition_log_alignment
from mm2.offsets.partition_log_alignment import (
    AlignedRange,
    LogDigests,
    LogMatches,
    MatchedIndexPair,
)


def test_what_is_missing_without_a_marker_is_a_hole():
    found = LogDigests(start=5)
    found.add_item_digest(5, 77, producer_id=3)
    found.skip_to_offset(7)  # a marker
    found.add_item_digest(7, 78, span=3, optional=True)
    found.add_item_digest(12, 79)
    found.check_invariants()
    assert (len(found), found.end, list(found.offsets)) == (3, 13, [5, 7, 12])
    assert (found.get_end_offset(1), list(found.producer_ids)) == (10, [3, -1, -1])
    assert [found.is_counterpart_required(at) for at in range(3)] == [True, False, True]
    assert [found.has_compaction_gap(at, at) for at in range(3)] == [False, False, True]
    assert found.has_compaction_gap(0, 2)
    assert not found.has_compaction_gap(0, 1)


def test_a_hole_is_before_the_next_item_whatever_else_lies_between():
    found = LogDigests(start=0)
    found.skip_to_offset(2, hole=True)
    found.skip_to_offset(3)
    found.skip_to_offset(1)
    found.add_item_digest(3, 77)
    assert (found.has_compaction_gap(0, 0), found.end) == (True, 4)


def items(*offsets, start=0, end=None):
    made = LogDigests(start=start)
    for offset in offsets:
        made.skip_to_offset(offset)
        made.add_item_digest(offset, offset, producer_id=offset % 2)
    made.skip_to_offset(made.end if end is None else end)
    return made


def found(*sure, pairs=None, unsure=()):
    chain = [MatchedIndexPair(*each) for each in sure]
    return LogMatches(
        pairs=chain if pairs is None else [MatchedIndexPair(*each) for each in pairs],
        certain=chain,
        bounded=frozenset(unsure),
    )


def test_runs_begin_where_the_distance_changes():
    source, target = items(0, 1, 3, 4, end=6), items(2, 3, 4, 6, end=7)
    made = partition_log_alignment.build_alignment(
        source, target, found((0, 0), (1, 1), (2, 2), (3, 3))
    )
    runs = ((0, 2), (3, 1), (4, 2))
    assert made.ranges == (AlignedRange(0, 6, 7, runs),)
    assert (made.first_source, made.first_target, made.matched_offsets, made.unmatched_tail) == (
        0,
        0,
        4,
        0,
    )
    assert made.producer_ids == (0, 1)


def test_what_is_unsure_is_a_stretch_of_its_own_with_its_bound():
    source, target = items(0, 1, 5, 6), items(0, 1, 2, 3, 4)
    made = partition_log_alignment.build_alignment(
        source, target, found((0, 0), (1, 1), (2, 3), (3, 4), unsure={1})
    )
    assert made.ranges == (
        AlignedRange(0, 1, 1, ((0, 0),)),
        AlignedRange(1, 5, 3, ((1, 0),), below=2, above=1),
        AlignedRange(5, 7, 5, ((5, -2),)),
    )
    assert made.bounded_offsets == 3


def test_it_begins_behind_what_has_no_copy_and_ends_before_it():
    source, target = items(0, 1, 2, 3, end=9), items(7, 8, start=5)
    made = partition_log_alignment.build_alignment(source, target, found((1, 0), (2, 1)))
    assert (made.first_source, made.first_target) == (1, 5)
    assert (made.ranges[-1].through, made.ranges[-1].target_next) == (3, 9)


def test_with_something_unknown_behind_it_it_ends_with_the_last_that_is_sure():
    source, target = items(0, 1, 2), items(0, 1, 9)
    made = partition_log_alignment.build_alignment(source, target, found((0, 0), (1, 1)))
    assert (made.ranges[-1].through, made.ranges[-1].target_next) == (2, 2)
    assert made.unmatched_tail == 1
