"""Brokers are replaced, and leaders are elected that lack records, under traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mm2 import suggested_commands
from mm2.formats.incident_records import IncidentKind
from mm2.sandbox import replication_proof
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import brokers, content, eventually, kafka, mirror, obeying
from tests.support.kafka import Properties
from tests.support.mirror import Mirror
from tests.support.steady import Steady

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(900)]

SOON_S = 120.0


def settings(east: SandboxCluster, west: SandboxCluster, name: str) -> dict[str, Any]:
    access = east.client_properties(), west.client_properties()
    return mirror.settings(*access, topics=[name], spark={"engine": "inline"})


def test_brokers_of_both_sides_are_replaced_by_others_with_other_ids_and_addresses(
    tmp_path: Path, own_cluster: Any, topic: Any
):
    """Partitions move to a second broker and on to a third, and the second is gone for good."""
    east, west = own_cluster("east"), own_cluster("west")
    source, target = east.client_properties(), west.client_properties()
    name = kafka.create_topic(source, topic(), partitions=2)
    with (
        Mirror(tmp_path, settings(east, west, name)) as run,
        Steady(source, {name: 2}) as traffic,
    ):
        run.await_records(20, topic=name)
        for side, held in ((east, name), (west, f"east.{name}")):
            replace_brokers(side, held, run, name)
        traffic.go_on()
        traffic.stop()
        eventually.eventually(
            lambda: run.figure("mm2_replication_lag_records", topic=name) == 0, SOON_S
        )
        assert run.stopped() == set()
        assert run.figure("mm2_incidents_total") <= 0
        assert run.figure("mm2_task_restarts_total") == 0
        content.assert_mirrored(source, target, name)
        assert run.stop() == 143


def replace_brokers(side: SandboxCluster, held: str, run: Mirror, name: str) -> None:
    access = side.client_properties()
    with brokers.added(side, 12) as third:
        with brokers.added(side, 11):
            brokers.reassign(access, held, [11])
            go_on(run, name)
            brokers.reassign(access, held, [12])
            go_on(run, name)
        go_on(run, name)  # broker 11 was killed
        brokers.reassign(access, held, [1])
        third.stop()
    go_on(run, name)


def go_on(run: Mirror, name: str) -> None:
    run.await_records(run.records(topic=name) + 50, SOON_S, topic=name)


def test_a_source_that_elects_a_leader_without_the_newest_records_stops_that_topic(
    tmp_path: Path, own_cluster: Any, topic: Any
):
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    east, west = own_cluster("east", settings=unclean), own_cluster("west")
    source, target = east.client_properties(), west.client_properties()
    name = kafka.create_topic(source, topic())
    with brokers.added(east, 11) as newest, brokers.added(east, 12) as behind:
        brokers.reassign(source, name, [11, 12])
        with (
            Steady(source, {name: 1}) as traffic,
            Mirror(tmp_path, settings(east, west, name)) as run,
        ):
            run.await_records(20, topic=name)
            lose_records(source, name, newest=newest, behind=behind, run=run)
            traffic.go_on()
            run.await_stopped(name, "source-truncated", SOON_S)
            line = run.await_log(
                rf"{name}-0 is halted: .*the source's log was truncated to offset (\d+) and "
                r"written again \(unclean leader election\?\), but was replicated up to offset "
                r"(\d+).*"
            )
            end, copied = map(int, line.groups())
            assert copied - end >= 50
            kept = kafka.read_partition(target, f"east.{name}")
            obeying.obey(suggested_commands.extract_remedy_from_message(line[0]), folder=tmp_path)
            go_on(run, name)
            traffic.stop()
            content.assert_goes_on(source, target, name, start=end, kept=kept)
            assert run.stop() == 143
    (stated,) = replication_proof.read_incidents(target, "east")
    assert stated.kind is IncidentKind.NEW_ERA_REQUESTED


def lose_records(source: Properties, name: str, *, newest: Any, behind: Any, run: Mirror) -> None:
    """`behind` becomes the leader, and lacks a hundred records that were copied."""
    behind.kill()
    brokers.await_leaders(source, name, {11})
    run.await_records(run.records(topic=name) + 100, SOON_S, topic=name)
    newest.kill()
    behind.start()
    brokers.await_leaders(source, name, {12})
