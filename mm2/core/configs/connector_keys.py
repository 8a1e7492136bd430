"""The keys of the three mirror connectors in Kafka 4.3, with Java's types, defaults and checks.

`SOURCE`, `CHECKPOINT` and `HEARTBEAT` are complete but for what every connector has, which the
worker defines; `EVERY` names that, too, since MirrorMaker 2 decides by it which keys at the top of
a properties file reach its connectors. Keys of ours are beside them (`own_keys`).
"""

from __future__ import annotations

from typing import Any

from connect_runtime.api import config_def, config_validators
from mm2.core import filters
from mm2.core.configs import client_keys, java_classes

Type = config_def.Type
HIGH, MEDIUM, LOW = config_def.Importance

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
COMMON = frozenset(
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
"""`ConnectorConfig`: what every connector has, source or sink."""

_NAMES_ONCE = client_keys.NAMES_ONCE
_METRIC_FORMATS = config_validators.ValidList("legacy", "new", empty_allowed=False)
_LOCATION = config_validators.ValidString("source", "target")
_Row = tuple[str, Type, Any, config_def.Importance, str]

_BASE: tuple[_Row, ...] = (
    (ENABLED, Type.BOOLEAN, True, LOW, "Whether this direction is mirrored."),
    (SOURCE_ALIAS, Type.STRING, config_def.NO_DEFAULT, HIGH, "What the source is called."),
    (TARGET_ALIAS, Type.STRING, "target", HIGH, "What the target is called."),
    (ADMIN_TIMEOUT, Type.LONG, 60_000, LOW, "Bound of administrative work, in milliseconds."),
    (
        POLICY,
        Type.CLASS,
        java_classes.named(java_classes.DEFAULT_POLICY),
        LOW,
        "How mirrored topics are named: one of MirrorMaker's policies, or a Python class.",
    ),
    (SEPARATOR, Type.STRING, ".", LOW, "Between alias and topic in the name of a mirrored one."),
    (
        INTERNAL_SEPARATOR,
        Type.BOOLEAN,
        True,
        LOW,
        "Whether the separator is used in names of internal topics, too; else a dot is.",
    ),
    (
        FORWARDING_ADMIN,
        Type.CLASS,
        java_classes.named(java_classes.FORWARDING_ADMIN),
        LOW,
        "Java's hook into administration; no other than the default.",
    ),
    (REPORTERS, Type.LIST, [java_classes.JMX_REPORTER], LOW, "Java's metric reporters."),
)
_TOPIC_FILTER: _Row = (
    TOPIC_FILTER,
    Type.CLASS,
    java_classes.named(java_classes.TOPIC_FILTER),
    LOW,
    "What picks topics: MirrorMaker's filter, or a Python class.",
)
_SYNCS_LOCATION: _Row = (
    SYNCS_TOPIC_LOCATION,
    Type.STRING,
    "source",
    LOW,
    "Which cluster has the offset-syncs topic: source or target.",
)
_FORMATS: _Row = (METRIC_FORMATS, Type.LIST, ["legacy"], LOW, "Names of metrics: legacy, new.")
_POLL: _Row = (POLL_TIMEOUT, Type.LONG, 1_000, LOW, "How long Java waits for records, in ms.")

_SOURCE: tuple[_Row, ...] = (
    (
        TOPICS,
        Type.LIST,
        list(filters.DEFAULT_TOPICS),
        HIGH,
        "Topics to mirror: regular expressions that match the whole name.",
    ),
    (
        TOPICS_EXCLUDE,
        Type.LIST,
        list(filters.DEFAULT_TOPICS_EXCLUDE),
        HIGH,
        "Topics that are not mirrored, whatever topics says.",
    ),
    (
        PROPERTIES_EXCLUDE,
        Type.LIST,
        list(filters.DEFAULT_CONFIG_PROPERTIES_EXCLUDE),
        HIGH,
        "Topic settings that do not follow the source's: regular expressions.",
    ),
    _TOPIC_FILTER,
    (
        PROPERTY_FILTER,
        Type.CLASS,
        java_classes.named(java_classes.PROPERTY_FILTER),
        LOW,
        "What picks topic settings: MirrorMaker's filter, or a Python class.",
    ),
    _POLL,
    (REFRESH_TOPICS, Type.BOOLEAN, True, LOW, "Whether new topics and partitions are looked for."),
    (REFRESH_TOPICS_S, Type.LONG, 600, LOW, "How often, in seconds."),
    (SYNC_CONFIGS, Type.BOOLEAN, True, LOW, "Whether settings of mirror topics follow."),
    (SYNC_CONFIGS_S, Type.LONG, 600, LOW, "How often, in seconds."),
    (SYNC_ACLS, Type.BOOLEAN, True, LOW, "Whether ACLs of mirror topics follow."),
    (SYNC_ACLS_S, Type.LONG, 600, LOW, "How often, in seconds."),
    (REPLICATION_FACTOR, Type.INT, 2, LOW, "Replicas of mirror topics; -1: the brokers' default."),
    (SYNCS_TOPIC_FACTOR, Type.SHORT, 3, LOW, "Replicas of the offset-syncs topic."),
    (LAG_MAX, Type.LONG, 100, LOW, "After how many records an offset sync is written at last."),
    _SYNCS_LOCATION,
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
        "Whether heartbeats topics are mirrored even if topics does not name them.",
    ),
    _FORMATS,
)
_CHECKPOINT: tuple[_Row, ...] = (
    _POLL,
    (
        GROUPS,
        Type.LIST,
        list(filters.DEFAULT_GROUPS),
        HIGH,
        "Consumer groups to follow: regular expressions that match the whole id.",
    ),
    (
        GROUPS_EXCLUDE,
        Type.LIST,
        list(filters.DEFAULT_GROUPS_EXCLUDE),
        HIGH,
        "Groups that are not followed, whatever groups says.",
    ),
    (
        GROUP_FILTER,
        Type.CLASS,
        java_classes.named(java_classes.GROUP_FILTER),
        LOW,
        "What picks groups: MirrorMaker's filter, or a Python class.",
    ),
    (REFRESH_GROUPS, Type.BOOLEAN, True, LOW, "Whether new groups are looked for."),
    (REFRESH_GROUPS_S, Type.LONG, 600, LOW, "How often, in seconds."),
    (EMIT_CHECKPOINTS, Type.BOOLEAN, True, LOW, "Whether checkpoints are written."),
    (EMIT_CHECKPOINTS_S, Type.LONG, 60, LOW, "How often, in seconds."),
    (
        SYNC_GROUPS,
        Type.BOOLEAN,
        False,
        LOW,
        "Whether idle groups on the target get the translated offsets.",
    ),
    (SYNC_GROUPS_S, Type.LONG, 60, LOW, "How often, in seconds."),
    (CHECKPOINTS_FACTOR, Type.SHORT, 3, LOW, "Replicas of the checkpoints topic."),
    _SYNCS_LOCATION,
    _TOPIC_FILTER,
    _FORMATS,
)
_HEARTBEAT: tuple[_Row, ...] = (
    (EMIT_HEARTBEATS, Type.BOOLEAN, True, LOW, "Whether heartbeats are written to the target."),
    (EMIT_HEARTBEATS_S, Type.LONG, 1, LOW, "How often, in seconds."),
    (HEARTBEATS_FACTOR, Type.SHORT, 3, LOW, "Replicas of the heartbeats topic."),
)
_VALIDATORS: dict[str, config_validators.Validator] = {
    METRIC_FORMATS: _METRIC_FORMATS,
    SYNCS_TOPIC_LOCATION: _LOCATION,
}


def _define(into: config_def.ConfigDef, rows: tuple[_Row, ...]) -> config_def.ConfigDef:
    for name, of, default, importance, text in rows:
        into.define(
            name,
            of,
            text,
            default=default,
            validator=_VALIDATORS.get(name, _NAMES_ONCE if of is Type.LIST else None),
            importance=importance,
        )
    return into


BASE = client_keys.define_security(_define(config_def.ConfigDef(), _BASE))
SOURCE = _define(config_def.ConfigDef(BASE), _SOURCE)
CHECKPOINT = _define(config_def.ConfigDef(BASE), _CHECKPOINT)
HEARTBEAT = _define(config_def.ConfigDef(BASE), _HEARTBEAT)
EVERY: frozenset[str] = COMMON.union(SOURCE.keys, CHECKPOINT.keys, HEARTBEAT.keys)
"""`MirrorMakerConfig.allConfigNames`."""
