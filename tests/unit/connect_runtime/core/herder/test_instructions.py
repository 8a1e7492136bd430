from __future__ import annotations

import typing

from connect_runtime.core.herder import instructions

QUESTIONS = set(typing.get_args(instructions.Question))
ORDERS = set(typing.get_args(instructions.Order))


def test_every_instruction_is_a_question_or_an_order():
    assert set(instructions.QUESTIONS) == QUESTIONS
    assert not QUESTIONS & ORDERS
    assert set(typing.get_args(instructions.Instruction)) == QUESTIONS | ORDERS


def test_every_question_names_its_answers_and_no_order_has_one():
    for kind in QUESTIONS:
        assert "Answer" in kind.__doc__, kind
    for kind in ORDERS:
        assert "Answer:" not in kind.__doc__, kind


def test_configurations_are_in_no_representation():
    secret = {"password": "hunter2"}
    for each in (
        instructions.WriteConnector(connector="c", config=secret, target_state=None),
        instructions.WriteTaskConfigs(connector="c", configs=[secret]),
        instructions.ForwardTaskConfigs(
            token=1, connector="c", configs=[secret], leader_url="http://x/"
        ),
        instructions.ValidateAndPut(ticket=1, connector="c", config=secret),
    ):
        assert "hunter2" not in repr(each)
