"""Old brokers: they serve, obey, keep their data, and their ZooKeeper lives and dies with them."""

from __future__ import annotations

import json
import signal

import pytest
from confluent_kafka import KafkaException

from connect_runtime.system import child_processes
from mm2.sandbox import sandbox_lifecycle
from mm2.sandbox.sandbox_state import SandboxFolder
from tests.support import kafka, mirror
from tests.support import processes as support_processes
from tests.support.eventually import eventually
from tests.support.kafka import Outgoing

pytestmark = [pytest.mark.integration, pytest.mark.kafka_versions("2.8", "3.9")]

_ONE = [Outgoing(value=b"one", key=b"k", timestamp=5)]


def _values(cluster, name):
    return [record.value for record in kafka.read_partition(cluster.client_properties(), name)]


@pytest.mark.full
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_an_old_cluster_serves_and_keeps_its_data_when_it_is_killed(own_cluster, version):
    own = own_cluster(kafka_version=version)
    access = own.client_properties()
    kafka.create_topic(access, "kept")
    kafka.produce_transaction(access, "kept", _ONE, transactional_id="t", commit=True)

    own.brokers[1].kill()
    own.brokers[1].start()
    kafka.produce(access, "kept", _ONE)

    assert own.release.short_version == version
    assert (own.zookeeper is not None) == (version == "2.8")
    assert own.client_properties() == access
    assert _values(own, "kept") == [b"one", b"one"]


@pytest.mark.full
@pytest.mark.parametrize("brokers", [1, 3])
def test_a_cluster_with_a_zookeeper_stops_freezes_and_starts_as_a_whole(own_cluster, brokers):
    own = own_cluster(kafka_version="2.8", brokers=brokers)
    kafka.create_topic(own.client_properties(), "t")
    assert own.zookeeper is not None

    own.restart()
    kafka.produce(own.client_properties(), "t", _ONE)
    own.kill()
    assert not own.zookeeper.is_running
    own.start()
    kafka.produce(own.client_properties(), "t", _ONE)
    own.freeze()
    with pytest.raises(Exception, match=r"_MSG_TIMED_OUT|_TIMED_OUT"):
        kafka.produce(own.client_properties(), "t", _ONE, message_timeout_ms=1500)
    own.unfreeze()
    kafka.produce(own.client_properties(), "t", _ONE)

    assert _values(own, "t") == [b"one"] * 3


@pytest.mark.full
def test_a_secure_cluster_with_a_zookeeper_knows_its_users_and_denies_by_acl(own_cluster):
    own = own_cluster(kafka_version="2.8", users=["alice"])
    kafka.create_topic(own.client_properties(), "t")

    for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"):
        kafka.produce(own.client_properties(mechanism=mechanism), "t", _ONE)
        with pytest.raises((KafkaException, AssertionError), match=r"AUTHORIZATION|denied"):
            kafka.produce(own.client_properties("alice", mechanism=mechanism), "t", _ONE)

    assert _values(own, "t") == [b"one"] * 3


_PARENT = """
import threading
from mm2.sandbox.sandbox_cluster import SandboxCluster
own = SandboxCluster("own", kafka_version="2.8").start()
print(own.brokers[1].pid, own.zookeeper.pid, own.folder, flush=True)
threading.Event().wait(60)
"""


@pytest.mark.full
def test_a_zookeeper_dies_with_its_parent():
    parent = support_processes.start_python(_PARENT)
    try:
        assert parent.stdout is not None
        *pids, folder = parent.stdout.readline().split()
        assert all(child_processes.is_process_alive(int(pid)) for pid in pids)
        parent.send_signal(signal.SIGKILL)
        eventually(
            lambda: not support_processes.mentioning(folder), 5, "both and their guards went"
        )
    finally:
        parent.kill()
        parent.communicate(timeout=10)


@pytest.fixture
def home(tmp_path):
    home = SandboxFolder(tmp_path / "sandbox")
    yield home
    sandbox_lifecycle.stop_sandbox(home.folder)


@pytest.mark.full
def test_the_command_starts_names_shows_and_ends_an_old_cluster(home):
    def run(*words):
        return mirror.mm2("sandbox", *words, "--dir", home.folder)

    up = run("up", "old", "--kafka-version", "2.8")
    again = run("up", "old", "--kafka-version", "2.8.2", "--json")
    other = run("up", "old")
    logs = run("logs", "old", "--tail", "2")
    pids = support_processes.mentioning(home.folder)
    down = run("down")

    assert up.returncode == 0, up.stderr
    assert "(Kafka 2.8.2 with ZooKeeper)" in up.stdout
    assert sorted(json.loads(again.stdout)["clusters"]) == ["old"]
    assert "already running" in other.stderr
    assert "Kafka 2.8.2" in other.stderr
    assert "zookeeper.log" in logs.stdout
    assert len(pids) == 5, "a supervisor; a broker and a ZooKeeper, each with its guard"
    assert down.returncode == 0
    assert not any(child_processes.is_process_alive(pid) for pid in pids)


def test_a_version_that_there_is_not_is_refused_with_those_that_there_are(home):
    refused = mirror.mm2("sandbox", "up", "x", "--kafka-version", "3.6", "--dir", home.folder)

    assert refused.returncode == 2
    assert "2.8 (2.8.2), 3.9 (3.9.1), 4.3 (4.3.1)" in refused.stderr
