"""Which client of a source connector goes where."""

from __future__ import annotations

import contextlib

import pytest

from connect_runtime.api import errors
from mm2.cluster import kafka_acls, kafka_admin
from mm2.connectors.source import source_clients
from mm2.core.configs import connector_configs
from tests.fakes import plugin_contexts

SOURCE, TARGET = (f"{side}.cluster.bootstrap.servers" for side in ("source", "target"))
PROPS = {
    "name": "copies",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    SOURCE: "a:1",
    TARGET: "b:1",
}
KINDS = {
    "source_admin": kafka_admin.KafkaAdmin,
    "target_admin": kafka_admin.KafkaAdmin,
    "syncs_admin": kafka_admin.KafkaAdmin,
    "source_acls": kafka_acls.KafkaAcls,
    "target_acls": kafka_acls.KafkaAcls,
}


def clients(**props):
    given = PROPS | {name.replace("_", "."): each for name, each in props.items()}
    given = {key: each for key, each in given.items() if each}
    return source_clients.KafkaClients(
        connector_configs.source(given), clock=plugin_contexts.Clock(), gone=lambda: False
    )


@pytest.mark.parametrize("name", KINDS)
def test_each_is_of_its_kind(name):
    with contextlib.closing(getattr(clients(), name)()) as made:
        assert isinstance(made, KINDS[name])


def names_missing(made, name) -> str:
    with pytest.raises(errors.ConfigError) as caught:
        getattr(made, name)()
    return str(caught.value)


def test_each_goes_to_its_cluster():
    for name in ("source_admin", "source_acls", "syncs_admin"):
        assert SOURCE in names_missing(clients(source_cluster_bootstrap_servers=""), name)
    for name in ("target_admin", "target_acls"):
        assert TARGET in names_missing(clients(target_cluster_bootstrap_servers=""), name)
    on_target = {"target_cluster_bootstrap_servers": "", "offset-syncs_topic_location": "target"}
    assert TARGET in names_missing(clients(**on_target), "syncs_admin")


def test_people_are_told_the_addresses_that_are_configured():
    operator = clients().operator()
    assert (operator.source.bootstrap, operator.target.bootstrap) == ("a:1", "b:1")


@pytest.mark.parametrize(("given", "expected"), [("-1", None), ("2", 2)])
def test_the_flows_own_topics_have_as_many_replicas_as_its_mirrors(given, expected):
    made = clients(replication_factor=given)
    with contextlib.closing(made.target_admin()) as target:
        topics = made.log_topics(target)
    assert (topics.replication_factor, topics.bootstrap) == (expected, "b:1")
