"""Clients by a connector's configuration."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from mm2.cluster import kafka_admin
from mm2.connectors import connector_clients
from mm2.core.configs import connector_configs, roles
from tests.fakes import plugin_contexts

CLOCK = plugin_contexts.Clock()


def made(**props):
    given = {"name": "beats", "source.cluster.alias": "A", "target.cluster.alias": "B"}
    given |= {name.replace("_", "."): value for name, value in props.items()}
    common = connector_configs.heartbeat(given).common
    return connector_clients.admin_of(
        common, roles.TARGET_ADMIN, use="heartbeats-target-admin", clock=CLOCK
    )


def test_a_client_is_made_of_the_clusters_own_properties():
    admin = made(target_cluster_bootstrap_servers="localhost:1")
    assert isinstance(admin, kafka_admin.KafkaAdmin)
    admin.close()


def test_brokers_that_are_not_named_are_missed_by_their_key():
    with pytest.raises(errors.ConfigError, match=r"beats: target\.cluster\.bootstrap\.servers is"):
        made(source_cluster_bootstrap_servers="localhost:1")


def test_what_is_said_of_security_is_read():
    with pytest.raises(errors.FatalError, match=r"security\.protocol"):
        made(target_cluster_bootstrap_servers="b:1", target_cluster_security_protocol="SSH")
