"""Odd topics, mirrored exactly: whatever a log may hold, between all releases, killed on the way.

An ordinary client that reads committed records is the judge. What each topic holds, and that it
really holds it, is the generator's word (`mm2/sandbox/traffic/odd`).
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.formats.incident_records import IncidentKind
from mm2.sandbox import replication_proof
from mm2.sandbox.log_comparison import TopicsComparison
from mm2.sandbox.partition_reader import ConsumerLogReader
from mm2.sandbox.replication_proof import SourceSnapshot
from mm2.sandbox.sandbox_clients import SandboxClients
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic.edge_cases import edge_case_topics
from mm2.sandbox.traffic.edge_cases.edge_case_topics import WrittenTopic
from mm2.sandbox.traffic.edge_cases.topic_writers import ConfigAlterer, TrafficSize
from tests.chaos.checks import anchors
from tests.chaos.faults import mirror_processes
from tests.chaos.faults.mirror_processes import Kind
from tests.support import content, eventually, kafka, mirror, operations
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

NEWEST = "4.3"
VERSIONS = ("2.8", "3.9", NEWEST)
INLINE = {"engine": "inline"}
SLOWLY = ("--throttle", "4MB")
"""So slow that there is a middle in which to be killed."""
FORGETFUL = {"producer.id.expiration.ms": "4000", "producer.id.expiration.check.interval.ms": "500"}


@dataclass(slots=True, kw_only=True)
class Odd:
    """Odd topics on a source, and the flow that mirrors them."""

    source: Properties
    target: Properties
    folder: Path
    written: tuple[WrittenTopic, ...]
    settings: dict[str, Any]
    runs: list[Mirror] = field(default_factory=list)

    @classmethod
    def write(
        cls,
        folder: Path,
        pair: tuple[SandboxCluster, SandboxCluster],
        *,
        version: str = NEWEST,
        prefix: str = "odd-",
        size: TrafficSize = TrafficSize.QUICK,
        **flow: Any,
    ) -> Self:
        source, target = (each.client_properties() for each in pair)
        written = edge_case_topics.write_topics(
            source, kafka_version=version, prefix=prefix, size=size
        )
        names = [each.name for each in written]
        return cls(
            source=source,
            target=target,
            folder=folder,
            written=written,
            settings=mirror.settings(source, target, topics=names, **{"tasks_max": 2} | flow),
        )

    @property
    def records(self) -> int:
        return sum(each.records for each in self.written)

    def start(self) -> Mirror:
        """One more `mm2 run` of the flow, slowly."""
        name = f"run-{len(self.runs) + 1}"
        self.runs.append(Mirror(self.folder, self.settings, *SLOWLY, name=name))
        return self.runs[-1]

    def killed(self, share: float) -> float:
        """A run that is killed, with all its processes, when it has copied such a share.

        Returns how many records it had copied, by the last look.
        """
        with self.start() as run:
            self.move(run, share)
            copied = run.records()
            run.kill()
        return copied

    def move(self, run: Mirror, share: float) -> None:
        """Until a run has copied such a share of all records, or all that was left."""
        eventually.eventually(
            lambda: run.records() >= self.records * share or self.is_through(run),
            120.0,
            lambda: f"it copies on; it has {run.records()} records\n{run.tail}",
        )
        assert run.running, run.tail

    def is_through(self, run: Mirror) -> bool:
        """Nothing is left of any topic; until all of them were looked at nobody knows."""
        known = run.metrics().get("mm2_replication_lag_records", [])
        return len(known) == len(self.written) and not any(left for _, left in known)

    def finish(self) -> None:
        """Copy what is left, and compare every topic."""
        mirror.catch_up(self.folder, self.settings, timeout_s=300.0)
        assert_mirrored(self)


def assert_mirrored(odd: Odd) -> None:
    found = replication_proof.compare_topics(
        odd.source,
        odd.target,
        {each.name: f"east.{each.name}" for each in odd.written},
        restamped={each.name for each in odd.written if each.changes_timestamp_type},
    )
    stated = "\n".join(map(str, replication_proof.read_incidents(odd.target, "east")))
    assert found.is_equal, f"{found}\n{stated or 'no incidents'}"
    for each in odd.written:
        there = [part for part in found.partitions if part.source.topic == each.name]
        assert sum(part.source_records for part in there) == each.records, each.name


def test_every_oddity_is_mirrored_exactly_though_the_mirror_is_killed(tmp_path, east, west, topic):
    odd = Odd.write(tmp_path, (east, west), prefix=f"{topic()}-", spark=INLINE)
    assert 0 < odd.killed(0.3) < odd.records, "killed on the way"
    odd.finish()


@pytest.fixture
def pair(own_cluster) -> Callable[..., tuple[SandboxCluster, SandboxCluster]]:
    """Starts a source and a target of these releases."""

    def start(
        of: str = NEWEST, to: str = NEWEST, **target: Any
    ) -> tuple[SandboxCluster, SandboxCluster]:
        return (
            own_cluster("east", kafka_version=of),
            own_cluster("west", kafka_version=to, **target),
        )

    return start


@pytest.mark.full
@pytest.mark.kafka_versions("2.8", "3.9")
@pytest.mark.parametrize(
    ("of", "to"),
    [each for each in itertools.product(VERSIONS, VERSIONS) if each != (NEWEST, NEWEST)],
)
def test_between_all_releases(tmp_path, pair, of, to):
    odd = Odd.write(tmp_path, pair(of, to), version=of, spark=INLINE)
    for share in (0.02, 0.1, 0.5):
        odd.killed(share)
    odd.finish()


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.kafka_versions("2.8")
@pytest.mark.parametrize("of", ["2.8", NEWEST])
def test_a_lot_of_each_on_spark_with_every_kind_of_process_killed(tmp_path, pair, of):
    odd = Odd.write(tmp_path, pair(of), version=of, size=TrafficSize.FULL)
    rng = Random(5)
    for number, kind in enumerate(Kind):
        with odd.start() as run:
            odd.move(run, 0.02 * (1 + number))
            mirror_processes.kill(run, kind, rng)
            if kind not in mirror_processes.ENDS_THE_RUN:
                odd.move(run, 0.3)
            run.kill()
    odd.finish()


@pytest.mark.full
def test_a_frozen_twin_wakes_up_when_another_has_taken_over(tmp_path, pair):
    odd = Odd.write(tmp_path, pair(), spark=INLINE)
    wake_a_twin(odd)
    odd.finish()


def wake_a_twin(odd: Odd) -> None:
    """The first one sleeps with batches in its hands; awake again it sends them, and is refused.

    Then it joins the other one, and has a part of the work.
    """
    with odd.start() as first:
        odd.move(first, 0.05)
        first.signal(signal.SIGSTOP)
        with odd.start() as second:
            odd.move(second, 0.05)
            first.signal(signal.SIGCONT)
            eventually.eventually(
                lambda: [running_tasks(each) for each in (first, second)] == [1, 1],
                120.0,
                lambda: f"they share the work\n{first.tail}\n{second.tail}",
            )


def running_tasks(run: Mirror) -> float:
    return run.figure("mm2_flow_tasks", state="RUNNING")


@pytest.mark.full
def test_timestamps_older_than_what_brokers_remember_of_producers(tmp_path, pair):
    """Seconds after it was written, the target forgets who wrote a record that is not fresh."""
    odd = Odd.write(tmp_path, pair(settings=FORGETFUL), spark=INLINE)
    odd.killed(0.05)
    wake_a_twin(odd)
    odd.killed(0.05)
    odd.finish()


# Cleaned and cut between copy and take-over

CAREFUL = {"log.cleaner.min.cleanable.ratio": "1"}
"""Nothing is so dirty that it would be cleaned."""
EAGER = {"log.cleaner.min.cleanable.ratio": "0.01", "log.cleaner.backoff.ms": "100"}
ROUNDS, KEYS, TRIES = 6, 4_000, 5
CHANGING = TopicPartition("east.changing", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changing:
    """A topic of which a part is copied, and then taken away from the source."""

    source: Properties
    target: Properties
    settings: dict[str, Any]
    before: SourceSnapshot

    def compared(self, *, compacted: bool) -> TopicsComparison:
        return replication_proof.compare_topics_allowing_incidents(
            self.source,
            self.target,
            {"changing": "east.changing"},
            snapshot=self.before,
            incidents=replication_proof.read_incidents(self.target, "east"),
            compacted=compacted,
        )


def half_copied(folder: Path, own_cluster: Callable[..., SandboxCluster], policy: str) -> Changing:
    """The copy was killed so soon after its last records that they are written down nowhere."""
    east, west = (own_cluster(name, settings=CAREFUL) for name in ("east", "west"))
    source, target = east.client_properties(), west.client_properties()
    config = {"cleanup.policy": policy, "segment.ms": "100"}
    kafka.create_topic(source, "changing", config=config)
    now_ms = mirror.CLOCK.wall_ms()
    for number in range(ROUNDS):
        stamp = now_ms - 1_000 * (ROUNDS - number)
        some = content.some(KEYS, bytes_each=180 + 9 * number, timestamp=stamp)
        kafka.produce(source, "changing", some, batch_num_messages=50)
    kafka.produce(source, "changing", [Outgoing(key=b"end", value=b"end")])
    given = mirror.settings(source, target, topics=["changing"], spark=INLINE)
    killed_with_a_tail(folder, given, west)
    return Changing(
        source=source,
        target=target,
        settings=given,
        before=replication_proof.take_snapshot(source, ["changing"]),
    )


def killed_with_a_tail(folder: Path, given: dict[str, Any], west: SandboxCluster) -> None:
    """It writes down about every second what it has copied: the first try may come too late."""
    place = TopicPartition("changing", 0)
    with ConsumerLogReader(west.client_properties(), alias="west") as reader:
        for number in range(TRIES):
            with Mirror(folder, given, "--throttle", "600kB", name=f"run-{number}") as run:
                await_growth(reader, run)
                run.kill()
            if anchors.uncovered(west, [place]):
                return
    raise AssertionError(f"killed {TRIES} times, it had always written down all that was copied")


def await_growth(reader: ConsumerLogReader, run: Mirror) -> None:
    """Until the mirror has more than a marker more than it has now; seen at once."""
    before = end_of(reader, CHANGING)
    eventually.eventually(
        lambda: end_of(reader, CHANGING) > before + 100,
        90.0,
        lambda: f"records arrive\n{run.tail}",
        interval_s=0.002,
    )


def end_of(reader: ConsumerLogReader, partition: TopicPartition) -> int:
    return reader.read_log_bounds(partition)[1] if reader.count_partitions(partition.topic) else 0


@pytest.mark.full
def test_the_cleaner_ran_between_copy_and_take_over(tmp_path, own_cluster):
    changing = half_copied(tmp_path, own_cluster, "compact")
    source = changing.source
    ConfigAlterer(SandboxClients(source, alias="east")).alter_broker_settings(EAGER)
    eventually.eventually(
        lambda: len(kafka.read_partition(source, "changing")) == KEYS + 1, 120.0, "it is cleaned"
    )
    mirror.catch_up(tmp_path, changing.settings)
    found = changing.compared(compacted=True)
    assert found.is_equal, str(found)
    stated = replication_proof.read_incidents(changing.target, "east")
    assert {each.kind for each in stated} >= {IncidentKind.NOT_PAIRED}


@pytest.mark.full
def test_retention_ran_between_copy_and_take_over(tmp_path, own_cluster):
    """It took what was copied and not written down, and some that was not even copied."""
    changing = half_copied(tmp_path, own_cluster, "delete")
    start = KEYS * (ROUNDS - 2)
    operations.delete_records(changing.source, "changing", start)
    mirror.catch_up(tmp_path, changing.settings)
    found = changing.compared(compacted=False)
    assert found.is_equal, str(found)
    stated = replication_proof.read_incidents(changing.target, "east")
    assert {each.kind for each in stated} >= {IncidentKind.SOURCE_GONE}
