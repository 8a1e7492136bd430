"""Brokers in Docker behave as those on this machine do. Without a daemon these are left out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mm2.sandbox import containers, kafka_releases
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.sandbox_errors import SandboxError
from tests.support import kafka
from tests.support.kafka import Outgoing

pytestmark = [
    pytest.mark.integration,
    pytest.mark.docker,
    pytest.mark.full,
    pytest.mark.timeout(600),
]

_ONE = [Outgoing(value=b"one")]


@pytest.fixture(scope="module")
def contained() -> Iterator[SandboxCluster]:
    try:
        containers.pull_image(containers.find_image(kafka_releases.NEWEST_RELEASE))
    except SandboxError as error:
        pytest.skip(str(error))
    with SandboxCluster("contained", users=(), in_containers=True) as running:
        yield running


def values(running: SandboxCluster, topic: str) -> list[bytes | None]:
    return [each.value for each in kafka.read_partition(running.client_properties(), topic)]


def of_folder(of: SandboxCluster) -> list[int]:
    """Process ids of all containers, ended ones too, that have a cluster's folder."""
    docker = pytest.importorskip("docker").from_env()
    found = docker.containers.list(all=True, filters={"volume": str(of.folder.absolute())})
    return [each.attrs["State"]["Pid"] for each in found]


def test_a_secure_cluster_keeps_its_address_and_data_over_stops_and_kills(contained):
    access = contained.client_properties()
    kafka.create_topic(access, "kept")
    kafka.produce(access, "kept", _ONE)
    contained.restart()
    assert contained.client_properties() == access
    assert values(contained, "kept") == [b"one"]
    contained.brokers[1].kill()
    assert not contained.brokers[1].is_running
    contained.start()
    assert values(contained, "kept") == [b"one"]
    assert "shutting down" in contained.log_text
    assert contained.log_text.count("Kafka Server started") == 3


def test_a_frozen_broker_is_silent_until_it_thaws(contained):
    access = contained.client_properties()
    kafka.create_topic(access, "frozen")
    contained.freeze()
    with pytest.raises(Exception, match=r"_MSG_TIMED_OUT|_TIMED_OUT"):
        kafka.produce(access, "frozen", _ONE, message_timeout_ms=1500)
    contained.unfreeze()
    kafka.produce(access, "frozen", _ONE)
    assert values(contained, "frozen")[-1] == b"one"


@pytest.mark.parametrize("setting", ["process.roles", "num.io.threads"])
def test_a_broker_that_cannot_start_says_why_and_leaves_nothing_behind(contained, setting):
    """The first meets the tool that formats its storage, the second the broker."""
    wrong = SandboxCluster("wrong", settings={setting: "many"}, in_containers=True)
    with pytest.raises(SandboxError, match=setting), wrong:
        pass
    assert of_folder(contained) == [contained.brokers[1].pid]
    assert of_folder(wrong) == []
