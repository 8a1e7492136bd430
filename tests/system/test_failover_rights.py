"""What a move would fail for late is in its plan: rights that are missing, as real brokers tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic import simulated_applications
from tests.support import content, eventually, granted, kafka, mirror
from tests.support.granted import Rights
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(400)]

USER, TOPIC, GROUP = "mover", "orders", "billing"
DEADLINE_S = 90.0
READING: Rights = {
    ("TOPIC", "*"): ("DESCRIBE", "READ"),
    ("GROUP", "*"): ("DESCRIBE",),
    ("BROKER", "kafka-cluster"): ("DESCRIBE",),
}
MOVING: Rights = {
    ("TOPIC", "east."): ("WRITE",),
    ("TOPIC", "mm2-"): ("WRITE",),
    ("GROUP", "*"): ("READ",),
    ("TRANSACTIONAL_ID", "mm2-east->west-"): ("DESCRIBE", "WRITE"),
}


def settings(east: Properties, west: Properties) -> dict[str, Any]:
    return mirror.settings(
        east,
        west,
        topics=[TOPIC],
        spark={"engine": "inline"},
        emit_checkpoints_interval_seconds=1,
        refresh_groups_interval_seconds=1,
    )


def planned(path: Path, *arguments: str) -> dict[str, Any]:
    done = mirror.mm2(
        *("failover", "--from", "east", "--to", "west", "--json", "--config", str(path)), *arguments
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_missing_rights_are_told_before_anything_is_stopped(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster]
):
    east, west = (own_cluster(name, users=[USER]) for name in ("east", "west"))
    source, target = east.client_properties(), west.client_properties()
    kafka.create_topic(source, TOPIC)
    simulated_applications.create_group_at_offset_zero(source, GROUP, TOPIC, partitions=1)
    kafka.produce(source, TOPIC, content.some())
    for each in (east, west):
        granted.allow(each, USER, READING)
    theirs = tmp_path / "theirs.yaml"
    theirs.touch(mode=0o600)
    theirs.write_text(
        json.dumps(settings(east.client_properties(USER), west.client_properties(USER)))
    )
    with Mirror(tmp_path, settings(source, target)) as running:
        running.await_records(20, topic=TOPIC)
        eventually.eventually(
            lambda: planned(running.settings_path)["verdict"] == "go", DEADLINE_S, "all is there"
        )
        found = planned(theirs)
        assert found["verdict"] == "no-go"
        told = {each["code"]: each for each in found["findings"]}
        assert set(told) == {"stop-denied", "group-write-denied", "unfenced"}
        assert "--operation Write --topic mm2-configs.east.internal" in told["stop-denied"]["text"]
        assert told["group-write-denied"]["group"] == GROUP
        assert f"User:{USER}" in told["unfenced"]["text"]
        granted.allow(west, USER, MOVING)
        eventually.eventually(
            lambda: planned(theirs)["verdict"] == "go", DEADLINE_S, "the rights are known"
        )
        journal = tmp_path / "journal.jsonl"
        report = planned(theirs, "--execute", "--journal", str(journal))
    assert [each["group"] for each in report["moved"]] == [GROUP]
    assert report["findings"] == []
    again = planned(theirs, "--journal", str(journal))
    assert [each["code"] for each in again["findings"]] == ["no-journal"]
