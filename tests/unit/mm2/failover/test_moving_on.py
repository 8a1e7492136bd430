"""A move that goes on when the world is another one than when it was begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from mm2.failover import failover_journal
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.offsets.group_offset_sync import GroupState
from mm2.topics import replication_policy
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

Kind, Step = FailoverKind, FailoverStep


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
        point = Checkpoint(
            group="billing",
            partition=THERE,
            upstream=checkpoint_at,
            downstream=checkpoint_at + DELTA,
            metadata="",
        )
        world.sides.target.topics.topics["east.checkpoints.internal"] = [
            mirrormaker2_records.encode_checkpoint(point)
        ]
    path = tmp_path / "move.jsonl"
    with pytest.raises(RetriableError, match="has changed since the failover began"):
        move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == {"ahead": 50}
    with JournalFile(path) as file:
        file.append_entry(
            failover_journal.encode_accepted_entry(
                ["origin-unreachable", "as-of-checkpoint"], at_ms=1
            )
        )
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == EXPECTED | {"billing": max(checkpoint_at or 0, 40) + DELTA}
    assert failover_journal.read_journal(path.read_text()).details[Step.REPORT]["unmoved"] == []


def test_a_group_that_is_gone_meanwhile_is_told_and_reported_as_not_moved(
    world: World, tmp_path: Path
):
    def leave(what: str) -> None:
        if what == "after stop":
            world.sides.source.members.groups.pop("billing", None)

    world.on = leave
    path = tmp_path / "move.jsonl"
    with pytest.raises(RetriableError, match="group billing had committed offsets"):
        move(world, wanted(Kind.EMERGENCY), path)
    with JournalFile(path) as file:
        file.append_entry(
            failover_journal.encode_accepted_entry(["group-deleted:billing"], at_ms=1)
        )
    move(world, wanted(Kind.EMERGENCY), path)
    assert failover_journal.read_journal(path.read_text()).details[Step.REPORT]["unmoved"] == [
        "billing"
    ]


def left_lying(world: World, about: FailoverRequest, path: Path, at: str) -> None:
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
    world.sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = (
        copied_map.log(HERE, through=COPIED + 10, delta=DELTA, epoch=7)
    )
    world.sides.source.members.commit("billing", {HERE: 90})


LOOKED = '"what":"done","step":"final-positions"'


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
    with pytest.raises(RetriableError, match="ends at 103"):
        move(world, wanted(Kind.PLANNED), path)
    assert world.stopped
    assert stands(world) == {"ahead": 50}


@pytest.mark.parametrize("kind", [Kind.EMERGENCY, Kind.PLANNED])
def test_what_is_moved_in_part_does_not_go_on_when_somebody_copied(
    world: World, tmp_path: Path, kind: FailoverKind
):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(kind), path, '"what":"group"')
    goes_on_meanwhile(world)
    with pytest.raises(
        FatalError, match=r"orders-0 was acquired by another process since .* ahead were moved"
    ):
        move(world, wanted(kind), path)
    assert world.stopped


def test_what_is_moved_in_part_does_not_go_on_when_somebody_wrote(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.PLANNED), path, '"what":"group"')
    world.sides.source.log("orders", COPIED + 3)
    with pytest.raises(FatalError, match=r"has changed from 100 \(.*\) to 103 since"):
        move(world, wanted(Kind.PLANNED), path)


def test_what_is_not_moved_yet_is_moved_from_where_it_stands_by_now(world: World, tmp_path: Path):
    """Its consumers were started again where they were, and worked."""
    path = tmp_path / "move.jsonl"
    away = RetriableError("its coordinator is away")
    world.sides.source.members.commit("mail", {HERE: 20})
    world.sides.target.members.failures["write", "mail"] = away
    with pytest.raises(RetriableError, match="group mail: its coordinator"):
        move(world, wanted(Kind.PLANNED), path)
    world.sides.target.members.failures.clear()
    world.sides.source.members.commit("mail", {HERE: COPIED})
    world.sides.source.members.commit("billing", {HERE: COPIED})  # too late: it is moved
    move(world, wanted(Kind.PLANNED), path)
    assert stands(world) == EXPECTED
    report = failover_journal.read_journal(path.read_text()).details[Step.REPORT]
    told = {each["group"]: each["partitions"][0]["resume_offset"] for each in report["moved"]}
    assert told == {"ahead": 10 + DELTA, "billing": 40 + DELTA, "mail": COPIED + DELTA}
    assert [(each["code"], each["group"]) for each in report["findings"]] == [
        ("higher-position", "ahead")
    ]
    assert report["unmoved"] == []


def test_who_has_members_again_and_is_not_moved_yet_forbids_a_planned_move(
    world: World, tmp_path: Path
):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.PLANNED), path, '"what":"group"')
    world.sides.source.members.groups["mail"].state = GroupState.ACTIVE
    with pytest.raises(
        RetriableError, match=r"mail still has members on east.*groups moved: ahead"
    ):
        move(world, wanted(Kind.PLANNED), path)
    world.sides.source.members.groups["mail"].state = GroupState.EMPTY
    move(world, wanted(Kind.PLANNED), path)
    assert stands(world) == EXPECTED


def test_who_was_written_before_the_crash_and_consumes_there_is_moved(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.EMERGENCY), path, '"what":"group"')
    world.sides.target.members.groups["billing"].state = GroupState.ACTIVE
    move(world, wanted(Kind.EMERGENCY), path)
    found = failover_journal.read_journal(path.read_text())
    assert (found.moved, found.next_step) == (set(EXPECTED), None)


@pytest.mark.parametrize("step", ["stop-producers", "idle", "agree"])
def test_before_the_flow_is_stopped_who_goes_on_looks_again_at_who_writes_and_reads(
    world: World, tmp_path: Path, step: str
):
    """And asks again to stop them: they may have been started again."""
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.PLANNED), path, f'"what":"done","step":"{step}"')
    world.sides.source.log("orders", COPIED + 3)
    world.told.clear()
    with pytest.raises(RetriableError, match="3 records not replicated"):
        move(world, wanted(Kind.PLANNED), path)
    assert (world.stopped, stands(world)) == (False, {"ahead": 50})
    assert "stop-producers: no hook is configured: perform this step now" in world.told
    assert world.told[-2] == (
        f"to abandon the failover: restart the stopped applications, and move {path} to another "
        "directory"
    )


def test_a_flow_that_may_be_stopped_already_is_told(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"
    left_lying(world, wanted(Kind.PLANNED), path, '"what":"started","step":"stop-flow"')
    world.told.clear()
    move(world, wanted(Kind.PLANNED), path)
    assert "resume it with mm2 resume 'east->west'" in world.told[0]
    assert stands(world) == EXPECTED
