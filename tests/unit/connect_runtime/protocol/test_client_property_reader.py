from __future__ import annotations

import pytest

from connect_runtime.protocol.client_property_reader import PropertyReader


def account(value: str) -> PropertyReader:
    return PropertyReader({"key": f" {value} "})


def test_an_empty_value_is_none_and_space_around_values_does_not_count():
    assert account("").get("key", "default") == "default"
    assert account("x").get("key", "default") == "x"
    assert account("x").get("other") == ""


@pytest.mark.parametrize(("text", "found"), [("5", 5), ("", 7), ("0", 7), ("11", 7), ("five", 7)])
def test_whole_numbers_keep_to_their_bounds(text, found):
    read = account(text)
    assert read.get_integer("key", 7, minimum=1, maximum=10) == found
    assert bool(read.errors) == (text not in {"5", ""})
    for error in read.errors:
        assert str(error) == f"key: {text} is not allowed; a whole number from 1 to 10"


@pytest.mark.parametrize(("text", "found"), [("0.6", 0.6), ("", 0.8), ("2", 0.8), ("nan", 0.8)])
def test_fractions_keep_to_their_bounds(text, found):
    read = account(text)
    assert read.get_decimal("key", 0.8, minimum=0.5, maximum=1.0) == found
    assert bool(read.errors) == (text in {"2", "nan"})


@pytest.mark.parametrize(("text", "found"), [("TRUE", True), ("false", False), ("", False)])
def test_booleans_are_javas(text, found):
    read = account(text)
    assert read.get_boolean("key") is found
    assert not read.errors


def test_another_word_is_no_boolean():
    read = account("yes")
    assert read.get_boolean("key") is False
    assert [str(error) for error in read.errors] == ["key: yes is not allowed; true or false"]
