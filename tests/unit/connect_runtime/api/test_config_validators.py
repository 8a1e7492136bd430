from __future__ import annotations

import pytest

from connect_runtime.api import config_types
from connect_runtime.api.config_validators import (
    CaseInsensitiveValidString,
    Composite,
    Lambda,
    ListSize,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    NonNull,
    Range,
    ValidList,
    ValidString,
)
from connect_runtime.api.errors import ConfigError


@pytest.mark.parametrize(
    ("validator", "good", "bad"),
    [
        (Range(at_least=0, at_most=10), [0, 5, 10], [-1, 11, None]),
        (Range(at_least=1), [1, 2**40], [0]),
        (Range(at_most=1), [-5, 1], [2]),
        (ValidString("good", "values"), ["good"], ["bad", "GOOD", None]),
        (CaseInsensitiveValidString("good"), ["gOOd"], ["bad", None]),
        (ValidList("1", "2"), [["1"], ["2", "1"], []], [["3"], ["1", "1"], None]),
        (ValidList("1", empty_allowed=False), [["1"]], [[]]),
        (ValidList(null_allowed=True), [None, ["x"]], [[""], ["x", "x"]]),
        (ListSize(2), [[], ["a", "b"], None], [["a", "b", "c"]]),
        (NonNull(), ["a", ""], [None]),
        (NonEmptyString(), ["a", None], [""]),
        (
            NonEmptyStringWithoutControlChars(),
            ["test", "te/st", "\u1324name\\", "/+%>&):??<&()?-", "\U0001f601", None],
            ["", "not\nallowed", "as\x01cii", "tes\rt", "1\t2", "\x7f", "\x9f"],
        ),
        (
            Composite(NonNull(), ValidString("a", "b")),
            ["a", "b"],
            [None, -1, "c"],
        ),
    ],
)
def test_what_each_lets_through(validator, good, bad):
    for value in good:
        validator.ensure_valid("name", value)
    for value in bad:
        with pytest.raises(ConfigError):
            validator.ensure_valid("name", value)


@pytest.mark.parametrize(
    ("validator", "value", "message"),
    [
        (
            Range(at_least=1),
            0,
            "Invalid value 0 for configuration k: Value must be at least 1",
        ),
        (
            Range(at_most=1),
            2,
            "Invalid value 2 for configuration k: Value must be no more than 1",
        ),
        (
            Range(),
            None,
            "Invalid value null for configuration k: Value must be non-null",
        ),
        (
            ValidString("a", "b"),
            "c",
            "Invalid value c for configuration k: String must be one of: a, b",
        ),
        (
            CaseInsensitiveValidString("a"),
            "c",
            "Invalid value c for configuration k: String must be one of (case insensitive): A",
        ),
        (
            NonEmptyStringWithoutControlChars(),
            "a\nb\tc",
            "Invalid value a\nb\tc for configuration k: String may not contain control "
            "sequences but had the following ASCII chars: 10, 9",
        ),
        (ValidList(), ["", "a"], "Configuration 'k' values must not be empty."),
        (ValidList(), ["a", "a"], "Configuration 'k' values must not be duplicated."),
        (ValidList(), None, "Configuration 'k' values must not be null."),
        (
            ValidList("a", empty_allowed=False),
            [],
            "Configuration 'k' must not be empty. Valid values include: [a]",
        ),
        (
            ValidList(empty_allowed=False),
            [],
            "Configuration 'k' must not be empty. Valid values include: any non-empty value",
        ),
    ],
)
def test_messages_are_java_s(validator, value, message):
    with pytest.raises(ConfigError) as caught:
        validator.ensure_valid("k", value)
    assert str(caught.value) == message


def test_each_says_what_it_allows():
    assert str(Range(at_least=1, at_most=5)) == "[1,...,5]"
    assert str(Range(at_least=1)) == "[1,...]"
    assert str(Range(at_most=5)) == "[...,5]"
    assert str(Range()) == "[...]"
    assert str(ValidString("a", "b")) == str(ValidList("a", "b")) == "[a, b]"
    both = Composite(NonEmptyString(), NonNull())
    assert str(both) == "non-empty string, non-null string"


def test_any_check_can_be_one():
    def even(name, value):
        if value % 2:
            raise config_types.build_invalid_value_error(name, value, "must be even")

    validator = Lambda(even, "even numbers")
    validator.ensure_valid("k", 2)
    with pytest.raises(ConfigError, match="must be even"):
        validator.ensure_valid("k", 3)
    assert str(validator) == "even numbers"
