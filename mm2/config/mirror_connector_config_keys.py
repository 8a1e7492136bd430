"""Definitions of all keys of the three mirror connectors: type, default, validator and help text.

The keys of MirrorMaker 2 (Kafka 4.3) are defined first, as in Java, followed by the keys that only
mm2 has. Java ignores mm2's keys, so both can use the same file. On a plain Connect worker,
`mm2.engine` and keys with the prefix `mm2.spark.` select where copy processes run.
"""

from __future__ import annotations

from typing import Any

from connect_runtime.api import config_def
from connect_runtime.api.config_def import ConfigDef, Importance, Type
from connect_runtime.api.config_validators import Validator, ValidList, ValidString
from mm2.config import (
    client_config_keys,
    config_value_types,
    java_class_placeholders,
    mm2_only_keys,
)
from mm2.topics import config_property_filter, topic_filters

HIGH, MEDIUM, LOW = Importance

ENABLED = "enabled"
SOURCE_ALIAS = "source.cluster.alias"
TARGET_ALIAS = "target.cluster.alias"
ADMIN_TIMEOUT = "admin.timeout.ms"
POLICY = "replication.policy.class"
SEPARATOR = "replication.policy.separator"
INTERNAL_SEPARATOR = "replication.policy.internal.topic.separator.enabled"
FORWARDING_ADMIN = "forwarding.admin.class"
REPORTERS = "metric.reporters"
METRIC_FORMATS = "metric.names.formats"
POLL_TIMEOUT = "consumer.poll.timeout.ms"
TOPICS = "topics"
TOPICS_EXCLUDE = "topics.exclude"
TOPIC_FILTER = "topic.filter.class"
PROPERTIES_EXCLUDE = "config.properties.exclude"
PROPERTY_FILTER = "config.property.filter.class"
USE_DEFAULTS_FROM = "use.defaults.from"
REFRESH_TOPICS, REFRESH_TOPICS_S = "refresh.topics.enabled", "refresh.topics.interval.seconds"
SYNC_CONFIGS = "sync.topic.configs.enabled"
SYNC_CONFIGS_S = "sync.topic.configs.interval.seconds"
SYNC_ACLS, SYNC_ACLS_S = "sync.topic.acls.enabled", "sync.topic.acls.interval.seconds"
REPLICATION_FACTOR = "replication.factor"
SYNCS_TOPIC_FACTOR = "offset-syncs.topic.replication.factor"
SYNCS_TOPIC_LOCATION = "offset-syncs.topic.location"
LAG_MAX = "offset.lag.max"
EMIT_SYNCS = "emit.offset-syncs.enabled"
REPLICATE_HEARTBEATS = "heartbeats.replication.enabled"
GROUPS = "groups"
GROUPS_EXCLUDE = "groups.exclude"
GROUP_FILTER = "group.filter.class"
REFRESH_GROUPS, REFRESH_GROUPS_S = "refresh.groups.enabled", "refresh.groups.interval.seconds"
EMIT_CHECKPOINTS = "emit.checkpoints.enabled"
EMIT_CHECKPOINTS_S = "emit.checkpoints.interval.seconds"
SYNC_GROUPS = "sync.group.offsets.enabled"
SYNC_GROUPS_S = "sync.group.offsets.interval.seconds"
CHECKPOINTS_FACTOR = "checkpoints.topic.replication.factor"
EMIT_HEARTBEATS = "emit.heartbeats.enabled"
EMIT_HEARTBEATS_S = "emit.heartbeats.interval.seconds"
HEARTBEATS_FACTOR = "heartbeats.topic.replication.factor"
EXACTLY_ONCE = "exactly.once.support"

NAME = "name"
CONNECTOR_CLASS = "connector.class"
TASKS_MAX = "tasks.max"
COMMON_KEYS = frozenset(
    {
        *(NAME, CONNECTOR_CLASS, "connector.plugin.version", TASKS_MAX, "tasks.max.enforce"),
        *("key.converter", "key.converter.plugin.version"),
        *("value.converter", "value.converter.plugin.version"),
        *("header.converter", "header.converter.plugin.version"),
        *("transforms", "predicates", "config.action.reload"),
        *("errors.retry.timeout", "errors.retry.delay.max.ms", "errors.tolerance"),
        *("errors.log.enable", "errors.log.include.messages"),
    }
)
"""Keys that every source and sink connector has (`ConnectorConfig`)."""

_UNIQUE_NAMES = client_config_keys.UNIQUE_NAMES
_METRIC_FORMATS_VALIDATOR = ValidList("legacy", "new", empty_allowed=False)
_LOCATION_VALIDATOR = ValidString("source", "target")
_Row = tuple[str, Type, Any, Importance, str]

_BASE_ROWS: tuple[_Row, ...] = (
    (ENABLED, Type.BOOLEAN, True, LOW, "Whether this flow replicates topics."),
    (SOURCE_ALIAS, Type.STRING, config_def.NO_DEFAULT, HIGH, "Alias of the source cluster."),
    (TARGET_ALIAS, Type.STRING, "target", HIGH, "Alias of the target cluster."),
    (ADMIN_TIMEOUT, Type.LONG, 60_000, LOW, "Timeout of administrative requests, in ms."),
    (
        POLICY,
        Type.CLASS,
        java_class_placeholders.get_java_class(java_class_placeholders.DEFAULT_POLICY),
        LOW,
        "Class that derives mirror topic names: one of MirrorMaker 2's policies, or a Python "
        "class.",
    ),
    (SEPARATOR, Type.STRING, ".", LOW, "Separator between alias and topic in mirror topic names."),
    (
        INTERNAL_SEPARATOR,
        Type.BOOLEAN,
        True,
        LOW,
        "Whether the separator is also used in names of internal topics; otherwise a dot is used.",
    ),
    (
        FORWARDING_ADMIN,
        Type.CLASS,
        java_class_placeholders.get_java_class(java_class_placeholders.FORWARDING_ADMIN),
        LOW,
        "Java class of the admin client; only the default is supported.",
    ),
    (REPORTERS, Type.LIST, [java_class_placeholders.JMX_REPORTER], LOW, "Java's metric reporters."),
)
_TOPIC_FILTER_ROW: _Row = (
    TOPIC_FILTER,
    Type.CLASS,
    java_class_placeholders.get_java_class(java_class_placeholders.TOPIC_FILTER),
    LOW,
    "Class that selects topics: MirrorMaker 2's filter, or a Python class.",
)
_SYNCS_LOCATION_ROW: _Row = (
    SYNCS_TOPIC_LOCATION,
    Type.STRING,
    "source",
    LOW,
    "Cluster that contains the offset-syncs topic: source or target.",
)
_METRIC_FORMATS_ROW: _Row = (
    METRIC_FORMATS,
    Type.LIST,
    ["legacy"],
    LOW,
    "Metric name formats: legacy, new.",
)
_POLL_TIMEOUT_ROW: _Row = (
    POLL_TIMEOUT,
    Type.LONG,
    1_000,
    LOW,
    "Poll timeout of Java's consumer, in ms.",
)

_SOURCE_ROWS: tuple[_Row, ...] = (
    (
        TOPICS,
        Type.LIST,
        list(topic_filters.DEFAULT_TOPICS),
        HIGH,
        "Topics to replicate: regular expressions that match the whole name.",
    ),
    (
        TOPICS_EXCLUDE,
        Type.LIST,
        list(topic_filters.DEFAULT_TOPICS_EXCLUDE),
        HIGH,
        "Topics not to replicate, even if topics matches them.",
    ),
    (
        PROPERTIES_EXCLUDE,
        Type.LIST,
        list(config_property_filter.DEFAULT_CONFIG_PROPERTIES_EXCLUDE),
        HIGH,
        "Topic configs not to sync: regular expressions.",
    ),
    _TOPIC_FILTER_ROW,
    (
        PROPERTY_FILTER,
        Type.CLASS,
        java_class_placeholders.get_java_class(java_class_placeholders.PROPERTY_FILTER),
        LOW,
        "Class that selects topic configs: MirrorMaker 2's filter, or a Python class.",
    ),
    _POLL_TIMEOUT_ROW,
    (REFRESH_TOPICS, Type.BOOLEAN, True, LOW, "Whether to detect new topics and partitions."),
    (REFRESH_TOPICS_S, Type.LONG, 600, LOW, "Seconds between checks for new topics."),
    (SYNC_CONFIGS, Type.BOOLEAN, True, LOW, "Whether to sync topic configs to mirror topics."),
    (SYNC_CONFIGS_S, Type.LONG, 600, LOW, "Seconds between syncs of topic configs."),
    (SYNC_ACLS, Type.BOOLEAN, True, LOW, "Whether to sync topic ACLs to mirror topics."),
    (SYNC_ACLS_S, Type.LONG, 600, LOW, "Seconds between syncs of topic ACLs."),
    (
        REPLICATION_FACTOR,
        Type.INT,
        2,
        LOW,
        "Replication factor of mirror topics; -1: the brokers' default.",
    ),
    (SYNCS_TOPIC_FACTOR, Type.SHORT, 3, LOW, "Replication factor of the offset-syncs topic."),
    (LAG_MAX, Type.LONG, 100, LOW, "Maximum number of records between two offset syncs."),
    _SYNCS_LOCATION_ROW,
    (
        EMIT_SYNCS,
        Type.BOOLEAN,
        True,
        LOW,
        "Whether offset syncs are written; checkpoints need them.",
    ),
    (
        REPLICATE_HEARTBEATS,
        Type.BOOLEAN,
        True,
        LOW,
        "Whether heartbeats topics are replicated even if topics does not match them.",
    ),
    _METRIC_FORMATS_ROW,
)
_CHECKPOINT_ROWS: tuple[_Row, ...] = (
    _POLL_TIMEOUT_ROW,
    (
        GROUPS,
        Type.LIST,
        list(topic_filters.DEFAULT_GROUPS),
        HIGH,
        "Consumer groups to replicate: regular expressions that match the whole group id.",
    ),
    (
        GROUPS_EXCLUDE,
        Type.LIST,
        list(topic_filters.DEFAULT_GROUPS_EXCLUDE),
        HIGH,
        "Consumer groups to ignore, even if groups matches them.",
    ),
    (
        GROUP_FILTER,
        Type.CLASS,
        java_class_placeholders.get_java_class(java_class_placeholders.GROUP_FILTER),
        LOW,
        "Class that selects consumer groups: MirrorMaker 2's filter, or a Python class.",
    ),
    (REFRESH_GROUPS, Type.BOOLEAN, True, LOW, "Whether to detect new consumer groups."),
    (REFRESH_GROUPS_S, Type.LONG, 600, LOW, "Seconds between checks for new groups."),
    (EMIT_CHECKPOINTS, Type.BOOLEAN, True, LOW, "Whether checkpoints are written."),
    (EMIT_CHECKPOINTS_S, Type.LONG, 60, LOW, "Seconds between checkpoints."),
    (
        SYNC_GROUPS,
        Type.BOOLEAN,
        False,
        LOW,
        "Whether translated offsets are committed to idle groups on the target.",
    ),
    (SYNC_GROUPS_S, Type.LONG, 60, LOW, "Seconds between commits of translated group offsets."),
    (CHECKPOINTS_FACTOR, Type.SHORT, 3, LOW, "Replication factor of the checkpoints topic."),
    _SYNCS_LOCATION_ROW,
    _TOPIC_FILTER_ROW,
    _METRIC_FORMATS_ROW,
)
_HEARTBEAT_ROWS: tuple[_Row, ...] = (
    (EMIT_HEARTBEATS, Type.BOOLEAN, True, LOW, "Whether heartbeats are written to the target."),
    (EMIT_HEARTBEATS_S, Type.LONG, 1, LOW, "Seconds between heartbeats."),
    (HEARTBEATS_FACTOR, Type.SHORT, 3, LOW, "Replication factor of the heartbeats topic."),
)
_VALIDATORS: dict[str, Validator] = {
    METRIC_FORMATS: _METRIC_FORMATS_VALIDATOR,
    SYNCS_TOPIC_LOCATION: _LOCATION_VALIDATOR,
}


def _define_keys(into: ConfigDef, rows: tuple[_Row, ...]) -> ConfigDef:
    for name, of, default, importance, text in rows:
        into.define(
            name,
            of,
            text,
            default=default,
            validator=_VALIDATORS.get(name, _UNIQUE_NAMES if of is Type.LIST else None),
            importance=importance,
        )
    return into


BASE_KEYS = client_config_keys.define_security_keys(_define_keys(ConfigDef(), _BASE_ROWS))
SOURCE_KEYS = _define_keys(ConfigDef(BASE_KEYS), _SOURCE_ROWS)
CHECKPOINT_KEYS = _define_keys(ConfigDef(BASE_KEYS), _CHECKPOINT_ROWS)
HEARTBEAT_KEYS = _define_keys(ConfigDef(BASE_KEYS), _HEARTBEAT_ROWS)
ALL_KEYS: frozenset[str] = COMMON_KEYS.union(
    SOURCE_KEYS.keys, CHECKPOINT_KEYS.keys, HEARTBEAT_KEYS.keys
)
"""All keys of the three connectors (`MirrorMakerConfig.allConfigNames`)."""


JAVA_STOPPED_CLEANLY = "java.stopped.cleanly"
OVERRIDE_THROTTLE = "live.throttle"
OVERRIDE_TOPIC_THROTTLE = "live.throttle.topic."
OVERRIDE_PAUSED_TOPIC = "live.paused.topic."
OVERRIDE_PREFIXES = (OVERRIDE_THROTTLE, OVERRIDE_PAUSED_TOPIC)
"""Prefixes of keys that operators set while a flow is running. These keys are not set in
configuration files, and running tasks apply them. The topic name is part of the key, so that
concurrent changes to two topics do not overwrite each other."""
ENGINE = "mm2.engine"
SPARK_PREFIX = "mm2.spark."

EXTENSION_KEYS = (
    ConfigDef()
    .define(
        JAVA_STOPPED_CLEANLY,
        Type.BOOLEAN,
        "Do not wait for in-flight writes of Java MirrorMaker 2. Set this key only if all Java "
        "workers have exited, and remove it before Java workers run the connector again.",
        default=False,
        importance=LOW,
    )
    .define(
        OVERRIDE_THROTTLE,
        Type.STRING,
        "Rate limit set by an operator, which takes precedence over throttle. none: no limit.",
        default=None,
        validator=mm2_only_keys.create_parsing_validator(
            config_value_types.parse_throttle, config_value_types.LIMIT_ALLOWED
        ),
        importance=LOW,
    )
    .define(
        ENGINE,
        Type.STRING,
        "Where copy processes run: as Spark tasks (spark), or as threads of the worker (inline).",
        default="spark",
        validator=ValidString("spark", "inline"),
        importance=LOW,
    )
)
for _key in mm2_only_keys.ALL:
    _key.add_to_config_def(EXTENSION_KEYS)
