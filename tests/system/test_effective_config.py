"""`mm2 config show` prints what a real run is configured with, for both forms of the file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.herder.requests_to_other_workers import PeerRefusedError
from tests.support import content, eventually, kafka, mirror, shown_config
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

CONNECTORS = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
FLOW = "east->west"
MIRRORS = ("east.orders",)
CREATED_S = 60.0


def yaml(east: Properties, west: Properties) -> str:
    """No replication factor at all: the brokers' own."""
    return json.dumps(
        {
            "clusters": {"east": dict(east), "west": dict(west)},
            "defaults": {"sync.group.offsets.interval.seconds": 7},
            "flows": [{"from": "east", "to": "west", "topics": "orders.*", "tasks.max": 2}],
            "spark": {"engine": "inline"},
        },
        indent=1,
    )


def properties(east: Properties, west: Properties) -> str:
    """On the target MirrorMaker 2's defaults; the source has one broker."""
    return f"""clusters = east, west
east.bootstrap.servers = {east["bootstrap.servers"]}
west.bootstrap.servers = {west["bootstrap.servers"]}
east->west.enabled = true
east->west.topics = orders.*
west->east.emit.heartbeats.enabled = false
offset-syncs.topic.replication.factor = 1
west.status.storage.replication.factor = 1
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:0
mm2.spark.engine = inline
"""


@pytest.mark.parametrize(
    ("write", "suffix"),
    [pytest.param(yaml, ".yaml", marks=pytest.mark.full), (properties, ".properties")],
)
def test_what_is_shown_is_what_runs(write, suffix, tmp_path: Path, own_cluster):
    source = own_cluster("east").client_properties()
    brokers = own_cluster("west", brokers=3, settings={"default.replication.factor": "2"})
    target = brokers.client_properties()
    kafka.create_topic(source, "orders", partitions=2)
    kafka.produce(source, "orders", content.some(10))
    with Mirror(tmp_path, write(source, target), suffix=suffix) as run:
        done = mirror.mm2("config", "show", run.settings_path, "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        wanted = {
            f"{each[2]}:{topic}"
            for each in shown_config.topics(document["flows"][FLOW], FLOW, mirrors=MIRRORS)
            for topic in each[3]
        }
        replicas = eventually.eventually(
            lambda: _all(wanted, {"east": source, "west": target}),
            CREATED_S,
            lambda: f"all topics of the flow are created; {run.tail}",
        )
        assert replicas is not None
        run.await_log(f"{FLOW} is RUNNING")
        configs = {name: _config(run, name) for name in CONNECTORS}
        really: dict[str, Any] = {
            "configs": configs,
            "replicas": replicas,
            "default_factors": {"east": 1, "west": 2},
            "mirrors": MIRRORS,
        }
        assert shown_config.differences(document, FLOW, **really) == []
        factors = {replicas[f"west:{name}"] for name in ("heartbeats", "mm2-configs.east.internal")}
        assert factors == ({2} if suffix == ".yaml" else {3})
        configs["MirrorCheckpointConnector"]["emit.checkpoints.interval.seconds"] = "4711"
        replicas["west:heartbeats"] += 1
        assert len(shown_config.differences(document, FLOW, **really)) == 2
        assert run.stop() == 143


def test_two_clusters_of_one_broker_and_a_file_with_no_more_than_addresses(
    tmp_path: Path, east, west, topic
):
    """An alias of its own: other tests have left internal topics on these clusters."""
    source, target = east.client_properties(), west.client_properties()
    name = kafka.create_topic(source, topic("plain"))
    kafka.produce(source, name, content.some(10))
    given = {
        "clusters": {"lone": dict(source), "west": dict(target)},
        "flows": [{"from": "lone", "to": "west", "topics": name}],
        "spark": {"engine": "inline"},
    }
    status, log = mirror.run_to_end(tmp_path, given, "--until-caught-up", "--timeout", "90")
    assert status == 0, log
    assert f"lone.{name}" in kafka.topics(target)


def _config(run: Mirror, connector: str) -> dict[str, str]:
    """A worker that is rebalancing says that it is stale, and is asked again."""

    def asked() -> dict[str, str] | None:
        with contextlib.suppress(PeerRefusedError):
            return run.connector_config(connector, flow=FLOW)
        return None

    found = eventually.eventually(asked, CREATED_S, f"{connector} is configured")
    assert found is not None
    return found


def _all(wanted: set[str], clusters: Mapping[str, Properties]) -> dict[str, int] | None:
    """Replicas of all topics that are there, once the wanted ones are."""
    found = {
        f"{alias}:{name}": len(topic.partitions[0].replicas)
        for alias, access in clusters.items()
        for name, topic in kafka.admin_client(access).list_topics(timeout=10).topics.items()
        if 0 in topic.partitions
    }
    return found if wanted <= set(found) else None
