"""Which properties each client gets; against Java: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest

from mm2.config import mirror_connector_client_properties

PROPS = {
    "source.cluster.bootstrap.servers": "a:9092",
    "source.cluster.consumer.x": "no",
    "source.cluster.group.id": "no",
    "target.cluster.bootstrap.servers": "b:9092",
    "consumer.fetch.min.bytes": "1",
    "source.consumer.fetch.min.bytes": "2",
    "admin.retries": "3",
    "target.admin.retries": "4",
    "producer.linger.ms": "5",
    "producer.override.acks": "all",
}


def test_a_cluster_hands_on_servers_and_security_alone():
    found = mirror_connector_client_properties.resolve_role_properties(
        PROPS, mirror_connector_client_properties.SOURCE_PRODUCER
    )
    assert found == {"bootstrap.servers": "a:9092", "linger.ms": "5", "override.acks": "all"}


def test_the_sides_own_beats_the_roles_own():
    assert (
        mirror_connector_client_properties.resolve_role_properties(
            PROPS, mirror_connector_client_properties.SOURCE_CONSUMER
        )["fetch.min.bytes"]
        == "2"
    )
    assert (
        mirror_connector_client_properties.resolve_role_properties(
            PROPS, mirror_connector_client_properties.TARGET_CONSUMER
        )["fetch.min.bytes"]
        == "1"
    )
    assert (
        mirror_connector_client_properties.resolve_role_properties(
            PROPS, mirror_connector_client_properties.SOURCE_ADMIN
        )["retries"]
        == "3"
    )
    assert (
        mirror_connector_client_properties.resolve_role_properties(
            PROPS, mirror_connector_client_properties.TARGET_ADMIN
        )["retries"]
        == "4"
    )


def test_consumers_never_commit_and_begin_at_the_earliest_unless_told():
    given = {"consumer.enable.auto.commit": "true", "source.consumer.auto.offset.reset": "latest"}
    assert mirror_connector_client_properties.resolve_role_properties(
        {}, mirror_connector_client_properties.TARGET_CONSUMER
    ) == {
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    assert mirror_connector_client_properties.resolve_role_properties(
        given, mirror_connector_client_properties.SOURCE_CONSUMER
    ) == {
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
    }


@pytest.mark.parametrize(
    ("props", "task", "expected"),
    [
        ({}, None, "A->B|n|replication-source-admin"),
        ({"admin.client.id": "me"}, None, "me|A->B|n|replication-source-admin"),
        ({}, 0, "A->B|n-0|replication-source-admin"),
        ({}, "?", "A->B|n-?|replication-source-admin"),
    ],
)
def test_clients_are_called_as_in_java(props, task, expected):
    label = mirror_connector_client_properties.format_client_label("A", "B", "n", task=task)
    found = mirror_connector_client_properties.resolve_properties_with_client_id(
        props,
        mirror_connector_client_properties.SOURCE_ADMIN,
        label=label,
        use="replication-source-admin",
    )
    assert found["client.id"] == expected


def test_the_data_producer_has_keys_of_its_own():
    assert mirror_connector_client_properties.resolve_data_producer_properties(PROPS) == {
        "acks": "all"
    }
