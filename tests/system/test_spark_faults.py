"""What ends an engine, and what it takes along. Each test has a Spark of its own."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from connect_runtime.system import child_processes
from connect_runtime.system.system_clock import SystemClock
from mm2.copier import control_channel_server
from mm2.copier.copy_engine import CopyState, EngineState
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.settings import SparkSettings
from tests.support import eventually, spark_processes, strange_rpc
from tests.support.copies import Starter

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

CLOCK = SystemClock()
STOPS_WITHIN_S = 15.0
"""Where 3 s are given, on a machine that does much else."""


def pid_of(spark: SparkEngine) -> int:
    assert spark.jvm_pid is not None
    return spark.jvm_pid


def pid_in(described, field: str = "pid") -> int:
    return int(described[field])


def test_a_task_without_a_slot_waits_and_is_counted():
    with spark_processes.running(copies_wanted=3, slots=2, master="local[2,1]") as process:
        first = spark_processes.answer(process)
        assert first["states"] == ["RUNNING", "RUNNING", "WAITING_FOR_SLOT"]
        assert first["slots"] == [2, 2, 1, 1]
        for _ in range(10):
            assert spark_processes.answer(process, "look")["states"][2] == "WAITING_FOR_SLOT"
        spark_processes.answer(process, "stop first")
        eventually.eventually(
            lambda: spark_processes.answer(process, "look")["states"][2] == "RUNNING", 30.0
        )
        last = spark_processes.answer(process, "look")
        assert last["states"] == ["ENDED", "RUNNING", "RUNNING"]
        assert last["slots"] == [2, 2, 0, 0]


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_nothing_survives_the_process_that_started_spark(number):
    with spark_processes.running(copies_wanted=2, slots=2) as process:
        seen = spark_processes.answer(process)
        process.send_signal(number)
        process.wait(30.0)
        left = [seen["jvm"], *seen["pids"]]
        eventually.eventually(
            lambda: not any(child_processes.is_process_alive(pid) for pid in left),
            30.0,
            lambda: f"alive: {[pid for pid in left if child_processes.is_process_alive(pid)]}",
        )


def test_the_engine_says_that_its_jvm_died_and_another_can_be_made():
    server = control_channel_server.listen_unix(CLOCK)

    def check():
        spark = SparkEngine(SparkSettings(), clock=CLOCK)
        spark.open()
        start = Starter(spark, server)
        copy = start()
        described = copy.message()
        os.kill(pid_of(spark), signal.SIGKILL)
        assert copy.handle.wait(30.0)
        assert copy.handle.error == "Spark's JVM terminated unexpectedly"
        eventually.eventually(lambda: spark.state is EngineState.FAILED, 30.0)
        assert spark.log_path is not None
        home = spark.log_path.parent
        kept = f"Spark's log is kept in {home} until the next run"
        assert spark.failure == f"Spark's JVM terminated unexpectedly; {kept}"
        late = start()
        assert late.handle.wait(30.0)
        assert late.handle.error == "Spark's JVM terminated unexpectedly"
        pids = [pid_in(described), pid_in(described, "parent")]
        eventually.eventually(lambda: not any(map(child_processes.is_process_alive, pids)), 30.0)
        spark.stop(3.0)
        assert [path.name for path in home.iterdir() if path.suffix == ".log"] == ["spark.log"]
        return home

    first = check()
    second = check()
    assert not first.exists()
    assert second.exists()
    server.close()


def test_stopping_while_spark_starts_is_quick():
    spark = SparkEngine(SparkSettings(), clock=CLOCK)
    spark.open()
    eventually.eventually(lambda: spark.jvm_pid is not None)
    pid = pid_of(spark)
    began_s = CLOCK.now_s()
    spark.stop(3.0)
    assert CLOCK.now_s() - began_s < STOPS_WITHIN_S
    assert spark.state is EngineState.STOPPED
    eventually.eventually(lambda: not child_processes.is_process_alive(pid), 30.0)


@pytest.mark.parametrize("frozen", [pytest.param(False, marks=pytest.mark.full), True])
def test_stop_ends_what_still_runs_in_time(frozen):
    server = control_channel_server.listen_unix(CLOCK)
    spark = SparkEngine(SparkSettings(), clock=CLOCK)
    spark.open()
    copy = Starter(spark, server)()
    pids = [pid_in(copy.message()), pid_of(spark)]
    if frozen:
        os.kill(pid_of(spark), signal.SIGSTOP)
    began_s = CLOCK.now_s()
    spark.stop(3.0)
    assert CLOCK.now_s() - began_s < STOPS_WITHIN_S
    assert copy.handle.state is CopyState.ENDED
    assert copy.handle.error == "cancelled"
    eventually.eventually(lambda: not any(map(child_processes.is_process_alive, pids)), 30.0)
    server.close()


def failure_of(settings: SparkSettings) -> str:
    """Why it does not start; checks that the log is where the message says, and no secret is."""
    spark = SparkEngine(settings, clock=CLOCK)
    spark.open()
    failure = eventually.eventually(lambda: spark.failure, 60.0)
    assert failure is not None
    spark.stop(1.0)
    told = re.search(r"; Spark's log is kept in (\S+) until the next run$", failure)
    assert told is not None, failure
    kept = {path.name for path in Path(told[1]).iterdir() if path.is_file()}
    assert "spark.out" in kept
    assert not kept & {"spark.properties", "gateway"}
    return failure


def test_a_missing_java_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "install Java 17 or newer" in failure_of(SparkSettings())


def test_a_jvm_that_does_not_take_its_options_is_quoted():
    conf = {"spark.driver.extraJavaOptions": "-Xmx1g"}
    assert "Not allowed to specify max heap" in failure_of(SparkSettings(conf=conf))


def test_an_open_cluster_is_refused_before_it_is_asked():
    failure = failure_of(SparkSettings(master="spark://127.0.0.1:1"))
    assert "spark.authenticate.secret is not set" in failure
    assert "allow.insecure.spark" in failure


@pytest.mark.full  # test_spark_engine.py has what is refused; this is what it would see else
def test_without_authentication_the_driver_reads_the_objects_of_other_users():
    conf = {"spark.ui.port": "14060", "spark.authenticate": "false"}
    refused = SparkEngine(SparkSettings(conf=conf), clock=CLOCK)
    refused.open()
    try:
        eventually.eventually(lambda: refused.failure, 60.0)
        assert "spark.authenticate is not true" in str(refused.failure)
    finally:
        refused.stop(5.0)
    settings = SparkSettings(ui=True, conf=conf, allow_insecure=True)
    spark = SparkEngine(settings, clock=CLOCK)
    spark.open()
    try:
        eventually.eventually(lambda: spark.is_warm, 60.0, lambda: str(spark.failure))
        rpc = spark_processes.driver_ports(spark.ui_address)["rpc"]
        assert "java.io.ObjectInputStream" in strange_rpc.ask(rpc)
    finally:
        spark.stop(5.0)
