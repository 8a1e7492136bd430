"""Outcomes are told apart by what they are, never by the numbers in them."""

from mm2.core.offsets import translation


def test_an_exact_answer_is_no_earlier_one_even_where_nothing_is_read_again():
    exact = translation.Exact(downstream=7)
    earlier = translation.Earlier(downstream=7, again_max=0)
    outcomes = {exact, earlier, *translation.Untranslated}
    assert len(outcomes) == 2 + len(translation.Untranslated)
