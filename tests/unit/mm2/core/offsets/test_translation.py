"""Outcomes are told apart by what they are, never by the numbers in them."""

import pytest

from mm2.core.offsets import translation


def test_an_exact_answer_is_no_earlier_one_even_where_nothing_is_read_again():
    exact = translation.Exact(downstream=7)
    earlier = translation.Earlier(downstream=7, again_max=0)
    outcomes = {exact, earlier, *translation.Untranslated}
    assert len(outcomes) == 2 + len(translation.Untranslated)


EXACT = translation.Exact(downstream=7)
EARLIER = translation.Earlier(downstream=7, again_max=2)
LESS = translation.Exact(downstream=5)
UNKNOWN, OLD = translation.Untranslated.UNKNOWN, translation.Untranslated.TOO_OLD


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (EARLIER, LESS, EARLIER),
        (LESS, EARLIER, LESS),
        (EARLIER, EXACT, EXACT),
        (EXACT, EARLIER, EXACT),
        (UNKNOWN, LESS, LESS),
        (LESS, UNKNOWN, LESS),
        (OLD, UNKNOWN, OLD),
    ],
)
def test_what_is_farther_counts_and_what_is_exact_before_what_is_not(one, other, expected):
    assert translation.farther(one, other) == expected
