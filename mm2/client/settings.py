"""What a mirror client's properties say (`MirrorClientConfig`), in Java's spelling.

Plain properties go for everything; `admin.` before a property's name is for listing topics,
`consumer.` for reading them. What is neither a connection's nor the replication policy's is left
alone, so that the properties of an application can be given as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.connection import store_files
from mm2.cluster import kafka_state_topics
from mm2.core import naming
from mm2.core.configs import connector_keys as keys
from mm2.core.configs import java_classes, policies

Properties = Mapping[str, object]
"""Values are texts; booleans, numbers and lists of texts are taken as Java would write them."""

_POLICY_KEYS = (keys.POLICY, keys.SEPARATOR, keys.INTERNAL_SEPARATOR)
_ADMIN = "admin."
_CONSUMER = "consumer."
CLIENT_ID = "mm2-client"


def policy(properties: Properties) -> naming.ReplicationPolicy:
    """`replication.policy.*` and, for the identity policy, `source.cluster.alias`.

    Raises `ConfigError`.
    """
    texts = _texts(properties)
    given = {key: texts[key] for key in _POLICY_KEYS if key in texts}
    parsed = keys.BASE.parse({keys.SOURCE_ALIAS: "", **given}, load=java_classes.load_and_import)
    return policies.policy(texts, parsed)


def state_topics(
    properties: Properties, *, clock: base_clock.Clock
) -> kafka_state_topics.KafkaStateTopics:
    """Raises `FatalError` that names every setting that cannot be honoured. Relative paths of
    certificates are below the working directory."""
    return kafka_state_topics.KafkaStateTopics(
        listing=listing(properties),
        reading=reading(properties),
        client_id=CLIENT_ID,
        clock=clock,
    )


def syncs_on_source(properties: Properties) -> bool:
    """`offset-syncs.topic.location`: does the flow keep its offset syncs on its source? Raises
    `FatalError`."""
    location = _texts(properties).get(keys.SYNCS_TOPIC_LOCATION, "source")
    if location not in {"source", "target"}:
        raise errors.FatalError(
            f"reading client settings: {keys.SYNCS_TOPIC_LOCATION} is '{location}'; it may be "
            "source or target"
        )
    return location == "source"


def listing(properties: Properties) -> kafka_access.Access:
    """How to ask of topics and groups; raises as `state_topics`."""
    return _access(_texts(properties), _ADMIN)


def reading(properties: Properties) -> kafka_access.Access:
    """How to read records; raises as `state_topics`."""
    return _access(_texts(properties), _CONSUMER)


def _access(texts: Mapping[str, str], prefix: str) -> kafka_access.Access:
    own = {key.removeprefix(prefix): texts[key] for key in texts if key.startswith(prefix)}
    return kafka_access.parse({**texts, **own}, files=store_files.below(Path()))


def _texts(properties: Properties) -> dict[str, str]:
    return {key: _text(value) for key, value in properties.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
