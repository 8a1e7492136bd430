"""Administration of real clusters that are away, refuse, or are asked for much at once."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.client_errors import UnreachableError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from mm2.sandbox import port_reservation
from tests.support import cluster_access, eventually

pytestmark = pytest.mark.integration

WAIT_S = 30.0


def topic(name: str, partitions: int = 1) -> NewTopic:
    return NewTopic(name=name, partitions=partitions, replication_factor=1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.read_cluster_id(1.0),
        lambda admin: admin.list_topics(1.0),
        lambda admin: admin.describe_topics(["t"], 1.0),
        lambda admin: admin.read_topic_configs(["t"], 1.0),
        lambda admin: admin.read_broker_configs(["k"], 1.0),
        lambda admin: admin.create_topics([topic("t")], 1.0),
        lambda admin: admin.add_partitions({"t": 2}, 1.0),
        lambda admin: admin.alter_configs({"t": ConfigChange(set={"a": "b"})}, 1.0),
    ],
)
def test_nobody_at_the_address_is_said_with_the_address(ask, caplog, capfd):
    address = f"127.0.0.1:{port_reservation.reserve_port().port}"
    access = KafkaClusterAccess(name="nowhere", bootstrap=(address,), security=SecuritySettings())
    admin = cluster_access.admin(access)
    started_s = cluster_access.CLOCK.now_s()
    with (
        caplog.at_level(logging.DEBUG, logger="librdkafka"),
        pytest.raises(UnreachableError) as raised,
    ):
        ask(admin)
    assert cluster_access.CLOCK.now_s() - started_s < WAIT_S / 2
    for part in (f"nowhere ({address})", "Connection refused", "bootstrap.servers"):
        assert part in str(raised.value)
    logged = {record.name for record in caplog.records}
    assert logged & {"librdkafka.nowhere", "connect_runtime.network.broker_connections"}
    assert capfd.readouterr() == ("", "")


def test_a_frozen_cluster_costs_no_more_than_the_time_given(own_cluster):
    running = own_cluster("frozen")
    admin = cluster_access.admin(cluster_access.of(running))
    admin.read_cluster_id(WAIT_S)
    running.freeze()
    started_s = cluster_access.CLOCK.now_s()
    for ask in (admin.list_topics, lambda left_s: admin.describe_topics(["t"], left_s)):
        with pytest.raises(UnreachableError):
            ask(1.0)
    assert cluster_access.CLOCK.now_s() - started_s < WAIT_S / 2
    running.unfreeze()
    assert isinstance(admin.list_topics(WAIT_S), frozenset)


def test_a_request_refused_as_a_whole_is_taken_apart(east):
    """More than 10,000 partitions in one request are a policy violation of all its topics."""
    admin = cluster_access.admin(cluster_access.of(east))
    answer = admin.create_topics(
        [topic("whole-a"), topic("huge", 10_001), topic("whole-z")], WAIT_S
    )
    assert set(answer.succeeded) == {"whole-a", "whole-z"}
    failure = answer.failed["huge"]
    assert isinstance(failure, FatalError)
    for part in ("creating topic huge", "Excessively large number of partitions", "POLICY"):
        assert part in str(failure)


def test_many_topics_take_several_requests(east):
    admin = cluster_access.admin(cluster_access.of(east), topics_per_request=7)
    names = [f"many-{number:02d}" for number in range(20)]
    assert set(admin.create_topics([topic(name) for name in names], WAIT_S).succeeded) == set(names)
    eventually.eventually(
        lambda: admin.list_topics(WAIT_S) >= set(names), WAIT_S, "all topics are known"
    )
    asked = [*names, "missing"]
    assert set(admin.describe_topics(asked, WAIT_S).succeeded) == set(names)
    assert set(admin.read_topic_configs(asked, WAIT_S).failed) == {"missing"}
    changes = {name: ConfigChange(set={"retention.ms": "1"}) for name in asked}
    assert set(admin.alter_configs(changes, WAIT_S).succeeded) == set(names)


def test_a_dead_broker_is_not_waited_for(own_cluster):
    """Brokers name a dead one as the controller until they have noticed its end."""
    running = own_cluster("mourning", brokers=3)
    admins = [cluster_access.admin(cluster_access.of(running)) for _ in range(9)]
    for admin in admins:
        admin.list_topics(WAIT_S)
    running.brokers[3].kill()
    started_s = cluster_access.CLOCK.now_s()
    for admin in admins:
        assert set(admin.describe_topics(["missing"], WAIT_S).failed) == {"missing"}
    assert cluster_access.CLOCK.now_s() - started_s < WAIT_S


def test_settings_of_brokers_come_from_one_that_lives(own_cluster):
    running = own_cluster("firstless", brokers=3)
    admin = cluster_access.admin(cluster_access.of(running))
    admin.list_topics(WAIT_S)
    running.brokers[1].kill()
    assert admin.read_broker_configs(["node.id"], 10.0) in ({"node.id": "2"}, {"node.id": "3"})


@pytest.mark.full
def test_a_partition_without_a_leader_is_said(own_cluster):
    running = own_cluster("leaderless", brokers=3)
    admin = cluster_access.admin(cluster_access.of(running))
    admin.create_topics([topic("t", 12)], WAIT_S)
    running.brokers[3].kill()

    def leaderless() -> bool:
        found = admin.describe_topics(["t"], WAIT_S).succeeded
        return bool(found) and None in found["t"].leaders and found["t"].partition_count == 12

    eventually.eventually(leaderless, 40.0, "the lost partitions have no leader")
