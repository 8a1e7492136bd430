"""MirrorSourceConnector and its tasks on our plain worker, between two clusters, in Java's
words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connect_runtime.system import system_clock
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from tests.support import eventually, kafka
from tests.support.connect_workers import Group, Kind, Mode, Worker
from tests.support.kafka import Outgoing

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

WAIT_S = 120.0
NAME = "mirror"
OFFSETS = f"/connectors/{NAME}/offsets"
CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
SESSION_S = 6.0
_UNIQUE = itertools.count(1)


class Flow:
    """A flow of its own from `source` to `target`: aliases and topics are nobody else's."""

    def __init__(self, source: SandboxCluster, target: SandboxCluster, **more: str) -> None:
        number = next(_UNIQUE)
        self.source, self.target = source.client_properties(), target.client_properties()
        self.aliases = (f"src{number}", f"dst{number}")
        self.topic = f"orders{number}"
        self.written = 0
        self.config = {
            "connector.class": CLASS,
            "heartbeats.replication.enabled": "false",  # others may have left some here
            "tasks.max": "2",
            "topics": f"{self.topic}.*",
            "source.cluster.alias": self.aliases[0],
            "target.cluster.alias": self.aliases[1],
            **{f"source.cluster.{name}": value for name, value in self.source.items()},
            **{f"target.cluster.{name}": value for name, value in self.target.items()},
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
            "mm2.engine": "inline",
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def mirror(self, topic: str) -> str:
        return f"{self.aliases[0]}.{topic}"

    @property
    def syncs_topic(self) -> str:
        return f"mm2-offset-syncs.{self.aliases[1]}.internal"

    def write(self, count: int, *, topic: str | None = None, partitions: int = 2) -> None:
        """Values are numbers, each written once."""
        numbers = range(self.written, self.written + count)
        self.written += count
        kafka.produce(
            self.source,
            topic or self.topic,
            [Outgoing(value=b"%d" % each, partition=each % partitions) for each in numbers],
        )

    def values(self, topic: str | None = None, *, partitions: int = 2) -> list[int]:
        """What readers of the mirror see, sorted."""
        mirror = self.mirror(topic or self.topic)
        found = [kafka.read_partition(self.target, mirror, each) for each in range(partitions)]
        return sorted(int(record.value or b"-1") for part in found for record in part)

    def arrives(self, log: Callable[[], str]) -> None:
        """All that was written, once."""
        self.counts(self.written, log)
        assert self.values() == list(range(self.written))

    def counts(self, count: int, log: Callable[[], str]) -> None:
        eventually.eventually(lambda: len(self.values()) >= count, WAIT_S, log, interval_s=0.5)

    def syncs(self) -> list[OffsetSync]:
        on = self.source
        found = kafka.read_partition(on, self.syncs_topic)
        return [
            mirrormaker2_records.decode_offset_sync(each.key or b"", each.value or b"")
            for each in found
        ]


def stored(worker: Worker) -> dict[tuple[str, int], int]:
    """What REST says of the connector's offsets, which is in Java's form."""
    found: list[Mapping[str, Any]] = worker.get(OFFSETS)["offsets"]
    assert all(set(each["partition"]) == {"cluster", "partition", "topic"} for each in found)
    return {
        (each["partition"]["topic"], each["partition"]["partition"]): each["offset"]["offset"]
        for each in found
    }


def test_topics_are_mirrored_and_what_java_keeps_is_kept(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    flow = Flow(west, east, offset_lag_max="10")
    kafka.create_topic(flow.source, flow.topic, partitions=2)
    flow.write(1000)
    worker = connect_group().start("one", Kind.OURS)
    worker.configure(NAME, flow.config)
    eventually.eventually(lambda: worker.runs(NAME, tasks=2), WAIT_S, worker.log_text)
    flow.arrives(worker.log_text)
    ends = {(flow.topic, 0): 499, (flow.topic, 1): 499}
    eventually.eventually(lambda: stored(worker) == ends, WAIT_S, worker.log_text, interval_s=0.3)

    def synced() -> bool:
        last = {each.partition.partition: each for each in flow.syncs()}
        return {number: each.upstream for number, each in last.items()} == {0: 499, 1: 499}

    eventually.eventually(synced, WAIT_S, lambda: str(flow.syncs()), interval_s=0.3)
    for sync in flow.syncs():
        mirror = flow.mirror(sync.partition.topic)
        there = kafka.read_partition(flow.target, mirror, sync.partition.partition)
        here = kafka.read_partition(flow.source, flow.topic, sync.partition.partition)
        ours = {each.offset: each.value for each in there}
        assert ours[sync.downstream] == here[sync.upstream].value

    later = f"{flow.topic}-later"
    kafka.create_topic(flow.source, later, partitions=1)
    flow.write(5, topic=later, partitions=1)
    eventually.eventually(
        lambda: flow.values(later, partitions=1) == list(range(1000, 1005)),
        WAIT_S,
        worker.log_text,
        interval_s=0.5,
    )
    assert worker.stop() in (0, 143)
    worker.start()
    flow.write(10, topic=later, partitions=1)
    eventually.eventually(
        lambda: flow.values(later, partitions=1) == list(range(1000, 1015)),
        WAIT_S,
        worker.log_text,
        interval_s=0.5,
    )
    assert flow.values() == list(range(1000)), "nothing came twice"


def test_a_topic_is_paused_and_a_budget_set_while_copies_run(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    flow = Flow(west, east)
    kafka.create_topic(flow.source, flow.topic, partitions=2)
    worker = connect_group().start("one", Kind.OURS)
    worker.configure(NAME, flow.config)
    flow.write(100)
    flow.arrives(worker.log_text)

    def goes_on(tasks: int = 2) -> bool:
        return (
            worker.log_path.read_text().count("accepted its new configuration without a restart")
            >= tasks
        )

    worker.configure(NAME, {**flow.config, f"live.paused.topic.{flow.topic}": "true"})
    eventually.eventually(goes_on, WAIT_S, worker.log_text)
    flow.write(10)
    assert not system_clock.wait_until(
        lambda: len(flow.values()) > 100, timeout_s=3.0, interval_s=0.5
    )
    worker.configure(NAME, {**flow.config, "live.throttle": "1MB"})
    flow.arrives(worker.log_text)
    assert worker.log_path.read_text().count("copy process is shutting down") == 0, (
        "no copy was started again"
    )


@pytest.mark.full
def test_a_killed_worker_and_one_that_slept_leave_every_record_once(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    flow = Flow(west, east, tasks_max="4")
    kafka.create_topic(flow.source, flow.topic, partitions=4)
    settings = {
        "session.timeout.ms": f"{SESSION_S * 1000:.0f}",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "1000",
        "offset.flush.interval.ms": "1000",
    }
    group = connect_group(settings=settings)
    group.start_all(dict.fromkeys(("one", "two"), Kind.OURS))
    group["one"].configure(NAME, flow.config)
    logs = group.log_texts

    def write(count: int) -> None:
        flow.write(count, partitions=4)

    def arrives() -> None:
        eventually.eventually(
            lambda: len(flow.values(partitions=4)) >= flow.written, WAIT_S, logs, interval_s=0.5
        )
        assert flow.values(partitions=4) == list(range(flow.written))

    write(400)
    arrives()
    group["two"].sigkill()
    write(400)
    arrives()
    group["two"].start()
    write(400)
    arrives()
    eventually.eventually(lambda: group["one"].runs(NAME, tasks=4), WAIT_S, logs)
    group["one"].sigstop()
    write(400)
    arrives()
    group["one"].sigcont()
    write(400)
    arrives()
    eventually.eventually(lambda: group["two"].runs(NAME, tasks=4), WAIT_S, logs)
    write(40)
    arrives()


def test_a_worker_alone_mirrors_too(
    west: SandboxCluster, east: SandboxCluster, tmp_path: Path
) -> None:
    """`connect-standalone`: there is no group that could say whose a partition is."""
    flow = Flow(west, east)
    kafka.create_topic(flow.source, flow.topic, partitions=2)
    flow.write(100)
    worker = Worker(
        Kind.OURS,
        {**flow.target, "offset.storage.file.filename": str(tmp_path / "offsets")},
        folder=tmp_path,
        mode=Mode.STANDALONE,
        connectors=[{"name": NAME, **flow.config}],
    )
    with worker:
        flow.arrives(worker.log_text)
        assert worker.stop() in (0, 143)
        flow.write(100)
        worker.start()
        flow.arrives(worker.log_text)


def test_copies_run_on_spark(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    flow = Flow(west, east, mm2_engine="spark")
    kafka.create_topic(flow.source, flow.topic, partitions=2)
    flow.write(1000)
    worker = connect_group().start("one", Kind.OURS)
    worker.configure(NAME, flow.config)
    eventually.eventually(lambda: worker.runs(NAME, tasks=2), WAIT_S, worker.log_text)
    flow.arrives(worker.log_text)
    assert worker.stop() in (0, 143)
