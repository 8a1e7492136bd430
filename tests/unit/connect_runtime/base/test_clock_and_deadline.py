from __future__ import annotations

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.system.system_clock import SystemClock


def test_it_counts_down_to_zero_and_stays_there():
    end = Deadline.after(2.5, now_s=10.0)
    assert (end.remaining_s(10.0), end.remaining_s(12.0), end.remaining_s(99.0)) == (2.5, 0.5, 0.0)
    assert (end.is_expired(12.49), end.is_expired(12.5)) == (False, True)


def test_the_earlier_deadline_sorts_first():
    assert min(Deadline(3.0), Deadline(2.0)) == Deadline(2.0)


def test_the_real_clock_satisfies_the_protocol():
    real: Clock = SystemClock()
    assert real.now_s() <= real.now_s()
