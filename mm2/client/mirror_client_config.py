"""Client properties of the public API (`MirrorClientConfig`), and the clients built from them.

Properties are spelled as in Java. Properties without a prefix apply to every client; `admin.`
is for listing topics, `consumer.` for reading them. Unknown properties are ignored, so an
application can pass its own properties unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from connect_runtime.base.errors import FatalError
from connect_runtime.base.timing import Clock
from connect_runtime.kafka import cluster_access
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.network import key_stores
from mm2.config import java_classes, keys, policy_classes
from mm2.kafka.client_interfaces import ClusterClients, TopicTail
from mm2.kafka.kafka_cluster import KafkaCluster
from mm2.kafka.state_topic_reader import KafkaStateTopics
from mm2.topics.naming import ReplicationPolicy

ClientProperties = Mapping[str, object]
"""Values are texts; booleans, numbers and lists of texts are taken as Java would write them."""

_POLICY_KEYS = (keys.POLICY, keys.SEPARATOR, keys.INTERNAL_SEPARATOR)
_ADMIN_PREFIX = "admin."
_CONSUMER_PREFIX = "consumer."
CLIENT_ID = "mm2-client"


def build_replication_policy(properties: ClientProperties) -> ReplicationPolicy:
    """`replication.policy.*` and, for the identity policy, `source.cluster.alias`.

    Raises `ConfigError`.
    """
    texts = _stringify_properties(properties)
    given = {key: texts[key] for key in _POLICY_KEYS if key in texts}
    parsed = keys.BASE_KEYS.parse({keys.SOURCE_ALIAS: "", **given}, load=java_classes.import_class)
    return policy_classes.build_policy(texts, parsed)


def open_topic_reader(properties: ClientProperties, *, clock: Clock) -> KafkaStateTopics:
    """Raises `FatalError` that names every setting that cannot be honoured. Relative paths of
    certificates are below the working directory."""
    return KafkaStateTopics(
        listing=build_admin_access(properties),
        reading=build_consumer_access(properties),
        client_id=CLIENT_ID,
        clock=clock,
    )


def are_syncs_on_source(properties: ClientProperties) -> bool:
    """`offset-syncs.topic.location`: does the flow keep its offset syncs on its source? Raises
    `FatalError`."""
    location = _stringify_properties(properties).get(keys.SYNCS_TOPIC_LOCATION, "source")
    if location not in {"source", "target"}:
        raise FatalError(
            f"reading client settings: {keys.SYNCS_TOPIC_LOCATION} is '{location}'; it may be "
            "source or target"
        )
    return location == "source"


def build_admin_access(properties: ClientProperties) -> KafkaClusterAccess:
    """How to ask of topics and groups; raises as `open_topic_reader`."""
    return _build_access(_stringify_properties(properties), _ADMIN_PREFIX)


def build_consumer_access(properties: ClientProperties) -> KafkaClusterAccess:
    """How to read records; raises as `open_topic_reader`."""
    return _build_access(_stringify_properties(properties), _CONSUMER_PREFIX)


def _build_access(texts: Mapping[str, str], prefix: str) -> KafkaClusterAccess:
    own = {key.removeprefix(prefix): texts[key] for key in texts if key.startswith(prefix)}
    return cluster_access.parse_cluster_access(
        {**texts, **own}, files=key_stores.create_store_files(Path())
    )


def _stringify_properties(properties: ClientProperties) -> dict[str, str]:
    return {key: _stringify_value(value) for key, value in properties.items() if value is not None}


def _stringify_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


class TranslationCluster(ClusterClients, Protocol):
    """`connect_cluster` makes one of properties."""

    def tail(self, topic: str) -> TopicTail:
        """Whoever asks for it closes it."""
        ...

    def close(self) -> None:
        """Let go of all other connections."""
        ...


def connect_cluster(properties: ClientProperties, *, clock: Clock) -> KafkaCluster:
    """The one that a client's properties name. Raises as `open_topic_reader`."""
    return KafkaCluster(
        build_admin_access(properties),
        build_consumer_access(properties),
        client_id=CLIENT_ID,
        clock=clock,
    )
