"""Clients by a connector's configuration.

Which client of a source connector goes where."""

from __future__ import annotations

import contextlib

import pytest

from connect_runtime.api.errors import ConfigError, FatalError
from mm2.config import mirror_connector_client_properties, mirror_connector_config
from mm2.connectors import connector_kafka_clients
from mm2.connectors.connector_kafka_clients import KafkaSourceConnectorClients
from mm2.kafka.acl_client import KafkaAclAdmin
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from tests.fakes.plugin_contexts import Clock

CLOCK = Clock()


def made(**props):
    given = {"name": "beats", "source.cluster.alias": "A", "target.cluster.alias": "B"}
    given |= {name.replace("_", "."): value for name, value in props.items()}
    common = mirror_connector_config.parse_heartbeat_config(given).common
    return connector_kafka_clients.create_admin(
        common,
        mirror_connector_client_properties.TARGET_ADMIN,
        use="heartbeats-target-admin",
        clock=CLOCK,
    )


def test_a_client_is_made_of_the_clusters_own_properties():
    admin = made(target_cluster_bootstrap_servers="localhost:1")
    assert isinstance(admin, KafkaAdmin)
    admin.close()


def test_brokers_that_are_not_named_are_missed_by_their_key():
    with pytest.raises(ConfigError, match=r"beats: target\.cluster\.bootstrap\.servers is"):
        made(source_cluster_bootstrap_servers="localhost:1")


def test_what_is_said_of_security_is_read():
    with pytest.raises(FatalError, match=r"security\.protocol"):
        made(target_cluster_bootstrap_servers="b:1", target_cluster_security_protocol="SSH")


SOURCE, TARGET = (f"{side}.cluster.bootstrap.servers" for side in ("source", "target"))
PROPS = {
    "name": "copies",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    SOURCE: "a:1",
    TARGET: "b:1",
}
KINDS = {
    "create_source_admin": KafkaAdmin,
    "create_target_admin": KafkaAdmin,
    "create_offset_syncs_admin": KafkaAdmin,
    "create_source_acl_admin": KafkaAclAdmin,
    "create_target_acl_admin": KafkaAclAdmin,
}


def clients(**props):
    given = PROPS | {name.replace("_", "."): each for name, each in props.items()}
    given = {key: each for key, each in given.items() if each}
    return KafkaSourceConnectorClients(
        mirror_connector_config.parse_source_config(given), clock=Clock(), gone=lambda: False
    )


@pytest.mark.parametrize("name", KINDS)
def test_each_is_of_its_kind(name):
    with contextlib.closing(getattr(clients(), name)()) as made:
        assert isinstance(made, KINDS[name])


def names_missing(made, name) -> str:
    with pytest.raises(ConfigError) as caught:
        getattr(made, name)()
    return str(caught.value)


def test_each_goes_to_its_cluster():
    for name in ("create_source_admin", "create_source_acl_admin", "create_offset_syncs_admin"):
        assert SOURCE in names_missing(clients(source_cluster_bootstrap_servers=""), name)
    for name in ("create_target_admin", "create_target_acl_admin"):
        assert TARGET in names_missing(clients(target_cluster_bootstrap_servers=""), name)
    on_target = {"target_cluster_bootstrap_servers": "", "offset-syncs_topic_location": "target"}
    assert TARGET in names_missing(clients(**on_target), "create_offset_syncs_admin")


def test_people_are_told_the_addresses_that_are_configured():
    operator = clients().get_operator_commands()
    assert (operator.source.bootstrap, operator.target.bootstrap) == ("a:1", "b:1")


@pytest.mark.parametrize(("given", "expected"), [("-1", None), ("2", 2)])
def test_the_flows_own_topics_have_as_many_replicas_as_its_mirrors(given, expected):
    made = clients(replication_factor=given)
    with contextlib.closing(made.create_target_admin()) as target:
        topics = made.create_flow_state_topics_client(target)
    assert (topics.replication_factor, topics.bootstrap) == (expected, "b:1")
