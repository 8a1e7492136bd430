"""Java's MirrorMaker mirrors under traffic, we take over, and give it back: in one Connect group,
with one configuration, over the same topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from mm2.sandbox import replication_proof
from mm2.sandbox.log_comparison import DifferenceKind, TopicsComparison
from mm2.sandbox.traffic.latency_probe import TrickleProducer
from tests.support import eventually, kafka, who_wrote
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.who_wrote import Doubled

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

JAVA, JAVA_3_9, OURS = (
    Kind.JAVA,
    Kind.JAVA_3_9,
    Kind.OURS,
)
WAIT_S = 300.0
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PARTITIONS = 3
PER_SECOND = 300.0
FLUSH_S = 2.0
"""How far apart offsets are committed: so much Java does again after a SIGKILL of anybody."""
DELIVERY_S = 40.0
"""So long ours wait for what a worker of Java may still send that was killed."""
NONE = Doubled(by_us=0, by_others=0)
SKIPPED_BY = "java.stopped.cleanly"
NEVER = {"producer.override.delivery.timeout.ms": "3600000"}
"""Nobody in this test waits so long."""


class Mirroring:
    """Traffic on one topic, and the connector that mirrors it, whoever runs its tasks."""

    def __init__(self, west: SandboxCluster, east: SandboxCluster, group: Group, name: str) -> None:
        self.group = group
        self.source, self.target = (
            dict(west.client_properties()),
            dict(east.client_properties()),
        )
        self.topic = name
        self.alias = f"w-{name}"
        self.mirror = f"{self.alias}.{name}"
        kafka.create_topic(self.source, name, partitions=PARTITIONS)
        self.traffic = TrickleProducer(
            self.source, name, partitions=PARTITIONS, per_second=PER_SECOND
        )

    @property
    def config(self) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": self.alias,
            "target.cluster.alias": f"e-{self.topic}",
            **{f"source.cluster.{name}": value for name, value in self.source.items()},
            **{f"target.cluster.{name}": value for name, value in self.target.items()},
            "topics": self.topic,
            "tasks.max": "2",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            "mm2.engine": "inline",
            "producer.override.delivery.timeout.ms": str(round(DELIVERY_S * 1000)),
        }

    def start(self, name: str, kind: Kind) -> Worker:
        return self.group.start(name, kind)

    def moves(self) -> None:
        """Whoever does it now mirrors what came in just now."""
        sent = self.traffic.sent + round(PER_SECOND)
        eventually.eventually(
            lambda: self.traffic.sent >= sent and self.mirrored() >= sent,
            WAIT_S,
            self.group.log_texts,
            interval_s=0.3,
        )

    def commits(self, worker: Worker) -> None:
        """What it has mirrored by now, as Java stores it."""
        sent = self.traffic.sent

        def stored() -> bool:
            found = worker.get("/connectors/mirror/offsets")["offsets"]
            return bool(sum(each["offset"]["offset"] + 1 for each in found) >= sent)

        eventually.eventually(stored, WAIT_S, self.group.log_texts, interval_s=0.3)

    def doubled(self) -> Doubled:
        """How many records stand in the mirror that stand there before, and who wrote them again.
        (The source is another one by the time that both were read, as long as there is traffic.)"""
        return who_wrote.doubled(self.target, self.mirror, source=self.alias)

    def mirrored(self) -> int:
        """The ends of the mirror's partitions, summed: fences of ours count, too."""
        if self.mirror not in kafka.topics(self.target):
            return 0
        return sum(kafka.offsets(self.target, self.mirror, each)[1] for each in range(PARTITIONS))

    def judged(self) -> TopicsComparison:
        """What the mirror has, once it has all that was ever sent."""
        return replication_proof.compare_topics(self.source, self.target, {self.topic: self.mirror})

    def complete(self) -> TopicsComparison:
        """The same, as soon as nothing is missing any more."""

        def all_there() -> TopicsComparison | None:
            found = self.judged()
            return found if found.count_differences(DifferenceKind.MISSING) == 0 else None

        found = eventually.eventually(all_there, WAIT_S, self.group.log_texts, interval_s=1.0)
        assert found is not None
        return found


@pytest.fixture
def mirroring(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
    topic: Callable[..., str],
) -> Iterator[Mirroring]:
    group = connect_group(
        settings={
            "key.converter": BYTES,
            "value.converter": BYTES,
            "scheduled.rebalance.max.delay.ms": "0",
            "offset.flush.interval.ms": str(round(FLUSH_S * 1000)),
        }
    )
    made = Mirroring(west, east, group, topic()[:60])
    try:
        yield made
    finally:
        made.traffic.stop()


def stopped(worker: Worker) -> None:
    assert worker.stop() in (0, 143)


def told(worker: Worker) -> str:
    """What its tasks say of why they do not copy."""
    tasks = worker.get("/connectors/mirror/status")["tasks"]
    return "\n".join(each.get("trace") or "" for each in tasks)


def killed(worker: Worker) -> None:
    worker.sigkill()


@pytest.mark.parametrize(
    "java",
    [JAVA, pytest.param(JAVA_3_9, marks=pytest.mark.full)],
    ids=lambda kind: kind.value,
)
def test_stopped_in_order_nothing_is_lost_or_doubled(mirroring: Mirroring, java: Kind) -> None:
    first = mirroring.start("java", java)
    mirroring.traffic.start()
    first.configure("mirror", mirroring.config)
    mirroring.moves()
    stopped(first)
    ours = mirroring.start("ours", OURS)
    mirroring.moves()
    stopped(ours)
    mirroring.start("back", java)
    mirroring.moves()
    mirroring.traffic.stop()
    found = mirroring.complete()
    assert found.is_equal, str(found)


@pytest.mark.full
@pytest.mark.parametrize("java", [JAVA, JAVA_3_9], ids=lambda kind: kind.value)
def test_killed_only_java_doubles(mirroring: Mirroring, java: Kind) -> None:
    """Java does again what nobody had committed; what it has done we find, to the record."""
    first = mirroring.start("java", java)
    mirroring.traffic.start()
    first.configure("mirror", mirroring.config)
    mirroring.moves()
    mirroring.commits(first)
    killed(first)
    ours = mirroring.start("ours", OURS)
    eventually.eventually(lambda: SKIPPED_BY in told(ours), WAIT_S, mirroring.group.log_texts)
    mirroring.moves()
    assert mirroring.doubled() == NONE
    assert SKIPPED_BY not in told(ours)
    mirroring.commits(ours)
    killed(ours)
    back = mirroring.start("back", java)
    mirroring.moves()
    mirroring.commits(back)
    killed(back)
    again = mirroring.start("again", OURS)
    again.configure("mirror", mirroring.config | {SKIPPED_BY: "true"} | NEVER)
    mirroring.moves()
    mirroring.traffic.stop()
    found = mirroring.complete()
    others = found.count_differences(DifferenceKind.EXTRA) + found.count_differences(
        DifferenceKind.ALTERED
    )
    assert (others, found.count_differences(DifferenceKind.REORDERED)) == (0, 0), str(found)
    twice = mirroring.doubled()
    assert twice.by_us == 0, twice
    assert found.count_differences(DifferenceKind.DUPLICATED) == twice.by_others, str(found)
    assert twice.by_others <= PER_SECOND * (FLUSH_S + 2.0), "Java's own, since its last commit"
