"""`mm2 failback`: applications move across and back, and find what the first cluster never gave."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic import simulated_applications
from mm2.sandbox.traffic.simulated_applications import GroupConsumer, NumberProducer
from tests.support import both_ways, eventually, kafka, mirror
from tests.support.console_consumer import ConsoleConsumer
from tests.support.kafka import Outgoing, Properties, Record
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

TOPIC, PARTITIONS = "orders", 2
DEADLINE_S = 120.0
LATER, NEVER_SENT = 1_000_000, 2_000_000
"""The first numbers of what is written on the second cluster, and of what never leaves the first
one before it is gone back to."""
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


class Workers:
    """A consumer group's members, one after the other, here or there; `java`: Kafka's own console
    consumer."""

    def __init__(
        self, folder: Path, sides: Mapping[str, Properties], group: str, *, java: bool
    ) -> None:
        self.group = group
        self._folder = folder
        self._sides = sides
        self._java = java
        self.shifts: list[GroupConsumer | ConsoleConsumer] = []
        for properties in sides.values():
            simulated_applications.create_group_at_offset_zero(
                properties, group, TOPIC, partitions=PARTITIONS
            )

    def go(self, side: str, *topics: str) -> None:
        properties = self._sides[side]
        if self._java:
            folder = self._folder / f"{self.group}-{len(self.shifts)}"
            folder.mkdir()
            made = ConsoleConsumer(folder, properties, self.group, *topics)
            self.shifts.append(made.start())
        else:
            reading = GroupConsumer(properties, self.group, *topics)
            reading.start()
            self.shifts.append(reading)

    @property
    def now(self) -> list[int]:
        """Of the last shift."""
        return self.shifts[-1].processed

    @property
    def processed(self) -> list[int]:
        return [number for shift in self.shifts for number in shift.processed]

    def await_work(self, records: int) -> None:
        eventually.eventually(
            lambda: len(self.now) >= records,
            DEADLINE_S,
            lambda: f"group {self.group}: {len(self.now)} records",
        )

    def await_processed(self, wanted: set[int]) -> None:
        """Each of these, in whatever shift."""
        eventually.eventually(
            lambda: wanted <= set(self.processed),
            DEADLINE_S,
            lambda: f"{self.group}: {sorted(wanted - set(self.processed))[:5]}… not processed",
        )

    def stop(self) -> None:
        self.shifts[-1].stop()


class Scene:
    """Two clusters, flows both ways, and applications that work now here and now there."""

    def __init__(
        self, folder: Path, own_cluster: Callable[..., SandboxCluster], **policy: Any
    ) -> None:
        self.folder = folder
        self.east, self.west = own_cluster("east"), own_cluster("west")
        self.sides = {
            "east": self.east.client_properties(),
            "west": self.west.client_properties(),
        }
        for properties in self.sides.values():
            kafka.create_topic(properties, TOPIC, partitions=PARTITIONS)
        given = mirror.settings(
            *self.sides.values(),
            topics=[TOPIC],
            spark={"engine": "inline"},
            emit_checkpoints_interval_seconds=1,
            refresh_groups_interval_seconds=1,
            heartbeats_replication_enabled=True,  # they never stand still, and need not agree
        )
        there = given["flows"][0] | policy
        back = there | {"from": "west", "to": "east"}
        self.given = given | {"flows": [there, back]}
        self.mirrored = TOPIC if policy else f"east.{TOPIC}"
        self.runs: list[Mirror] = []

    def run(self) -> Mirror:
        """The flows, until this process ends or kills them."""
        self.runs.append(Mirror(self.folder, self.given, name=f"run-{len(self.runs)}"))
        return self.runs[-1]

    def workers(self, group: str, *, java: bool = False) -> Workers:
        return Workers(self.folder, self.sides, group, java=java)

    def writing(self, side: str, first: int) -> NumberProducer:
        return NumberProducer(self.sides[side], TOPIC, partitions=PARTITIONS, first=first)

    def is_known_by_checkpoints(self) -> bool:
        """Is there a group that could go to west if east were lost now?"""
        asked = ("--from", "east", "--to", "west", "--origin-lost", "--json")
        config = ("--config", str(self.runs[-1].settings_path))
        return bool(json.loads(mirror.mm2("failover", *asked, *config).stdout)["groups"])

    def move(
        self,
        *arguments: str,
        writing: NumberProducer | None = None,
        workers: Sequence[Workers] = (),
    ) -> dict[str, Any]:
        """Producers and consumers are stopped when it is asked for; the report."""
        journal = self.folder / f"{arguments[0]}.jsonl"
        command = [
            *(*mirror.COMMAND, *arguments, "--execute", "--quiescence", "1"),
            *("--journal", str(journal), "--config", str(self.runs[-1].settings_path)),
        ]
        said = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=mirror.ROOT
        ) as moving:
            assert moving.stdout is not None
            for line in moving.stdout:
                said.append(line)
                if line.startswith("stop-producers: no hook") and writing is not None:
                    writing.stop()
                if line.startswith("stop-consumers: no hook"):
                    for each in workers:
                        each.stop()
        assert moving.returncode == 0, "".join(said) + self.runs[-1].tail
        found: dict[str, Any] = json.loads(journal.read_text().splitlines()[-1])["detail"]
        return found

    def send_unseen(self, count: int) -> set[int]:
        """Records of the first cluster that nobody copies any more."""
        numbers = range(NEVER_SENT, NEVER_SENT + count)
        kafka.produce(
            self.sides["east"],
            TOPIC,
            [
                Outgoing(key=None, value=str(each).encode(), partition=each % PARTITIONS)
                for each in numbers
            ],
        )
        return set(numbers)

    def close(self) -> None:
        for each in self.runs:
            if each.running:
                each.kill()


@pytest.fixture
def make(tmp_path: Path, own_cluster: Callable[..., SandboxCluster]) -> Iterator[Any]:
    made: list[Scene] = []

    def scene(**policy: Any) -> Scene:
        made.append(Scene(tmp_path, own_cluster, **policy))
        return made[-1]

    yield scene
    for each in made:
        each.close()


def exported(path: Path) -> set[int]:
    first, *lines = path.read_text().splitlines()
    about = json.loads(first)
    assert (about["v"], about["cluster"], about["records"]) == (1, "east", len(lines))
    return {int(base64.b64decode(json.loads(line)["value"])) for line in lines}


def across(scene: Scene, workers: Sequence[Workers]) -> set[int]:
    """They work on east, then, as planned, on west; what was written on east."""
    running = scene.run()
    written = scene.writing("east", 0)
    with written:
        for each in workers:
            each.go("east", TOPIC)
            each.await_work(200)
        running.await_records(200, flow="east->west")
        report = scene.move(
            *("failover", "--planned", "--from", "east", "--to", "west"),
            writing=written,
            workers=workers,
        )
    assert (report["lag_records"], report["reread_max"], report["unmoved"]) == (0, 0, [])
    for each in workers:
        each.go("west", *dict.fromkeys((TOPIC, scene.mirrored)))
        each.await_processed(written.sent)
    return written.sent


def once(workers: Sequence[Workers]) -> bool:
    return all(len(each.processed) == len(set(each.processed)) for each in workers)


def test_back_to_the_first_cluster_under_other_names(make: Callable[..., Scene]):
    """With a consumer of Kafka's own beside ours: each record is processed once by each group."""
    scene = make()
    workers = [scene.workers("billing"), scene.workers("console", java=True)]
    across(scene, workers)
    unseen = scene.send_unseen(7)
    later, tail = scene.writing("west", LATER), scene.folder / "tail.jsonl"
    with later:
        for each in workers:
            each.await_work(200)
        scene.runs[-1].await_records(200, flow="west->east")
        report = scene.move(
            *("failback", "--from", "west", "--to", "east", "--export", str(tail)),
            writing=later,
            workers=workers,
        )
    assert exported(tail) == unseen
    assert (report["reread_max"], report["unmoved"]) == (0, [])
    for each in workers:
        each.go("east", TOPIC, f"west.{TOPIC}")
        each.await_processed(unseen | later.sent)
        each.stop()
    assert once(workers)


@pytest.mark.full
@pytest.mark.parametrize("left", [0, 7])
def test_back_to_the_first_cluster_under_one_name(make: Callable[..., Scene], left: int):
    """Without a tail nothing is read again; with one, what was copied over behind it is."""
    scene = make(**IDENTITY)
    (each,) = workers = [scene.workers("billing")]
    across(scene, workers)
    unseen = scene.send_unseen(left) if left else set()
    later = scene.writing("west", LATER)
    with later:
        each.await_work(200)
        scene.runs[-1].await_records(200, flow="west->east")
        report = scene.move(
            *("failback", "--from", "west", "--to", "east"), writing=later, workers=workers
        )
    each.go("east", TOPIC)
    each.await_processed(unseen | later.sent)
    for flow in ("east->west", "west->east"):
        done = mirror.mm2("resume", flow, "--config", scene.runs[-1].settings_path)
        assert done.returncode == 0, done.stderr
    eventually.eventually(
        lambda: all(map(both_hold_each_once, pairs(scene))),
        DEADLINE_S,
        lambda: scene.runs[-1].tail,
    )
    each.stop()
    twice = len(each.processed) - len(set(each.processed))
    assert once(workers) == (left == 0)
    assert twice <= report["reread_max"] <= twice + 10 * PARTITIONS  # markers count as records


def pairs(scene: Scene) -> list[dict[str, list[Record]]]:
    return both_ways.committed(scene.sides, TOPIC, range(PARTITIONS))


def both_hold_each_once(logs: dict[str, list[Record]]) -> bool:
    east, west = ([int(each.value or b"") for each in logs[side]] for side in ("east", "west"))
    return len(east) == len(set(east)) and sorted(east) == sorted(west)


@pytest.mark.full
def test_a_killed_cluster_is_come_back_to(make: Callable[..., Scene]):
    """Its brokers are killed, and so is who copied; later it is started again."""
    scene = make()
    (each,) = workers = [scene.workers("billing")]
    running = scene.run()
    with scene.writing("east", 0) as written:
        each.go("east", TOPIC)
        each.await_work(200)
        running.await_records(200, flow="east->west")
        eventually.eventually(scene.is_known_by_checkpoints, DEADLINE_S, "the group is known there")
    each.await_processed(written.sent)
    each.stop()
    running.kill()
    unseen = scene.send_unseen(7)
    scene.east.kill()
    report = scene.move("failover", "--from", "east", "--to", "west")
    stands = {
        place["partition"]: place["resume_offset"]
        for place in report["moved"][0]["partitions"]
        if place["mirror"] == scene.mirrored
    }
    before = {
        int(record.value or b"")
        for number, at in stands.items()
        for record in kafka.read_partition(scene.sides["west"], scene.mirrored, number, start=at)
    }
    later = scene.writing("west", LATER)
    with later:
        each.go("west", TOPIC, scene.mirrored)
        each.await_work(200)
        scene.east.restart()
        scene.run().await_records(200, flow="west->east")
        tail = scene.folder / "tail.jsonl"
        back = scene.move(
            *("failback", "--from", "west", "--to", "east", "--export", str(tail)),
            writing=later,
            workers=workers,
        )
    assert {number for number in each.now if number < LATER} == before  # again, as it was planned
    here, there = each.shifts
    each.go("east", TOPIC, f"west.{TOPIC}")
    each.await_processed(written.sent | unseen | later.sent)
    each.stop()
    assert unseen <= exported(tail)
    assert back["reread_max"] == 0
    assert not set(each.now) & {*here.processed, *there.processed}
