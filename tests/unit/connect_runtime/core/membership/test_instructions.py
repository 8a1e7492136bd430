from __future__ import annotations

import dataclasses
import typing

from connect_runtime.core.membership import events, instructions
from tests.fakes import group_answers, group_talk


def test_a_member_tells_every_kind_of_instruction():
    """In one life: leading, stuck, joined again, left by its coordinator, refused, closed."""
    talk = group_talk.GroupTalk()
    talk.find()
    talk.join(leader="m1", members={"m1": b""})
    for _ in range(20):
        talk.wait(3, ticking=False)
        if "heartbeat" in talk.sent:
            talk.answer("heartbeat", group_answers.beaten())
    talk.join()
    talk.answer("sync_group", group_answers.synced())
    talk.wait(3)
    talk.answer("heartbeat", group_answers.beaten(code=16))
    talk.wait(3)
    talk.answer("find_coordinator", group_answers.found(code=30))
    talk.tell(events.CloseRequested("end"))
    told = {type(each) for each in talk.told}
    assert talk.notes
    kinds = set(typing.get_args(instructions.Instruction))
    assert told == kinds - {instructions.Send, instructions.Note}


def test_instructions_are_values():
    for kind in typing.get_args(instructions.Instruction):
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen, kind
    assert instructions.JOINING != instructions.BEATING
