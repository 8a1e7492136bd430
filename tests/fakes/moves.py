"""A move over two clusters in memory, which may crash wherever something happens."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.fencing_results import FencingResult
from mm2.failover import failover_journal
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_executor import FailoverExecutor
from mm2.failover.failover_journal import FailoverIdentity
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_planner import FailoverPlanner
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.writer_fencing import PartiallyFencedError
from mm2.topics import replication_policy, topic_filters
from mm2.topics.flow_config import Flow
from tests.fakes import copied_map
from tests.fakes.two_sides import FakeSides

HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
COPIED, DELTA = 100, 5


class CrashError(BaseException):
    """The process is gone."""


class Clock:
    """Only pauses take time."""

    def __init__(self) -> None:
        self.s = 0.0

    def now_s(self) -> float:
        return self.s

    def wall_ms(self) -> int:
        return int(self.s * 1000)

    def pause(self, seconds: float) -> None:
        self.s += seconds


@dataclass
class World:
    """What outlives a crash. `on` runs before what happens next; `crash_at` counts such places.
    `unfenced` says which of these partitions are not fenced in time."""

    folder: Path
    sides: FakeSides
    crash_at: int | None = None
    happened: list[str] = field(default_factory=list)
    positions: dict[str, list[int]] = field(default_factory=dict)
    stopped: bool = False
    fenced: int = 0
    epochs_before: int = 0
    locked_out: set[TopicPartition] = field(default_factory=set)
    busy: int = 0
    connectors: tuple[str, ...] = ("MirrorSourceConnector",)
    told: list[str] = field(default_factory=list)
    on: Callable[[str], None] = lambda _: None
    unfenced: Callable[[set[TopicPartition]], set[TopicPartition]] = lambda _: set()

    def happens(self, what: str) -> None:
        """The process may die here."""
        self.happened.append(what)
        self.on(what)
        if self.crash_at is not None and len(self.happened) == self.crash_at:
            raise CrashError(what)

    def stop(self) -> list[str]:
        self.happens("before stop")
        self.stopped = True
        self.happens("after stop")
        return list(self.connectors)

    def running(self) -> list[str]:
        self.busy -= 1
        return ["a task"] if self.busy >= 0 else []

    def fence(self, known: Any, partitions: Collection[TopicPartition]) -> list[FencingResult]:
        self.happens("before fence")
        self.fenced += 1
        left = self.unfenced(set(partitions))
        self.locked_out.update(set(partitions) - left)
        self.happens("after fence")
        order = (1, self.epochs_before + self.fenced)
        found = [
            FencingResult(partition=each, marker=COPIED + DELTA, owner_order=order, tail=0)
            for each in sorted(set(partitions) - left)
        ]
        if left:
            raise PartiallyFencedError("time is up", found)
        return found


def east_and_west(folder: Path) -> World:
    """A partition that was copied whole, and three groups, one of which has read on there."""
    flow = Flow(
        source="east", target="west", topics=topic_filters.compile_topic_filter(("orders",))
    )
    sides = FakeSides(flow)
    sides.source.log("orders", COPIED)
    sides.target.log("east.orders", COPIED + DELTA)
    sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = copied_map.log(
        HERE, through=COPIED, delta=DELTA
    )
    for name, offset in (("billing", 40), ("mail", COPIED), ("ahead", 10)):
        sides.source.members.commit(name, {HERE: offset})
    sides.target.members.commit("ahead", {THERE: 50})
    return World(folder=folder, sides=sides)


def wanted(kind: FailoverKind, **given: Any) -> FailoverRequest:
    return FailoverRequest(origin="east", destination="west", kind=kind, **given)


class CrashingFile(JournalFile):
    """A line may be the last one, or be written no more."""

    world: World

    def append_entry(self, line: str) -> None:
        self.world.happens("before a line")
        super().append_entry(line)
        self.world.happens("after a line")


def move(world: World, asked: FailoverRequest, path: Path, clock: Clock | None = None) -> None:
    """Begins it, or goes on with it, until it is done, fails or crashes."""
    clock = clock or Clock()
    target = world.sides.target
    target.members.on_write = lambda: world.happens("before the groups are written")
    begin = None
    if not path.exists():
        begin = failover_journal.encode_begun_entry(
            FailoverIdentity(request=asked, flow="east->west"), at_ms=0
        )
    planner = FailoverPlanner(
        clusters=world.sides, find_unreplicated=lambda _: {}, clock=clock, timeout_s=10.0
    )
    with CrashingFile(path, begin=begin) as file:
        file.world = world
        about = FailoverContext(
            clusters=world.sides,
            map_reader=target.open_offset_map_reader("east"),
            planner=planner,
            stop_connectors=world.stop,
            list_running_tasks=world.running,
            fence_partitions=world.fence,
            export_records=lambda *_: 0,
            clock=clock,
            sleep=clock.pause,
            print_line=world.told.append,
            quiescence_s=2.0,
            wait_s=30.0,
            file="my.yaml",
        )
        FailoverExecutor(file, about).run_remaining_steps()


EXPECTED = {"billing": 40 + DELTA, "mail": COPIED + DELTA, "ahead": 50}


def stands(world: World) -> dict[str, int | None]:
    members = world.sides.target.members
    return {name: members.offsets(name).get(THERE) for name in sorted(members.groups)}


OTHER = TopicPartition("orders", 1)


def also_copied(world: World) -> None:
    """A second partition, in the map and on the cluster gone to."""
    world.sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = [
        *copied_map.log(HERE, through=COPIED, delta=DELTA),
        *copied_map.log(OTHER, through=COPIED, delta=DELTA),
    ]
    for side, topic in ((world.sides.source, "orders"), (world.sides.target, "east.orders")):
        side.cluster.topics[topic].partitions = 2
        side.log(topic, COPIED if side is world.sides.source else COPIED + DELTA, partition=1)
