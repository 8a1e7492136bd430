"""Many consumer groups that all move: each one's offsets are on the target within seconds, exactly
where they belong, and what that takes does not grow with the rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from tests.support import checkpoints, cluster_access, eventually, kafka
from tests.support.connect_workers import Group, Kind
from tests.support.kafka import Outgoing

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 300.0
NAME = "points"
ALIASES = ("many", "there")
DELTA = 3
"""What stands at an offset of the source stands so much further behind on the target."""
RECORDS = 60
CLOCK = SystemClock()


class World:
    def __init__(
        self, west: SandboxCluster, east: SandboxCluster, topic: str, partitions: int
    ) -> None:
        self.source, self.target = west.client_properties(), east.client_properties()
        self.topic, self.mirror = topic, f"{ALIASES[0]}.{topic}"
        self.places = [TopicPartition(topic, each) for each in range(partitions)]
        self.at_source, self.at_target = (
            KafkaGroups(cluster_access.of(each), client_id="many", clock=CLOCK)
            for each in (west, east)
        )
        for client, name in ((self.source, self.topic), (self.target, self.mirror)):
            kafka.create_topic(client, name, partitions=partitions)
            kafka.produce(
                client,
                name,
                [
                    Outgoing(value=b"%d" % number, partition=each.partition)
                    for number in range(RECORDS + DELTA)
                    for each in self.places
                ],
            )
        self.syncs = f"mm2-offset-syncs.{ALIASES[0]}.internal"
        kafka.create_topic(self.target, self.syncs, config={"cleanup.policy": "compact"})

    def move(self, groups: list[str], offset: int) -> None:
        checkpoints.write_syncs(
            self.target,
            self.syncs,
            *(
                OffsetSync(partition=each, upstream=offset, downstream=offset + DELTA)
                for each in self.places
            ),
        )
        given = dict.fromkeys(self.places, OffsetAndMetadata(offset=offset))
        found = self.at_source.commit_offsets(dict.fromkeys(groups, given), WAIT_S)
        assert found.failed == {}

    def wanted(self, offset: int) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {
            TopicPartition(self.mirror, each.partition): OffsetAndMetadata(offset=offset + DELTA)
            for each in self.places
        }

    def all_there(self, groups: list[str], offset: int) -> bool:
        wanted = self.wanted(offset)
        found = self.at_target.fetch_committed_offsets(groups, WAIT_S)
        return all(found.succeeded[each] == wanted for each in groups)

    def config(self, topic: str) -> dict[str, str]:
        return {
            **checkpoints.config(self.source, self.target, aliases=ALIASES, topics=topic),
            "groups": f"{topic}-.*",
            "tasks.max": "1",
            "offset-syncs.topic.location": "target",
            "sync.group.offsets.enabled": "true",
        }

    def close(self) -> None:
        self.at_source.close()
        self.at_target.close()


def peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (each for each in lines if each.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


@pytest.mark.parametrize(
    ("count", "partitions", "memory_mb"),
    [(300, 5, 250.0), pytest.param(5_000, 20, 700.0, marks=pytest.mark.full)],
)
def test_all_that_move_are_on_the_target_soon_and_take_no_more_each_time(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
    topic: Callable[..., str],
    count: int,
    partitions: int,
    memory_mb: float,
) -> None:
    name = topic("followed")
    world = World(west, east, name, partitions)
    groups = [f"{name}-{number:04}" for number in range(count)]
    try:
        world.move(groups, 10)
        worker = connect_group().start("one", Kind.OURS)
        worker.configure(NAME, world.config(name))
        peaks: list[float] = []
        for offset in (10, 20, 30, 40):
            world.move(groups, offset)
            begun_s = CLOCK.now_s()
            eventually.eventually(
                lambda offset=offset: world.all_there(groups, offset),  # type: ignore[misc] # its default
                WAIT_S,
                worker.log_text,
                interval_s=0.5,
            )
            peaks.append(peak_mb(worker.pid))
            took_s = CLOCK.now_s() - begun_s
            print(f"to {offset}: {took_s:.1f} s, {peaks[-1]:.0f} MB")  # noqa: T201
        assert peaks[-1] < memory_mb, peaks
        assert peaks[-1] < 1.1 * peaks[-2], "it grows with the rounds"
        published = [
            checkpoints.decoded(each) for each in checkpoints.read(world.target, ALIASES[0])
        ]
        mine = [each for each in published if each.group in set(groups)]
        assert len(mine) == 4 * count * partitions, "nothing is said twice"
    finally:
        world.close()
