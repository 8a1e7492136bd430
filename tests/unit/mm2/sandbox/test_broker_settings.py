from __future__ import annotations

from mm2.sandbox import broker_settings
from mm2.sandbox.broker_settings import ExtraListener


def test_a_single_broker_keeps_one_copy_and_three_keep_three():
    one, three = broker_settings.make_default_settings(1), broker_settings.make_default_settings(3)

    for key in ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        assert (one[key], three[key]) == ("1", "3")
    assert (one["min.insync.replicas"], three["min.insync.replicas"]) == ("1", "2")


def test_old_records_are_not_deleted():
    assert broker_settings.make_default_settings(1)["log.retention.ms"] == "-1"


def test_addresses_of_a_node_among_three_with_a_proxied_listener():
    settings = broker_settings.make_kraft_addresses(
        2,
        client_port=19093,
        controller_ports={3: 30, 1: 10, 2: 20},
        listeners=[ExtraListener(name="TOX", port=40, advertised="proxy:41")],
        protocol="SASL_SSL",
    )

    assert settings == {
        "process.roles": "broker,controller",
        "node.id": "2",
        "listeners": "CLIENT://127.0.0.1:19093,TOX://127.0.0.1:40,CONTROLLER://127.0.0.1:20",
        "advertised.listeners": "CLIENT://127.0.0.1:19093,TOX://proxy:41",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:10,2@127.0.0.1:20,3@127.0.0.1:30",
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": "CLIENT:SASL_SSL,TOX:SASL_SSL,CONTROLLER:SASL_SSL",
    }


def test_addresses_of_a_node_that_keeps_its_state_at_a_zookeeper():
    settings = broker_settings.make_zookeeper_addresses(
        2,
        client_port=19093,
        zookeeper="127.0.0.1:20",
        session_timeout_ms=4000,
        listeners=[ExtraListener(name="TOX", port=40, advertised="proxy:41")],
    )

    assert settings == {
        "broker.id": "2",
        "zookeeper.connect": "127.0.0.1:20",
        "zookeeper.session.timeout.ms": "4000",
        "listeners": "CLIENT://127.0.0.1:19093,TOX://127.0.0.1:40",
        "advertised.listeners": "CLIENT://127.0.0.1:19093,TOX://proxy:41",
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,TOX:PLAINTEXT",
    }


def test_values_are_escaped_as_java_reads_them():
    assert (
        broker_settings.render_properties({"b": "C:\\x", "a": "one\ntwo"})
        == "a=one\\ntwo\nb=C:\\\\x\n"
    )
