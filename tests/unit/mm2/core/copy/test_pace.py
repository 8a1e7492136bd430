from __future__ import annotations

from mm2.core.copy import pace


def answered(seen, elapsed_s, *, times, under_way=1):
    for _ in range(times):
        seen.note(elapsed_s, under_way=under_way)
    return seen.lanes


def test_a_broker_begins_with_one_lane_and_one_slow_answer_changes_nothing():
    seen = pace.Pace()
    assert seen.lanes == 1
    assert answered(seen, 0.1, times=1) == 1


def test_slow_answers_open_all_lanes_and_fast_ones_close_them():
    seen = pace.Pace()
    assert answered(seen, 0.02, times=50) == pace.LANES_MAX
    assert answered(seen, 0.001, times=50) == 1


def test_between_slow_and_fast_it_stays_as_it_is():
    seen = pace.Pace()
    assert answered(seen, 0.006, times=200) == 1
    answered(seen, 0.02, times=50)
    assert answered(seen, 0.006, times=200) == pace.LANES_MAX


def test_requests_that_wait_behind_each_other_share_the_time():
    assert answered(pace.Pace(), 0.02, times=200, under_way=5) == 1
