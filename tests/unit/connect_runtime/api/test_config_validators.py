from __future__ import annotations

import pytest

from connect_runtime.api import config_types, errors
from connect_runtime.api import config_validators as validators


@pytest.mark.parametrize(
    ("validator", "good", "bad"),
    [
        (validators.Range(at_least=0, at_most=10), [0, 5, 10], [-1, 11, None]),
        (validators.Range(at_least=1), [1, 2**40], [0]),
        (validators.Range(at_most=1), [-5, 1], [2]),
        (validators.ValidString("good", "values"), ["good"], ["bad", "GOOD", None]),
        (validators.CaseInsensitiveValidString("good"), ["gOOd"], ["bad", None]),
        (validators.ValidList("1", "2"), [["1"], ["2", "1"], []], [["3"], ["1", "1"], None]),
        (validators.ValidList("1", empty_allowed=False), [["1"]], [[]]),
        (validators.ValidList(null_allowed=True), [None, ["x"]], [[""], ["x", "x"]]),
        (validators.ListSize(2), [[], ["a", "b"], None], [["a", "b", "c"]]),
        (validators.NonNull(), ["a", ""], [None]),
        (validators.NonEmptyString(), ["a", None], [""]),
        (
            validators.NonEmptyStringWithoutControlChars(),
            ["test", "te/st", "\u1324name\\", "/+%>&):??<&()?-", "\U0001f601", None],
            ["", "not\nallowed", "as\x01cii", "tes\rt", "1\t2", "\x7f", "\x9f"],
        ),
        (
            validators.Composite(validators.NonNull(), validators.ValidString("a", "b")),
            ["a", "b"],
            [None, -1, "c"],
        ),
    ],
)
def test_what_each_lets_through(validator, good, bad):
    for value in good:
        validator.ensure_valid("name", value)
    for value in bad:
        with pytest.raises(errors.ConfigError):
            validator.ensure_valid("name", value)


@pytest.mark.parametrize(
    ("validator", "value", "message"),
    [
        (
            validators.Range(at_least=1),
            0,
            "Invalid value 0 for configuration k: Value must be at least 1",
        ),
        (
            validators.Range(at_most=1),
            2,
            "Invalid value 2 for configuration k: Value must be no more than 1",
        ),
        (
            validators.Range(),
            None,
            "Invalid value null for configuration k: Value must be non-null",
        ),
        (
            validators.ValidString("a", "b"),
            "c",
            "Invalid value c for configuration k: String must be one of: a, b",
        ),
        (
            validators.CaseInsensitiveValidString("a"),
            "c",
            "Invalid value c for configuration k: String must be one of (case insensitive): A",
        ),
        (
            validators.NonEmptyStringWithoutControlChars(),
            "a\nb\tc",
            "Invalid value a\nb\tc for configuration k: String may not contain control "
            "sequences but had the following ASCII chars: 10, 9",
        ),
        (validators.ValidList(), ["", "a"], "Configuration 'k' values must not be empty."),
        (validators.ValidList(), ["a", "a"], "Configuration 'k' values must not be duplicated."),
        (validators.ValidList(), None, "Configuration 'k' values must not be null."),
        (
            validators.ValidList("a", empty_allowed=False),
            [],
            "Configuration 'k' must not be empty. Valid values include: [a]",
        ),
        (
            validators.ValidList(empty_allowed=False),
            [],
            "Configuration 'k' must not be empty. Valid values include: any non-empty value",
        ),
    ],
)
def test_messages_are_java_s(validator, value, message):
    with pytest.raises(errors.ConfigError) as caught:
        validator.ensure_valid("k", value)
    assert str(caught.value) == message


def test_each_says_what_it_allows():
    assert str(validators.Range(at_least=1, at_most=5)) == "[1,...,5]"
    assert str(validators.Range(at_least=1)) == "[1,...]"
    assert str(validators.Range(at_most=5)) == "[...,5]"
    assert str(validators.Range()) == "[...]"
    assert str(validators.ValidString("a", "b")) == str(validators.ValidList("a", "b")) == "[a, b]"
    both = validators.Composite(validators.NonEmptyString(), validators.NonNull())
    assert str(both) == "non-empty string, non-null string"


def test_any_check_can_be_one():
    def even(name, value):
        if value % 2:
            raise config_types.invalid(name, value, "must be even")

    validator = validators.Lambda(even, "even numbers")
    validator.ensure_valid("k", 2)
    with pytest.raises(errors.ConfigError, match="must be even"):
        validator.ensure_valid("k", 3)
    assert str(validator) == "even numbers"
