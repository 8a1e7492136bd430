"""The main job: `mm2 run … --until-caught-up` copies real data between real clusters, exactly.

On local Spark and on a standalone Spark cluster, with processes killed on the way. Quick form:
60 MB of 1 KB records and 20 MB of 100 B records; full form: 1 GB and 300 MB.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from mm2.sandbox import port_reservation, replication_proof
from mm2.sandbox.spark_cluster import SparkCluster, SparkClusterSpec
from mm2.sandbox.traffic.producers import JavaPerfProducer
from tests.chaos.faults import mirror_processes
from tests.chaos.faults.mirror_processes import Kind
from tests.support import eventually, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = pytest.mark.system

PARTITIONS = 4
SECRET = "a secret of this test's own Spark cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much of each kind of record, and how long a run may take with it."""

    name: str
    kilobyte_records: int
    small_records: int
    timeout_s: int

    @property
    def bytes(self) -> int:
        return 1_000 * self.kilobyte_records + 100 * self.small_records

    @property
    def records(self) -> int:
        return self.kilobyte_records + self.small_records


QUICK = Load(name="80 MB", kilobyte_records=60_000, small_records=200_000, timeout_s=400)
FULL = Load(name="1.3 GB", kilobyte_records=1_000_000, small_records=3_000_000, timeout_s=900)
LITTLE = Load(name="8 MB", kilobyte_records=6_000, small_records=20_000, timeout_s=400)
LOADS = [
    pytest.param(QUICK, id="quick", marks=pytest.mark.timeout(900)),
    pytest.param(FULL, id="full", marks=[pytest.mark.full, pytest.mark.timeout(2400)]),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be copied from where to where."""

    east: Properties
    west: Properties
    topics: tuple[str, str]
    load: Load

    def fill(self) -> None:
        """Produce with Kafka's own Java producer."""
        counts = (self.load.kilobyte_records, 1_000), (self.load.small_records, 100)
        for topic, (records, size), codec in zip(self.topics, counts, ("none", "lz4"), strict=True):
            kafka.create_topic(self.east, topic, partitions=PARTITIONS)
            tool = JavaPerfProducer(
                self.east, topic, records=records, record_bytes=size, codec=codec
            )
            try:
                tool.await_completion(timeout_s=self.load.timeout_s)
            finally:
                tool.stop()

    def settings(self, **more: Any) -> dict[str, Any]:
        return mirror.settings(self.east, self.west, topics=list(self.topics), **more)

    def arguments(self) -> tuple[str, ...]:
        return ("--until-caught-up", "--timeout", str(self.load.timeout_s))

    def assert_copied(self) -> None:
        found = replication_proof.compare_topics(
            self.east, self.west, {topic: f"east.{topic}" for topic in self.topics}
        )
        assert found.is_equal, str(found)
        assert found.records == self.load.records


@pytest.fixture
def job(east, west, topic) -> Callable[[Load], Job]:
    """Makes the job between the shared clusters, filled."""

    def make(load: Load) -> Job:
        made = Job(
            east=east.client_properties(),
            west=west.client_properties(),
            topics=(topic("kilobyte"), topic("small")),
            load=load,
        )
        made.fill()
        return made

    return make


@pytest.fixture(scope="module")
def spark() -> Iterator[Callable[[], SparkCluster]]:
    """Starts a standalone Spark cluster of two workers with four slots each."""
    started: list[SparkCluster] = []

    def start() -> SparkCluster:
        spec = SparkClusterSpec(workers=2, cores=4, secret=SECRET)
        started.append(SparkCluster(spec))
        return started[-1].start()

    try:
        yield start
    finally:
        for each in started:
            each.close()


def cluster_settings(master: str, ui_port: int) -> dict[str, Any]:
    return {
        "master": master,
        "control.host": "127.0.0.1",
        "ui": True,
        "conf": {
            "spark.driver.host": "127.0.0.1",
            "spark.authenticate.secret": SECRET,
            "spark.executor.memory": "512m",
            "spark.ui.port": str(ui_port),
        },
    }


def running_jobs(ui_port: int) -> list[str]:
    """Descriptions of the jobs that Spark's status API lists as running."""
    root = f"http://127.0.0.1:{ui_port}/api/v1/applications"
    (application,) = _json(root)
    jobs = _json(f"{root}/{application['id']}/jobs?status=running")
    return sorted(job["description"] for job in jobs)


def _json(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60.0) as answer:  # its first answer takes long
        return json.load(answer)


def finished(run: Mirror, job: Job) -> None:
    """The run ends by itself, well, with everything copied."""
    assert run.wait(job.load.timeout_s + 60.0) == 0, run.tail
    assert "caught up" in run.log
    job.assert_copied()


def await_share(run: Mirror, job: Job, share: float) -> float:
    """Wait until this share of the records is copied; returns which share is."""
    run.await_records(share * job.load.records, job.load.timeout_s)
    return run.records() / job.load.records


@pytest.mark.full
@pytest.mark.parametrize("load", LOADS)
def test_the_sandbox_and_one_command_copy_everything(tmp_path, topic, load):
    folder = str(tmp_path / "sandbox")
    up = mirror.mm2("sandbox", "up", "east", "west", "--json", "--dir", folder)
    try:
        assert up.returncode == 0, up.stderr
        clusters: Mapping[str, dict[str, str]] = json.loads(up.stdout)["clusters"]
        job = Job(
            east=clusters["east"],
            west=clusters["west"],
            topics=(topic("kilobyte"), topic("small")),
            load=load,
        )
        job.fill()
        with Mirror(tmp_path, job.settings(tasks_max=2), *job.arguments()) as run:
            finished(run, job)
    finally:
        mirror.mm2("sandbox", "down", "--dir", folder)


@pytest.mark.full
@pytest.mark.parametrize("load", LOADS)
def test_a_spark_cluster_loses_a_worker_on_the_way(tmp_path, job, spark, load):
    job, cluster = job(load), spark()
    ui = port_reservation.reserve_port().port
    given = job.settings(spark=cluster_settings(cluster.url, ui), tasks_max=4)
    slow = ("--throttle", f"{load.bytes // 50 // 1000}kB")
    with Mirror(tmp_path, given, *job.arguments(), *slow) as run:
        share = await_share(run, job, 0.1)
        tasks = [f"east->west task {number}" for number in range(4)]
        assert running_jobs(ui) == tasks
        victim = max(cluster.workers, key=lambda each: len(mirror.copy_processes(each.pid)))
        lost = len(mirror.copy_processes(victim.pid))
        assert lost > 0
        share = max(share, run.records() / load.records)
        assert 0.1 <= share < 0.9, share
        victim.kill()
        finished(run, job)
        assert len(re.findall(r"task \d\] .*; restarting the copy process", run.log)) >= lost


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_killed_copy_process_interrupts_only_its_partitions(tmp_path, job):
    job = job(QUICK)
    ui = port_reservation.reserve_port().port
    shown = {"ui": True, "conf": {"spark.ui.port": str(ui)}}
    given = job.settings(spark=shown, tasks_max=PARTITIONS)
    with Mirror(tmp_path, given, *job.arguments(), "--throttle", "3MB") as run:
        await_share(run, job, 0.1)
        assert running_jobs(ui) == [f"east->west task {number}" for number in range(PARTITIONS)]
        before = ends(job)
        assert run.records() < 0.8 * job.load.records
        mirror_processes.kill(run, Kind.COPY, Random(1))
        found = run.await_log(r"task (\d)\] .*; restarting the copy process", 30.0)
        running: list[float] = []

        def is_back() -> bool:
            running.append(run.figure("mm2_flow_tasks", state="RUNNING"))
            return run.log.count(f"task {found[1]}] running") == 2

        eventually.eventually(is_back, 90.0)
        assert min(running) >= PARTITIONS - 1, running
        # Partitions with the same number of both topics are one task's.
        others = [each for each in before if each[1] != int(found[1])]
        eventually.eventually(
            lambda: all(ends(job)[each] > before[each] for each in others),
            30.0,
            lambda: f"the others moved: {before}, now {ends(job)}",
        )
        assert run.records() < job.load.records
        finished(run, job)
        assert run.log.count("restarting the copy process") == 1


def ends(job: Job) -> dict[tuple[str, int], int]:
    """Log ends of all mirror partitions."""
    return {
        (topic, number): kafka.offsets(job.west, f"east.{topic}", number)[1]
        for topic in job.topics
        for number in range(PARTITIONS)
    }


@pytest.mark.timeout(900)
def test_the_main_job_between_secure_clusters(tmp_path, own_cluster, topic):
    east, west = own_cluster("east", users=[]), own_cluster("west", users=[])
    job = Job(
        east=east.client_properties(),
        west=west.client_properties(mechanism="SCRAM-SHA-256"),
        topics=(topic("kilobyte"), topic("small")),
        load=LITTLE,
    )
    job.fill()
    with Mirror(tmp_path, job.settings(tasks_max=2), *job.arguments()) as run:
        finished(run, job)
        for password in (*east.security.passwords.values(), *west.security.passwords.values()):
            assert password not in run.log
