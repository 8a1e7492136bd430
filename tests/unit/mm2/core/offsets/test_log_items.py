from __future__ import annotations

from mm2.core.offsets import log_items


def test_what_is_missing_without_a_marker_is_a_hole():
    found = log_items.Items(start=5)
    found.add(5, 77, writer=3)
    found.skip_to(7)  # a marker
    found.add(7, 78, span=3, optional=True)
    found.add(12, 79)
    found.check_invariants()
    assert (len(found), found.end, list(found.offsets)) == (3, 13, [5, 7, 12])
    assert (found.behind(1), list(found.writers)) == (10, [3, -1, -1])
    assert [found.is_needed(at) for at in range(3)] == [True, False, True]
    assert [found.has_hole(at, at) for at in range(3)] == [False, False, True]
    assert found.has_hole(0, 2)
    assert not found.has_hole(0, 1)


def test_a_hole_is_before_the_next_item_whatever_else_lies_between():
    found = log_items.Items(start=0)
    found.skip_to(2, hole=True)
    found.skip_to(3)
    found.skip_to(1)
    found.add(3, 77)
    assert (found.has_hole(0, 0), found.end) == (True, 4)
