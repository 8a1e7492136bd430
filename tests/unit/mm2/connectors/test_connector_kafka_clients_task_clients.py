"""How a task's clients are called, and with what they reach their clusters."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.system.system_clock import SystemClock
from mm2.config import mirror_connector_config
from mm2.connectors.connector_kafka_clients import KafkaSourceTaskClients

PROPS = {
    "name": "mirror",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}


def clients(**more: str) -> KafkaSourceTaskClients:
    props = {**PROPS, **more}
    return KafkaSourceTaskClients(
        mirror_connector_config.parse_source_config(props), clock=SystemClock(), task=2
    )


def test_copies_are_called_as_javas_clients():
    made = clients()
    assert made.get_source_cluster_access().client_id == "A->B|mirror-2|replication-consumer"
    assert made.get_target_cluster_access().client_id == "connector-producer-mirror-2"
    assert (
        made.get_source_cluster_access().bootstrap,
        made.get_target_cluster_access().bootstrap,
    ) == (
        ("a:1",),
        ("b:1",),
    )
    given = clients(**{"producer.override.client.id": "mine"})
    assert given.get_target_cluster_access().client_id == "mine"


def test_the_producer_of_records_is_said_last_by_its_override():
    made = clients(
        **{
            "target.producer.request.timeout.ms": "1000",
            "producer.override.request.timeout.ms": "2000",
            "source.consumer.client.rack": "r1",
            "consumer.fetch.min.bytes": "7",
            "source.consumer.max.poll.records": "5",
        }
    )
    assert made.get_target_cluster_access().properties["request.timeout.ms"] == "2000"
    assert made.get_source_cluster_access().properties == {
        "client.rack": "r1",
        "fetch.min.bytes": "7",
    }


def test_secrets_are_not_among_the_plain_properties():
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="hunter2";'
    )
    made = clients(
        **{
            "source.cluster.security.protocol": "SASL_PLAINTEXT",
            "source.cluster.sasl.mechanism": "SCRAM-SHA-512",
            "source.cluster.sasl.jaas.config": jaas,
        }
    )
    access = made.get_source_cluster_access()
    assert access.security["username"] == "me"
    assert "hunter2" not in repr(access)
    operator = made.get_operator_commands()
    assert operator.source.principal == "User:me"
    assert operator.source.secured
    assert not operator.target.secured


@pytest.mark.parametrize(
    ("key", "value"),
    [("source.consumer.fetch.min.bytes", "few"), ("producer.override.request.timeout.ms", "-1")],
)
def test_what_shapes_no_connection_is_refused(key, value):
    made = clients(**{key: value})
    with pytest.raises(ConfigError, match=key.split(".", 2)[2]):
        (made.get_source_cluster_access(), made.get_target_cluster_access())
