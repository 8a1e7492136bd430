"""Leaders that move, brokers that are killed, frozen and restarted."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    LeaderTarget,
    NodeTarget,
    OffsetQuery,
    RequestBuilder,
)
from connect_runtime.protocol.request_errors import RequestTimedOut
from tests.support import kafka, wire
from tests.support.kafka import Outgoing
from tests.support.wire import Driver

pytestmark = pytest.mark.integration


def offsets_of(name: str) -> RequestBuilder:
    query = OffsetQuery(partition=0, timestamp=-1)
    return request_builders.build_list_offsets_request({name: [query]}, read_committed=False)


def end_of(driver: Driver, name: str) -> int:
    """The partition's end, once a new leader knows how far its log is replicated (KIP-207)."""
    answers = []

    def is_known() -> bool:
        body = driver.ask(LeaderTarget(name, 0), offsets_of(name))
        answers.extend(body.topics[0].partitions)
        return bool(answers[-1].error_code != ErrorCode.offset_not_available)

    driver.until(is_known)
    assert answers[-1].error_code == ErrorCode.none, answers[-1]
    return int(answers[-1].offset)


@pytest.fixture
def three(own_cluster):
    return own_cluster("three", brokers=3)


def test_calls_follow_the_leader_when_its_broker_is_killed_and_come_back_after_its_restart(
    three, topic
):
    properties = three.client_properties()
    name = kafka.create_topic(properties, topic(), replication_factor=3)
    kafka.produce(properties, name, [Outgoing(value=b"v")] * 5)
    with Driver(properties) as driver:
        first = driver.leader(name)
        assert end_of(driver, name) == 5
        epoch = driver.connections.view.get_leader(name, 0).epoch
        three.brokers[first].kill()
        reply = driver.call(LeaderTarget(name, 0), offsets_of(name), timeout_s=40.0)
        if reply.failure is not None:  # it was written into a socket whose broker was just dying
            assert reply.sent
            reply = driver.call(LeaderTarget(name, 0), offsets_of(name), timeout_s=40.0)
        assert reply.failure is None
        view = driver.connections.view
        driver.until(lambda: (found := view.get_leader(name, 0)) and found.node_id != first)
        driver.until(lambda: (found := view.get_leader(name, 0)) and found.epoch > epoch)
        assert end_of(driver, name) == 5
        driver.connections.call(NodeTarget(first), wire.broker_settings(first), done=lambda _: None)
        three.brokers[first].start()
        driver.until(lambda: first in view.brokers, 30.0)
        body = driver.ask(NodeTarget(first), wire.broker_settings(first))
        assert body.results[0].error_code == 0
        driver.until(lambda: driver.connections.get_connection_errors() == {}, 20.0)


def test_a_frozen_broker_fails_what_it_was_asked_and_holds_up_nothing_else(three, topic):
    properties = three.client_properties()
    name = kafka.create_topic(properties, topic(), replication_factor=3)
    with Driver(properties) as driver:
        leader = driver.leader(name)
        three.brokers[leader].freeze()
        start_s = driver.clock.now_s()
        reply = driver.call(LeaderTarget(name, 0), offsets_of(name), timeout_s=2.0)
        assert isinstance(reply.failure, RequestTimedOut)
        assert driver.clock.now_s() - start_s < 10.0
        other = next(node for node in driver.connections.view.brokers if node != leader)
        driver.ask(NodeTarget(other), wire.broker_settings(other))
        view = driver.connections.view
        driver.connections.refresh_metadata()

        def moved() -> bool:
            driver.connections.refresh_metadata()
            found = view.get_leader(name, 0)
            return found is not None and found.node_id != leader

        driver.until(moved, 40.0)
        assert end_of(driver, name) == 0
        three.brokers[leader].unfreeze()
        driver.until(lambda: leader in view.brokers, 30.0)


def test_nobody_there_ends_at_the_deadline_with_the_reason(own_cluster):
    gone = own_cluster("gone")
    properties = gone.client_properties()
    gone.kill()
    with Driver(properties) as driver:
        start_s = driver.clock.now_s()
        reply = driver.call(AnyNodeTarget(), offsets_of("t"), timeout_s=1.5)
        assert 1.4 < driver.clock.now_s() - start_s < 10.0
        assert isinstance(reply.failure, RequestTimedOut)
        assert f"{gone.bootstrap}: Connection refused while connecting" in str(reply.failure)
        assert not reply.sent
        gone.start()
        driver.ask(AnyNodeTarget(), wire.broker_settings(1), timeout_s=20.0)


def test_a_wholly_restarted_cluster_is_found_again_through_its_bootstrap_address(own_cluster):
    own = own_cluster("own")
    name = kafka.create_topic(own.client_properties(), "t")
    with Driver(own.client_properties()) as driver:
        driver.leader(name)
        own.restart()
        assert end_of(driver, name) == 0
