"""Which client of a checkpoint connector goes where."""

from __future__ import annotations

import contextlib

import pytest

from connect_runtime.api.errors import ConfigError
from mm2.config import mirror_connector_config
from mm2.connectors.connector_kafka_clients import KafkaCheckpointClients
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.kafka.list_offsets_client import KafkaLogOffsets
from mm2.kafka.state_topic_reader import TopicReader
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from tests.fakes.plugin_contexts import Clock

SOURCE, TARGET = (f"{side}.cluster.bootstrap.servers" for side in ("source", "target"))
PROPS = {
    "name": "points",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    SOURCE: "a:1",
    TARGET: "b:1",
}
ALL = (
    "create_source_groups_client",
    "create_target_groups_client",
    "create_target_admin",
    "create_target_log_offsets_client",
    "create_offset_syncs_reader",
    "create_checkpoints_reader",
)
KINDS = {
    "create_source_groups_client": KafkaGroups,
    "create_target_groups_client": KafkaGroups,
    "create_target_admin": KafkaAdmin,
    "create_target_log_offsets_client": KafkaLogOffsets,
    "create_offset_syncs_reader": TopicReader,
    "create_checkpoints_reader": TopicReader,
}


def clients(**props):
    given = PROPS | {name.replace("_", "."): each for name, each in props.items()}
    given = {key: each for key, each in given.items() if each}
    config = mirror_connector_config.parse_checkpoint_config(given)
    return KafkaCheckpointClients(config, clock=Clock(), gone=lambda: False, task=0)


@pytest.mark.parametrize("name", ALL)
def test_each_is_of_its_kind(name):
    with contextlib.closing(getattr(clients(), name)()) as made:
        assert isinstance(made, KINDS[name])


def names_missing(made, name) -> str:
    with pytest.raises(ConfigError) as caught:
        getattr(made, name)()
    return str(caught.value)


def test_each_goes_to_its_cluster():
    for name in ("create_source_groups_client", "create_offset_syncs_reader"):
        assert SOURCE in names_missing(clients(source_cluster_bootstrap_servers=""), name)
    for name in ("create_target_groups_client", "create_target_admin", "create_checkpoints_reader"):
        assert TARGET in names_missing(clients(target_cluster_bootstrap_servers=""), name)


def test_offset_syncs_are_where_the_location_says():
    given = {**PROPS, "offset-syncs.topic.location": "target"}
    del given[TARGET]
    made = KafkaCheckpointClients(
        mirror_connector_config.parse_checkpoint_config(given), clock=Clock(), gone=lambda: False
    )
    assert TARGET in names_missing(made, "create_offset_syncs_reader")
