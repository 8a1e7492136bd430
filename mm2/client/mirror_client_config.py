"""Reads the client properties of the public API, and creates Kafka clients with these properties.

Properties have the names that Java's `MirrorClientConfig` uses. Properties without a prefix apply
to all clients. Properties with the prefix `admin.` apply to clients that list topics, properties
with the prefix `consumer.` to clients that read topics. Unknown properties are ignored, so that an
application can pass its own properties unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network import keystore_files
from mm2.config import (
    java_class_placeholders,
    mirror_connector_config_keys,
    policy_and_filter_factory,
)
from mm2.kafka.kafka_client_interfaces import ClusterClients, TopicTail
from mm2.kafka.kafka_cluster import KafkaCluster
from mm2.kafka.state_topic_reader import KafkaStateTopicReader
from mm2.topics.replication_policy import ReplicationPolicy

ClientProperties = Mapping[str, object]
"""Client properties by name. Values are strings; booleans, numbers and lists of strings are
converted as in Java."""

_POLICY_KEYS = (
    mirror_connector_config_keys.POLICY,
    mirror_connector_config_keys.SEPARATOR,
    mirror_connector_config_keys.INTERNAL_SEPARATOR,
)
_ADMIN_PREFIX = "admin."
_CONSUMER_PREFIX = "consumer."
CLIENT_ID = "mm2-client"


def build_replication_policy(properties: ClientProperties) -> ReplicationPolicy:
    """Create the replication policy from `replication.policy.*` and, for the identity policy,
    `source.cluster.alias`.

    Raises `ConfigError` if a property is invalid.
    """
    texts = _stringify_properties(properties)
    given = {key: texts[key] for key in _POLICY_KEYS if key in texts}
    parsed = mirror_connector_config_keys.BASE_KEYS.parse(
        {mirror_connector_config_keys.SOURCE_ALIAS: "", **given},
        load=java_class_placeholders.import_class,
    )
    return policy_and_filter_factory.build_replication_policy(texts, parsed)


def open_topic_reader(properties: ClientProperties, *, clock: Clock) -> KafkaStateTopicReader:
    """Create a topic reader. Relative certificate paths are resolved against the working directory.

    Raises a `FatalError` that names every unsupported or invalid setting.
    """
    return KafkaStateTopicReader(
        listing=build_admin_connection_settings(properties),
        reading=build_consumer_connection_settings(properties),
        client_id=CLIENT_ID,
        clock=clock,
    )


def are_syncs_on_source(properties: ClientProperties) -> bool:
    """Return True if `offset-syncs.topic.location` is `source`. Raises `FatalError` if the value is
    invalid."""
    location = _stringify_properties(properties).get(
        mirror_connector_config_keys.SYNCS_TOPIC_LOCATION, "source"
    )
    if location not in {"source", "target"}:
        raise FatalError(
            f"reading client properties: {mirror_connector_config_keys.SYNCS_TOPIC_LOCATION} is "
            f"'{location}'; allowed: source or target"
        )
    return location == "source"


def build_admin_connection_settings(properties: ClientProperties) -> KafkaClusterAccess:
    """Build the access settings for admin requests about topics and groups. Raises `FatalError` if
    a property is invalid."""
    return _parse_cluster_connection_settings(_stringify_properties(properties), _ADMIN_PREFIX)


def build_consumer_connection_settings(properties: ClientProperties) -> KafkaClusterAccess:
    """Build the access settings for reading records. Raises `FatalError` if a property is
    invalid."""
    return _parse_cluster_connection_settings(_stringify_properties(properties), _CONSUMER_PREFIX)


def _parse_cluster_connection_settings(texts: Mapping[str, str], prefix: str) -> KafkaClusterAccess:
    own = {key.removeprefix(prefix): texts[key] for key in texts if key.startswith(prefix)}
    return librdkafka_connection_settings.parse_cluster_access(
        {**texts, **own}, files=keystore_files.create_store_files(Path())
    )


def _stringify_properties(properties: ClientProperties) -> dict[str, str]:
    return {key: _stringify_value(value) for key, value in properties.items() if value is not None}


def _stringify_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


class OffsetTranslationClients(ClusterClients, Protocol):
    """Clients of one cluster that `OffsetTranslator` uses; created by `connect_cluster`."""

    def open_new_record_reader(self, topic: str) -> TopicTail:
        """Open a reader for new records of the topic. The caller must close the reader."""
        ...

    def close(self) -> None:
        """Close all connections except those of readers that `open_new_record_reader` returned."""
        ...


def connect_cluster(properties: ClientProperties, *, clock: Clock) -> KafkaCluster:
    """Create the clients of the cluster that the properties describe, without connecting. Raises
    `FatalError` if a property is invalid."""
    return KafkaCluster(
        build_admin_connection_settings(properties),
        build_consumer_connection_settings(properties),
        client_id=CLIENT_ID,
        clock=clock,
    )
