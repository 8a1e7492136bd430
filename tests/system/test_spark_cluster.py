"""Copies on a real standalone Spark cluster with two workers and encryption."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from connect_runtime.system import child_processes
from connect_runtime.system.system_clock import SystemClock
from mm2.copier import control_channel_server
from mm2.copier.copy_engine import CopyState, SlotUsage
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.settings import SparkSettings
from mm2.sandbox import spark_cluster
from mm2.sandbox.spark_cluster import SparkCluster, SparkClusterSpec
from tests.support import copies, eventually, spark_processes
from tests.support.copies import Starter
from tests.system import standin_copies

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CLOCK = SystemClock()
SECRET = "the-secret-of-this-cluster"
ENTRY = "standin_copies:echo"
STANDIN = Path(standin_copies.__file__)
CONF = {
    "spark.authenticate.secret": SECRET,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.ui.port": "14050",
}


@pytest.fixture(scope="module")
def cluster():
    spec = SparkClusterSpec(workers=2, cores=2, memory="4g", secret=SECRET)
    with SparkCluster(spec) as running:
        yield running


@pytest.fixture
def server():
    tls, fingerprint = control_channel_server.create_tls_context(
        host="127.0.0.1", wall_ms=CLOCK.wall_ms()
    )
    listening = control_channel_server.listen_tls(
        CLOCK,
        tls=tls,
        fingerprint=fingerprint,
        bind=("127.0.0.1", 0),
        advertised_host="127.0.0.1",
    )
    yield listening
    listening.close()


def settings_for(cluster, **changes):
    return {
        "master": cluster.url,
        "conf": CONF | changes,
        "py_files": [str(STANDIN)],
    }


@pytest.mark.full  # that copies run on such a cluster at all is shown by test_main_job.py
def test_processes_share_a_cluster_and_leave_it_when_they_die(cluster):
    first = settings_for(cluster, **{"spark.cores.max": "2", "spark.ui.port": "14051"})
    second = settings_for(cluster, **{"spark.cores.max": "2", "spark.ui.port": "14052"})
    with (
        spark_processes.running(copies_wanted=3, slots=2, entry=ENTRY, **first) as one,
        spark_processes.running(copies_wanted=2, slots=2, entry=ENTRY, **second) as other,
    ):
        seen, others = spark_processes.answer(one), spark_processes.answer(other)
        assert seen["slots"] == [2, 2, 1, 1]
        assert others["slots"] == [2, 2, 0, 0]
        one.kill()
        left = [seen["jvm"], *seen["pids"]]
        eventually.eventually(lambda: not any(map(child_processes.is_process_alive, left)), 30.0)
        assert spark_processes.answer(other, "look")["states"] == ["RUNNING", "RUNNING"]
    eventually.eventually(
        lambda: not any(worker.executor_pids() for worker in cluster.workers),
        120.0,
        lambda: f"executors have gone: {describe(cluster)}",
    )


def describe(cluster) -> list[str]:
    pids = [str(pid) for worker in cluster.workers for pid in worker.executor_pids()]
    command = ["ps", "-o", "pid,ppid,stat,etimes,args", "-p", ",".join(pids)]
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.full
def test_a_lost_worker_takes_its_own_copies_only(cluster, server):
    given = settings_for(cluster)
    spark = SparkEngine(
        SparkSettings(master=given["master"], conf=given["conf"], py_files=(STANDIN,), ui=True),
        clock=CLOCK,
    )
    spark.open()
    start = Starter(spark, server)
    try:
        started = [start(ENTRY) for _ in range(4)]
        described = [copy.message(240.0) for copy in started]
        eventually.eventually(copies.all_in(started, CopyState.RUNNING), 30.0)
        assert spark.get_slot_usage() == SlotUsage(total=4, used=4, waiting=0)
        check_code_and_secrets(described)
        check_loss_of_a_worker(cluster, start, [each["parent"] for each in described])
    finally:
        start.end_all()
        spark.stop(5.0)


def check_code_and_secrets(described):
    """Our packages came with the job, and Kafka's client and our worker are not needed there."""
    for each in described:
        assert "mm2-copy.zip" in each["package"]
        assert not {"confluent_kafka", "cryptography", "click", "rich"} & set(each["modules"])


def check_loss_of_a_worker(cluster, start, daemons):
    victim = cluster.workers[-1]
    its_daemons = {
        child
        for executor in victim.executor_pids()
        for child in spark_cluster.list_child_pids(executor)
    }
    lost = [copy for copy, pid in zip(start.started, daemons, strict=True) if pid in its_daemons]
    kept = [copy for copy in start.started if copy not in lost]
    assert (len(lost), len(kept)) == (2, 2)
    victim.kill()
    for copy in lost:
        assert copy.handle.wait(60.0)
        assert copy.handle.error is not None
        assert copy.handle.error.startswith("the Spark executor")
    for copy in kept:
        assert copy.handle.state is CopyState.RUNNING
        copy.ping()
    waiting = start(ENTRY)
    eventually.eventually(
        lambda: start.engine.get_slot_usage() == SlotUsage(total=2, used=2, waiting=1), 60.0
    )
    assert start.engine.get_slot_usage().missing == 1
    assert waiting.handle.state is CopyState.WAITING_FOR_SLOT
    cluster.launch_worker()
    waiting.message(240.0)
    waiting.await_state(CopyState.RUNNING)
