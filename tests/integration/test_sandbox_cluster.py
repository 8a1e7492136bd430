"""Brokers started from Python: they serve, obey, keep their data, and die with their parent."""

from __future__ import annotations

import signal
import socket

import pytest

from connect_runtime.system import child_processes
from mm2.sandbox import port_reservation
from mm2.sandbox.port_reservation import PortReservation
from mm2.sandbox.sandbox_cluster import ClusterListener, SandboxCluster
from mm2.sandbox.sandbox_errors import SandboxError
from tests.support import kafka
from tests.support import processes as support_processes
from tests.support.doors import Door, Doors
from tests.support.eventually import eventually
from tests.support.kafka import Outgoing, Record

pytestmark = pytest.mark.integration

_ONE = [Outgoing(value=b"one", key=b"k", headers=(("h", None), ("h", b"2")), timestamp=5)]


def test_records_come_back_as_they_were_produced(east, topic):
    name = kafka.create_topic(east.client_properties(), topic())

    kafka.produce(east.client_properties(), name, _ONE)

    assert kafka.read_partition(east.client_properties(), name) == [
        Record(
            offset=0,
            key=b"k",
            value=b"one",
            headers=(("h", None), ("h", b"2")),
            timestamp_type=kafka.CREATE_TIME,
            timestamp=5,
        )
    ]


def test_an_aborted_transaction_is_seen_by_read_uncommitted_alone(east, topic):
    access = east.client_properties()
    name = kafka.create_topic(access, topic())

    kafka.produce_transaction(access, name, _ONE, transactional_id=name, commit=False)
    kafka.produce(access, name, [Outgoing(value=b"two")])

    committed = kafka.read_partition(access, name, isolation="read_committed")
    everything = kafka.read_partition(access, name)
    assert [record.value for record in committed] == [b"two"]
    assert [record.value for record in everything] == [b"one", b"two"]


def test_a_cluster_restarts_on_the_same_address_with_its_data(own_cluster):
    own = own_cluster()
    access = own.client_properties()
    kafka.create_topic(access, "kept")
    kafka.produce(access, "kept", _ONE)

    own.restart()
    after_stop = kafka.read_partition(access, "kept")
    own.brokers[1].kill()
    assert not own.brokers[1].is_running
    own.start()

    assert own.client_properties() == access
    assert [record.value for record in after_stop] == [b"one"]
    assert [record.value for record in kafka.read_partition(access, "kept")] == [b"one"]


def test_a_frozen_broker_keeps_its_port_open_but_is_silent(own_cluster):
    own = own_cluster()
    kafka.create_topic(own.client_properties(), "t")
    producer_settings = {"message_timeout_ms": 1500}

    own.freeze()
    with pytest.raises(Exception, match=r"_MSG_TIMED_OUT|_TIMED_OUT"):
        kafka.produce(own.client_properties(), "t", _ONE, **producer_settings)
    with socket.create_connection(_address(own.bootstrap), timeout=5):
        pass
    own.unfreeze()

    kafka.produce(own.client_properties(), "t", _ONE)
    assert own.brokers[1].is_running


def test_settings_reach_all_brokers_or_one(own_cluster):
    own = own_cluster(
        settings={"message.max.bytes": "2000000"}, broker_settings={1: {"num.io.threads": "3"}}
    )
    assert "message.max.bytes = 2000000" in own.log_text
    assert "num.io.threads = 3" in own.log_text

    own.brokers[1].stop()
    own.brokers[1].change_settings({"message.max.bytes": "3000000", "num.io.threads": None})
    own.brokers[1].start()

    assert "message.max.bytes = 3000000" in own.log_text
    assert "num.io.threads = 8" in own.log_text


def test_a_further_listener_is_advertised_under_the_proxys_address(own_cluster):
    inside = port_reservation.reserve_port()
    door = Door(inside.port)
    listener = ClusterListener(name="TOX", port=inside.port, advertised=door.address)
    own = own_cluster(listeners={1: [listener]})

    assert own.get_listener_bootstrap("TOX") == door.address
    with Doors(door):  # a client may ask the broker that it heard of, not that it was told
        through = {"bootstrap.servers": own.get_listener_bootstrap("TOX")}
        metadata = kafka.admin_client(through).list_topics(timeout=30)
        assert door.sent_bytes > 0

    assert [str(broker).split("/")[0] for broker in metadata.brokers.values()] == [door.address]


def test_a_broker_that_refuses_its_settings_says_why(own_cluster):
    with pytest.raises(SandboxError, match=r"num\.io\.threads") as raised:
        own_cluster(settings={"num.io.threads": "many"})

    assert "broker 1" in str(raised.value)


def test_a_broker_that_dies_while_starting_shows_the_end_of_its_log(own_cluster):
    own = own_cluster()
    own.stop()
    own.brokers[1].change_settings({"log.dirs": "/proc/nowhere"})

    with pytest.raises(SandboxError, match=r"ended with status (.*\n)*.*meta\.properties"):
        own.start()


def test_a_taken_port_is_met_with_another_one(own_cluster, monkeypatch):
    """Somebody who knows nothing of our reservations may take the port after we looked."""
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        taken = squatter.getsockname()[1]
        real = port_reservation.reserve_port
        handed_out: list[int] = []

        def reserve(**options):
            handed_out.append(taken if not handed_out else real(**options).port)
            return PortReservation(handed_out[-1], None)

        monkeypatch.setattr(port_reservation, "reserve_port", reserve)
        own = own_cluster()

    assert handed_out[0] == taken
    assert f":{taken}" not in own.bootstrap
    kafka.create_topic(own.client_properties(), "t")


_PARENT = """
import sys, threading
from mm2.sandbox.sandbox_cluster import SandboxCluster
own = SandboxCluster("own")
starter = threading.Thread(target=own.start)
starter.start(); starter.join()  # the thread that started the broker is gone: it must live on
print(own.brokers[1].pid, own.folder, flush=True)
if sys.argv[1] == "frozen":
    own.freeze()
threading.Event().wait(60)
"""


@pytest.mark.parametrize("broker_state", ["running", "frozen"])
def test_a_broker_dies_with_its_parent_even_by_sigkill(broker_state):
    parent = support_processes.start_python(_PARENT, broker_state)
    try:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        assert child_processes.is_process_alive(int(pid))
        parent.send_signal(signal.SIGKILL)
        eventually(lambda: not child_processes.is_process_alive(int(pid)), 5, "the broker has gone")
        eventually(lambda: not support_processes.mentioning(folder), 5, "its guard has gone too")
    finally:
        parent.kill()
        parent.communicate(timeout=10)


def test_close_leaves_no_process_and_no_folder():
    with SandboxCluster("own") as own:
        assert support_processes.mentioning(own.folder)
        folder = own.folder

    assert not folder.exists()
    eventually(
        lambda: not support_processes.mentioning(folder), 5, "no process of the cluster is left"
    )


def _address(bootstrap: str) -> tuple[str, int]:
    host, port = bootstrap.split(":")
    return host, int(port)
