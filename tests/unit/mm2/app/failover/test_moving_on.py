"""A move that goes on when the world is another one than when it was begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.base import errors
from mm2.app.failover import journal_file
from mm2.core.failover import journal, orders, steps
from mm2.formats import checkpoint
from tests.fakes.moves import (
    DELTA,
    EXPECTED,
    THERE,
    World,
    east_and_west,
    move,
    stands,
    wanted,
)

Kind, Step = orders.Kind, steps.Step


@pytest.fixture
def world(tmp_path: Path) -> World:
    return east_and_west(tmp_path)


@pytest.mark.parametrize("checkpoint_at", [None, 30, 60])
def test_groups_of_an_origin_that_dies_meanwhile_are_moved_by_what_was_recorded(
    world: World, tmp_path: Path, checkpoint_at: int | None
):
    def die(what: str) -> None:
        world.sides.source.cluster.away |= what == "after stop"

    world.on = die
    if checkpoint_at is not None:
        point = checkpoint.Checkpoint(
            group="billing",
            partition=THERE,
            upstream=checkpoint_at,
            downstream=checkpoint_at + DELTA,
            metadata="",
        )
        world.sides.target.topics.topics["east.checkpoints.internal"] = [checkpoint.encode(point)]
    path = tmp_path / "move.jsonl"
    with pytest.raises(errors.RetriableError, match="not so when the move was begun"):
        move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == {"ahead": 50}
    with journal_file.JournalFile(path) as file:
        file.append(journal.accepted(["origin-unreachable", "as-of-checkpoint"], at_ms=1))
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == EXPECTED | {"billing": max(checkpoint_at or 0, 40) + DELTA}
    assert journal.read(path.read_text()).details[Step.REPORT]["unmoved"] == []


def test_a_group_that_is_gone_meanwhile_is_told_and_reported_as_not_moved(
    world: World, tmp_path: Path
):
    def leave(what: str) -> None:
        if what == "after stop":
            world.sides.source.members.groups.pop("billing", None)

    world.on = leave
    path = tmp_path / "move.jsonl"
    with pytest.raises(errors.RetriableError, match="group billing had positions"):
        move(world, wanted(Kind.EMERGENCY), path)
    with journal_file.JournalFile(path) as file:
        file.append(journal.accepted(["group-gone:billing"], at_ms=1))
    move(world, wanted(Kind.EMERGENCY), path)
    assert journal.read(path.read_text()).details[Step.REPORT]["unmoved"] == ["billing"]
