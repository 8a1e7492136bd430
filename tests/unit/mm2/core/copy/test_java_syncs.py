from __future__ import annotations

import pytest

from mm2.core.copy import java_syncs


def known(*syncs):
    found = java_syncs.JavaSyncs()
    for sync in syncs:
        found.apply(*sync)
    return found


def test_of_a_partition_that_java_never_told_of_none_is_known():
    assert not known()
    assert known().below(100) is None


@pytest.mark.parametrize(
    ("next_offset", "sync"), [(0, None), (1, (0, 5)), (10, (0, 5)), (11, (10, 15)), (99, (20, 25))]
)
def test_the_newest_below_what_was_stored_is_chosen(next_offset, sync):
    assert known((0, 5), (10, 15), (20, 25)).below(next_offset) == sync


def test_it_lies_before_the_place_from_where_java_stepped_back():
    # Copied up to 30, then killed with nothing stored, and begun again at the start.
    found = known((0, 0), (30, 30), (0, 31), (10, 41), (20, 51))
    assert found.below(21) == (0, 0)


def test_what_had_room_between_two_of_them_may_have_been_copied():
    # 50 records behind the first one, and none of them told of.
    assert known((0, 0), (0, 51), (20, 71)).below(21) == (0, 0)
    assert known((0, 0), (20, 20), (40, 40)).below(41) == (40, 40)


def test_once_java_is_farther_than_it_ever_was_nothing_older_is_needed():
    found = known((0, 0), (30, 30), (0, 31), (30, 61), (70, 101))
    assert found.below(71) == (70, 101)


def test_nothing_lower_stands_behind_it():
    assert known((0, 0), (20, 20), (10, 30)).below(25) == (0, 0)


def test_gaps_of_the_source_leave_no_doubt():
    assert known((0, 0), (50, 20), (90, 30)).below(91) == (90, 30)


def test_where_exactness_reaches_too_far_back_the_newest_does():
    far = java_syncs.LONGEST
    found = known((0, 0), (far, far), (0, far + 1), (20, far + 21))
    assert found.below(30) == (20, far + 21)
    nearer = known((0, 0), (far, far), (0, far - 21), (20, far - 1))
    assert nearer.below(30) == (0, 0)


def test_a_target_that_was_cut_or_made_again_begins_anew():
    found = known((0, 0), (100, 100), (200, 200))
    found.apply(110, 90)
    assert found.below(111) == (110, 90)
    assert found.below(110) == (0, 0)
    found.apply(120, 0)
    assert found.below(300) == (120, 0)


def test_only_so_many_are_kept():
    found = known(*((each, each) for each in range(java_syncs.KEPT + 10)))
    assert found.below(9) is None
    assert found.below(12) == (11, 11)
