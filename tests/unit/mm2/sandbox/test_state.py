from __future__ import annotations

import dataclasses
import json

import pytest

from mm2.sandbox import failures, state


@pytest.fixture
def home(tmp_path):
    home = state.Home(tmp_path / "sandbox")
    home.make()
    return home


def _state():
    return state.State(
        phase="ready",
        pid=7,
        clusters=(
            state.ClusterFacts(
                name="east",
                kafka_version="2.8.2",
                properties={"bootstrap.servers": "127.0.0.1:1", "sasl.jaas.config": "secret"},
                brokers=(
                    state.BrokerFacts(
                        node_id=1,
                        address="127.0.0.1:1",
                        preferred_port=1,
                        pid=8,
                        log="/x/broker.log",
                    ),
                ),
                zookeeper=state.ZooKeeperFacts(pid=9, log="/x/zookeeper.log"),
            ),
        ),
    )


def test_what_is_written_is_read_again(home):
    request = state.Request(names=("east", "west"), brokers=3, secure=True, settings={"a": "b"})
    request = dataclasses.replace(request, kafka_version="2.8")
    assert home.read_state() is None

    home.write_request(request)
    home.write_state(_state())

    assert home.read_request() == request
    assert home.read_state() == _state()
    home.forget_state()
    assert home.read_state() is None


def test_secrets_are_for_the_owner_and_not_for_logs(home):
    home.write_state(_state())

    assert (home.folder / "state.json").stat().st_mode & 0o777 == 0o600
    assert home.folder.stat().st_mode & 0o777 == 0o700
    assert "secret" not in repr(_state())


def test_another_version_is_refused_not_guessed(home):
    later = {"version": state.VERSION + 1, "phase": "ready"}
    (home.folder / "state.json").write_text(json.dumps(later))

    with pytest.raises(failures.SandboxError, match=rf"this mm2 writes {state.VERSION}:"):
        home.read_state()


def test_the_lock_says_who_lives(home):
    assert not home.supervisor_lives()
    lock = home.take_lock(state.SUPERVISOR_LOCK)
    assert lock is not None

    state.note_pid(lock, 123)

    assert home.supervisor_lives()
    assert home.supervisor_pid() == 123
    assert home.take_lock(state.SUPERVISOR_LOCK) is None
    lock.close()
    assert not home.supervisor_lives()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (state.Request(names=("a/b",)), "letters, digits"),
        (state.Request(names=("",)), "letters, digits"),
        (state.Request(names=("a", "a")), "each cluster once"),
        (state.Request(names=()), "each cluster once"),
        (state.Request(names=("path",)), "replace the variable PATH of your shell"),
        (state.Request(names=("a-b", "a_b")), "both would have the variable A_B"),
        (state.Request(names=("a",), brokers=2), "1 or 3 brokers"),
        (state.Request(names=("a",), kafka_version="2.7"), "'2.7'.* can run 2.8 .*3.9.*4.3"),
    ],
)
def test_what_no_sandbox_can_be_is_refused(request_, message):
    with pytest.raises(failures.SandboxError, match=message):
        request_.check()
