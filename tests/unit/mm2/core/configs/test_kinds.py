from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import user_pattern
from mm2.core import flows
from mm2.core.configs import kinds


def refuses(kind: kinds.Kind[Any], text: str) -> bool:
    try:
        kind.parse((text,))
    except ValueError:
        return True
    return False


def test_texts_are_trimmed_and_never_blank():
    assert kinds.text().parse((" a ",)) == "a"
    assert refuses(kinds.text(), "  ")


def test_booleans_are_true_or_false_in_any_case():
    assert kinds.boolean().parse((" TRUE ",)) is True
    assert kinds.boolean().parse(("False",)) is False
    for text in ("yes", "1", "on", ""):
        assert refuses(kinds.boolean(), text)


def test_a_list_may_hold_any_texts():
    assert kinds.Texts().parse(("a", "")) == ("a", "")
    assert kinds.Texts().is_list


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), (" 10 ", 10), ("+5", 5), ("-1", -1)],
)
def test_whole_numbers_within_bounds(text, expected):
    assert kinds.whole(1, 10, or_minus_one=True).parse((text,)) == expected


@pytest.mark.parametrize(
    "text", ["0", "11", "-2", "1.0", "1e3", "", "\u0661", "9" * 5000, "0x1", "1_0"]
)
def test_other_numbers_are_refused(text):
    assert refuses(kinds.whole(1, 10, or_minus_one=True), text)


def test_minus_one_needs_a_meaning():
    assert refuses(kinds.whole(0), "-1")
    assert kinds.whole(0).allowed == "a whole number from 0 up"
    assert kinds.whole(1, 2, or_minus_one=True).allowed == "a whole number from 1 to 2, or -1"


def test_a_choice_is_spelled_as_declared():
    assert kinds.choice("Default", "Identity").parse(("identity",)) == "Identity"
    assert refuses(kinds.choice("a", "b"), "c")
    assert kinds.choice("a", "b").allowed == "a or b"


def test_text_that_matches_an_expression():
    assert kinds.matching("[a-z]+", "letters").parse((" ab ",)) == "ab"
    assert refuses(kinds.matching("[a-z]+", "letters"), "a b")


def test_patterns_are_a_list():
    assert kinds.Patterns().is_list
    assert kinds.Patterns().parse(("a", "b.*")).matches("bc")
    with pytest.raises(user_pattern.PatternError):
        kinds.Patterns().parse(("(",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", flows.StartPosition()),
        ("LATEST", flows.StartPosition(flows.StartAt.LATEST)),
        ("1970-01-01T00:00:00Z", flows.StartPosition(flows.StartAt.TIMESTAMP, 0)),
        ("1970-01-01T01:00:00.5+01:00", flows.StartPosition(flows.StartAt.TIMESTAMP, 500)),
        (
            "2026-01-31T08:00:00Z",
            flows.StartPosition(flows.StartAt.TIMESTAMP, 1_769_846_400_000),
        ),
    ],
)
def test_start_positions(text, expected):
    assert kinds.start_position().parse((text,)) == expected


@pytest.mark.parametrize(
    "text", ["2026-01-31", "2026-01-31T08:00:00", "1969-12-31T23:59:59Z", "now", "", "0"]
)
def test_a_start_needs_a_moment_with_a_zone(text):
    assert refuses(kinds.start_position(), text)
