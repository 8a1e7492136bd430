from __future__ import annotations

import dataclasses
import typing

import pytest

from mm2.core.copy import facts, instructions

QUESTIONS = typing.get_args(instructions.Instruction)
ANSWERS = typing.get_args(instructions.Answer)


@pytest.mark.parametrize("kind", [*QUESTIONS, *ANSWERS], ids=lambda kind: kind.__name__)
def test_the_vocabulary_is_values(kind):
    """What is handed from one side to the other is not changed by either."""
    assert dataclasses.is_dataclass(kind)
    assert vars(kind)["__dataclass_params__"].frozen


def test_no_answer_can_be_taken_for_a_question():
    assert not set(QUESTIONS) & set(ANSWERS)
    assert facts.Facts in ANSWERS


def test_every_class_of_the_module_is_a_question_or_an_answer_or_part_of_one():
    parts = {instructions.LogItem, instructions.OpenTransaction}
    defined = {
        each
        for each in vars(instructions).values()
        if isinstance(each, type) and each.__module__ == instructions.__name__
    }
    assert defined - parts == set(QUESTIONS) | (set(ANSWERS) - {facts.Facts})


def test_what_is_recorded_is_a_map_record_unless_it_says_receipt():
    item = instructions.LogItem(key=b"k", value=None)
    assert not item.receipt
    assert instructions.Record(items=(item,)).token == 0


def test_facts_are_asked_for_without_a_position_unless_one_is_named():
    assert instructions.ReadFacts() == instructions.ReadFacts(target=None)
    assert instructions.ReadFacts(target=0) != instructions.ReadFacts()
