"""Checks a connector's configuration for refused, ineffective and conflicting keys.

A key that has no effect because mm2 solves the problem in another way causes a warning. A key that
would change the data or the set of replicated topics is refused. Checks that Java's connectors also
perform use Java's messages (`MirrorSourceConnector.validate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.config_types import ClassLoader
from connect_runtime.api.connector import ExactlyOnceSupport
from mm2.config import (
    java_class_placeholders,
    mirror_connector_client_properties,
    mirror_connector_config_keys,
)

_DELIVERY_DECIDES = (
    "has no effect: set the delivery guarantee with the key delivery; by default, delivery is "
    "exactly-once where possible"
)
_NO_CONVERSION = "has no effect: mm2 copies whole batches without converting records"
_REMOVED = "has no effect: removed in Kafka 4.0"

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
    mirror_connector_config_keys.REPORTERS: "has no effect: metrics are exposed to Prometheus",
    mirror_connector_config_keys.POLL_TIMEOUT: "has no effect: mm2 does not use Java's consumer",
    **dict.fromkeys(("add.source.alias.to.metrics", "use.incremental.alter.configs"), _REMOVED),
}
"""Keys that are accepted but have no effect, with the reason."""

RENAMED_KEYS: Mapping[str, str] = {
    "topics.blacklist": mirror_connector_config_keys.TOPICS_EXCLUDE,
    "groups.blacklist": mirror_connector_config_keys.GROUPS_EXCLUDE,
    "config.properties.blacklist": mirror_connector_config_keys.PROPERTIES_EXCLUDE,
}
"""Keys removed in Kafka 4.0 and their new names. Java ignores the old keys and then replicates the
topics and groups that they were meant to exclude."""

BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
FIXED_VALUES: Mapping[str, tuple[str, ...]] = {
    mirror_connector_config_keys.FORWARDING_ADMIN: (java_class_placeholders.FORWARDING_ADMIN,),
    "key.converter": (BYTE_ARRAY_CONVERTER,),
    "value.converter": (BYTE_ARRAY_CONVERTER,),
    "header.converter": (BYTE_ARRAY_CONVERTER,),
}
"""Keys whose value is fixed in mm2. Any other value is refused."""

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
"""Keys that the Connect worker handles for all connectors."""
_KNOWN_PREFIXES = (
    *mirror_connector_client_properties.ALL_PREFIXES,
    *mirror_connector_config_keys.OVERRIDE_PREFIXES,
    mirror_connector_config_keys.SPARK_PREFIX,
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
    mirror_connector_config_keys.ALL_KEYS
    | frozenset(mirror_connector_config_keys.EXTENSION_KEYS.keys)
    | frozenset(KEYS_WITHOUT_EFFECT)
    | frozenset(RENAMED_KEYS)
    | WORKER_HANDLED_KEYS
    | {mirror_connector_config_keys.USE_DEFAULTS_FROM}
)
_CLASS_KEYS = (
    mirror_connector_config_keys.POLICY,
    mirror_connector_config_keys.TOPIC_FILTER,
    mirror_connector_config_keys.GROUP_FILTER,
    mirror_connector_config_keys.PROPERTY_FILTER,
)


def find_refused_keys(props: Mapping[str, str]) -> dict[str, str]:
    """Return refused keys with the reason. Only checks that involve a single key are performed."""
    found: dict[str, str] = {}
    for key, new in RENAMED_KEYS.items():
        if key in props:
            found[key] = f"{key} was removed in Kafka 4.0: use {new}"
    for key, allowed in FIXED_VALUES.items():
        value = (props.get(key) or "").strip()
        if (
            value
            and value not in allowed
            and not (BYTE_ARRAY_CONVERTER in allowed and value in _SHORT_CONVERTER_NAMES)
        ):
            found[key] = f"{key} is {value}: only {allowed[0]} is supported"
    return found


def find_ignored_keys(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return keys that have no effect and unknown keys, each with the reason.

    If the configuration has a custom policy or filter class, no key is reported as unknown, because
    the class may define its own keys.
    """
    custom = any(_is_custom_class(props, key) for key in _CLASS_KEYS)
    for key in sorted(props):
        if key in KEYS_WITHOUT_EFFECT:
            if not _is_default_value(key, props[key]):
                yield key, KEYS_WITHOUT_EFFECT[key]
        elif key not in _KNOWN_KEYS and not key.startswith(_KNOWN_PREFIXES) and not custom:
            yield key, "has no effect: unknown key"


def _is_custom_class(props: Mapping[str, str], key: str) -> bool:
    value = props.get(key)
    return value is not None and not value.strip().startswith(
        java_class_placeholders.MIRROR_PACKAGE
    )


def _is_default_value(key: str, value: str) -> bool:
    return key == mirror_connector_config_keys.REPORTERS and value.strip() in (
        "",
        java_class_placeholders.JMX_REPORTER,
    )


READ_COMMITTED = "read_committed"
KeyErrors = dict[str, list[str]]
"""Error messages by key."""


def find_source_connector_errors(props: Mapping[str, str]) -> KeyErrors:
    """Return the errors in a source connector's configuration
    (`MirrorSourceConnector.validate`)."""
    found: KeyErrors = {}
    if props.get(mirror_connector_config_keys.EXACTLY_ONCE) == "required" and not is_read_committed(
        props
    ):
        found[mirror_connector_config_keys.EXACTLY_ONCE] = [
            "MirrorSourceConnector can only provide exactly-once guarantees when its source "
            f"consumer is configured with isolation.level set to '{READ_COMMITTED}'; otherwise, "
            "records from aborted and uncommitted transactions will be replicated from the source "
            "cluster to the target cluster."
        ]
    prefixes = ("offset-syncs-", "offset-syncs.topic.")
    if props.get(mirror_connector_config_keys.EMIT_SYNCS) == "false" and any(
        each.startswith(prefixes) for each in props
    ):
        found[mirror_connector_config_keys.EMIT_SYNCS] = [
            "MirrorSourceConnector can't setup offset-syncs feature while "
            f"{mirror_connector_config_keys.EMIT_SYNCS} set to false"
        ]
    return found


def find_checkpoint_connector_errors(props: Mapping[str, str]) -> KeyErrors:
    """Return the errors in a checkpoint connector's configuration
    (`MirrorCheckpointConfig.validate`)."""
    found: KeyErrors = {}
    if props.get(mirror_connector_config_keys.ENABLED) == "false":
        return found
    if props.get(mirror_connector_config_keys.EMIT_CHECKPOINTS) == "false":
        found[mirror_connector_config_keys.EMIT_CHECKPOINTS] = [
            "MirrorCheckpointConnector can't run with "
            f"{mirror_connector_config_keys.EMIT_CHECKPOINTS} set to false"
        ]
    if props.get(mirror_connector_config_keys.EMIT_SYNCS) == "false":
        found[mirror_connector_config_keys.EMIT_SYNCS] = [
            "MirrorCheckpointConnector can't run without offset syncs"
        ]
    return found


def get_exactly_once_support(props: Mapping[str, str]) -> ExactlyOnceSupport:
    """Return the exactly-once support that Java's source connector reports for the
    configuration."""
    if is_read_committed(props):
        return ExactlyOnceSupport.SUPPORTED
    return ExactlyOnceSupport.UNSUPPORTED


def is_read_committed(props: Mapping[str, str]) -> bool:
    """Return True if the source consumer is configured with `read_committed`. (mm2 always reads
    with this isolation level.)"""
    return (
        mirror_connector_client_properties.resolve_role_properties(
            props, mirror_connector_client_properties.SOURCE_CONSUMER
        ).get("isolation.level")
        == READ_COMMITTED
    )


def validate_keys(
    definition: ConfigDef,
    props: Mapping[str, str],
    *,
    cross_key_errors: KeyErrors,
    load: ClassLoader = java_class_placeholders.resolve_class,
) -> list[ConfigValue]:
    """Validate each key separately, then add `cross_key_errors`, which are errors that involve
    several keys."""
    values = definition.validate_all(props, load=load)
    for name, messages in cross_key_errors.items():
        if name not in values:
            values[name] = ConfigValue(name=name)
        values[name].error_messages.extend(messages)
    return list(values.values())
