"""Java's MirrorSourceConnector mirrors and says what it mirrored; our checkpoints are read from it
like Java's own, and where they send a group Java's client sends it, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2 import client
from mm2.client import OffsetAndMetadata
from tests.interop import java_mirror
from tests.support import checkpoints, eventually, kafka
from tests.support.checkpoints import Flow
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.kafka import Outgoing

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 180.0
ALIASES = ("overseas", "home")
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
BOTH = {"key.converter": BYTES, "value.converter": BYTES}
PLACE = TopicPartition("bills", 0)
MIRROR = TopicPartition("overseas.bills", 0)
GROUP = "clerks"
POINTS = "points"
RECORDS = 400


def mirroring(source: dict[str, str], target: dict[str, str]) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": ALIASES[0],
        "target.cluster.alias": ALIASES[1],
        **{f"source.cluster.{name}": value for name, value in source.items()},
        **{f"target.cluster.{name}": value for name, value in target.items()},
        "topics": PLACE.topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.lag.max": "0",
        "sync.topic.acls.enabled": "false",
    }


def write(source: dict[str, str]) -> None:
    """Some in transactions, whose markers make offsets differ."""
    kafka.create_topic(source, PLACE.topic)
    records = [Outgoing(value=b"%d" % each) for each in range(RECORDS)]
    for at in range(0, RECORDS, 40):
        some = records[at : at + 20]
        kafka.produce_transaction(source, PLACE.topic, some, transactional_id="clerk")
        kafka.produce(source, PLACE.topic, records[at + 20 : at + 40])


def downstream(target: dict[str, str], upstream: int) -> int:
    """Of the group's last checkpoint, if it is of that offset; 0: not yet."""
    points = checkpoints.points(target, ALIASES[0], GROUP)
    return points[-1][1] if points and points[-1][0] == upstream else 0


def test_what_java_has_mirrored_we_translate_and_java_reads_the_same(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
    tmp_path: Path,
) -> None:
    source, target = dict(west.client_properties()), dict(east.client_properties())
    write(source)
    java = connect_group(settings=BOTH).start("java", Kind.JAVA)
    ours = connect_group().start("ours", Kind.OURS)
    java.configure("mirror", mirroring(source, target))
    eventually.eventually(
        lambda: (
            MIRROR.topic in kafka.topics(target)
            and kafka.offsets(target, MIRROR.topic)[1] == RECORDS
        ),
        WAIT_S,
        java.log_text,
        interval_s=0.5,
    )
    (_, end) = kafka.offsets(source, PLACE.topic)
    assert end > RECORDS
    read = kafka.read_partition(source, PLACE.topic)
    middle = next(each.offset for each in read if each.offset > end // 2)
    config = checkpoints.config(source, target, aliases=ALIASES, topics=PLACE.topic, groups=GROUP)
    ours.configure("points", config)
    for offset in (middle, end):
        checkpoints.commit(source, GROUP, {PLACE: offset})
        goes_on = eventually.eventually(
            functools.partial(downstream, target, offset), WAIT_S, ours.log_text, interval_s=0.5
        )
        assert goes_on <= sum(each.offset < offset for each in read), "nothing is left out"
        found = client.translate_offsets(target, ALIASES[0], GROUP, WAIT_S)
        assert found == {MIRROR: OffsetAndMetadata(offset=goes_on)}
        question = {"kind": "live", "properties": target, "alias": ALIASES[0], "group": GROUP}
        (theirs,) = java_mirror.ask(
            tmp_path, [{**question, "farther": "farther", "pattern": GROUP}]
        )
        assert theirs["offsets"] == [[MIRROR.topic, 0, goes_on, ""]]
    assert goes_on == RECORDS, "at the end nothing comes again"


def test_its_task_moves_between_java_and_us(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    flow = Flow(west, east, syncs_on="source")
    group_id = flow.group("clerks")
    flow.at_source(group_id, 20)
    flow.synced(20, 15)
    group = connect_group(settings={**BOTH, "scheduled.rebalance.max.delay.ms": "0"})

    def run_by(worker: Worker) -> None:
        def owned() -> bool:
            if not worker.runs(POINTS):
                return False
            (task,) = worker.get(f"/connectors/{POINTS}/status")["tasks"]
            return bool(task["worker_id"] == worker.address)

        eventually.eventually(owned, WAIT_S, group.log_texts, interval_s=0.3)

    java = group.start("java", Kind.JAVA)
    java.configure(POINTS, flow.config)
    run_by(java)
    flow.comes(group_id, (20, 15), log=group.log_texts)
    tasks = java.get(f"/connectors/{POINTS}/tasks")

    ours = group.start("ours", Kind.OURS)
    assert java.stop() in (0, 143)
    run_by(ours)
    assert ours.get(f"/connectors/{POINTS}/tasks") == tasks, "what Java leads with is what we do"
    flow.at_source(group_id, 21)
    flow.comes(group_id, (20, 15), (21, 16), log=group.log_texts)

    java.start()
    assert ours.stop() in (0, 143)
    run_by(java)
    flow.synced(25, 20)
    flow.at_source(group_id, 25)
    flow.comes(group_id, (20, 15), (21, 16), (25, 20), log=group.log_texts)
