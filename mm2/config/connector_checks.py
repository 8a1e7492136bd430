"""Checks a connector's configuration: keys that are refused, that have no effect, that conflict.

A key that has no effect, because mm2 does the same another way, is only a warning. A key that
would change the data or the set of mirrored topics is refused. Messages and conditions that
Java's connectors have too are Java's (`MirrorSourceConnector.validate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.config_types import ClassLoader
from connect_runtime.api.connector import ExactlyOnceSupport
from mm2.config import client_roles, java_classes, keys

_DELIVERY_DECIDES = (
    "has no effect: delivery says how a flow is copied, else exactly once where that is possible"
)
_NO_CONVERSION = "has no effect: mm2 copies whole batches and converts no records"
_REMOVED = "has no effect: it was removed in Kafka 4.0"

KEYS_WITHOUT_EFFECT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "exactly.once.support",
            "exactly.once.source.support",
            "transaction.boundary",
            "transaction.boundary.interval.ms",
        ),
        _DELIVERY_DECIDES,
    ),
    **dict.fromkeys(
        (
            "errors.log.enable",
            "errors.log.include.messages",
            "errors.retry.delay.max.ms",
            "errors.retry.timeout",
            "errors.tolerance",
        ),
        _NO_CONVERSION,
    ),
    keys.REPORTERS: "has no effect: metrics are served for Prometheus",
    keys.POLL_TIMEOUT: "has no effect: mm2 does not poll",
    **dict.fromkeys(("add.source.alias.to.metrics", "use.incremental.alter.configs"), _REMOVED),
}
"""Keys that are taken and act on nothing, with what is so instead."""

RENAMED_KEYS: Mapping[str, str] = {
    "topics.blacklist": keys.TOPICS_EXCLUDE,
    "groups.blacklist": keys.GROUPS_EXCLUDE,
    "config.properties.blacklist": keys.PROPERTIES_EXCLUDE,
}
"""Until Kafka 4.0; Java ignores them since, and mirrors what they exclude."""

BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
FIXED_VALUES: Mapping[str, tuple[str, ...]] = {
    keys.FORWARDING_ADMIN: (java_classes.FORWARDING_ADMIN,),
    "key.converter": (BYTE_ARRAY_CONVERTER,),
    "value.converter": (BYTE_ARRAY_CONVERTER,),
    "header.converter": (BYTE_ARRAY_CONVERTER,),
}
"""Values that say what is so anyway; any other is refused."""

_SHORT_CONVERTER_NAMES = ("ByteArrayConverter", "ByteArray")
WORKER_HANDLED_KEYS = frozenset(
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
_KNOWN_PREFIXES = (
    *client_roles.ALL_PREFIXES,
    *keys.OVERRIDE_PREFIXES,
    keys.SPARK_PREFIX,
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
_KNOWN_KEYS = (
    keys.ALL_KEYS
    | frozenset(keys.EXTENSION_KEYS.keys)
    | frozenset(KEYS_WITHOUT_EFFECT)
    | frozenset(RENAMED_KEYS)
    | WORKER_HANDLED_KEYS
    | {keys.USE_DEFAULTS_FROM}
)
_CLASS_KEYS = (keys.POLICY, keys.TOPIC_FILTER, keys.GROUP_FILTER, keys.PROPERTY_FILTER)


def find_refused_keys(props: Mapping[str, str]) -> dict[str, str]:
    """Why the configuration cannot be meant, by key, as far as single values show it."""
    found: dict[str, str] = {}
    for key, new in RENAMED_KEYS.items():
        if key in props:
            found[key] = f"{key} was removed in Kafka 4.0: write {new}"
    for key, allowed in FIXED_VALUES.items():
        value = (props.get(key) or "").strip()
        if (
            value
            and value not in allowed
            and not (BYTE_ARRAY_CONVERTER in allowed and value in _SHORT_CONVERTER_NAMES)
        ):
            found[key] = f"{key} is {value}: no other than {allowed[0]} is supported"
    return found


def find_ignored_keys(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Keys without effect that are given, and keys that nobody knows, each with its words.

    A class of the user's may have keys of its own: beside one, nothing is unknown.
    """
    custom = any(_is_custom_class(props, key) for key in _CLASS_KEYS)
    for key in sorted(props):
        if key in KEYS_WITHOUT_EFFECT:
            if not _is_default_value(key, props[key]):
                yield key, KEYS_WITHOUT_EFFECT[key]
        elif key not in _KNOWN_KEYS and not key.startswith(_KNOWN_PREFIXES) and not custom:
            yield key, "has no effect: is not a known key"


def _is_custom_class(props: Mapping[str, str], key: str) -> bool:
    value = props.get(key)
    return value is not None and not value.strip().startswith(java_classes.MIRROR_PACKAGE)


def _is_default_value(key: str, value: str) -> bool:
    return key == keys.REPORTERS and value.strip() in ("", java_classes.JMX_REPORTER)


READ_COMMITTED = "read_committed"
KeyErrors = dict[str, list[str]]
"""Messages by key."""


def check_source(props: Mapping[str, str]) -> KeyErrors:
    """`MirrorSourceConnector.validate`."""
    found: KeyErrors = {}
    if props.get(keys.EXACTLY_ONCE) == "required" and not is_read_committed(props):
        found[keys.EXACTLY_ONCE] = [
            "MirrorSourceConnector can only provide exactly-once guarantees when its source "
            f"consumer is configured with isolation.level set to '{READ_COMMITTED}'; otherwise, "
            "records from aborted and uncommitted transactions will be replicated from the source "
            "cluster to the target cluster."
        ]
    prefixes = ("offset-syncs-", "offset-syncs.topic.")
    if props.get(keys.EMIT_SYNCS) == "false" and any(each.startswith(prefixes) for each in props):
        found[keys.EMIT_SYNCS] = [
            "MirrorSourceConnector can't setup offset-syncs feature while "
            f"{keys.EMIT_SYNCS} set to false"
        ]
    return found


def check_checkpoint(props: Mapping[str, str]) -> KeyErrors:
    """`MirrorCheckpointConfig.validate`."""
    found: KeyErrors = {}
    if props.get(keys.ENABLED) == "false":
        return found
    if props.get(keys.EMIT_CHECKPOINTS) == "false":
        found[keys.EMIT_CHECKPOINTS] = [
            f"MirrorCheckpointConnector can't run with {keys.EMIT_CHECKPOINTS} set to false"
        ]
    if props.get(keys.EMIT_SYNCS) == "false":
        found[keys.EMIT_SYNCS] = ["MirrorCheckpointConnector can't run without offset syncs"]
    return found


def get_exactly_once_support(props: Mapping[str, str]) -> ExactlyOnceSupport:
    """What Java's connector answers for the configuration."""
    if is_read_committed(props):
        return ExactlyOnceSupport.SUPPORTED
    return ExactlyOnceSupport.UNSUPPORTED


def is_read_committed(props: Mapping[str, str]) -> bool:
    """Would Java's source consumer be told to? (Ours always reads so.)"""
    return (
        client_roles.resolve_properties(props, client_roles.SOURCE_CONSUMER).get("isolation.level")
        == READ_COMMITTED
    )


def validate_keys(
    definition: ConfigDef,
    props: Mapping[str, str],
    *,
    across: KeyErrors,
    load: ClassLoader = java_classes.resolve_class,
) -> list[ConfigValue]:
    """Every key by itself, with the messages of `across` added to theirs."""
    values = definition.validate_all(props, load=load)
    for name, messages in across.items():
        if name not in values:
            values[name] = ConfigValue(name=name)
        values[name].error_messages.extend(messages)
    return list(values.values())
