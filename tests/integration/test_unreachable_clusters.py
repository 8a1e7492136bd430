"""What commands print, and exit with, where one cluster of two serves and the other does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2 import exit_codes
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.sandbox import port_reservation
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import kafka, mirror
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

BOUND_S = 60.0
"""Far above the 10 s that a target may take: machines are slow, and Python starts first."""


@pytest.fixture
def file(own_cluster, tmp_path: Path) -> Iterator[Path]:
    """Flows both ways between a cluster that serves, with an incident, and one that does not."""
    serving: SandboxCluster = own_cluster()
    properties = serving.client_properties()
    topic = "mm2-incidents.west.internal"
    kafka.create_topic(properties, topic)
    key, value = incident_records.encode_incident(
        Incident(
            topic="orders",
            partition=0,
            id="1",
            kind=IncidentKind.SOURCE_GONE,
            flow="west->east",
            at_ms=1_700_000_000_000,
            detail="deleted before it was replicated",
            source=(3, 9),
        )
    )
    kafka.produce(properties, topic, [Outgoing(key=key, value=value)])
    silent = port_reservation.reserve_port()
    given = mirror.settings(properties, {"bootstrap.servers": f"127.0.0.1:{silent.port}"})
    given["flows"].append({"from": "west", "to": "east"})
    path = tmp_path / "clusters.yaml"
    path.write_text(json.dumps(given))
    yield path
    silent.release()


def test_incidents_of_the_target_that_serves_are_listed(file):
    done = mirror.mm2("incidents", "--config", file, timeout_s=BOUND_S)
    assert done.returncode == exit_codes.UNKNOWN, done.stderr
    (line,) = done.stdout.splitlines()[1:]
    assert line.split()[1:6] == ["west->east", "orders", "0", "source-gone", "[3,9)"]
    waiting, error = done.stderr.splitlines()
    assert waiting.startswith("west: connection refused (127.0.0.1:")
    assert error.startswith(
        "mm2: cannot read the incidents of east->west on west: connection refused"
    )

    done = mirror.mm2("incidents", "-c", file, "--json", "--flow", "east->west")
    assert done.returncode == exit_codes.UNREACHABLE, done.stderr
    told = json.loads(done.stdout)
    assert (told["incidents"], [each["cluster"] for each in told["errors"]]) == ([], ["west"])


@pytest.mark.full
def test_a_cluster_that_does_not_answer_is_no_problem_that_was_found(file):
    where = ("--config", file)
    translated = mirror.mm2(
        *("offsets", "translate", "--topic", "east.orders", "--partition", "0", "--offset", "1"),
        *("--flow", "east->west", "--back", *where),
    )
    assert translated.returncode == exit_codes.UNREACHABLE, translated.stdout + translated.stderr
    reset = mirror.mm2("topic", "reset", "east->west", "orders", "--from", "earliest", *where)
    assert reset.returncode == exit_codes.UNREACHABLE, reset.stderr
    assert re.fullmatch(
        r"mm2: west: connection refused \(127.0.0.1:\d+\); diagnose with: mm2 check",
        reset.stderr.splitlines()[-1],
    )
    checked = mirror.mm2("check", *where, "--timeout", "5")
    assert checked.returncode == exit_codes.FAILED, "one of two was looked at"
    paused = mirror.mm2("pause", "east->west", *where)
    assert paused.returncode == exit_codes.UNREACHABLE
    assert f"no process runs {file} on this machine" in paused.stderr
