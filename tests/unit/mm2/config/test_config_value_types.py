"""Places to begin, and rates."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.bounded_regex import PatternError
from mm2.config import config_value_types
from mm2.config.config_value_types import PatternListType, TextListType, ValueType
from mm2.topics.flow_config import StartPosition, StartPositionKind


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1000", 1000), ("500kB", 500_000), ("20MB/s", 20_000_000), ("1GiB", 2**30), ("1.5k", 1500)],
)
def test_rates(text, rate):
    assert config_value_types.parse_byte_rate(text) == rate


@pytest.mark.parametrize("text", ["", "999", "-1", "1 parsec", "MB", "1MB/h"])
def test_what_is_no_rate(text):
    with pytest.raises(ValueError, match=r".*"):
        config_value_types.parse_byte_rate(text)


def test_a_budget_of_topics_ends_at_its_last_equals_sign():
    found = config_value_types.parse_topic_throttle("a=b.*=5MB")
    assert found.bytes_per_s == 5_000_000
    assert found.pattern.matches("a=bc")
    with pytest.raises(ValueError, match=r".*"):
        config_value_types.parse_topic_throttle("=5MB")


def test_starts():
    assert config_value_types.parse_start_position("Latest") == StartPosition(
        StartPositionKind.LATEST
    )
    found = config_value_types.parse_start_position("1970-01-01T01:00:00+01:00")
    assert found == StartPosition(StartPositionKind.TIMESTAMP, 0)


@pytest.mark.parametrize("text", ["", "soon", "2026-01-31T08:00:00", "1969-12-31T00:00:00Z"])
def test_what_is_no_start(text):
    with pytest.raises(ValueError, match=r".*"):
        config_value_types.parse_start_position(text)


def refuses(kind: ValueType[Any], text: str) -> bool:
    try:
        kind.parse((text,))
    except ValueError:
        return True
    return False


def test_texts_are_trimmed_and_never_blank():
    assert config_value_types.text_type().parse((" a ",)) == "a"
    assert refuses(config_value_types.text_type(), "  ")


def test_booleans_are_true_or_false_in_any_case():
    assert config_value_types.boolean_type().parse((" TRUE ",)) is True
    assert config_value_types.boolean_type().parse(("False",)) is False
    for text in ("yes", "1", "on", ""):
        assert refuses(config_value_types.boolean_type(), text)


def test_a_list_may_hold_any_texts():
    assert TextListType().parse(("a", "")) == ("a", "")
    assert TextListType().is_list


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), (" 10 ", 10), ("+5", 5), ("-1", -1)],
)
def test_whole_numbers_within_bounds(text, expected):
    assert config_value_types.integer_type(1, 10, or_minus_one=True).parse((text,)) == expected


@pytest.mark.parametrize(
    "text", ["0", "11", "-2", "1.0", "1e3", "", "\u0661", "9" * 5000, "0x1", "1_0"]
)
def test_other_numbers_are_refused(text):
    assert refuses(config_value_types.integer_type(1, 10, or_minus_one=True), text)


def test_minus_one_needs_a_meaning():
    assert refuses(config_value_types.integer_type(0), "-1")
    assert config_value_types.integer_type(0).allowed == "whole number from 0"
    assert (
        config_value_types.integer_type(1, 2, or_minus_one=True).allowed
        == "whole number from 1 to 2, or -1"
    )


def test_a_choice_is_spelled_as_declared():
    assert config_value_types.choice_type("Default", "Identity").parse(("identity",)) == "Identity"
    assert refuses(config_value_types.choice_type("a", "b"), "c")
    assert config_value_types.choice_type("a", "b").allowed == "a or b"


def test_text_that_matches_an_expression():
    assert config_value_types.regex_text_type("[a-z]+", "letters").parse((" ab ",)) == "ab"
    assert refuses(config_value_types.regex_text_type("[a-z]+", "letters"), "a b")


def test_patterns_are_a_list():
    assert PatternListType().is_list
    assert PatternListType().parse(("a", "b.*")).matches("bc")
    with pytest.raises(PatternError):
        PatternListType().parse(("(",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", StartPosition()),
        ("LATEST", StartPosition(StartPositionKind.LATEST)),
        ("1970-01-01T00:00:00Z", StartPosition(StartPositionKind.TIMESTAMP, 0)),
        ("1970-01-01T01:00:00.5+01:00", StartPosition(StartPositionKind.TIMESTAMP, 500)),
        (
            "2026-01-31T08:00:00Z",
            StartPosition(StartPositionKind.TIMESTAMP, 1_769_846_400_000),
        ),
    ],
)
def test_start_positions(text, expected):
    assert config_value_types.start_position_type().parse((text,)) == expected


@pytest.mark.parametrize(
    "text", ["2026-01-31", "2026-01-31T08:00:00", "1969-12-31T23:59:59Z", "now", "", "0"]
)
def test_a_start_needs_a_moment_with_a_zone(text):
    assert refuses(config_value_types.start_position_type(), text)
