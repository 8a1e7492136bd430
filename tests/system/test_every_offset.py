"""Every offset there is, translated there and back, against what the two logs say.

Traffic of all kinds flows, our process is killed and stopped at random, the source is cleaned, cut
and grown meanwhile. Then each offset of each partition is asked for: no answer may be wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import system_clock
from mm2.offsets import offset_translation
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import replication_policy
from tests.support import kafka, mirror, numbered, operations
from tests.support.mirror import Mirror
from tests.support.numbered import Kind, Places, Traffic
from tests.support.offset_oracle import Oracle, Verdict

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]

EAGER_CLEANER = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}
CLEANED = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}
KINDS = (
    Kind(topic="plain", partitions=2),
    Kind(topic="tiny", burst=2, codec="none"),
    Kind(topic="store", partitions=2, aborts=0.3, burst=8),
    Kind(topic="cleaned", config=CLEANED, codec="zstd"),
    Kind(topic="cut"),
)
MOVES_ON = 60
WAITS_S = 300.0


class World:
    """Two clusters, traffic on the one, `mm2 run` to the other."""

    def __init__(self, folder: Path, pair: Sequence[SandboxCluster], *, seed: int) -> None:
        self.east, self.west = pair
        self.source, self.target = (each.client_properties() for each in pair)
        self.random = Random(seed)
        self.traffic = Traffic(self.source, KINDS, seed=seed, pause_s=0.2)
        self.settings = mirror.settings(
            self.source,
            self.target,
            topics=[each.topic for each in KINDS],
            spark={"engine": "inline"},
            tasks_max=2,
            refresh_topics_interval_seconds=2,
            config_properties_exclude=["cleanup.policy"],
        )
        self._folder = folder
        self._seen: dict[TopicPartition, Places] = {}
        self.runs: list[Mirror] = []

    @property
    def run(self) -> Mirror:
        return self.runs[-1]

    def start(self) -> None:
        name = f"run-{len(self.runs) + 1}"
        self.runs.append(Mirror(self._folder, self.settings, name=name))

    def move_on(self) -> None:
        """Until records cross, and then for a random while."""
        before = max(0.0, self.run.records())
        self.run.await_records(before + MOVES_ON, WAITS_S)
        system_clock.wait_until(
            lambda: False, timeout_s=self.random.uniform(0.0, 2.0), interval_s=0.5
        )

    # What happens

    def kill(self, meanwhile: Callable[[], None]) -> None:
        self.run.kill()
        meanwhile()
        self.start()

    def stop(self, meanwhile: Callable[[], None]) -> None:
        assert self.run.stop(WAITS_S) == 143
        meanwhile()
        self.start()

    def nothing(self) -> None:
        """Time alone passes."""

    def cut(self) -> None:
        """Retention takes a part of what there is, copied or not."""
        self.note("cut")
        low, high = kafka.offsets(self.source, "cut")
        at = self.random.randint(low, high)
        operations.delete_records(self.source, "cut", at)

    def grow(self) -> None:
        writer = self.traffic.writers["plain"]
        operations.grow(self.source, "plain", writer.partitions + 1)
        writer.partitions += 1

    # The verdict

    def note(self, topic: str) -> None:
        """What the mirror holds now, for it may be deleted there, too."""
        mirrored = f"east.{topic}"
        if mirrored not in kafka.topics(self.target):
            return
        for number in range(kafka.partition_count(self.target, mirrored)):
            place = TopicPartition(topic, number)
            held = numbered.places(self.target, mirrored, number)
            self._seen.setdefault(place, {}).update(held)

    def read_map(self) -> OffsetMap:
        known = OffsetMap()
        for each in kafka.read_partition(
            self.target, replication_policy.format_offset_map_topic("east")
        ):
            assert each.key is not None
            known.apply_record(each.key, each.value)
        known.check_invariants()
        return known

    def judge(self, known: OffsetMap) -> Verdict:
        """Of all offsets on both sides. What is written must be at rest."""
        found = Verdict()
        for writer in self.traffic.writers.values():
            self.note(writer.kind.topic)
            for number in range(writer.partitions):
                found.add(self._judge(TopicPartition(writer.kind.topic, number), known))
        return found

    def _judge(self, place: TopicPartition, known: OffsetMap) -> Verdict:
        written = self.traffic.writers[place.topic].written.get(place, {})
        gone = self._gone(place, written)
        _, source_end = kafka.offsets(self.source, place.topic, place.partition)
        _, target_end = kafka.offsets(self.target, f"east.{place.topic}", place.partition)
        oracle = Oracle(
            written, self._seen[place], source_end=source_end, target_end=target_end, gone=gone
        )
        assert oracle.copied > 0, place
        mine = known.get_partition(place)
        ask = functools.partial(offset_translation.translate_to_target, mine)
        found = oracle.judge(ask, range(source_end + 1))
        # Between two eras, where the source lost records, it may be a bound.
        few = ["ExactOffset"] if len(mine.eras) == 1 else ["ExactOffset", "EarlierOffset"]
        assert set(found.outcomes) <= set(few), f"{place}: {found}"
        ask_back = functools.partial(offset_translation.translate_to_source, mine)
        back = oracle.judge_back(ask_back, range(target_end + 1))
        assert set(back.outcomes) <= {"ExactOffset", "EarlierOffset"}, f"{place}: {back}"
        found.add(back)
        assert not found.wrong, f"{place}: {found}"
        return found

    def _gone(self, place: TopicPartition, written: Places) -> set[int]:
        """What the source's cleaner took.

        It may have been copied by one who was killed before he wrote it down, and the next one
        could compare it with nothing: it is told of in an incident, and no map knows it.
        """
        if place.topic != "cleaned":
            return set()
        return written.keys() - numbered.places(self.source, place.topic, place.partition).keys()

    def judge_live(self) -> None:
        """As the map is while all moves: nothing may be ahead, or wrong, then either."""
        written = {
            place: dict(places)
            for writer in self.traffic.writers.values()
            for place, places in list(writer.written.items())
        }
        known = self.read_map()
        for writer in self.traffic.writers.values():
            self.note(writer.kind.topic)
        for place, places in written.items():
            mine = known.get_partition(place)
            if not mine.era_records or not places:
                continue
            oracle = Oracle(
                places,
                self._seen.get(place, {}),
                source_end=max(places) + 1,
                target_end=kafka.offsets(self.target, f"east.{place.topic}", place.partition)[1],
                gone=self._gone(place, places),
            )
            ask = functools.partial(offset_translation.translate_to_target, mine)
            found = oracle.judge(ask, range(0, max(places) + 1, 5))
            seen = sorted(self._seen.get(place, {}).items())[:5]
            told = f"{mine.eras}, {list(mine.segments.items())[-5:]}, mirror: {seen}"
            assert not found.wrong, f"{place}, live: {found}\n{told}"


def everything(world: World) -> list[Callable[[], None]]:
    """Each kind of thing once."""
    return [
        lambda: world.kill(world.nothing),
        lambda: world.kill(world.cut),
        lambda: world.stop(world.cut),
        world.cut,
        world.grow,
        world.judge_live,
    ]


def live_through(world: World, happens: list[Callable[[], None]]) -> Verdict:
    """In random order."""
    world.random.shuffle(happens)
    world.traffic.create_topics()
    try:
        with world.traffic:
            world.start()
            for each in happens:
                world.move_on()
                each()
            world.move_on()
        world.run.stop(WAITS_S)
        log = mirror.catch_up(world._folder, world.settings)
        assert "caught up" in log
        return world.judge(world.read_map())
    finally:
        for run in world.runs:
            if run.running:
                run.kill()


@pytest.fixture
def world(tmp_path: Path, own_cluster: Callable[..., SandboxCluster]) -> World:
    seed = SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    pair = [own_cluster(name, settings=EAGER_CLEANER) for name in ("east", "west")]
    return World(tmp_path, pair, seed=seed)


def test_every_offset_is_translated_to_its_place_and_back(world: World):
    """The short form; below it is as long as it takes."""
    found = live_through(world, [lambda: world.kill(world.cut), world.grow])
    print(found)  # noqa: T201
    assert found.outcomes["ExactOffset"] > 500


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_every_offset_after_many_kills(world: World):
    found = live_through(world, everything(world) * 6)
    print(found)  # noqa: T201
    assert found.outcomes["ExactOffset"] > 5_000
