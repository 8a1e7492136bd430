"""Where brokers are: lists with dead entries, hosts with many addresses, all of them new."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from connect_runtime.protocol.request_builders import AnyNodeTarget, NodeTarget
from connect_runtime.protocol.request_errors import ConnectionFailed, RequestTimedOut
from mm2.sandbox import port_reservation
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import cluster_access, moving, wire
from tests.support.doors import Door, Doors
from tests.support.wire import Driver

pytestmark = pytest.mark.integration

WAIT_S = 30.0


@pytest.fixture
def dead():
    """Entries of a bootstrap list that lead nowhere, each in its own way."""
    refused, silent = port_reservation.reserve_port(), port_reservation.reserve_port()
    with socket.create_server(("127.0.0.1", silent.port)):
        yield ["nowhere.invalid:9092", f"127.0.0.1:{refused.port}", f"127.0.0.1:{silent.port}"]
    for each in (refused, silent):
        each.release()


def test_dead_entries_of_a_list_are_gone_round_by_both_clients(east, dead):
    given = {**east.client_properties(), "bootstrap.servers": ",".join([*dead, east.bootstrap])}
    with Driver(given) as driver:
        started_s = driver.clock.now_s()
        driver.ask(NodeTarget(1), wire.broker_settings(1))
        assert driver.clock.now_s() - started_s < 10.0
        assert driver.connections.get_connection_errors() == {}
    bootstrap = tuple(given["bootstrap.servers"].split(","))
    access = dataclasses.replace(cluster_access.of(east), bootstrap=bootstrap)
    assert cluster_access.admin(access).read_cluster_id(WAIT_S)


def test_a_list_of_dead_entries_names_each_with_its_trouble(dead):
    given = {"bootstrap.servers": ",".join(dead)}
    with Driver(given) as driver:
        reply = driver.call(AnyNodeTarget(), wire.broker_settings(1), timeout_s=4.0)
    assert isinstance(reply.failure, RequestTimedOut)
    said = str(reply.failure)
    assert "nowhere.invalid:9092: " in said
    assert "cannot be resolved" in said
    assert "Connection refused" in said


@pytest.mark.full
@pytest.mark.parametrize("rebootstrap", [True, False])
def test_when_all_brokers_are_elsewhere_bootstrap_is_asked_again_unless_that_is_forbidden(
    own_cluster, rebootstrap
):
    running: SandboxCluster = own_cluster()
    here, there = int(running.bootstrap.rpartition(":")[2]), port_reservation.reserve_port()
    door = Door(here)
    given = {**running.client_properties(), "bootstrap.servers": door.address}
    with Doors(door), Driver(given, rebootstrap=rebootstrap) as driver:
        driver.ask(NodeTarget(1), wire.broker_settings(1))
        moving.restart_elsewhere(running, there.port)
        door.target = there.port
        lost = driver.call(NodeTarget(1), wire.broker_settings(1), timeout_s=10.0)
        assert isinstance(lost.failure, ConnectionFailed), "it stood since before"
        reply = driver.call(NodeTarget(1), wire.broker_settings(1), timeout_s=5.0)
        if rebootstrap:
            assert reply.failure is None
            assert driver.connections.view.brokers[1].port == there.port
        else:
            assert isinstance(reply.failure, RequestTimedOut)
            assert driver.connections.view.brokers[1].port == here
    there.release()
