"""A group that works on one cluster, a flow to another, and `mm2 failover` as people type it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic import simulated_applications
from mm2.sandbox.traffic.simulated_applications import GroupConsumer, NumberProducer
from tests.support import eventually, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

TOPIC, GROUP, PARTITIONS = "orders", "billing", 3
MIRROR = f"east.{TOPIC}"
DEADLINE_S = 90.0
MOVE = ("failover", "--from", "east", "--to", "west")


class Scene:
    """Two clusters, a flow between them, an application that writes and one that reads."""

    def __init__(
        self,
        folder: Path,
        own_cluster: Callable[..., SandboxCluster],
        hooks: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.east, self.west = own_cluster("east"), own_cluster("west")
        self.source, self.target = (each.client_properties() for each in (self.east, self.west))
        kafka.create_topic(self.source, TOPIC, partitions=PARTITIONS)
        simulated_applications.create_group_at_offset_zero(
            self.source, GROUP, TOPIC, partitions=PARTITIONS
        )
        given = mirror.settings(
            self.source,
            self.target,
            topics=[TOPIC],
            spark={"engine": "inline"},
            emit_checkpoints_interval_seconds=1,
            refresh_groups_interval_seconds=1,
        )
        self.running = Mirror(folder, given | ({"hooks": dict(hooks)} if hooks else {}))
        self.writing = NumberProducer(self.source, TOPIC, partitions=PARTITIONS)
        self.here = GroupConsumer(self.source, GROUP, TOPIC)
        self.there = GroupConsumer(self.target, GROUP, MIRROR)

    def mm2(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return mirror.mm2(*MOVE, "--config", self.running.settings_path, *arguments)

    @contextlib.contextmanager
    def moving(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """The command while it runs, to be read line by line."""
        command = [*mirror.COMMAND, *MOVE, "--config", str(self.running.settings_path)]
        with subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=mirror.ROOT,
        ) as running:
            try:
                yield running
            finally:
                running.kill()

    def plan(self, *arguments: str) -> dict[str, Any]:
        done = self.mm2("--json", *arguments)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def await_work(self) -> None:
        """Records flow, and are processed on the origin."""
        eventually.eventually(
            lambda: len(self.here.processed) > 300,
            DEADLINE_S,
            lambda: f"{len(self.writing.sent)} written, {len(self.here.processed)} processed",
        )
        self.running.await_records(200, topic=TOPIC)

    def finish_there(self) -> set[int]:
        """The application goes on on the destination, up to the end; what stood before it."""
        stands = simulated_applications.read_group_offsets(
            self.target, GROUP, MIRROR, partitions=PARTITIONS
        )
        before = {
            int(record.value or b"-1")
            for number, at in stands.items()
            for record in kafka.read_partition(self.target, MIRROR, number, start=at)
        }
        with self.there:
            eventually.eventually(
                lambda: before <= set(self.there.processed),
                DEADLINE_S,
                lambda: f"{len(before)} to read, {len(set(self.there.processed))} processed",
            )
        return before


def positions(at: Properties) -> dict[int, int]:
    """Where the group goes on in the mirror."""
    return simulated_applications.read_group_offsets(at, GROUP, MIRROR, partitions=PARTITIONS)
