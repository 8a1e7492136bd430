"""A move that goes on when the world is another one than when it was begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.base import errors
from mm2.app.failover import journal_file
from mm2.core import naming
from mm2.core.failover import journal, orders, steps
from mm2.formats import checkpoint
from tests.fakes import copied_map
from tests.fakes.moves import (
    COPIED,
    DELTA,
    EXPECTED,
    HERE,
    THERE,
    CrashError,
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


def left_lying(world: World, about: orders.Wanted, path: Path, at: str) -> None:
    """The process dies as soon as the journal holds `at`."""

    def die(what: str) -> None:
        if what == "after a line" and at in path.read_text():
            raise CrashError(what)

    world.on = die
    with pytest.raises(CrashError):
        move(world, about, path)
    world.on = lambda _: None
    world.stopped = False


def goes_on_meanwhile(world: World) -> None:
    """Somebody lets the flow go on: ten more records are copied, and a group reads some."""
    world.sides.source.log("orders", COPIED + 10)
    world.sides.target.log("east.orders", COPIED + 10 + DELTA)
    world.sides.target.topics.topics[naming.map_topic("east")] = copied_map.log(
        HERE, through=COPIED + 10, delta=DELTA, epoch=7
    )
    world.sides.source.members.commit("billing", {HERE: 90})


LOOKED = '"what":"done","step":"look-again"'


def test_who_goes_on_late_stops_the_flow_and_takes_positions_anew(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.EMERGENCY), path, LOOKED)
    goes_on_meanwhile(world)
    fenced = world.fenced
    world.epochs_before = 7
    move(world, wanted(Kind.EMERGENCY), path)
    assert (world.stopped, world.fenced > fenced) == (True, True)
    assert stands(world) == EXPECTED | {"billing": 90 + DELTA}


def test_who_goes_on_late_with_a_planned_move_minds_what_was_written(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.PLANNED), path, LOOKED)
    world.sides.source.log("orders", COPIED + 3)
    with pytest.raises(errors.RetriableError, match="ends at 103"):
        move(world, wanted(Kind.PLANNED), path)
    assert world.stopped
    assert stands(world) == {"ahead": 50}


@pytest.mark.parametrize("kind", [Kind.EMERGENCY, Kind.PLANNED])
def test_what_is_moved_in_part_does_not_go_on_when_somebody_copied(
    world: World, tmp_path: Path, kind: orders.Kind
):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(kind), path, '"what":"group"')
    goes_on_meanwhile(world)
    with pytest.raises(errors.FatalError, match=r"copied orders-0 since .* ahead were moved"):
        move(world, wanted(kind), path)
    assert world.stopped


def test_what_is_moved_in_part_does_not_go_on_when_somebody_wrote(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.PLANNED), path, '"what":"group"')
    world.sides.source.log("orders", COPIED + 3)
    with pytest.raises(errors.FatalError, match="was 100 when both agreed, and is 103 since"):
        move(world, wanted(Kind.PLANNED), path)
