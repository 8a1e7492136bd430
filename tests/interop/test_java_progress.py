"""Java's MirrorMaker, as its users start it, mirrors under traffic and is stopped or killed; one
task of ours, without any worker, goes on behind what it wrote. And back.

All that the two share are Java's topics: its source offsets and its offset syncs.
"""

from __future__ import annotations

import json
import math
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from connect_runtime.api.plugin_context import (
    LastTaskRuns,
    PipelineProgress,
    PipelineState,
    ReadMetrics,
)
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.system.supervised_threads import StoppableThread, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2.connectors.source_task import MirrorSourceTask
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.sandbox import replication_proof
from mm2.sandbox.log_comparison import DifferenceKind, TopicsComparison
from mm2.sandbox.traffic.latency_probe import TrickleProducer
from mm2.topics import replication_policy
from tests.bench.contestants import Flow, JavaMirrorMaker
from tests.support import eventually, kafka

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 240.0
PARTITIONS = 3
PER_SECOND = 300.0
OFFSETS_PARTITIONS = 25
NAME = "MirrorSourceConnector"
"""What Java's dedicated mode calls it; keys of its offsets topic begin with that."""


class Offsets:
    """Java's source offsets. Nobody writes them beside us, so they are read before we begin."""

    def __init__(self, target: dict[str, str], topic: str) -> None:
        self.target, self.topic = target, topic
        self._stored: dict[bytes, Any] = {}
        self._producer = confluent_kafka.Producer(
            kafka.client_config(target, partitioner="murmur2")
        )

    def read(self) -> None:
        found = kafka.read_topic(self.target, self.topic)
        assert len(found) == OFFSETS_PARTITIONS
        self._stored = {
            record.key or b"": json.loads(record.value) if record.value else None
            for part in found.values()
            for record in part
        }

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.offsets([partition])[0]

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any] | None]:
        return [self._stored.get(_compact([NAME, dict(each)])) for each in partitions]

    def store(self, progress: PipelineProgress) -> None:
        for each in progress.offsets:
            key = _compact([NAME, dict(each.partition or {})])
            self._stored[key] = each.offset
            self._producer.produce(self.topic, key=key, value=_compact(each.offset))
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(30.0) == 0


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Alone:
    """What a worker is to a task, for one that belongs to no group; and the task on its thread."""

    session_timeout_s = math.inf
    stop_timeout_s = 10.0
    transaction_context = None

    def __init__(self, offsets: Offsets, props: Mapping[str, str]) -> None:
        self.clock = SystemClock()
        self.offset_reader = offsets
        self.task_id = ConnectorTaskId(NAME, 0)
        self.reasons: list[str] = []
        self.state: PipelineState | None = None
        self._props = props
        self._failures: list[UnexpectedThreadEnd] = []
        self._thread = StoppableThread(
            "our task", self._run, on_unexpected_end=self._failures.append
        )

    def get_worker_properties(self, prefix: str) -> Mapping[str, str]:
        return {}

    def get_last_heartbeat_s(self) -> float:
        return self.clock.now_s()

    def request_heartbeat(self) -> None:
        """Nobody is asked."""

    def get_last_task_runs(self) -> LastTaskRuns:
        return LastTaskRuns()

    def configs(self) -> Mapping[str, str]:
        return self._props

    def add_metrics(self, read: ReadMetrics) -> None:
        """Nobody looks at them."""

    def report(self, progress: PipelineProgress) -> None:
        self.offset_reader.store(progress)
        self.state = progress.state
        if progress.reason:
            self.reasons.append(progress.reason)

    def _run(self, stop: threading.Event) -> None:
        task = MirrorSourceTask()
        task.initialize(self)  # type: ignore[arg-type]  # what it asks for is here
        task.start(self._props)
        try:
            while not stop.is_set():
                task.run_once(0.1)
        finally:
            task.stop()

    def log(self) -> str:
        return f"{self.state}, {self._failures}: {self.reasons[-5:]}"

    def stop(self) -> None:
        self._thread.stop.set()
        assert self._thread.join(60.0), self.log()
        assert not self._failures, self.log()
        self.offset_reader.flush()


class Mirroring:
    """Traffic on one topic, Java's MirrorMaker and our task, of which one runs at a time."""

    def __init__(
        self, west: SandboxCluster, east: SandboxCluster, topic: str, folder: Path, flush_s: float
    ) -> None:
        self.source, self.target = (
            dict(west.client_properties()),
            dict(east.client_properties()),
        )
        self.topic, self.folder = topic, folder
        self.flow = Flow(
            source=f"w-{topic}",
            target=f"e-{topic}",
            source_properties=self.source,
            target_properties=self.target,
            topics=(topic,),
        )
        self._java = JavaMirrorMaker(
            key="java",
            title="Java",
            tuning={
                "tasks.max": "2",
                "emit.heartbeats.enabled": "false",
                "emit.checkpoints.enabled": "false",
                "{target}.plugin.discovery": "service_load",
                "{target}.offset.flush.interval.ms": str(round(flush_s * 1000)),
                "{target}.scheduled.rebalance.max.delay.ms": "0",
            },
            flags=("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        )
        self.running: subprocess.Popen[bytes] | None = None
        self.ours: Alone | None = None
        kafka.create_topic(self.source, topic, partitions=PARTITIONS)
        alias = self.flow.source
        self.offsets = Offsets(self.target, f"mm2-offsets.{alias}.internal")
        compacted = {"cleanup.policy": "compact"}
        for name in (
            replication_policy.format_offset_map_topic(alias),
            replication_policy.format_incidents_topic(alias),
        ):
            kafka.create_topic(self.target, name, config=compacted)
        self.traffic = TrickleProducer(
            self.source, topic, partitions=PARTITIONS, per_second=PER_SECOND
        )

    @property
    def log_file(self) -> Path:
        return self.folder / "java.log"

    def log(self) -> str:
        text = self.log_file.read_text(errors="replace")[-3000:] if self.log_file.exists() else ""
        return f"{self.ours.log() if self.ours else ''}\n{text}"

    def java(self) -> None:
        with self.log_file.open("ab") as log:
            command = self._java.command(self.flow, self.folder)
            self.running = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def java_ends(self, *, killed: bool) -> None:
        assert self.running is not None
        if killed:
            self.running.kill()
        else:
            self.running.terminate()
        self.running.wait(60.0)
        self.running = None

    def we(self) -> None:
        self.offsets.read()
        share = ",".join(f"{self.topic}-{each}" for each in range(PARTITIONS))
        self.ours = Alone(
            self.offsets,
            {
                "name": NAME,
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "source.cluster.alias": self.flow.source,
                "target.cluster.alias": self.flow.target,
                **{f"source.cluster.{name}": value for name, value in self.source.items()},
                **{f"target.cluster.{name}": value for name, value in self.target.items()},
                "topics": self.topic,
                "replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
                "task.assigned.partitions": share,
                "mm2.engine": "inline",
            },
        )

    def we_end(self) -> None:
        assert self.ours is not None
        self.ours.stop()
        self.ours = None

    def end(self) -> None:
        self.traffic.stop()
        if self.running is not None:
            self.running.kill()
            self.running.wait(60.0)
        if self.ours is not None:
            self.ours.stop()

    # What is there

    @property
    def mirror(self) -> str:
        return self.flow.mirrored(self.topic)

    def mirrored(self) -> int:
        """The ends of the mirror's partitions, summed: fences of ours count, too."""
        if self.mirror not in kafka.topics(self.target):
            return 0
        return sum(kafka.offsets(self.target, self.mirror, each)[1] for each in range(PARTITIONS))

    def moves(self, for_s: float = 2.0) -> None:
        """Whoever does it now mirrors what comes in for so long."""
        wanted = self.mirrored() + round(PER_SECOND * for_s)
        eventually.eventually(
            lambda: self.mirrored() > wanted,
            WAIT_S,
            self.log,
            interval_s=0.3,
        )

    def judged(self) -> TopicsComparison:
        """What the mirror has, as soon as nothing is missing any more; traffic rests."""

        def all_there() -> TopicsComparison | None:
            found = replication_proof.compare_topics(
                self.source, self.target, {self.topic: self.mirror}
            )
            return found if found.count_differences(DifferenceKind.MISSING) == 0 else None

        found = eventually.eventually(all_there, WAIT_S, self.log, interval_s=1.0)
        assert found is not None
        others = (DifferenceKind.EXTRA, DifferenceKind.ALTERED, DifferenceKind.REORDERED)
        assert [found.count_differences(each) for each in others] == [0, 0, 0], str(found)
        return found

    def doubled(self) -> int:
        """How many records of the mirror stand there before; nobody mirrors now."""
        found = replication_proof.compare_topics(
            self.source, self.target, {self.topic: self.mirror}
        )
        return found.count_differences(DifferenceKind.DUPLICATED)

    def incidents(self) -> list[Incident]:
        topic = replication_policy.format_incidents_topic(self.flow.source)
        found = kafka.read_partition(self.target, topic)
        return [
            incident_records.decode_incident(each.key or b"", each.value or b"") for each in found
        ]

    def doubles_stated(self) -> int:
        """How many records the incidents call doubles of Java's."""
        ranges = {
            (each.partition, each.target)
            for each in self.incidents()
            if each.kind is IncidentKind.DOUBLED_BY_JAVA
        }
        return sum(target[1] - target[0] for _, target in ranges if target is not None)


@pytest.fixture
def mirroring(
    request: pytest.FixtureRequest,
    west: SandboxCluster,
    east: SandboxCluster,
    topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Mirroring]:
    made = Mirroring(west, east, topic()[-30:], tmp_path, getattr(request, "param", 2.0))
    try:
        made.traffic.start()
        yield made
    finally:
        made.end()


NEVER_S = 600.0


@pytest.mark.parametrize(
    ("mirroring", "killed"),
    [
        pytest.param(2.0, False, id="stopped", marks=pytest.mark.full),
        pytest.param(2.0, True, id="killed"),
        pytest.param(NEVER_S, True, id="killed before it stored anything", marks=pytest.mark.full),
    ],
    indirect=["mirroring"],
)
def test_behind_java_nothing_is_lost_and_nothing_copied_twice(
    mirroring: Mirroring, killed: bool
) -> None:
    mirroring.java()
    mirroring.moves(6.0)
    mirroring.java_ends(killed=killed)
    mirroring.we()
    mirroring.moves()
    mirroring.traffic.stop()
    found = mirroring.judged()
    assert found.is_equal, str(found)
    assert mirroring.incidents() == []


@pytest.mark.full
def test_taking_turns_only_java_doubles(mirroring: Mirroring) -> None:
    """Killed and started again, it copies once more what it had not stored; ours add nothing to it,
    and hand over in order, so that Java adds nothing either."""
    for _ in range(2):
        mirroring.java()
        mirroring.moves(5.0)
        mirroring.java_ends(killed=True)
    before = mirroring.doubled()
    assert before > 0
    mirroring.we()
    mirroring.moves()
    mirroring.we_end()
    mirroring.java()
    mirroring.moves(4.0)
    mirroring.java_ends(killed=True)
    mirroring.we()
    mirroring.moves()
    mirroring.traffic.stop()
    mirroring.judged()
    assert mirroring.doubled() == before
    assert mirroring.doubles_stated() <= before
