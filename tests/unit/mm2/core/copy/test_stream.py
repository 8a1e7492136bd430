from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.core.copy import stream


def test_nothing_is_stored_at_first():
    assert stream.StoredStream().news() is None


def test_a_gap_holds_back_what_is_stored_behind_it():
    stored = stream.StoredStream()
    found = []
    for number in (2, 4, 1, 3, 5):
        stored.stored(number)
        found.append(stored.news())
    assert found == [None, None, 2, 4, 5]


def test_news_are_told_once():
    stored = stream.StoredStream()
    stored.stored(1)
    assert [stored.news(), stored.news()] == [1, None]


@given(st.permutations(range(1, 9)))
def test_all_up_to_through_are_stored_and_the_next_is_not(order):
    stored = stream.StoredStream()
    for at, number in enumerate(order, 1):
        stored.stored(number)
        so_far = set(order[:at])
        assert so_far.issuperset(range(1, stored.through + 1))
        assert stored.through + 1 not in so_far


def test_an_item_cannot_be_stored_again_behind_through():
    stored = stream.StoredStream()
    stored.stored(1)
    with pytest.raises(AssertionError):
        stored.stored(1)
