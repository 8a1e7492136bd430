"""Whatever a member is told, and in whatever order, it keeps its invariants and raises nothing."""

from __future__ import annotations

import dataclasses
import math
import random
import typing

import pytest

from connect_runtime.core.membership import events, instructions, standing
from connect_runtime.wire.codec import failures
from tests.fakes import group_answers as answers
from tests.fakes import group_talk

CODES = (*(0,) * 60, -1, 7, 14, 15, 16, 22, 23, 25, 27, 29, 30, 79, 81, 82)
SURE_CODES = (0, 0, 0, 0, 14, 15, 16, 27)


class Chaos:
    """One member that is told anything; `codes` are what coordinators answer with."""

    def __init__(self, seed: int, codes: tuple[int, ...]) -> None:
        self.rng = random.Random(seed)
        self.talk = group_talk.GroupTalk()
        self.codes = codes
        self.seen: set[standing.State] = set()

    def body(self, api: str) -> object:
        code = self.rng.choice(self.codes)
        match api:
            case "find_coordinator":
                code = 15 if code == 27 else code  # which is no answer to this
                return answers.found(self.rng.randint(1, 3), code=code)
            case "join_group":
                leader = self.rng.choice(["m1", "m2"])
                generation = self.rng.randint(1, 9)
                return answers.joined(code=code, leader=leader, generation=generation)
            case "sync_group":
                return answers.synced(code=code)
            case "heartbeat":
                return answers.beaten(code=code)
        return answers.left(code=code)

    def prepare(self) -> None:
        if any(isinstance(each, instructions.PrepareJoin) for each in self.talk.told):
            self.talk.prepare()

    def one(self) -> None:
        talk, sent = self.talk, sorted(self.talk.sent)
        match self.rng.randint(0, 11):
            case 0:
                talk.tell(events.RejoinRequested("x"))
            case 1 if self.rng.random() < 0.1:
                talk.tell(events.LeaveRequested("x"))
            case 2 if self.rng.random() < 0.02:
                talk.tell(events.CloseRequested("x"))
            case 3:
                self.prepare()
            case 4:
                generation = talk.member.generation.number
                talk.tell(events.PlanMade(generation=generation, answers={"m1": b"a"}))
            case 5 if sent:
                failure = self.rng.choice(
                    [failures.ConnectionFailed("b", "x"), failures.NodeUnknown(3)]
                )
                talk.fail(self.rng.choice(sent), failure)
            case 6:
                talk.wait(self.rng.choice([0, 0.1, 3, 20, 70]), ticking=self.rng.random() < 0.8)
            case _ if sent:
                api = self.rng.choice(sent)
                talk.answer(api, self.body(api))
        self.seen.add(talk.state)


@pytest.mark.parametrize("codes", [CODES, SURE_CODES])
def test_no_order_of_events_breaks_a_member(codes):
    seen: set[standing.State] = set()
    for seed in range(60):
        chaos = Chaos(seed, codes)
        for _ in range(120):
            chaos.one()
        seen |= chaos.seen
        if chaos.talk.state in {standing.State.CLOSED, standing.State.FAILED}:
            assert chaos.talk.member.due_s() == math.inf
    expected = set(standing.State)
    assert seen >= (expected if codes is CODES else expected - {standing.State.FAILED})


def test_after_any_chaos_a_member_that_is_answered_well_becomes_stable():
    for seed in range(60):
        chaos = Chaos(seed, SURE_CODES)
        for _ in range(60):
            chaos.one()
        if chaos.talk.state in {standing.State.CLOSING, standing.State.CLOSED}:
            continue
        chaos.codes = (0,)
        chaos.talk.tell(events.RejoinRequested("calm"))
        for _ in range(60):
            calm(chaos)
        assert chaos.talk.state is standing.State.STABLE, seed


def calm(chaos: Chaos) -> None:
    """Everything that waits is answered, and a little time passes."""
    talk = chaos.talk
    for api in sorted(talk.sent):
        talk.answer(api, chaos.body(api))
    chaos.prepare()
    generation = talk.member.generation.number
    talk.tell(events.PlanMade(generation=generation, answers={"m1": b"a"}))
    talk.wait(0.5)


def test_events_are_values():
    for kind in typing.get_args(events.Event):
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen, kind
