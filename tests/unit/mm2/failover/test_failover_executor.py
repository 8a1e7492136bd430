"""A move, with a crash at every place where one can be: whoever goes on ends where an undisturbed
move does."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.failover import failover_journal, failover_steps, flow_stop, readiness
from mm2.failover.failover_executor import FailoverRefusedError
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_request import FailoverKind
from mm2.failover.failover_steps import FailoverStep
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.topics import replication_policy
from tests.fakes import copied_map
from tests.fakes.moves import (
    COPIED,
    DELTA,
    EXPECTED,
    HERE,
    OTHER,
    THERE,
    Clock,
    CrashError,
    World,
    also_copied,
    east_and_west,
    move,
    stands,
    wanted,
)

Kind, Step = FailoverKind, FailoverStep


@pytest.fixture
def world(tmp_path: Path) -> World:
    return east_and_west(tmp_path)


@pytest.mark.parametrize("kind", [Kind.EMERGENCY, Kind.PLANNED])
def test_groups_are_moved(world: World, tmp_path: Path, kind: FailoverKind):
    path = tmp_path / "move.jsonl"
    move(world, wanted(kind), path)
    assert stands(world) == EXPECTED
    assert world.stopped
    found = failover_journal.read_journal(path.read_text())
    assert found.moved == set(EXPECTED)
    report = found.details[Step.REPORT]
    assert [each["group"] for each in report["moved"]] == sorted(EXPECTED)
    assert (report["unmoved"], report["lag_records"], report["stranded_records"]) == ([], 0, 0)
    assert [(each["code"], each["group"]) for each in report["findings"]] == [
        ("higher-position", "ahead")
    ]
    states = {each["group"]: each["partitions"][0]["state"] for each in report["moved"]}
    assert states == {"ahead": "is-ahead", "billing": "moves", "mail": "moves"}


@pytest.mark.parametrize("kind", [Kind.EMERGENCY, Kind.PLANNED])
def test_each_step_is_told_with_how_it_was_read_back(
    world: World, tmp_path: Path, kind: FailoverKind
):
    path = tmp_path / "move.jsonl"
    move(world, wanted(kind), path)
    verbs = ("VERIFIED ", "LEFT TO YOU ")
    told = [each for each in world.told if each.startswith(verbs)]
    order = failover_steps.order_steps(wanted(kind), ())
    assert [each.partition(":")[0].split()[-1] for each in told] == [step.value for step in order]
    yours = {each for each in told if each.startswith(verbs[1])}
    assert len(yours) == (4 if kind is Kind.PLANNED else 0)
    report = failover_journal.read_journal(path.read_text()).details[Step.REPORT]
    assert [f"{each['step']}: {each['read_back']}" for each in report["steps"]] == (
        [each.removeprefix(verbs[0]).removeprefix(verbs[1]) for each in told[:-1]]
    )
    assert report["active"] == []


@pytest.mark.parametrize("kind", [Kind.EMERGENCY, Kind.PLANNED])
def test_a_crash_anywhere_changes_nothing(
    world: World, tmp_path: Path, kind: FailoverKind, monkeypatch: pytest.MonkeyPatch
):
    """Every place in turn, each in a move of its own; groups never go back meanwhile."""
    monkeypatch.setattr("os.fsync", lambda _: None)  # the machine goes on
    lowest: dict[str, int] = {}

    def watch(_: str) -> None:
        for name, at in stands(world).items():
            assert (at or 0) >= lowest.get(name, 0), name
            lowest[name] = at or 0

    world.on = watch
    for number in itertools.count(1):
        path = tmp_path / f"{number}.jsonl"
        world.happened.clear()
        world.crash_at = number
        world.sides.target.members.groups.clear()
        world.sides.target.members.commit("ahead", {THERE: 50})
        lowest.clear()
        try:
            move(world, wanted(kind), path)
            crashed = False
        except CrashError:
            crashed = True
            world.crash_at = None
            move(world, wanted(kind), path)
        assert stands(world) == EXPECTED, number
        found = failover_journal.read_journal(path.read_text())
        assert found.next_step is None
        assert tuple(found.details) == failover_steps.order_steps(wanted(kind), ())
        assert found.moved == set(EXPECTED)
        if not crashed:
            assert number > 2 * len(found.details)
            break


def test_who_consumes_already_is_not_set_back_by_going_on_hours_later(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"

    def die(what: str) -> None:
        if what == "after a line" and '"what":"group"' in path.read_text():
            raise CrashError(what)

    world.on = die
    with pytest.raises(CrashError):
        move(world, wanted(Kind.EMERGENCY), path)
    world.on = lambda _: None
    world.sides.target.log("east.orders", 120)
    for name in EXPECTED:
        world.sides.target.members.commit(name, {THERE: 110})
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == dict.fromkeys(EXPECTED, 110)


def test_a_group_is_set_back_once_where_that_is_asked(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"
    move(world, wanted(Kind.EMERGENCY, rewind=True), path)
    assert stands(world)["ahead"] == 10 + DELTA


def test_what_comes_while_the_flow_is_stopped_forbids_a_planned_move(world: World, tmp_path: Path):
    def write(what: str) -> None:
        if what == "after stop":
            world.sides.source.log("orders", COPIED + 3)

    world.on = write
    with pytest.raises(RetriableError, match=r"3 records of east.*ends at 103") as caught:
        move(world, wanted(Kind.PLANNED), tmp_path / "move.jsonl")
    assert "mm2 resume 'east->west'" in str(caught.value)
    way_on = f"--config my.yaml --planned --resume --journal {tmp_path / 'move.jsonl'}"
    assert world.told[-1] == (
        f"final-positions failed; to resume the failover: "
        f"mm2 failover --from east --to west {way_on}"
    )
    assert stands(world) == {"ahead": 50}


def test_what_came_after_the_last_look_is_reported(world: World, tmp_path: Path):
    def write(what: str) -> None:
        if what.startswith("before the groups"):
            world.sides.source.log("orders", COPIED + 3)

    world.on = write
    path = tmp_path / "move.jsonl"
    move(world, wanted(Kind.PLANNED), path)
    found = failover_journal.read_journal(path.read_text())
    assert found.details[Step.REPORT]["stranded_records"] == 3


def test_a_flow_of_which_nothing_is_known_is_not_taken_for_stopped(world: World, tmp_path: Path):
    world.connectors = ()
    path = tmp_path / "move.jsonl"
    with pytest.raises(FatalError, match=f"--accept {readiness.NO_CONNECTORS_CODE}"):
        move(world, wanted(Kind.EMERGENCY), path)
    with JournalFile(path) as file:
        file.append_entry(
            failover_journal.encode_accepted_entry([readiness.NO_CONNECTORS_CODE], at_ms=1)
        )
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == EXPECTED


def test_tasks_that_never_say_they_ended_are_waited_for_and_fenced(world: World, tmp_path: Path):
    world.busy = 1_000
    path, clock = tmp_path / "move.jsonl", Clock()
    move(world, wanted(Kind.EMERGENCY), path, clock)
    assert flow_stop.TASK_END_TIMEOUT_S <= clock.s < flow_stop.TASK_END_TIMEOUT_S + 10
    detail = failover_journal.read_journal(path.read_text()).details[Step.STOP_FLOW]
    assert detail["still_running"] == ["a task"]


def test_writers_of_a_partition_that_does_not_answer_are_fenced_too(world: World, tmp_path: Path):
    also_copied(world)
    away = TopicPartition("east.orders", 1)

    def leave(what: str) -> None:
        if what == "after stop":
            world.sides.target.logs.logs.pop(away, None)
        if what == "before fence":  # it responds again before the last look
            world.sides.target.log("east.orders", COPIED + DELTA, partition=1)

    world.on = leave
    move(world, wanted(Kind.EMERGENCY), tmp_path / "move.jsonl")
    assert world.locked_out == {HERE, OTHER}


@pytest.mark.parametrize("when", ["after fence", "after a line"])
def test_who_begins_a_partition_meanwhile_is_fenced_too(world: World, tmp_path: Path, when: str):
    def begin(what: str) -> None:
        if what == when and world.fenced == 1 and OTHER not in world.locked_out:
            world.on = lambda _: None
            also_copied(world)

    world.on = begin
    move(world, wanted(Kind.EMERGENCY), tmp_path / "move.jsonl")
    assert world.locked_out == {HERE, OTHER}


def test_what_was_fenced_when_time_was_up_is_not_fenced_again(world: World, tmp_path: Path):
    also_copied(world)
    asked: list[set[TopicPartition]] = []

    def partly(partitions: set[TopicPartition]) -> set[TopicPartition]:
        asked.append(partitions)
        return {OTHER} if len(asked) == 1 else set()

    world.unfenced = partly
    move(world, wanted(Kind.EMERGENCY), tmp_path / "move.jsonl")
    assert asked[:2] == [{HERE, OTHER}, {OTHER}]
    assert world.locked_out == {HERE, OTHER}


def test_what_has_no_mirror_any_more_has_no_writers(world: World, tmp_path: Path):
    also_copied(world)
    world.sides.target.cluster.topics["east.orders"].partitions = 1
    del world.sides.target.logs.logs[TopicPartition("east.orders", 1)]
    accepted = frozenset({"mirror-missing"})
    move(world, wanted(Kind.EMERGENCY, accepted=accepted), tmp_path / "move.jsonl")
    assert world.locked_out == {HERE}


def test_a_transaction_that_is_open_is_waited_for(world: World, tmp_path: Path):
    world.sides.source.log("orders", COPIED + 1, pending=1)
    with pytest.raises(RetriableError, match="the start of an open transaction"):
        move(world, wanted(Kind.PLANNED), tmp_path / "move.jsonl")


def test_a_broker_that_is_away_for_a_moment_does_not_end_the_wait(world: World, tmp_path: Path):
    class Passing(Clock):
        def pause(self, seconds: float) -> None:
            super().pause(seconds)
            world.sides.source.members.failure = None

    def fail(_: str) -> None:
        if (tmp_path / "move.jsonl").read_text().endswith('"step":"idle"}\n'):
            world.sides.source.members.failure = RetriableError("away")

    world.on = fail
    move(world, wanted(Kind.PLANNED), tmp_path / "move.jsonl", Passing())
    assert stands(world) == EXPECTED


def test_a_refused_group_is_named_and_the_others_stay_moved(world: World, tmp_path: Path):
    refusal = RetriableError("its coordinator is away")
    world.sides.target.members.failures["write", "mail"] = refusal
    path = tmp_path / "move.jsonl"
    with pytest.raises(RetriableError, match="group mail: its coordinator"):
        move(world, wanted(Kind.EMERGENCY), path)
    assert failover_journal.read_journal(path.read_text()).moved == {"ahead", "billing"}
    world.sides.target.members.failures.clear()
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == EXPECTED


def test_a_group_that_is_set_back_meanwhile_is_told_with_the_way_on(world: World, tmp_path: Path):
    path = tmp_path / "move.jsonl"

    def set_back(what: str) -> None:
        if what == "after a line" and path.read_text().endswith('"step":"verify"}\n'):
            world.sides.target.members.commit("billing", {THERE: 20})

    world.on = set_back
    with pytest.raises(FatalError, match="committed offset 20 instead of 45") as caught:
        move(world, wanted(Kind.EMERGENCY), path)
    verb = "mm2 failover --from east --to west --config my.yaml"
    way_on = f"{verb} --resume --journal {path} --accept "
    assert f"{way_on}lower-position:billing" in str(caught.value)
    with JournalFile(path) as file:
        file.append_entry(
            failover_journal.encode_accepted_entry(["lower-position:billing"], at_ms=1)
        )
    move(world, wanted(Kind.EMERGENCY), path)
    verified = failover_journal.read_journal(path.read_text()).details[Step.REPORT]["verified"]
    told = {
        each["group"]: (each["current_offset"], each["is_below_written_offset"])
        for each in verified
    }
    assert told == {"ahead": (50, False), "billing": (20, True), "mail": (COPIED + DELTA, False)}


def test_a_silent_origin_is_left_by_its_checkpoints(world: World, tmp_path: Path):
    world.sides.source.cluster.away = True
    point = Checkpoint(
        group="billing", partition=THERE, upstream=30, downstream=30 + DELTA, metadata=""
    )
    world.sides.target.topics.topics["east.checkpoints.internal"] = [
        mirrormaker2_records.encode_checkpoint(point)
    ]
    path = tmp_path / "move.jsonl"
    move(world, wanted(Kind.EMERGENCY), path)
    assert stands(world) == {"ahead": 50, "billing": 30 + DELTA}
    report = failover_journal.read_journal(path.read_text()).details[Step.REPORT]
    assert (report["lag_records"], report["stranded_records"]) == (None, None)
    assert world.sides.source.admin.calls == ["list_topics"]  # and nobody waits for it again


def test_topics_made_anew_forbid(world: World, tmp_path: Path):
    era = copied_map.log(HERE, through=COPIED, delta=DELTA)
    world.sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = [
        (key, (value or b"").replace(bytes(16), b"another topic id", 1)) for key, value in era
    ]
    with pytest.raises(FailoverRefusedError, match="was recreated"):
        move(world, wanted(Kind.EMERGENCY), tmp_path / "move.jsonl")
    assert not world.stopped
