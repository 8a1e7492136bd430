"""Whatever a member is told, and in whatever order, it keeps its invariants and raises nothing."""

from __future__ import annotations

import dataclasses
import math
import random
import typing

import pytest

from connect_runtime.group import member_events
from connect_runtime.group.member_events import (
    AssignmentsComputed,
    CloseRequested,
    LeaveRequested,
    MemberEvent,
    MemberInstruction,
    MemberLogLine,
    PrepareJoin,
    RejoinRequested,
    SendGroupRequest,
)
from connect_runtime.group.member_state import MemberState
from connect_runtime.protocol.request_errors import ConnectionFailed, UnknownBroker
from tests.fakes import group_answers
from tests.fakes.group_talk import GroupTalk


def test_a_member_tells_every_kind_of_instruction():
    """In one life: leading, stuck, joined again, left by its coordinator, refused, closed."""
    talk = GroupTalk()
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
    talk.tell(CloseRequested("end"))
    told = {type(each) for each in talk.told}
    assert talk.notes
    kinds = set(typing.get_args(MemberInstruction))
    assert told == kinds - {SendGroupRequest, MemberLogLine}


def test_instructions_are_values():
    for kind in typing.get_args(MemberInstruction):
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen, kind
    assert member_events.JOIN_PURPOSE != member_events.GROUP_PURPOSE


CODES = (*(0,) * 60, -1, 7, 14, 15, 16, 22, 23, 25, 27, 29, 30, 79, 81, 82)
SURE_CODES = (0, 0, 0, 0, 14, 15, 16, 27)


class Chaos:
    """One member that is told anything; `codes` are what coordinators answer with."""

    def __init__(self, seed: int, codes: tuple[int, ...]) -> None:
        self.rng = random.Random(seed)
        self.talk = GroupTalk()
        self.codes = codes
        self.seen: set[MemberState] = set()

    def body(self, api: str) -> object:
        code = self.rng.choice(self.codes)
        match api:
            case "find_coordinator":
                code = 15 if code == 27 else code  # which is no answer to this
                return group_answers.found(self.rng.randint(1, 3), code=code)
            case "join_group":
                leader = self.rng.choice(["m1", "m2"])
                generation = self.rng.randint(1, 9)
                return group_answers.joined(code=code, leader=leader, generation=generation)
            case "sync_group":
                return group_answers.synced(code=code)
            case "heartbeat":
                return group_answers.beaten(code=code)
        return group_answers.left(code=code)

    def prepare(self) -> None:
        if any(isinstance(each, PrepareJoin) for each in self.talk.told):
            self.talk.prepare()

    def one(self) -> None:
        talk, sent = self.talk, sorted(self.talk.sent)
        match self.rng.randint(0, 11):
            case 0:
                talk.tell(RejoinRequested("x"))
            case 1 if self.rng.random() < 0.1:
                talk.tell(LeaveRequested("x"))
            case 2 if self.rng.random() < 0.02:
                talk.tell(CloseRequested("x"))
            case 3:
                self.prepare()
            case 4:
                generation = talk.member.generation.number
                talk.tell(AssignmentsComputed(generation=generation, assignments={"m1": b"a"}))
            case 5 if sent:
                failure = self.rng.choice([ConnectionFailed("b", "x"), UnknownBroker(3)])
                talk.fail(self.rng.choice(sent), failure)
            case 6:
                talk.wait(self.rng.choice([0, 0.1, 3, 20, 70]), ticking=self.rng.random() < 0.8)
            case _ if sent:
                api = self.rng.choice(sent)
                talk.answer(api, self.body(api))
        self.seen.add(talk.state)


@pytest.mark.parametrize("codes", [CODES, SURE_CODES])
def test_no_order_of_events_breaks_a_member(codes):
    seen: set[MemberState] = set()
    for seed in range(60):
        chaos = Chaos(seed, codes)
        for _ in range(120):
            chaos.one()
        seen |= chaos.seen
        if chaos.talk.state in {MemberState.CLOSED, MemberState.FAILED}:
            assert chaos.talk.member.get_next_tick_s() == math.inf
    expected = set(MemberState)
    assert seen >= (expected if codes is CODES else expected - {MemberState.FAILED})


def test_after_any_chaos_a_member_that_is_answered_well_becomes_stable():
    for seed in range(60):
        chaos = Chaos(seed, SURE_CODES)
        for _ in range(60):
            chaos.one()
        if chaos.talk.state in {MemberState.CLOSING, MemberState.CLOSED}:
            continue
        chaos.codes = (0,)
        chaos.talk.tell(RejoinRequested("calm"))
        for _ in range(60):
            calm(chaos)
        assert chaos.talk.state is MemberState.STABLE, seed


def calm(chaos: Chaos) -> None:
    """Everything that waits is answered, and a little time passes."""
    talk = chaos.talk
    for api in sorted(talk.sent):
        talk.answer(api, chaos.body(api))
    chaos.prepare()
    generation = talk.member.generation.number
    talk.tell(AssignmentsComputed(generation=generation, assignments={"m1": b"a"}))
    talk.wait(0.5)


def test_events_are_values():
    for kind in typing.get_args(MemberEvent):
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen, kind
