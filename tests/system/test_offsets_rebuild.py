"""A lost map is made anew from both logs, and what Java had copied before is added to a map: then
every offset is asked for, against what the two logs say."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.offsets import offset_translation
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.topics import replication_policy
from tests.interop.dedicated_nodes import Kind, Node
from tests.support import eventually, kafka, mirror, numbered
from tests.support.kafka import Outgoing
from tests.support.mirror import Mirror
from tests.support.numbered import Traffic
from tests.support.offset_oracle import Oracle, Verdict

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

MAP = replication_policy.format_offset_map_topic("east")
WAIT_S = 120.0


class World:
    """`kinds` are written on the one and mirrored to the other, as long as a flow runs."""

    def __init__(
        self,
        folder: Path,
        pair: Sequence[SandboxCluster],
        kinds: Sequence[numbered.Kind],
        **flow: Any,
    ) -> None:
        self.folder = folder
        self.source, self.target = (each.client_properties() for each in pair)
        self.traffic = Traffic(self.source, kinds, seed=7, pause_s=0.02)
        self.topics = [each.topic for each in kinds]
        self.settings = mirror.settings(
            self.source, self.target, topics=self.topics, spark={"engine": "inline"}, **flow
        )
        self.file = folder / "clusters.yaml"
        self.file.touch(mode=0o600)
        self.file.write_text(json.dumps(self.settings))

    @property
    def written(self) -> int:
        writers = self.traffic.writers.values()
        return sum(len(each) for writer in writers for each in list(writer.written.values()))

    def write(self, count: int) -> None:
        """So many more records, at least."""
        goal = self.written + count
        with self.traffic:
            eventually.eventually(lambda: self.written >= goal, WAIT_S, f"{goal} are written")

    def catch_up(self, *words: str) -> None:
        arguments = ("--until-caught-up", "--timeout", "100", *words)
        status, log = mirror.run_to_end(self.folder, self.settings, *arguments)
        assert status == 0, log[-6000:]

    def rebuild(self, *words: str) -> list[dict[str, Any]]:
        asked = [word for each in self.topics for word in ("--topic", each)]
        options = [*asked, *words, "--config", str(self.file)]
        done = mirror.mm2("offsets", "rebuild", "--json", *options, timeout_s=WAIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["partitions"]
        return found

    def forget(self) -> None:
        """The map loses all that it knows of our topics."""
        records = kafka.read_partition(self.target, MAP)
        keys = {each.key for each in records if each.key is not None}
        ours = [
            each
            for each in sorted(keys)
            if offset_map_records.decode_map_key(each).topic in self.topics
        ]
        assert ours
        kafka.produce(self.target, MAP, [Outgoing(key=each, value=None) for each in ours])

    def read_map(self) -> OffsetMap:
        known = OffsetMap()
        for each in kafka.read_partition(self.target, MAP):
            assert each.key is not None
            known.apply_record(each.key, each.value)
        known.check_invariants()
        return known

    def places(self) -> list[TopicPartition]:
        return sorted(place for writer in self.traffic.writers.values() for place in writer.written)

    def judge(self) -> tuple[Verdict, Verdict]:
        """Of all offsets of the source, and of the mirror. What is written must be at rest."""
        found, back = Verdict(), Verdict()
        known = self.read_map()
        for place in self.places():
            there, here = self._judge(place, known.get_partition(place))
            found.add(there)
            back.add(here)
        assert not found.wrong, str(found)
        assert not back.wrong, str(back)
        return found, back

    def _judge(self, place: TopicPartition, mine: PartitionMap) -> tuple[Verdict, Verdict]:
        written = self.traffic.writers[place.topic].written[place]
        there = numbered.places(self.target, f"east.{place.topic}", place.partition)
        here = numbered.places(self.source, place.topic, place.partition)
        _, source_end = kafka.offsets(self.source, place.topic, place.partition)
        _, target_end = kafka.offsets(self.target, f"east.{place.topic}", place.partition)
        oracle = Oracle(
            written,
            there,
            source_end=source_end,
            target_end=target_end,
            gone=written.keys() - here.keys(),
        )
        assert oracle.copied > 0, place
        ask = functools.partial(offset_translation.translate_to_target, mine)
        ask_back = functools.partial(offset_translation.translate_to_source, mine)
        return (
            oracle.judge(ask, range(source_end + 1)),
            oracle.judge_back(ask_back, range(target_end + 1)),
        )

    def each_once(self) -> None:
        for place in self.places():
            there = numbered.places(self.target, f"east.{place.topic}", place.partition)
            written = self.traffic.writers[place.topic].written[place]
            assert sorted(there.values()) == sorted(written.values()), place


def test_a_map_that_is_lost_is_made_anew_and_copying_goes_on(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Callable[..., str]
) -> None:
    kinds = (
        numbered.Kind(topic=topic("plain"), partitions=2),
        numbered.Kind(topic=topic("store"), aborts=0.3, burst=8),
    )
    world = World(tmp_path, (east, west), kinds)
    world.traffic.create_topics()
    world.write(600)
    world.catch_up()
    world.forget()
    found = world.rebuild("--engine", "spark")
    assert {each["scope"] for each in found} == {"lost"}
    assert sum(each["matched"] for each in found) == world.written
    assert {(each["bounded"], each["unmatched_tail"]) for each in found} == {(0, 0)}
    assert [set(each.outcomes) for each in world.judge()] == [{"ExactOffset"}, {"ExactOffset"}]
    world.write(200)
    world.catch_up()
    assert [set(each.outcomes) for each in world.judge()] == [{"ExactOffset"}, {"ExactOffset"}]
    world.each_once()


def test_nothing_is_made_anew_while_the_flow_runs(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Callable[..., str]
) -> None:
    world = World(tmp_path, (east, west), (numbered.Kind(topic=topic("plain")),))
    world.traffic.create_topics()
    world.write(100)
    with Mirror(tmp_path, world.settings) as run:
        run.await_records(world.written)
        assert {each["scope"] for each in world.rebuild("--engine", "inline")} == {"known"}
        world.forget()
        (looked,) = world.rebuild("--dry-run", "--engine", "inline")
        assert (looked["stored"], looked["matched"]) == (0, world.written)
        options = ["--topic", world.topics[0], "--config", str(world.file)]
        done = mirror.mm2("offsets", "rebuild", "--engine", "inline", *options)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Stop the flow's mm2 run first" in done.stderr


EAGER_CLEANER = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "500"}
CLEANED = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_a_lost_map_of_topics_that_are_cleaned(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster]
) -> None:
    """What the cleaners took on either side is told apart from what is there, or has a bound.

    The more cleaners took, the more may have been copied from equal records that are gone. These
    are numbered: no two are alike.
    """
    pair = [own_cluster(name, settings=EAGER_CLEANER) for name in ("east", "west")]
    kinds = (
        numbered.Kind(topic="cleaned", config=CLEANED, partitions=2, codec="zstd"),
        numbered.Kind(topic="both", config=CLEANED, aborts=0.3),
        numbered.Kind(topic="plain", partitions=2, burst=200),
    )
    world = World(tmp_path, pair, kinds)
    world.traffic.create_topics()
    for _ in range(4):
        world.write(5_000)
        world.catch_up()
    world.forget()
    found = world.rebuild("--engine", "spark", "--all-differ")
    assert {each["scope"] for each in found} == {"lost"}
    outcomes = world.judge()[0].outcomes
    assert outcomes["ExactOffset"] > 10_000, outcomes
    world.write(2_000)
    world.catch_up()
    world.judge()


def java_properties(world: World) -> dict[str, str]:
    given = {"clusters": "east,west"}
    for alias, client in (("east", world.source), ("west", world.target)):
        given |= {f"{alias}.{key}": value for key, value in client.items()}
        for kind in ("config", "offset", "status"):
            given[f"{alias}.{kind}.storage.replication.factor"] = "1"
    return given | {
        "east->west.enabled": "true",
        "east->west.topics": ",".join(world.topics),
        "refresh.topics.interval.seconds": "1",
        "emit.heartbeats.enabled": "false",
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "dedicated.mode.enable.internal.rest": "true",
        "west.offset.flush.interval.ms": "5000",
        "west.plugin.discovery": "service_load",
    }


def all_there(world: World) -> bool:
    for place in world.places():
        mirrored = f"east.{place.topic}"
        if mirrored not in kafka.topics(world.target):
            return False
        there = numbered.places(world.target, mirrored, place.partition)
        written = world.traffic.writers[place.topic].written[place]
        if not set(written.values()) <= set(there.values()):
            return False
    return True


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_what_java_had_copied_is_added_to_the_map(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster]
) -> None:
    """Java is killed once, and copies some of it again; its offset syncs are few."""
    world = World(
        tmp_path,
        [own_cluster(name) for name in ("east", "west")],
        (
            numbered.Kind(topic="plain", partitions=2),
            numbered.Kind(topic="store", aborts=0.3, burst=8),
        ),
    )
    world.traffic.create_topics()
    properties = java_properties(world)
    for name in ("killed", "stopped"):
        world.write(1_500)
        node = Node(Kind.JAVA, properties, tmp_path, name)
        try:
            eventually.eventually(
                functools.partial(all_there, world), 2 * WAIT_S, node.log, interval_s=1.0
            )
            if name == "stopped":
                node.stop()
        finally:
            node.close()
    world.write(500)
    world.catch_up("--java-stopped-cleanly")
    known_before = world.judge()[0].outcomes
    assert known_before["too old"] > 500, known_before
    found = world.rebuild("--engine", "inline")
    assert {each["scope"] for each in found} == {"before"}
    after = world.judge()[0].outcomes  # the way back is not known of what stands there twice
    assert after["too old"] < 10, after
    assert after["ExactOffset"] > known_before["ExactOffset"] + 500, (known_before, after)
    assert {each["scope"] for each in world.rebuild("--engine", "inline")} == {"rebuilt"}
