"""How many of what."""

from __future__ import annotations

import pytest

from connect_runtime.base import plurals


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "topic", "0 topics"),
        (1, "topic", "1 topic"),
        (2, "topic", "2 topics"),
        (1_234, "topic", "1,234 topics"),
        (1, "more Spark slot", "1 more Spark slot"),
        (2, "more Spark slot", "2 more Spark slots"),
        (1, "batch", "1 batch"),
        (2, "batch", "2 batches"),
        (2, "status", "2 statuses"),
        (2, "entry", "2 entries"),
        (2, "day", "2 days"),
    ],
)
def test_one_is_not_many(number, noun, words):
    assert plurals.format_count(number, noun) == words


@pytest.mark.parametrize(
    ("verb", "one", "many"),
    [
        ("are", "1 group is", "3 groups are"),
        ("were", "1 group was", "3 groups were"),
        ("have", "1 group has", "3 groups have"),
        ("do", "1 group does", "3 groups do"),
        ("may", "1 group may", "3 groups may"),
        ("wait", "1 group waits", "3 groups wait"),
        ("stand", "1 group stands", "3 groups stand"),
    ],
)
def test_its_verb_goes_with_it(verb, one, many):
    assert plurals.format_count(1, "group", verb) == one
    assert plurals.format_count(3, "group", verb) == many


def test_a_verb_that_stands_elsewhere_agrees_too():
    assert [plurals.conjugate_verb(number, "are") for number in (0, 1, 2)] == [
        "are",
        "is",
        "are",
    ]
    assert [plurals.conjugate_verb(number, "wait") for number in (0, 1, 2)] == [
        "wait",
        "waits",
        "wait",
    ]
