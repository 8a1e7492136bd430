from __future__ import annotations

import pytest

from mm2.core.offsets import log_ends


def test_how_many_offsets_are_left_from_a_place():
    ends = log_ends.Ends(start=3, end=10)
    assert [ends.left(at) for at in (None, 0, 3, 7, 10, 12)] == [7, 7, 7, 3, 0, 0]


def test_records_that_nobody_may_see_yet_stand_behind_the_last_stable_offset():
    assert log_ends.Ends(start=3, end=10, pending=4).high_watermark == 14


def test_a_log_does_not_end_before_it_begins():
    with pytest.raises(AssertionError):
        log_ends.Ends(start=4, end=3)
