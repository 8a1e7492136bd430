"""What an operator has accepted is left alone by every step, and told in the end; what he has not
is told with its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError
from mm2.failover import failover_journal
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_request import FailoverKind
from mm2.failover.failover_steps import FailoverStep
from mm2.offsets.group_offset_sync import GroupState
from tests.fakes.moves import (
    COPIED,
    DELTA,
    EXPECTED,
    HERE,
    OTHER,
    THERE,
    World,
    also_copied,
    east_and_west,
    move,
    stands,
    wanted,
)

Kind, Step = FailoverKind, FailoverStep
ACTIVE = GroupState.ACTIVE
ALL = sorted(EXPECTED)
NO_COORDINATOR = RetriableError("its coordinator is away")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return east_and_west(tmp_path)


def accept(path: Path, *codes: str) -> None:
    with JournalFile(path) as file:
        file.append_entry(failover_journal.encode_accepted_entry(codes, at_ms=1))


def report(path: Path) -> dict[str, object]:
    return dict(failover_journal.read_journal(path.read_text()).details[Step.REPORT])


def comes_there(world: World, group: str) -> None:
    """Just before the groups are written it has members there."""

    def come(what: str) -> None:
        if what.startswith("before the groups"):
            world.sides.target.members.commit(group, {THERE: 20}).state = ACTIVE

    world.on = come


def test_a_group_with_members_there_is_told_with_its_code(world: World, tmp_path: Path):
    comes_there(world, "mail")
    path = tmp_path / "move.jsonl"
    with pytest.raises(RetriableError, match="--accept group-active:mail"):
        move(world, wanted(Kind.EMERGENCY), path)
    accept(path, "group-active:mail")
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == EXPECTED | {"mail": 20}
    assert report(path)["unmoved"] == ["mail"]


@pytest.mark.parametrize("codes", [{"group-active"}, {"group-active:mail"}])
def test_a_group_that_comes_there_is_left_where_that_was_accepted(
    world: World, tmp_path: Path, codes: set[str]
):
    comes_there(world, "mail")
    path = tmp_path / "move.jsonl"
    move(world, wanted(Kind.EMERGENCY, accepted=frozenset(codes)), path)
    assert stands(world) == EXPECTED | {"mail": 20}
    assert report(path)["unmoved"] == ["mail"]
    found = failover_journal.read_journal(path.read_text())
    assert found.details[Step.MOVE_GROUPS] == {"groups": ["ahead", "billing"], "skipped": ["mail"]}


@pytest.mark.parametrize("operation", ["write", "positions"])
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (NO_COORDINATOR, "group-unknown:mail"),
        (NotAuthorizedError("we may not"), "group-write-denied:mail"),
    ],
)
def test_a_group_that_cannot_be_written_does_not_stop_the_others(
    world: World, tmp_path: Path, operation: str, failure: ConnectError, code: str
):
    def fail(what: str) -> None:
        if '"step":"move-groups"' in (tmp_path / "move.jsonl").read_text():
            world.sides.target.members.failures[operation, "mail"] = failure

    world.on = fail
    path = tmp_path / "move.jsonl"
    with pytest.raises(RetriableError, match=f"group mail: .*--accept {code}"):
        move(world, wanted(Kind.EMERGENCY), path)
    assert failover_journal.read_journal(path.read_text()).moved == {"ahead", "billing"}
    accept(path, code)
    world.on = lambda _: None
    world.sides.target.members.failures = {("write", "mail"): failure}
    move(world, wanted(Kind.EMERGENCY), path)
    assert report(path)["unmoved"] == ["mail"]


def no_leader(world: World) -> None:
    """Of the second partition's mirror."""
    also_copied(world)
    world.sides.target.cluster.topics["east.orders"].leaders = (1, None)
    away = TopicPartition("east.orders", 1)
    world.sides.target.logs.failures[away] = RetriableError("nobody leads it")
    world.unfenced = lambda asked: asked & {OTHER}


def test_writers_of_a_mirror_that_is_away_are_left_where_that_was_accepted(
    world: World, tmp_path: Path
):
    no_leader(world)
    path = tmp_path / "move.jsonl"
    move(world, wanted(Kind.EMERGENCY, accepted=frozenset({"mirror-unknown"})), path)
    assert (stands(world), world.locked_out) == (EXPECTED, {HERE})
    codes = [each["code"] for each in report(path)["findings"]]  # type: ignore[attr-defined]
    assert "unfenced" in codes


def test_a_mirror_that_goes_away_meanwhile_is_told_with_its_code(world: World, tmp_path: Path):
    also_copied(world)

    def leave(what: str) -> None:
        if what == "after stop":
            no_leader(world)

    world.on = leave
    path = tmp_path / "move.jsonl"
    with pytest.raises(RetriableError, match=r"does not respond.*--accept mirror-unknown"):
        move(world, wanted(Kind.EMERGENCY), path)
    accept(path, "mirror-unknown")
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == EXPECTED


def test_a_group_goes_by_the_map_where_nobody_answers_for_its_mirror(world: World, tmp_path: Path):
    no_leader(world)
    world.sides.source.members.commit("billing", {HERE: 40, OTHER: 30})
    move(
        world,
        wanted(Kind.EMERGENCY, accepted=frozenset({"mirror-unknown"})),
        tmp_path / "move.jsonl",
    )
    away = TopicPartition("east.orders", 1)
    assert world.sides.target.members.offsets("billing")[away] == 30 + DELTA


def test_a_group_that_reads_on_is_told_with_its_code(world: World, tmp_path: Path):
    world.sides.source.members.groups["mail"].state = ACTIVE
    path = tmp_path / "move.jsonl"
    with pytest.raises(
        RetriableError, match=r"still have members: mail.*--accept group-active-on-origin:mail"
    ):
        move(world, wanted(Kind.PLANNED), path)
    accept(path, "group-active-on-origin:mail")
    move(world, wanted(Kind.PLANNED), path)
    assert stands(world) == EXPECTED
    assert failover_journal.read_journal(path.read_text()).details[Step.IDLE] == {
        "groups": ["ahead", "billing"]
    }


def test_a_group_that_is_not_moved_may_read_on(world: World, tmp_path: Path):
    """It has members on the other cluster, and stays as it is."""
    world.sides.target.members.commit("mail", {THERE: 20}).state = ACTIVE
    world.sides.source.members.groups["mail"].state = ACTIVE
    path = tmp_path / "move.jsonl"
    move(world, wanted(Kind.PLANNED, accepted=frozenset({"group-active:mail"})), path)
    assert report(path)["unmoved"] == ["mail"]


@pytest.mark.parametrize(
    ("failure", "code"),
    [(NO_COORDINATOR, "group-unreadable"), (FatalError("no right"), "group-read-denied")],
)
def test_a_group_that_cannot_be_read_is_waited_for_unless_that_is_accepted(
    world: World, tmp_path: Path, failure: ConnectError, code: str
):
    world.sides.source.members.failures["states", "mail"] = failure
    path = tmp_path / "move.jsonl"
    accepted = frozenset({f"{code}:mail"})
    world.sides.source.members.failures["positions", "mail"] = failure
    with pytest.raises(ConnectError):
        move(world, wanted(Kind.PLANNED), tmp_path / "other.jsonl")
    move(world, wanted(Kind.PLANNED, accepted=accepted), path)
    assert report(path)["unmoved"] == ["mail"]


def test_a_partition_that_is_not_heard_of_is_not_waited_for_where_that_is_accepted(
    world: World, tmp_path: Path
):
    also_copied(world)
    world.sides.source.logs.failures[OTHER] = RetriableError("nobody leads it")
    path = tmp_path / "move.jsonl"
    move(world, wanted(Kind.PLANNED, accepted=frozenset({"lag-unknown"})), path)
    assert stands(world) == EXPECTED
    (end,) = failover_journal.read_journal(path.read_text()).details[Step.AGREE]["ends"]
    assert (end["partition"], end["value"]) == (0, COPIED)
