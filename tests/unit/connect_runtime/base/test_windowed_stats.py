"""Windows of time: what counts, for how long, and how a rate begins."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat

TWO_OF_30 = SampleWindows()


def observed(*pairs, sampling=TWO_OF_30):
    made = WindowedStat(sampling)
    for value, now_s in pairs:
        made.observe(value, now_s)
    return made


def test_before_anything_is_observed_there_is_no_average():
    figures = observed().compute_statistics(5.0)
    assert (figures.total, figures.rate, figures.count_rate) == (0, 0, 0)
    assert (figures.share_of_ones, figures.share_of_zeros) == (0, 0)
    assert math.isnan(figures.avg)
    assert math.isnan(figures.max)
    assert math.isnan(figures.min)


def test_the_smallest_is_of_the_last_windows_too():
    made = observed((2.0, 0.0), (10.0, 31.0), (4.0, 32.0))
    assert made.compute_statistics(40.0).min == 2.0
    assert made.compute_statistics(60.0).min == 4.0
    assert math.isnan(made.compute_statistics(92.0).min)


def test_many_at_once_are_as_many_one_by_one():
    together = WindowedStat(TWO_OF_30)
    together.observe_many(3, 12.0, minimum=1.0, maximum=8.0, now_s=5.0)
    assert together == observed((1.0, 5.0), (3.0, 5.0), (8.0, 5.0))


def test_average_and_maximum_are_of_the_last_windows():
    made = observed((10.0, 0.0), (2.0, 31.0), (4.0, 32.0))
    figures = made.compute_statistics(40.0)
    assert (figures.avg, figures.max, figures.total) == (16 / 3, 10.0, 16.0)
    later = made.compute_statistics(60.0)
    assert (later.avg, later.max) == (3.0, 4.0), "the first window ended 60 s ago"
    gone = made.compute_statistics(92.0)
    assert math.isnan(gone.avg)
    assert (gone.rate, gone.total) == (0.0, 16.0)


def test_a_window_that_overlaps_what_is_looked_at_counts():
    """Observed 29 s after its begin, it is looked at 59 s after that."""
    made = observed((1.0, 0.0), (5.0, 29.0), (2.0, 30.0), (2.0, 60.0))
    assert made.compute_statistics(88.0).max == 5.0
    assert made.compute_statistics(89.0).max == 2.0


@pytest.mark.parametrize(
    ("now_s", "expected"), [(0.0, 60 / 30), (10.0, 60 / 40), (30.0, 60 / 30), (45.0, 60 / 45)]
)
def test_a_rate_counts_all_windows_but_one_as_full(now_s, expected):
    assert observed((60.0, 0.0)).compute_statistics(now_s).rate == pytest.approx(expected)


def test_of_one_window_alone_a_rate_begins_at_a_millisecond():
    made = observed((1.0, 0.0), sampling=SampleWindows(window_s=30.0, windows=1))
    assert made.compute_statistics(0.0).rate == 1000.0


def test_counts_have_a_rate_of_their_own():
    figures = observed((7.0, 0.0), (7.0, 1.0)).compute_statistics(10.0)
    assert (figures.count_rate, figures.rate) == (2 / 40, 14 / 40)


def test_outcomes_have_a_share():
    figures = observed((1.0, 0.0), (0.0, 1.0), (1.0, 2.0), (1.0, 3.0)).compute_statistics(4.0)
    assert (figures.share_of_ones, figures.share_of_zeros) == (0.75, 0.25)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 40)), min_size=1, max_size=60),
    st.integers(1, 4),
)
def test_against_all_that_was_observed(steps, windows):
    """Bounded, and never about anything but what was observed within the span and one window."""
    sampling = SampleWindows(window_s=30.0, windows=windows)
    made, now_s, everything = WindowedStat(sampling), 0.0, []
    for value, after_s in steps:
        now_s += after_s
        everything.append((value, now_s))
        made.observe(value, now_s)
        made.check_invariants()
    figures = made.compute_statistics(now_s)
    near = [value for value, at_s in everything if now_s - at_s < 30.0 * (windows - 1)]
    far = [value for value, at_s in everything if now_s - at_s < 30.0 * (windows + 1)]
    assert max(near, default=-1.0) <= figures.max <= max(far)
    assert min(far) * (1 - 1e-9) <= figures.avg <= max(far) * (1 + 1e-9)
    assert figures.total == pytest.approx(sum(value for value, _ in everything))
