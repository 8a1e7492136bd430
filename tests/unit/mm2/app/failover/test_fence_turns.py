"""Writers are locked out of all that answers, and what does not is waited for no longer than it
takes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.base import errors, ids
from mm2.app.failover import fence_turns, fencing, planning, tools
from mm2.core.failover import fences
from tests.fakes.moves import COPIED, DELTA, HERE, OTHER, Clock, also_copied, east_and_west

AWAY = ids.TopicPartition("east.orders", 1)
WAIT_S = 600.0


class Scene:
    """Two partitions whose mirrors have a leader each; `failing` cannot be fenced. The second
    leader hangs, unless it is told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.world = east_and_west(folder)
        also_copied(self.world)
        self.target = self.world.sides.target
        self.target.cluster.topics["east.orders"].leaders = (1, 2)
        self.target.logs.unheard = {AWAY}
        self.clock = Clock()
        self.asked: list[list[ids.TopicPartition]] = []
        self.failing: set[ids.TopicPartition] = set()
        self.told: list[str] = []

    def fence(self, known: Any, partitions: Collection[ids.TopicPartition]) -> list[fences.Fenced]:
        self.asked.append(list(partitions))
        found = [
            fences.Fenced(partition=each, marker=COPIED + DELTA, order=(1, 1), tail=0)
            for each in partitions
            if each not in self.failing
        ]
        if tried := self.failing.intersection(partitions):
            self.clock.pause(10.0)
            raise fencing.PartlyFencedError("fencing for 10 s: no coordinator", found, tried)
        return found

    def turns(self, *, leaves: bool) -> tuple[fence_turns.FenceTurns, tools.Tools]:
        both = self.world.sides
        about = tools.Tools(
            both=both,
            map_reader=both.target.map_reader("east"),
            planner=planning.Planner(both=both, find=lambda _: {}, clock=self.clock, timeout_s=9.0),
            stop=self.world.stop,
            running=self.world.running,
            fence=self.fence,
            export=lambda *_: 0,
            clock=self.clock,
            pause=self.clock.pause,
            tell=self.told.append,
            wait_s=WAIT_S,
        )
        return fence_turns.FenceTurns(about, leaves=leaves), about

    def run(self, *, leaves: bool) -> dict[ids.TopicPartition, str]:
        """Why nobody is locked out, by partition."""
        turns, about = self.turns(leaves=leaves)
        about.await_(turns.turn, turns.why)
        return {each.partition: each.unfenced for each in turns.found.values()}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_who_hangs_is_left_once_he_is_as_good_as_dead(scene: Scene):
    """And not when all time to wait is up."""
    assert scene.run(leaves=True) == {HERE: "", OTHER: fences.UNANSWERED}
    assert fence_turns.GONE_S <= scene.clock.s < fence_turns.GONE_S + 3
    assert scene.asked[0] == [HERE]


def test_it_is_told_what_is_waited_for_and_for_how_long(scene: Scene):
    scene.run(leaves=True)
    assert len(scene.told) == 5
    assert (
        "the mirror of orders-1 (its broker does not answer); who has not within 25 s is"
        in scene.told[0]
    )
    assert "; who has not within 5 s is left unfenced, as was accepted" in scene.told[-1]


def test_where_that_is_not_accepted_it_is_waited_for_and_the_way_on_is_told(scene: Scene):
    with pytest.raises(errors.RetriableError, match=r"nobody answers.*--accept mirror-unknown"):
        scene.run(leaves=False)
    assert scene.clock.s >= WAIT_S
    assert "--accept mirror-unknown" in scene.told[0]


def test_who_answers_again_is_fenced(scene: Scene):
    turns, _ = scene.turns(leaves=True)
    with pytest.raises(errors.RetriableError, match="orders-1"):
        turns.turn()
    scene.clock.pause(fence_turns.GONE_S - 1)
    scene.target.logs.unheard = set()
    assert turns.turn()
    assert {each.unfenced for each in turns.found.values()} == {""}


def test_another_that_leads_it_by_now_is_asked(scene: Scene):
    turns, _ = scene.turns(leaves=True)
    with pytest.raises(errors.RetriableError):
        turns.turn()
    scene.target.cluster.topics["east.orders"].leaders = (1, 1)
    scene.target.logs.unheard = set()
    assert turns.turn()
    assert scene.asked == [[HERE], [OTHER]]


def test_what_nobody_leads_is_left_at_once_where_that_is_accepted(scene: Scene):
    scene.target.cluster.topics["east.orders"].leaders = (1, None)
    assert scene.run(leaves=True) == {HERE: "", OTHER: fences.UNANSWERED}
    assert scene.clock.s <= tools.TURN_S


def test_who_answers_and_cannot_be_fenced_is_tried_last_and_left(scene: Scene):
    """Its coordinator hangs."""
    scene.target.logs.unheard = set()
    scene.failing = {HERE}
    assert scene.run(leaves=True) == {HERE: fences.UNANSWERED, OTHER: ""}
    assert scene.asked[:2] == [[HERE, OTHER], [HERE]]
    assert scene.clock.s < 2 * fence_turns.GONE_S


def test_who_cannot_be_fenced_is_told_with_the_way_on(scene: Scene):
    scene.target.logs.unheard = set()
    scene.failing = {HERE}
    with pytest.raises(errors.RetriableError, match=r"no coordinator\. To leave it.*--accept"):
        scene.run(leaves=False)


def test_a_broker_that_refuses_an_answer_is_not_silent(scene: Scene):
    scene.target.logs.unheard = set()
    scene.target.logs.failures[AWAY] = errors.FatalError("we may not describe it")
    assert scene.run(leaves=False) == {HERE: "", OTHER: ""}
