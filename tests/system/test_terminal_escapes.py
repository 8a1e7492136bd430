"""Group ids and incidents with terminal escapes, on real brokers: no command prints them raw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.topics import replication_policy
from tests.support import content, eventually, kafka, mirror
from tests.support.kafka import Outgoing
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(400)]

TOPIC = "orders"
HOSTILE = "g\x1b]52;c;aGk=\x07\x1b]0;x\x07\u202e\x9b2J\nforged line"
SHOWN = r"g\x1b]52;c;aGk=\x07\x1b]0;x\x07\u202e\x9b2J\nforged line"
DEADLINE_S = 90.0


def test_no_command_prints_what_controls_a_terminal(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster]
):
    source, target = (own_cluster(name).client_properties() for name in ("east", "west"))
    kafka.create_topic(source, TOPIC)
    kafka.produce(source, TOPIC, content.some())
    kafka.commit_offsets(source, HOSTILE, {(TOPIC, 0): 5})
    given = mirror.settings(
        source,
        target,
        topics=[TOPIC],
        spark={"engine": "inline"},
        emit_checkpoints_interval_seconds=1,
        refresh_groups_interval_seconds=1,
        groups=["(?s).*"],  # . matches no line feed
    )
    stated = Incident(
        topic=TOPIC,
        partition=0,
        id="1",
        kind=IncidentKind.SOURCE_GONE,
        flow="east->west",
        at_ms=1_769_846_400_000,
        detail=HOSTILE,
    )
    with Mirror(tmp_path, given) as running:
        running.await_records(20, topic=TOPIC)
        key, value = incident_records.encode_incident(stated)
        kafka.produce(
            target,
            replication_policy.format_incidents_topic("east"),
            [Outgoing(key=key, value=value)],
        )
        config = ("--config", str(running.settings_path))
        move = ("failover", "--from", "east", "--to", "west")
        shown = {
            ("failover dry run", *move): True,
            ("offsets of a group", "offsets", "translate", "--group", HOSTILE): True,
            ("offsets of two", "offsets", "translate", "--group", HOSTILE, "--group", "b"): True,
            ("csv", "offsets", "translate", "--group", HOSTILE, "--group", "b", "--csv"): True,
            ("incidents", "incidents"): True,
            ("check", "check"): False,
            ("status", "status"): False,
            ("lag", "lag"): False,
            ("why", "why", TOPIC): False,
            ("probe", "probe"): False,
            ("an unknown topic", "why", HOSTILE): False,
            ("an unknown flow", "lag", "--flow", HOSTILE.partition("\n")[0]): False,
        }
        eventually.eventually(
            lambda: SHOWN in mirror.mm2(*move, *config).stdout, DEADLINE_S, lambda: running.tail
        )
        for (about, *words), names_it in shown.items():
            done = mirror.mm2(*words, *config)
            told = done.stdout + done.stderr
            raw = [line for line in told.split("\n") if not line.isprintable()]
            assert raw == [], about
            assert "\nforged line" not in told, about
            if names_it:
                assert SHOWN in told, (about, told)
        raw = [line for line in running.log.split("\n") if not line.isprintable()]
    assert raw == []
