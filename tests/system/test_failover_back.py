"""`mm2 failback`: applications move across and back, and find what the first cluster never gave."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox import cluster
from mm2.sandbox.traffic import applications
from tests.support import both_ways, eventually, kafka, mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

TOPIC, GROUP, PARTITIONS = "orders", "billing", 2
DEADLINE_S = 90.0
LATER, NEVER_SENT = 1_000_000, 2_000_000
"""The first numbers of what is written on the second cluster, and of what never leaves the first
one before it is gone back to."""
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


class Scene:
    """Two clusters, flows both ways, and one application that works now here and now there."""

    def __init__(
        self, folder: Path, own_cluster: Callable[..., cluster.Cluster], **policy: Any
    ) -> None:
        self.folder = folder
        self.east, self.west = own_cluster("east"), own_cluster("west")
        self.sides = {
            "east": self.east.client_properties(),
            "west": self.west.client_properties(),
        }
        for properties in self.sides.values():
            kafka.create_topic(properties, TOPIC, partitions=PARTITIONS)
            applications.begin(properties, GROUP, TOPIC, partitions=PARTITIONS)
        given = mirror.settings(
            *self.sides.values(),
            topics=[TOPIC],
            spark={"engine": "inline"},
            emit_checkpoints_interval_seconds=1,
            refresh_groups_interval_seconds=1,
        )
        there = given["flows"][0] | policy
        back = there | {"from": "west", "to": "east"}
        self.running = mirror.Mirror(folder, given | {"flows": [there, back]})

    def writing(self, side: str, first: int) -> applications.Writing:
        return applications.Writing(self.sides[side], TOPIC, partitions=PARTITIONS, first=first)

    def reading(self, side: str, *topics: str) -> applications.Reading:
        return applications.Reading(self.sides[side], GROUP, *topics)

    def move(
        self, *arguments: str, writing: applications.Writing, reading: applications.Reading
    ) -> dict[str, Any]:
        """Planned: producers and consumers are stopped when it is asked for; the report."""
        journal = self.folder / f"{arguments[0]}.jsonl"
        command = [
            *(*mirror.COMMAND, *arguments, "--execute", "--settle", "1"),
            *("--journal", str(journal), "--config", str(self.running.settings_path)),
        ]
        said = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=mirror.ROOT
        ) as moving:
            assert moving.stdout is not None
            for line in moving.stdout:
                said.append(line)
                if line.startswith("stop-producers: no hook"):
                    writing.stop()
                if line.startswith("stop-consumers: no hook"):
                    reading.stop()
        assert moving.returncode == 0, "".join(said) + self.running.tail
        found: dict[str, Any] = json.loads(journal.read_text().splitlines()[-1])["detail"]
        return found

    def await_processed(self, reading: applications.Reading, wanted: set[int]) -> None:
        eventually.eventually(
            lambda: wanted <= set(reading.processed),
            DEADLINE_S,
            lambda: f"{len(wanted - set(reading.processed))} of {len(wanted)} are not processed",
        )

    def send_unseen(self, count: int) -> set[int]:
        """Records of the first cluster that nobody copies any more."""
        numbers = range(NEVER_SENT, NEVER_SENT + count)
        kafka.produce(
            self.sides["east"],
            TOPIC,
            [
                kafka.Outgoing(key=None, value=str(each).encode(), partition=each % PARTITIONS)
                for each in numbers
            ],
        )
        return set(numbers)


def exported(path: Path) -> set[int]:
    first, *lines = path.read_text().splitlines()
    about = json.loads(first)
    assert (about["v"], about["cluster"], about["records"]) == (1, "east", len(lines))
    return {int(base64.b64decode(json.loads(line)["value"])) for line in lines}


def across(scene: Scene, mirrored: str) -> tuple[applications.Reading, applications.Reading]:
    """Applications work on east, then on west, where the group reads two kinds of records. Who
    reads there still reads."""
    written, here = scene.writing("east", 0), scene.reading("east", TOPIC)
    with written, here:
        eventually.eventually(lambda: len(here.processed) > 200, DEADLINE_S)
        scene.running.await_records(200, flow="east->west")
        report = scene.move(
            *("failover", "--planned", "--from", "east", "--to", "west"),
            writing=written,
            reading=here,
        )
    assert (report["lag_records"], report["read_again_max"], report["unmoved"]) == (0, 0, [])
    there = scene.reading("west", *dict.fromkeys((TOPIC, mirrored)))
    there.start()
    scene.await_processed(there, written.sent - set(here.processed))
    assert not set(there.processed) & set(here.processed)
    return here, there


def test_back_to_the_first_cluster_under_other_names(tmp_path: Path, own_cluster):
    scene = Scene(tmp_path, own_cluster)
    with scene.running:
        here, there = across(scene, f"east.{TOPIC}")
        unseen = scene.send_unseen(7)
        later = scene.writing("west", LATER)
        with later:
            eventually.eventually(lambda: len(there.processed) > 200, DEADLINE_S)
            scene.running.await_records(200, flow="west->east")
            tail = tmp_path / "tail.jsonl"
            report = scene.move(
                *("failback", "--from", "west", "--to", "east", "--export", str(tail)),
                writing=later,
                reading=there,
            )
        assert exported(tail) == unseen
        assert report["read_again_max"] == 0
        with scene.reading("east", TOPIC, f"west.{TOPIC}") as again:
            scene.await_processed(again, unseen | (later.sent - set(there.processed)))
        processed = here.processed + there.processed + again.processed
        assert len(processed) == len(set(processed))


@pytest.mark.parametrize("left", [0, 7])
def test_back_to_the_first_cluster_under_one_name(tmp_path: Path, own_cluster, left: int):
    """Without a tail nothing is read again; with one, what was copied over behind it is."""
    scene = Scene(tmp_path, own_cluster, **IDENTITY)
    with scene.running:
        here, there = across(scene, TOPIC)
        unseen = scene.send_unseen(left)
        later = scene.writing("west", LATER)
        with later:
            eventually.eventually(lambda: len(there.processed) > 200, DEADLINE_S)
            scene.running.await_records(200, flow="west->east")
            report = scene.move(
                *("failback", "--from", "west", "--to", "east"), writing=later, reading=there
            )
        with scene.reading("east", TOPIC) as again:
            scene.await_processed(again, unseen | (later.sent - set(there.processed)))
        processed = here.processed + there.processed + again.processed
        twice = len(processed) - len(set(processed))
        assert set(processed) >= unseen | later.sent
        assert (twice == 0) == (left == 0)
        assert twice <= report["read_again_max"] <= twice + 10 * PARTITIONS  # and markers
        for flow in ("east->west", "west->east"):
            done = mirror.mm2("resume", flow, "--config", scene.running.settings_path)
            assert done.returncode == 0, done.stderr
        eventually.eventually(lambda: all(map(once_each, pairs(scene))), DEADLINE_S)


def pairs(scene: Scene) -> list[dict[str, list[kafka.Record]]]:
    return both_ways.committed(scene.sides, TOPIC, range(PARTITIONS))


def once_each(logs: dict[str, list[kafka.Record]]) -> bool:
    """Both sides hold the same records, each once."""
    east, west = ([int(each.value or b"") for each in logs[side]] for side in ("east", "west"))
    return len(east) == len(set(east)) and sorted(east) == sorted(west)
