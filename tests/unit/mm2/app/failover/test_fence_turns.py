"""Writers are locked out of all that answers, and what does not is waited for no longer than it
takes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.base import errors, ids
from mm2.app.failover import closing, fence_turns, fencing, planning, tools
from mm2.core.failover import fences, orders
from tests.fakes.moves import COPIED, DELTA, HERE, OTHER, Clock, also_copied, east_and_west, wanted

AWAY = ids.TopicPartition("east.orders", 1)
WAIT_S = 600.0
HANGS = fences.unanswered("its broker does not answer")


class Scene:
    """Two partitions whose mirrors have a leader each; `failing` do not answer when they are
    fenced, `contested` are taken by somebody else. The second leader hangs, unless it is told
    otherwise. The flow can be stopped `stops` times."""

    def __init__(self, folder: Path) -> None:
        self.world = east_and_west(folder)
        also_copied(self.world)
        self.target = self.world.sides.target
        self.target.cluster.topics["east.orders"].leaders = (1, 2)
        self.target.logs.unheard = {AWAY}
        self.clock = Clock()
        self.asked: list[list[ids.TopicPartition]] = []
        self.failing: set[ids.TopicPartition] = set()
        self.contested: set[ids.TopicPartition] = set()
        self.stops = 10_000
        self.told: list[str] = []

    def fence(self, known: Any, partitions: Collection[ids.TopicPartition]) -> list[fences.Fenced]:
        self.asked.append(list(partitions))
        found = [
            fences.Fenced(partition=each, marker=COPIED + DELTA, order=(1, 1), tail=0)
            for each in partitions
            if each not in self.failing | self.contested
        ]
        if len(found) < len(partitions):
            self.clock.pause(10.0)
            raise fencing.PartlyFencedError(
                "fencing for 10 s: no coordinator",
                found,
                silent=dict.fromkeys(self.failing.intersection(partitions), "no coordinator"),
                refused=dict.fromkeys(self.contested.intersection(partitions), "47"),
            )
        return found

    def stop(self) -> list[str]:
        self.stops -= 1
        if self.stops < 0:
            raise errors.RetriableError("stopping the flow: its config topic has no leader")
        return self.world.stop()

    def turns(self, *, leaves: bool) -> tuple[fence_turns.FenceTurns, tools.Tools]:
        both = self.world.sides
        about = tools.Tools(
            both=both,
            map_reader=both.target.map_reader("east"),
            planner=planning.Planner(both=both, find=lambda _: {}, clock=self.clock, timeout_s=9.0),
            stop=self.stop,
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

    def close(self) -> dict[ids.TopicPartition, str]:
        """The same of the whole step, where what does not answer may be left."""
        _, about = self.turns(leaves=True)
        asked = wanted(orders.Kind.EMERGENCY, accepted=frozenset({"mirror-unknown"}))
        return {each.partition: each.unfenced for each in closing.fence(about, asked)}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_who_hangs_is_left_once_he_is_as_good_as_dead(scene: Scene):
    """And not when all time to wait is up."""
    assert scene.run(leaves=True) == {HERE: "", OTHER: HANGS}
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
    assert scene.run(leaves=True) == {HERE: "", OTHER: fences.unanswered("no broker leads it")}
    assert scene.clock.s <= tools.TURN_S


def test_who_answers_and_cannot_be_fenced_is_tried_last_and_left(scene: Scene):
    """Its coordinator hangs."""
    scene.target.logs.unheard = set()
    scene.failing = {HERE}
    assert scene.run(leaves=True) == {HERE: fences.unanswered("no coordinator"), OTHER: ""}
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


def test_what_cannot_be_described_is_not_taken_for_what_nobody_leads(scene: Scene):
    """And it is told why."""
    scene.target.logs.unheard = set()
    late = errors.RetriableError("describing topic east.orders: REQUEST_TIMED_OUT")
    scene.target.cluster.failures["describe_topics", "east.orders"] = late
    left = fences.unanswered(str(late))
    assert scene.run(leaves=True) == {HERE: left, OTHER: left}
    assert scene.clock.s >= fence_turns.GONE_S
    assert "REQUEST_TIMED_OUT" in scene.told[0]


def test_who_takes_a_partition_meanwhile_is_not_left_it(scene: Scene):
    """He answers: that he may be out of reach is all that was accepted."""
    scene.target.logs.unheard = set()
    scene.contested = {HERE}
    with pytest.raises(errors.RetriableError, match=r"after 600 s .* for: orders-0 \(47\)"):
        scene.close()


def test_who_hangs_after_he_took_a_partition_is_left(scene: Scene):
    scene.target.logs.unheard = set()
    scene.contested = {OTHER}
    turns, _ = scene.turns(leaves=True)
    for unheard in ({AWAY}, {AWAY}):
        with pytest.raises(errors.RetriableError):
            turns.turn()
        scene.target.logs.unheard = unheard
    turns.leave_late()
    assert turns.found[OTHER].unfenced == HANGS


def test_nobody_is_left_by_what_an_earlier_turn_knew(scene: Scene):
    """The flow cannot be stopped any more: nothing of this turn is known."""
    scene.target.logs.unheard = set()
    scene.failing = {HERE, OTHER}
    scene.stops = 1
    with pytest.raises(errors.RetriableError, match="its config topic has no leader"):
        scene.close()


def test_what_was_not_begun_in_time_is_told_as_that(scene: Scene):
    scene.target.logs.unheard = set()
    scene.failing = {HERE}
    turns, about = scene.turns(leaves=True)

    def fence(known: Any, partitions: Collection[ids.TopicPartition]) -> list[fences.Fenced]:
        raise fencing.PartlyFencedError("time is up", (), silent={HERE: "no coordinator"})

    object.__setattr__(about, "fence", fence)
    with pytest.raises(errors.RetriableError):
        turns.turn()
    turns.leave_late()
    assert turns.found[HERE].unfenced == fences.unanswered("no coordinator")
    assert "before it was tried" in turns.found[OTHER].unfenced


def test_the_way_on_is_told_only_where_somebody_does_not_answer(scene: Scene):
    scene.target.logs.unheard = set()
    scene.contested = {HERE}
    turns, _ = scene.turns(leaves=False)
    with pytest.raises(errors.RetriableError, match=r"no coordinator$"):
        turns.turn()
    scene.failing = {OTHER}
    turns, _ = scene.turns(leaves=False)
    with pytest.raises(errors.RetriableError, match=r"--accept mirror-unknown$"):
        turns.turn()
