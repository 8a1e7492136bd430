"""What becomes of each key that a connector is given: honoured, told to have no effect, or refused.

Honoured is what `connector_configs` parses, and what the worker does for every connector. Who comes
with a configuration that works should not have to change it: what has no effect because mm2 does
the thing another way is told. What would change the data, or which topics are mirrored, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mm2.core.configs import connector_keys as keys
from mm2.core.configs import java_classes, own_keys, roles

_ONCE = (
    "has no effect: delivery says how a flow is copied, else exactly once where that is possible"
)
_RECORDS = "has no effect: mm2 copies whole batches and converts no records"
_REMOVED = "has no effect: it was removed in Kafka 4.0"

WITHOUT_EFFECT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "exactly.once.support",
            "exactly.once.source.support",
            "transaction.boundary",
            "transaction.boundary.interval.ms",
        ),
        _ONCE,
    ),
    **dict.fromkeys(
        (
            "errors.log.enable",
            "errors.log.include.messages",
            "errors.retry.delay.max.ms",
            "errors.retry.timeout",
            "errors.tolerance",
        ),
        _RECORDS,
    ),
    keys.REPORTERS: "has no effect: metrics are served for Prometheus",
    keys.POLL_TIMEOUT: "has no effect: mm2 does not poll",
    **dict.fromkeys(("add.source.alias.to.metrics", "use.incremental.alter.configs"), _REMOVED),
}
"""Keys that are taken and act on nothing, with what is so instead."""

RENAMED: Mapping[str, str] = {
    "topics.blacklist": keys.TOPICS_EXCLUDE,
    "groups.blacklist": keys.GROUPS_EXCLUDE,
    "config.properties.blacklist": keys.PROPERTIES_EXCLUDE,
}
"""Until Kafka 4.0; Java ignores them since, and mirrors what they exclude."""

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
ONLY: Mapping[str, tuple[str, ...]] = {
    keys.FORWARDING_ADMIN: (java_classes.FORWARDING_ADMIN,),
    "key.converter": (BYTES,),
    "value.converter": (BYTES,),
    "header.converter": (BYTES,),
}
"""Values that say what is so anyway; any other is refused."""

_SHORT_BYTES = ("ByteArrayConverter", "ByteArray")
OF_THE_WORKER = frozenset(
    {
        "config.action.reload",
        "config.providers",
        "connector.plugin.version",
        "offsets.storage.topic",
        "predicates",
        "tasks.max.enforce",
        "transforms",
    }
)
"""Keys that the worker acts on, whatever the connector."""
_FAMILIES = (
    *roles.PREFIXES,
    *own_keys.LIVE,
    own_keys.SPARK_PREFIX,
    "config.providers.",
    "errors.deadletterqueue.",
    "header.converter.",
    "key.converter.",
    "offset-syncs-",
    "predicates.",
    "replication.policy",
    "task.",
    "topic.creation.",
    "transforms.",
    "value.converter.",
)
_KNOWN = (
    keys.EVERY
    | frozenset(own_keys.OWN.keys)
    | frozenset(WITHOUT_EFFECT)
    | frozenset(RENAMED)
    | OF_THE_WORKER
    | {keys.USE_DEFAULTS_FROM}
)
_CUSTOM = (keys.POLICY, keys.TOPIC_FILTER, keys.GROUP_FILTER, keys.PROPERTY_FILTER)


def refusals(props: Mapping[str, str]) -> dict[str, str]:
    """Why the configuration cannot be meant, by key, as far as single values show it."""
    found: dict[str, str] = {}
    for key, new in RENAMED.items():
        if key in props:
            found[key] = f"{key} was removed in Kafka 4.0: write {new}"
    for key, allowed in ONLY.items():
        value = (props.get(key) or "").strip()
        if value and value not in allowed and not (BYTES in allowed and value in _SHORT_BYTES):
            found[key] = f"{key} is {value}: no other than {allowed[0]} is supported"
    return found


def told(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Keys without effect that are given, and keys that nobody knows, each with its words.

    A class of the user's may have keys of its own: beside one, nothing is unknown.
    """
    custom = any(_is_custom(props, key) for key in _CUSTOM)
    for key in sorted(props):
        if key in WITHOUT_EFFECT:
            if not _is_default(key, props[key]):
                yield key, WITHOUT_EFFECT[key]
        elif key not in _KNOWN and not key.startswith(_FAMILIES) and not custom:
            yield key, "has no effect: is not a known key"


def _is_custom(props: Mapping[str, str], key: str) -> bool:
    value = props.get(key)
    return value is not None and not value.strip().startswith(java_classes.MIRROR)


def _is_default(key: str, value: str) -> bool:
    return key == keys.REPORTERS and value.strip() in ("", java_classes.JMX_REPORTER)
