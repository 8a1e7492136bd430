"""`mm2 status`, `lag` and `why`, of a flow that runs here, and of one that nobody runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, eventually, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SOON_S = 90.0
AGE_MS, KEPT_MS = 900_000, 1_100_000
RECORDS, SLOW_RECORDS = 20, 300


class Scene:
    """A topic that is copied, and one that is copied too slowly for what its source keeps."""

    def __init__(self, folder: Path, source: Properties, target: Properties) -> None:
        self.folder, self.source, self.target = folder, source, target

    def fill(self, fast: str, slow: str) -> dict[str, Any]:
        kafka.create_topic(self.source, fast, partitions=2)
        kafka.create_topic(self.source, slow, config={"retention.ms": str(KEPT_MS)})
        kafka.produce(self.source, fast, content.some(RECORDS))
        old = mirror.CLOCK.wall_ms() - AGE_MS
        for _ in range(SLOW_RECORDS // 10):
            aged = content.some(10, bytes_each=1000, timestamp=old)
            kafka.produce(self.source, slow, aged)
        return mirror.settings(
            self.source,
            self.target,
            topics=[fast, slow],
            spark={"engine": "inline"},
            throttle_topics=[f"{re.escape(slow)}=2kB"],
            sync_topic_configs_enabled=False,
        )


@pytest.fixture
def scene(tmp_path: Path, east: SandboxCluster, west: SandboxCluster) -> Scene:
    return Scene(tmp_path, east.client_properties(), west.client_properties())


def told(*arguments: str | Path, code: int) -> dict[str, Any]:
    done = mirror.mm2(*arguments, "--json")
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["version"] == 1
    return found


def parts(found: dict[str, Any], topic: str) -> list[dict[str, Any]]:
    (flow,) = found["flows"]
    return [each for each in flow["partitions"] if each["topic"] == topic]


def test_how_a_flow_stands_is_told_by_its_process_and_without_it_by_the_clusters(
    scene: Scene, topic: Any
):
    fast, slow = topic("fast"), topic("slow")
    given = scene.fill(fast, slow)
    with Mirror(scene.folder, given) as run:
        file = run.settings_path
        run.await_records(RECORDS, topic=fast)
        run.await_log(
            rf"{slow}-0: the source deletes unreplicated records in .* at the earliest "
            rf"\(retention\.ms\). Remedy: kafka-configs.sh .* retention\.ms={2 * KEPT_MS}",
            SOON_S,
        )
        by_process(run, file, fast=fast, slow=slow)
        by_clusters(file, fast=fast, slow=slow)
        assert run.stop() == 143
    by_nobody(scene, file, fast=fast, slow=slow)


def by_process(run: Mirror, file: Path, *, fast: str, slow: str) -> None:
    found = told("status", file, code=1)
    (flow,) = found["flows"]
    assert flow["seen_by"] == [f"process {run.pid}"]
    assert (flow["state"], flow["health"]) == ("RUNNING", "unhealthy")
    assert "the source deletes unreplicated records" in flow["reasons"][0]
    assert [each["state"] for each in flow["tasks"]] == ["RUNNING"]
    assert flow["nodes"] == [flow["tasks"][0]["node"]]
    assert 0 < flow["since_ms"] <= flow["at_ms"]
    assert [each["lag_records"] for each in parts(found, fast)] == [0, 0]
    (late,) = parts(found, slow)
    assert late["state"] == "copying"
    assert late["retention_risk"]["kind"] == "runs-out"
    assert late["retention_risk"]["cause"] == "retention.ms"
    assert late["retention_risk"]["left_ms"] < KEPT_MS - AGE_MS


def by_clusters(file: Path, *, fast: str, slow: str) -> None:
    found = told("lag", file, "--clusters", code=0)
    (flow,) = found["flows"]
    assert (flow["seen_by"], flow["state"]) == (["clusters"], "RUNNING")
    assert [each["lag_ms"] for each in parts(found, fast)] == [0, 0]
    (late,) = parts(found, slow)
    assert late["lag_records"] == SLOW_RECORDS - late["copied_to"]
    assert late["lag_ms"] > AGE_MS
    assert late["retention_risk"]["cause"] == "retention.ms"


def by_nobody(scene: Scene, file: Path, *, fast: str, slow: str) -> None:
    kafka.produce(scene.source, fast, content.some(7, partition=1))
    eventually.eventually(
        lambda: re.search(
            r"^east->west  NOT_RUNNING, unhealthy: its Connect group .* has no members.* "
            r"\(seen by clusters\)$",
            mirror.mm2("status", file).stdout,
            re.MULTILINE,
        ),
        SOON_S,
        "nobody is in the group",
    )
    lag = told("lag", file, "--topic", f"east.{fast}", "--max-records", "6", code=1)
    assert [each["lag_records"] for each in parts(lag, fast)] == [0, 7]
    assert parts(lag, slow) == []
    told("lag", file, "--topic", fast, "--max-records", "7", "--max-seconds", "3600", code=0)
    (known,) = told("why", file, f"east.{fast}", code=0)["flows"]
    assert (known["process"], known["topic"], known["lag_records"]) == (None, fast, 7)
    assert known["rule"] == f"topics includes {fast}"
