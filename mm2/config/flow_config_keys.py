"""Flow keys in `clusters.yaml`: types, defaults, and keys that are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from connect_runtime.api.config_def import Type
from mm2.config import (
    config_value_types,
    java_class_placeholders,
    mirror_connector_config_keys,
    mm2_only_keys,
)
from mm2.config.config_value_types import PatternListType, TextListType
from mm2.config.yaml_section_reader import ConfigOption
from mm2.replication import record_transforms
from mm2.topics import config_property_filter, topic_filters
from mm2.topics.flow_config import TargetTopicAccess

T = TypeVar("T")

_ALIAS = config_value_types.text_type("alias of a cluster")
_SECONDS = config_value_types.integer_type(1, 1_000_000_000)
_BOOLEAN = config_value_types.boolean_type()
_PATTERNS = PatternListType()
_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."

DEFAULT_POLICY = "DefaultReplicationPolicy"
IDENTITY_POLICY = "IdentityReplicationPolicy"

SOURCE = ConfigOption(name="from", kind=_ALIAS, default=None)
TARGET = ConfigOption(name="to", kind=_ALIAS, default=None)
ENABLED = ConfigOption(name="enabled", kind=_BOOLEAN, default="true")

TOPICS = ConfigOption(name="topics", kind=_PATTERNS, default=topic_filters.DEFAULT_TOPICS)
TOPICS_EXCLUDE = ConfigOption(
    name="topics.exclude", kind=_PATTERNS, default=topic_filters.DEFAULT_TOPICS_EXCLUDE
)
GROUPS = ConfigOption(name="groups", kind=_PATTERNS, default=topic_filters.DEFAULT_GROUPS)
GROUPS_EXCLUDE = ConfigOption(
    name="groups.exclude", kind=_PATTERNS, default=topic_filters.DEFAULT_GROUPS_EXCLUDE
)
PROPERTIES_EXCLUDE = ConfigOption(
    name="config.properties.exclude",
    kind=_PATTERNS,
    default=config_property_filter.DEFAULT_CONFIG_PROPERTIES_EXCLUDE,
)
USE_DEFAULTS_FROM = ConfigOption(
    name="use.defaults.from",
    kind=config_value_types.choice_type("target", "source"),
    default="target",
)

POLICY = ConfigOption(
    name="replication.policy.class",
    kind=config_value_types.plugin_class_type(
        DEFAULT_POLICY,
        IDENTITY_POLICY,
        _MIRROR_PACKAGE + DEFAULT_POLICY,
        _MIRROR_PACKAGE + IDENTITY_POLICY,
    ),
    default=DEFAULT_POLICY,
)


def _build_filter_class_option(name: str, shipped: str) -> ConfigOption[str]:
    kind = config_value_types.plugin_class_type(shipped, shipped.removeprefix(_MIRROR_PACKAGE))
    return ConfigOption(name=name, kind=kind, default=shipped)


TOPIC_FILTER = _build_filter_class_option(
    mirror_connector_config_keys.TOPIC_FILTER, java_class_placeholders.TOPIC_FILTER
)
GROUP_FILTER = _build_filter_class_option(
    mirror_connector_config_keys.GROUP_FILTER, java_class_placeholders.GROUP_FILTER
)
PROPERTY_FILTER = _build_filter_class_option(
    mirror_connector_config_keys.PROPERTY_FILTER, java_class_placeholders.PROPERTY_FILTER
)
CLASS_OPTIONS = (POLICY, TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER)
"""Options that accept a custom Python class, written `package.module:Class`, which may define its
own keys."""
SEPARATOR = ConfigOption(
    name="replication.policy.separator",
    kind=config_value_types.regex_text_type(
        "[a-zA-Z0-9._-]{1,10}", "1 to 10 letters, digits, dots, dashes, underscores"
    ),
    default=".",
)
INTERNAL_SEPARATOR = ConfigOption(
    name="replication.policy.internal.topic.separator.enabled", kind=_BOOLEAN, default="true"
)
HEARTBEATS = ConfigOption(name="heartbeats.replication.enabled", kind=_BOOLEAN, default="true")
REPLICATION_FACTOR = ConfigOption(
    name="replication.factor",
    kind=config_value_types.integer_type(1, 32_767, or_minus_one=True),
    default="-1",
)
"""Option for the replication factor. It defaults to the brokers' default (MirrorMaker 2: 2), so
that a minimal file works on any cluster."""
TASKS_MAX = ConfigOption(
    name="tasks.max", kind=config_value_types.integer_type(1, 10_000), default="1"
)
REFRESH_TOPICS = ConfigOption(name="refresh.topics.enabled", kind=_BOOLEAN, default="true")
REFRESH_TOPICS_INTERVAL = ConfigOption(
    name="refresh.topics.interval.seconds", kind=_SECONDS, default="600"
)
SYNC_CONFIGS = ConfigOption(name="sync.topic.configs.enabled", kind=_BOOLEAN, default="true")
SYNC_CONFIGS_INTERVAL = ConfigOption(
    name="sync.topic.configs.interval.seconds", kind=_SECONDS, default="600"
)
ADMIN_TIMEOUT = ConfigOption(
    name="admin.timeout.ms",
    kind=config_value_types.integer_type(1_000, 2_147_483_647),
    default="60000",
)


def build_target_topics_option(policy: str) -> ConfigOption[str]:
    """Build the option `target.topics`, which defaults to `shared` for the identity policy and to
    `exclusive` otherwise."""
    option = mm2_only_keys.TARGET_TOPICS.option
    if is_identity_policy(policy):
        return dataclasses.replace(option, default=TargetTopicAccess.SHARED.value)
    return option


def is_custom_class(name: str) -> bool:
    """Return True if a value of one of the `CLASS_OPTIONS` names a custom Python class."""
    return java_class_placeholders.is_python_class_name(name.strip())


def is_identity_policy(policy: str) -> bool:
    """Return True if the class name is the Java name or the short name of the identity policy."""
    return policy.rpartition(".")[2] == IDENTITY_POLICY


def _build_connector_key_option(name: str) -> ConfigOption[Any]:
    """Build the option for a connector key that is passed to the connector as text; only the
    connector validates its value."""
    of = (
        mirror_connector_config_keys.SOURCE_KEYS,
        mirror_connector_config_keys.CHECKPOINT_KEYS,
        mirror_connector_config_keys.HEARTBEAT_KEYS,
    )
    found = next(each.keys[name] for each in of if name in each.keys)
    if found.type is Type.BOOLEAN:
        return ConfigOption(name=name, kind=_BOOLEAN, default=str(found.default).lower())
    if found.type is Type.LIST:
        return ConfigOption(name=name, kind=TextListType(), default=tuple(found.default))
    allowed = "text"
    if found.type in (Type.INT, Type.LONG, Type.SHORT):
        allowed = "whole number"
    elif name == mirror_connector_config_keys.SYNCS_TOPIC_LOCATION:
        allowed = "source or target"
    return ConfigOption(
        name=name, kind=config_value_types.text_type(allowed), default=str(found.default)
    )


CONNECTOR_OPTIONS = tuple(
    map(
        _build_connector_key_option,
        (
            mirror_connector_config_keys.CHECKPOINTS_FACTOR,
            mirror_connector_config_keys.EMIT_CHECKPOINTS,
            mirror_connector_config_keys.EMIT_HEARTBEATS_S,
            mirror_connector_config_keys.EMIT_SYNCS,
            mirror_connector_config_keys.HEARTBEATS_FACTOR,
            mirror_connector_config_keys.LAG_MAX,
            mirror_connector_config_keys.METRIC_FORMATS,
            mirror_connector_config_keys.REFRESH_GROUPS,
            mirror_connector_config_keys.REFRESH_GROUPS_S,
            mirror_connector_config_keys.SYNC_ACLS,
            mirror_connector_config_keys.SYNC_ACLS_S,
            mirror_connector_config_keys.SYNC_GROUPS,
            mirror_connector_config_keys.SYNCS_TOPIC_FACTOR,
            mirror_connector_config_keys.SYNCS_TOPIC_LOCATION,
        ),
    )
)
"""Options that are only passed to the connectors and are not part of `Flow`."""
EMIT_HEARTBEATS = ConfigOption(
    name=mirror_connector_config_keys.EMIT_HEARTBEATS, kind=_BOOLEAN, default="false"
)
"""Option that enables heartbeats. The default is false, unlike in MirrorMaker 2, because heartbeats
need ACLs on the source and a worker for each pair of clusters in both directions."""

EMIT_CHECKPOINTS_S, SYNC_GROUPS_S = (
    ConfigOption(name=name, kind=config_value_types.text_type("whole number"), default="5")
    for name in (
        mirror_connector_config_keys.EMIT_CHECKPOINTS_S,
        mirror_connector_config_keys.SYNC_GROUPS_S,
    )
)
"""Interval options for checkpoints and group offset syncs. They default to 5 seconds instead of
MirrorMaker 2's 60, because groups with unchanged offsets cost almost nothing."""
YAML_DEFAULT_OPTIONS = (EMIT_HEARTBEATS, EMIT_CHECKPOINTS_S, SYNC_GROUPS_S, REPLICATION_FACTOR)
"""Options whose YAML defaults differ from MirrorMaker 2's."""
FACTOR_OPTIONS = tuple(
    each
    for each in CONNECTOR_OPTIONS
    if each.name
    in (
        mirror_connector_config_keys.CHECKPOINTS_FACTOR,
        mirror_connector_config_keys.HEARTBEATS_FACTOR,
        mirror_connector_config_keys.SYNCS_TOPIC_FACTOR,
    )
)
"""Replication factors of the connectors' internal topics. In YAML they default to
`REPLICATION_FACTOR`."""


def apply_mm2_default(option: ConfigOption[T]) -> ConfigOption[T]:
    """Return the option with MirrorMaker 2's default, which applies to properties files."""
    return dataclasses.replace(option, default=_find_mm2_default(option.name))


def _find_mm2_default(name: str) -> str:
    of = (
        mirror_connector_config_keys.SOURCE_KEYS,
        mirror_connector_config_keys.CHECKPOINT_KEYS,
        mirror_connector_config_keys.HEARTBEAT_KEYS,
    )
    found = next(each.keys[name] for each in of if name in each.keys)
    return str(found.default).lower()


SYNC_WITHOUT_REFRESH = (
    f"has no effect while {REFRESH_TOPICS.name} is false: topic configs are synced only when the "
    "flow starts"
)

TRANSFORMS = ConfigOption(name=record_transforms.TRANSFORMS_KEY, kind=TextListType(), default=())
PREDICATES = ConfigOption(name=record_transforms.PREDICATES_KEY, kind=TextListType(), default=())
"""Option that lists predicate aliases. Each predicate is configured by keys with the prefix
`predicates.<alias>.`."""

_NOT_SUPPORTED_YET = "is not supported yet"
_REMOVED_IN_KAFKA_4 = "was removed in Kafka 4.0"

REFUSED_KEYS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "config.action.reload",
            "consumer.poll.timeout.ms",
            "errors.log.enable",
            "errors.log.include.messages",
            "errors.retry.delay.max.ms",
            "errors.retry.timeout",
            "errors.tolerance",
            "exactly.once.source.support",
            "exactly.once.support",
            "forwarding.admin.class",
            "header.converter",
            "key.converter",
            "metric.reporters",
            "tasks.max.enforce",
            "value.converter",
        ),
        _NOT_SUPPORTED_YET,
    ),
    "add.source.alias.to.metrics": f"{_REMOVED_IN_KAFKA_4}: metrics always have the source alias",
    "config.properties.blacklist": f"{_REMOVED_IN_KAFKA_4}: use config.properties.exclude",
    "connector.class": "does not apply: a flow always runs the mirror connectors",
    "groups.blacklist": f"{_REMOVED_IN_KAFKA_4}: use groups.exclude",
    "name": "does not apply: the flow is always named from->to",
    "source.cluster.alias": "does not apply: use from",
    "target.cluster.alias": "does not apply: use to",
    "topics.blacklist": f"{_REMOVED_IN_KAFKA_4}: use topics.exclude",
    "use.incremental.alter.configs": f"{_REMOVED_IN_KAFKA_4}: incremental updates are always used",
}

# Prefixes of MirrorMaker 2 and Connect keys that are refused in a flow.
REFUSED_PREFIXES: Mapping[str, str] = {
    "admin.": "is not supported in a flow: use the prefix source.admin. or target.admin.",
    "consumer.": "is not supported in a flow: use the prefix source.consumer.",
    "producer.": "is not supported in a flow: use the prefix producer.override.",
    **dict.fromkeys(
        ("source.cluster.", "target.cluster."),
        "is not supported in a flow: set it in section clusters",
    ),
    **dict.fromkeys(
        (
            "errors.deadletterqueue.",
            "source.",
            "target.consumer.",
            "target.producer.",
            "topic.creation.",
        ),
        _NOT_SUPPORTED_YET,
    ),
}
