from __future__ import annotations

import pytest

from mm2.offsets.log_start_and_end_offsets import LogBounds


def test_how_many_offsets_are_left_from_a_place():
    ends = LogBounds(start=3, end=10)
    assert [ends.count_offsets_from(at) for at in (None, 0, 3, 7, 10, 12)] == [7, 7, 7, 3, 0, 0]


def test_records_that_nobody_may_see_yet_stand_behind_the_last_stable_offset():
    assert LogBounds(start=3, end=10, pending=4).high_watermark == 14


def test_a_log_does_not_end_before_it_begins():
    with pytest.raises(AssertionError):
        LogBounds(start=4, end=3)
