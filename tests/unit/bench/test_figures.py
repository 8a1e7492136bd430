from __future__ import annotations

import math

import pytest

from tests.bench import figures
from tests.bench.figures import Spread


def test_a_spread_is_the_median_and_the_range():
    assert figures.spread([3.0, 1.0, 2.0]) == Spread(median=2.0, low=1.0, high=3.0)
    assert figures.spread([4.0, 1.0]) == Spread(median=2.5, low=1.0, high=4.0)
    assert figures.spread([]) is None


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100), (0.001, 1), (0.01, 1)]
)
def test_percentiles_of_a_hundred_are_by_nearest_rank(share, expected):
    assert figures.percentile(list(range(100, 0, -1)), share) == expected


def test_percentiles_do_not_suffer_from_binary_fractions():
    assert figures.percentile(list(range(1, 1001)), 0.999) == 999
    assert figures.percentile(list(range(1, 10_001)), 0.99) == 9_900


def test_percentiles_of_one_sample_are_that_sample():
    assert {figures.percentile([7.0], share) for share in (0.01, 0.5, 0.999)} == {7.0}


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_a_share_outside_is_refused(share):
    with pytest.raises(ValueError, match="share"):
        figures.percentile([1.0], share)


def test_no_samples_have_no_percentile():
    with pytest.raises(ValueError, match="no samples"):
        figures.percentile([], 0.5)


def test_a_ratio_is_by_medians():
    ours = Spread(median=400.0, low=300.0, high=500.0)
    theirs = Spread(median=50.0, low=1.0, high=60.0)
    assert figures.ratio(ours, theirs) == 8.0
    assert figures.ratio(theirs, ours) == 0.125


def test_a_ratio_needs_both_sides_and_a_divisor():
    some = Spread(median=1.0, low=1.0, high=1.0)
    nothing = Spread(median=0.0, low=0.0, high=0.0)
    assert figures.ratio(None, some) is None
    assert figures.ratio(some, None) is None
    assert figures.ratio(some, nothing) is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0.00"),
        (0.8249, "0.82"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (46.12, "46.1"),
        (264.4, "264"),
        (1_313_456.0, "1,310,000"),
        (math.nan, "-"),
    ],
)
def test_numbers_have_three_digits_that_count(value, told):
    assert figures.number(value) == told


def test_a_range_is_told_where_there_is_one():
    assert figures.with_range(Spread(median=46.1, low=44.0, high=47.2)) == ("46.1 (44.0-47.2)")
    assert figures.with_range(Spread(median=46.1, low=46.1, high=46.1)) == "46.1"
    assert figures.with_range(None) == "-"
