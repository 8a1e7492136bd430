"""What belongs together in two sequences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.sandbox import patience_diff


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ("", "", []),
        ("abc", "", []),
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abcd", "acd", [(0, 0), (2, 1), (3, 2)]),
        ("abcd", "abbcd", [(0, 0), (1, 1), (2, 3), (3, 4)]),
        ("abcd", "abxcd", [(0, 0), (1, 1), (2, 3), (3, 4)]),
        ("abcd", "wxyz", []),
        ("xabcy", "zabcw", [(1, 1), (2, 2), (3, 3)]),
        ("xaaby", "waabz", [(1, 1), (2, 2), (3, 3)]),
    ],
)
def test_matches(left, right, found):
    assert patience_diff.align_sequences(left, right) == found


def test_a_swap_costs_one_match():
    assert len(patience_diff.align_sequences("abcdef", "abdcef")) == 5


def test_a_long_hole_is_bridged():
    found = patience_diff.align_sequences(range(50_000), [*range(10), *range(40_000, 50_000)])
    assert len(found) == 10_010
    assert found[10] == (40_000, 10)


@given(st.text("abcdef", max_size=40), st.text("abcdef", max_size=40))
def test_matches_are_equal_and_in_order(left, right):
    found = patience_diff.align_sequences(left, right)
    assert all(left[one] == right[other] for one, other in found)
    for before, after in itertools.pairwise(found):
        assert before[0] < after[0]
        assert before[1] < after[1]
    assert bool(found) == bool(set(left) & set(right))
