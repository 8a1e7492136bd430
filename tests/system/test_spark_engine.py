"""Copies on real Spark in local mode: one engine for all tests here, its UI on."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from connect_runtime.system import child_processes
from connect_runtime.system.system_clock import SystemClock
from mm2.copier import control_channel_server
from mm2.copier.copy_engine import CopyState, EngineState, SlotUsage
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.settings import SparkSettings
from tests.support import copies, eventually, spark_processes, strange_rpc
from tests.support.copies import Starter

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

SECRET = "a-password-from-the-environment"


@pytest.fixture(scope="module")
def server():
    listening = control_channel_server.listen_unix(SystemClock())
    yield listening
    listening.close()


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    os.environ["MM2_TEST_PASSWORD"] = SECRET
    settings = SparkSettings(
        ui=True,
        conf={"spark.ui.port": "14040"},
        hidden_environment=frozenset({"MM2_TEST_PASSWORD"}),
        directory=tmp_path_factory.mktemp("spark"),
    )
    running = SparkEngine(settings, clock=SystemClock())
    running.open()
    eventually.eventually(lambda: running.is_warm, 60.0, lambda: str(running.failure))
    assert running.state is EngineState.READY
    yield running
    running.stop(5.0)
    del os.environ["MM2_TEST_PASSWORD"]


@pytest.fixture
def start(spark, server):
    starter = Starter(spark, server)
    yield starter
    starter.end_all()


def ask_spark(spark, path: str):
    return spark_processes.ask(spark.ui_address, path)


def test_each_copy_is_a_running_job_that_spark_describes(start, spark):
    started = [start() for _ in range(4)]
    pids = {copy.message()["pid"] for copy in started}
    assert len(pids) == 4
    eventually.eventually(copies.all_in(started, CopyState.RUNNING), 10.0)
    running = eventually.eventually(
        lambda: [job for job in ask_spark(spark, "jobs?status=running") if job["numActiveTasks"]]
    )
    assert sorted(job["description"] for job in running) == [
        f"east->west task {index}" for index in range(4)
    ]
    assert [job["numTasks"] for job in running] == [1] * 4
    assert spark.get_slot_usage() == SlotUsage(total=512, used=4, waiting=0)
    for copy in started:
        copy.ping()
        copy.stop()
    assert eventually.eventually(lambda: not ask_spark(spark, "jobs?status=running"))


def test_spark_knows_no_secret(start, spark):
    copy = start()
    described = copy.message()
    assert "MM2_TEST_PASSWORD" not in described["environment"]
    token = copy.channel.token
    forms = [SECRET, token.hex(), base64.b64encode(token).decode(), repr(token)[2:-1]]
    texts = [json.dumps(described)]
    texts += [json.dumps(ask_spark(spark, path)) for path in ("environment", "jobs", "stages")]
    texts.append(spark.log_path.read_text())
    texts.append((spark.log_path.parent / "spark.out").read_text())
    texts += [
        Path(f"/proc/{pid}/{what}").read_bytes().decode(errors="replace")
        for pid in (spark.jvm_pid, described["pid"])
        for what in ("cmdline", "environ")
    ]
    assert not [form for form in forms for text in texts if form in text]


def test_other_users_of_the_machine_cannot_call_the_driver(spark):
    for what, port in spark_processes.driver_ports(spark.ui_address).items():
        answer = strange_rpc.ask(port)
        assert "Expected SaslMessage" in answer, f"{what}: {answer}"
        assert "ObjectInputStream" not in answer
    shown = ask_spark(spark, "environment")["sparkProperties"]
    assert not [name for name, _ in shown if "secret" in name]


def test_a_copy_runs_our_interpreter_and_loads_no_worker(start):
    described = start().message()
    assert described["python"] == sys.executable
    assert not {"confluent_kafka", "starlette", "click", "rich", "pandas", "numpy"} & set(
        described["modules"]
    )


def test_a_killed_copy_takes_nobody_along(start):
    doomed, neighbour = start(), start()
    pid = doomed.message()["pid"]
    neighbour.message()
    os.kill(pid, signal.SIGKILL)
    assert doomed.handle.wait(10.0)
    assert doomed.handle.error == "the copy process was killed or crashed"
    assert doomed.message()["type"] == "closed"
    neighbour.ping()
    neighbour.await_state(CopyState.RUNNING)


def test_copies_end_with_the_daemon_that_forked_them_and_new_ones_start(start):
    doomed = [start() for _ in range(2)]
    described = [copy.message() for copy in doomed]
    os.kill(described[0]["parent"], signal.SIGKILL)
    for copy in doomed:
        assert copy.handle.wait(10.0)
        assert copy.handle.error == "the copy process was killed or crashed"
    eventually.eventually(
        lambda: not any(child_processes.is_process_alive(each["pid"]) for each in described)
    )
    eventually.eventually(lambda: start().connects(), 30.0, "a copy starts from a new daemon")


def test_the_fault_of_a_copy_is_told_in_one_line(start):
    copy = start(copies.CRASH)
    assert copy.handle.wait(30.0)
    assert copy.handle.error == "RuntimeError: the copy has a fault"
    unknown = start("mm2.copier.no_such_module:run")
    assert unknown.handle.wait(30.0)
    assert unknown.handle.error == (
        "ModuleNotFoundError: No module named 'mm2.copier.no_such_module'"
    )


def test_cancel_ends_a_copy_that_does_not_listen(start):
    copy = start()
    pid = copy.message()["pid"]
    os.kill(pid, signal.SIGSTOP)
    copy.handle.cancel()
    copy.handle.cancel()
    assert copy.handle.wait(10.0)
    assert copy.handle.error == "cancelled"
    eventually.eventually(lambda: not child_processes.is_process_alive(pid), 10.0)


def test_a_copy_cancelled_at_once_never_stays(start):
    for _ in range(5):
        copy = start()
        copy.handle.cancel()
        assert copy.handle.wait(15.0)
        assert copy.handle.error == "cancelled"


def test_the_copy_notices_that_its_channel_was_closed(start):
    copy = start()
    copy.message()
    copy.channel.close()
    assert copy.handle.wait(10.0)
    assert copy.handle.error is None


@pytest.mark.full
def test_starting_again_and_again_leaves_nothing_behind(start, spark):
    def threads():
        return len(list(Path(f"/proc/{spark.jvm_pid}/task").iterdir()))

    for _ in range(40):
        copy = start()
        copy.message()
        copy.stop()
    # Two pools of block managers grow to 100 threads each, and shrink after a minute.
    assert threads() < 330
