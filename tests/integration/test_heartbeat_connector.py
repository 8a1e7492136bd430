"""MirrorHeartbeatConnector on our plain worker, configured over REST with Java's words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from mm2 import client
from tests.support import eventually, heartbeats, kafka, operations
from tests.support.connect_workers import Group, Kind, Worker

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

WAIT_S = 90.0
SOURCE = "far-away"
NAME = "beats"
JSON = "org.apache.kafka.connect.json.JsonConverter"
PLACE = {"sourceClusterAlias": SOURCE, "targetClusterAlias": heartbeats.TARGET}
OFFSETS = f"/connectors/{NAME}/offsets"


def states(worker: Worker) -> tuple[str, list[str]]:
    told = worker.get(f"/connectors/{NAME}/status")
    return told["connector"]["state"], [each["state"] for each in told["tasks"]]


def reaches(worker: Worker, state: str, tasks: int) -> None:
    expected = (state, [state] * tasks)
    eventually.eventually(
        lambda: states(worker) == expected, WAIT_S, worker.log_text, interval_s=0.3
    )


def cleanup_policy(east: SandboxCluster) -> str | None:
    return operations.settings(east.client_properties(), heartbeats.TOPIC)["cleanup.policy"]


def test_heartbeats_are_javas_whatever_the_workers_converters_are(
    east: SandboxCluster, connect_group: Callable[..., Group]
) -> None:
    """The worker would write JSON, as Java's does then with heartbeats, too."""
    properties = east.client_properties()
    group = connect_group(settings={"key.converter": JSON, "value.converter": JSON})
    worker = group.start("one", Kind.OURS)
    worker.configure(NAME, heartbeats.config(properties, SOURCE, connector_class="MirrorHeartbeat"))
    reaches(worker, "RUNNING", 1)
    found = heartbeats.more_come(properties, SOURCE, 3)
    gaps = [later.timestamp - one.timestamp for one, later in itertools.pairwise(found)]
    assert min(gaps) > 900, "one per second"
    assert kafka.partition_count(properties, heartbeats.TOPIC) == 1
    assert cleanup_policy(east) == "compact"
    assert heartbeats.TOPIC in client.heartbeat_topics(properties)

    def stored() -> bool:
        told = worker.get(OFFSETS)["offsets"]
        return bool(told == [{"partition": PLACE, "offset": {"offset": 0}}])

    eventually.eventually(stored, WAIT_S, lambda: str(worker.get(OFFSETS)), interval_s=0.3)

    worker.ask("PUT", f"/connectors/{NAME}/stop")
    reaches(worker, "STOPPED", 0)
    for offset, status in ((5, 500), (0, 200)):  # Java's statuses
        body = {"offsets": [{"partition": PLACE, "offset": {"offset": offset}}]}
        answer = worker.ask("PATCH", OFFSETS, body)
        assert answer.status_code == status, answer.text
    worker.ask("PUT", f"/connectors/{NAME}/resume")
    reaches(worker, "RUNNING", 1)
    heartbeats.more_come(properties, SOURCE)

    quiet = heartbeats.config(properties, SOURCE, emit_heartbeats_enabled="false")
    worker.configure(NAME, quiet)
    reaches(worker, "RUNNING", 0)
