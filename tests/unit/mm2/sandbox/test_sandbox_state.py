from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from mm2.sandbox import sandbox_lifecycle, sandbox_state
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.sandbox_state import (
    RunningBroker,
    RunningCluster,
    RunningZooKeeper,
    SandboxFolder,
    SandboxRequest,
    SandboxState,
)
from tests.support import eventually


@pytest.fixture
def home(tmp_path):
    home = SandboxFolder(tmp_path / "sandbox")
    home.create()
    return home


def _state():
    return SandboxState(
        phase="ready",
        pid=7,
        clusters=(
            RunningCluster(
                name="east",
                kafka_version="2.8.2",
                properties={"bootstrap.servers": "127.0.0.1:1", "sasl.jaas.config": "secret"},
                brokers=(
                    RunningBroker(
                        node_id=1,
                        address="127.0.0.1:1",
                        preferred_port=1,
                        pid=8,
                        log="/x/broker.log",
                    ),
                ),
                zookeeper=RunningZooKeeper(pid=9, log="/x/zookeeper.log"),
            ),
        ),
    )


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_folder_that_others_can_enter_is_used_by_no_command(home, mode):
    home.folder.chmod(mode)
    for use in (
        home.create,
        home.check_directory_is_private,
        lambda: sandbox_lifecycle.stop_sandbox(home.folder),
        lambda: sandbox_lifecycle.read_status(home.folder),
    ):
        with pytest.raises(SandboxError, match=f"sandbox directory: .*run chmod 700 {home.folder}"):
            use()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_another_user_names_no_process_to_end(home, tmp_path):
    with subprocess.Popen(["sleep", "60"]) as other:
        lock = home.try_lock(sandbox_state.SUPERVISOR_LOCK)
        sandbox_state.write_lock_owner(lock, other.pid)
        os.chown(home.folder, 4242, -1)
        with lock, pytest.raises(SandboxError, match="belongs to user id 4242 instead of 0"):
            sandbox_lifecycle.stop_sandbox(home.folder)
        assert other.poll() is None
        other.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run processes as another user")
def test_processes_of_other_users_do_not_count(home):
    command = ["sh", "-c", "read x", f"{home.clusters}/x"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, user=4242) as foreign,
        subprocess.Popen(command, stdin=subprocess.PIPE) as own,
    ):
        lines = [Path(f"/proc/{each.pid}/cmdline") for each in (foreign, own)]
        # A command line is empty until its program has begun.
        eventually.eventually(lambda: all(each.read_bytes() for each in lines))
        assert sandbox_lifecycle.find_processes(home) == [own.pid]
        foreign.kill()
        own.kill()


def test_a_folder_that_does_not_exist_has_no_sandbox(tmp_path):
    assert sandbox_lifecycle.read_status(tmp_path / "none") is None
    assert sandbox_lifecycle.stop_sandbox(tmp_path / "none") is False


def test_what_is_written_is_read_again(home):
    request = SandboxRequest(names=("east", "west"), brokers=3, secure=True, settings={"a": "b"})
    request = dataclasses.replace(request, kafka_version="2.8")
    assert home.read_state() is None

    home.write_request(request)
    home.write_state(_state())

    assert home.read_request() == request
    assert home.read_state() == _state()
    home.delete_state()
    assert home.read_state() is None


def test_secrets_are_for_the_owner_and_not_for_logs(home):
    home.write_state(_state())

    assert (home.folder / "state.json").stat().st_mode & 0o777 == 0o600
    assert home.folder.stat().st_mode & 0o777 == 0o700
    assert "secret" not in repr(_state())


def test_another_version_is_refused_not_guessed(home):
    later = {"version": sandbox_state.VERSION + 1, "phase": "ready"}
    (home.folder / "state.json").write_text(json.dumps(later))

    with pytest.raises(SandboxError, match=rf"this mm2 writes {sandbox_state.VERSION}:"):
        home.read_state()


def test_the_lock_says_who_lives(home):
    assert not home.is_supervisor_running()
    lock = home.try_lock(sandbox_state.SUPERVISOR_LOCK)
    assert lock is not None

    sandbox_state.write_lock_owner(lock, 123)

    assert home.is_supervisor_running()
    assert home.read_supervisor_pid() == 123
    assert home.try_lock(sandbox_state.SUPERVISOR_LOCK) is None
    lock.close()
    assert not home.is_supervisor_running()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SandboxRequest(names=("a/b",)), "letters, digits"),
        (SandboxRequest(names=("",)), "letters, digits"),
        (SandboxRequest(names=("a", "a")), "each cluster once"),
        (SandboxRequest(names=()), "each cluster once"),
        (SandboxRequest(names=("path",)), "replace the variable PATH of your shell"),
        (SandboxRequest(names=("a-b", "a_b")), "both would use the variable A_B"),
        (SandboxRequest(names=("a",), brokers=2), "1 or 3 brokers"),
        (SandboxRequest(names=("a",), kafka_version="2.7"), "'2.7'.* can run 2.8 .*3.9.*4.3"),
        (
            SandboxRequest(names=("a",), kafka_version="2.8", secure=True),
            "Kafka 2.8.2 cannot be secure: its ZooKeeper requires no login",
        ),
    ],
)
def test_what_no_sandbox_can_be_is_refused(request_, message):
    with pytest.raises(SandboxError, match=message):
        request_.validate()
