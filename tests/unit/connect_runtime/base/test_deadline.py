from __future__ import annotations

from connect_runtime.base import deadline


def test_it_counts_down_to_zero_and_stays_there():
    end = deadline.Deadline.after(2.5, now_s=10.0)
    assert (end.left_s(10.0), end.left_s(12.0), end.left_s(99.0)) == (2.5, 0.5, 0.0)
    assert (end.passed(12.49), end.passed(12.5)) == (False, True)


def test_the_earlier_deadline_sorts_first():
    assert min(deadline.Deadline(3.0), deadline.Deadline(2.0)) == deadline.Deadline(2.0)
