from __future__ import annotations

import dataclasses
import json

import pytest

from mm2.sandbox import sandbox_state
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.sandbox_state import (
    BrokerFacts,
    ClusterFacts,
    SandboxFolder,
    SandboxRequest,
    SandboxState,
    ZooKeeperFacts,
)


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
            ClusterFacts(
                name="east",
                kafka_version="2.8.2",
                properties={"bootstrap.servers": "127.0.0.1:1", "sasl.jaas.config": "secret"},
                brokers=(
                    BrokerFacts(
                        node_id=1,
                        address="127.0.0.1:1",
                        preferred_port=1,
                        pid=8,
                        log="/x/broker.log",
                    ),
                ),
                zookeeper=ZooKeeperFacts(pid=9, log="/x/zookeeper.log"),
            ),
        ),
    )


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
    assert home.supervisor_pid() == 123
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
    ],
)
def test_what_no_sandbox_can_be_is_refused(request_, message):
    with pytest.raises(SandboxError, match=message):
        request_.check()
