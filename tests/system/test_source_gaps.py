"""The source deletes records before they are read: an incident, or a halt if configured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mm2 import suggested_commands
from mm2.formats.incident_records import IncidentKind
from mm2.sandbox import replication_proof
from mm2.sandbox.replication_proof import SourceSnapshot
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, eventually, kafka, mirror, obeying, operations
from tests.support.kafka import Properties
from tests.support.mirror import Mirror
from tests.support.steady import Steady

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

BATCH = 10
BACKLOG = 600
KEPT_FROM = 455
"""Lies inside a batch, so that what the source still has of it is copied opened."""
SOON_S = 90.0


class Gap:
    """A backlog that is copied slowly, traffic behind it, and most of it deleted meanwhile."""

    def __init__(self, folder: Path, source: Properties, target: Properties) -> None:
        self.folder = folder
        self.source, self.target = source, target

    def settings(self, name: str, **more: Any) -> dict[str, Any]:
        inline = {"engine": "inline"}
        return mirror.settings(self.source, self.target, topics=[name], spark=inline, **more)

    def fill(self, name: str) -> SourceSnapshot:
        """What the source held before anything was deleted."""
        config = kafka.client_config(self.source, linger_ms=5000)
        producer = confluent_kafka.Producer(config)
        for _ in range(BACKLOG // BATCH):
            kafka.send(producer, name, content.some(BATCH, bytes_each=1000))
            kafka.flush(producer)
        return replication_proof.take_snapshot(self.source, [name])

    def overtake(self, run: Mirror, name: str) -> None:
        run.await_records(BATCH, topic=name)
        operations.delete_records(self.source, name, KEPT_FROM)
        assert run.records(topic=name) < KEPT_FROM

    def assert_equal(self, name: str, before: SourceSnapshot, kind: IncidentKind) -> None:
        """But for what the one incident says was lost."""
        found = replication_proof.read_incidents(self.target, "east")
        (stated,) = [each for each in found if each.topic == name]
        assert stated.kind is kind
        assert stated.source is not None
        assert stated.source[0] < stated.source[1] == KEPT_FROM
        lost = stated.source[1] - stated.source[0]

        def equal() -> bool:
            result = replication_proof.compare_topics_allowing_incidents(
                self.source,
                self.target,
                {name: f"east.{name}"},
                snapshot=before,
                incidents=[stated],
                compacted=False,
            )
            assert result.is_equal, str(result)
            end = kafka.offsets(self.source, name)[1]
            return len(kafka.read_partition(self.target, f"east.{name}")) == end - lost

        eventually.eventually(equal, SOON_S, interval_s=0.5)


@pytest.fixture
def gap(tmp_path: Path, east: SandboxCluster, west: SandboxCluster) -> Gap:
    return Gap(tmp_path, east.client_properties(), west.client_properties())


def test_what_the_source_deleted_too_early_is_stated_and_the_copy_goes_on(gap: Gap, topic: Any):
    name = kafka.create_topic(gap.source, topic())
    before = gap.fill(name)
    given = gap.settings(name, throttle_topics=[f"{re.escape(name)}=30kB"])
    with (
        Mirror(gap.folder, given) as run,
        Steady(gap.source, {name: 1}) as traffic,
    ):
        gap.overtake(run, name)
        run.await_log(
            rf"incident source-gone: {name}-0, source offsets \[\d+, {KEPT_FROM}\): the source "
            "deleted these records before they were replicated",
            SOON_S,
        )
        labels = {"topic": name, "kind": "source-gone"}
        eventually.eventually(lambda: run.figure("mm2_incidents_total", **labels) == 1, SOON_S)
        traffic.stop()
        gap.assert_equal(name, before, IncidentKind.SOURCE_GONE)
        assert run.stopped() == set()
        listed = mirror.mm2("incidents", run.settings_path, "--topic", name, "--exit-code")
        assert listed.returncode == 1, listed.stdout + listed.stderr
        assert re.search(rf" {name} +0 +source-gone +\[\d+,{KEPT_FROM}\) ", listed.stdout)
        assert run.stop() == 143


def test_a_gap_that_halts_a_partition_is_skipped_by_its_remedy(gap: Gap, topic: Any):
    """While the flow runs."""
    name = kafka.create_topic(gap.source, topic())
    before = gap.fill(name)
    slow = gap.settings(name, throttle_topics=[f"{re.escape(name)}=30kB"], on_source_gap="fail")
    named = ("--config", gap.folder / "run.yaml", "--topic", name)
    with Steady(gap.source, {name: 1}) as traffic, Mirror(gap.folder, slow) as run:
        gap.overtake(run, name)
        run.await_stopped(name, "source-gap", SOON_S)
        line = run.await_log(
            rf"{name}-0 is halted: .*the source deleted offsets \d+ to {KEPT_FROM - 1} "
            r"before they were replicated .*on\.source\.gap is fail.*"
        )
        told = mirror.mm2("status", run.settings_path)
        assert told.returncode == 1, told.stdout + told.stderr
        assert re.search(rf": {name}-0: \[source-gap\] .*on\.source\.gap is fail", told.stdout)
        assert mirror.mm2("throttle", mirror.FLOW, "none", *named).returncode == 0
        said = obeying.obey(
            suggested_commands.extract_remedy_from_message(line[0]), folder=gap.folder
        )
        assert f"{name}-0: replicating again from source offset {KEPT_FROM}" in said
        run.await_log(rf"incident new-era-requested: {name}-0, source offsets", SOON_S)
        traffic.go_on()
        traffic.stop()
        gap.assert_equal(name, before, IncidentKind.NEW_ERA_REQUESTED)
        assert run.stopped() == set()
        assert run.stop() == 143
