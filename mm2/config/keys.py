"""Every key of the three mirror connectors: type, default, validator and help.

First MirrorMaker 2's keys in Kafka 4.3 as Java defines them, then the keys that only mm2 has,
which Java ignores, so that a file with them works there too. `mm2.engine` and `mm2.spark.` say
where copy processes run on a plain Connect worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect_runtime.api import config_def, config_types
from connect_runtime.api.config_def import ConfigDef, Importance
from connect_runtime.api.config_validators import Lambda, Range, Validator, ValidList, ValidString
from connect_runtime.base.bounded_regex import PatternError
from mm2 import reachability
from mm2.config import client_keys, java_classes, value_types
from mm2.topics import filters, flow_config
from mm2.topics.flow_config import DeliveryMode, OnSourceGap, TargetTopicAccess

Type = config_def.Type
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
"""`ConnectorConfig`: what every connector has, source or sink."""

_UNIQUE_NAMES = client_keys.UNIQUE_NAMES
_METRIC_FORMATS_VALIDATOR = ValidList("legacy", "new", empty_allowed=False)
_LOCATION_VALIDATOR = ValidString("source", "target")
_Row = tuple[str, Type, Any, Importance, str]

_BASE_ROWS: tuple[_Row, ...] = (
    (ENABLED, Type.BOOLEAN, True, LOW, "Whether this direction is mirrored."),
    (SOURCE_ALIAS, Type.STRING, config_def.NO_DEFAULT, HIGH, "What the source is called."),
    (TARGET_ALIAS, Type.STRING, "target", HIGH, "What the target is called."),
    (ADMIN_TIMEOUT, Type.LONG, 60_000, LOW, "Bound of administrative work, in milliseconds."),
    (
        POLICY,
        Type.CLASS,
        java_classes.get_java_class(java_classes.DEFAULT_POLICY),
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
        java_classes.get_java_class(java_classes.FORWARDING_ADMIN),
        LOW,
        "Java's hook into administration; no other than the default.",
    ),
    (REPORTERS, Type.LIST, [java_classes.JMX_REPORTER], LOW, "Java's metric reporters."),
)
_TOPIC_FILTER_ROW: _Row = (
    TOPIC_FILTER,
    Type.CLASS,
    java_classes.get_java_class(java_classes.TOPIC_FILTER),
    LOW,
    "What picks topics: MirrorMaker's filter, or a Python class.",
)
_SYNCS_LOCATION_ROW: _Row = (
    SYNCS_TOPIC_LOCATION,
    Type.STRING,
    "source",
    LOW,
    "Which cluster has the offset-syncs topic: source or target.",
)
_METRIC_FORMATS_ROW: _Row = (
    METRIC_FORMATS,
    Type.LIST,
    ["legacy"],
    LOW,
    "Names of metrics: legacy, new.",
)
_POLL_TIMEOUT_ROW: _Row = (
    POLL_TIMEOUT,
    Type.LONG,
    1_000,
    LOW,
    "How long Java waits for records, in ms.",
)

_SOURCE_ROWS: tuple[_Row, ...] = (
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
    _TOPIC_FILTER_ROW,
    (
        PROPERTY_FILTER,
        Type.CLASS,
        java_classes.get_java_class(java_classes.PROPERTY_FILTER),
        LOW,
        "What picks topic settings: MirrorMaker's filter, or a Python class.",
    ),
    _POLL_TIMEOUT_ROW,
    (REFRESH_TOPICS, Type.BOOLEAN, True, LOW, "Whether new topics and partitions are looked for."),
    (REFRESH_TOPICS_S, Type.LONG, 600, LOW, "How often, in seconds."),
    (SYNC_CONFIGS, Type.BOOLEAN, True, LOW, "Whether settings of mirror topics follow."),
    (SYNC_CONFIGS_S, Type.LONG, 600, LOW, "How often, in seconds."),
    (SYNC_ACLS, Type.BOOLEAN, True, LOW, "Whether ACLs of mirror topics follow."),
    (SYNC_ACLS_S, Type.LONG, 600, LOW, "How often, in seconds."),
    (REPLICATION_FACTOR, Type.INT, 2, LOW, "Replicas of mirror topics; -1: the brokers' default."),
    (SYNCS_TOPIC_FACTOR, Type.SHORT, 3, LOW, "Replicas of the offset-syncs topic."),
    (LAG_MAX, Type.LONG, 100, LOW, "After how many records an offset sync is written at last."),
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
        "Whether heartbeats topics are mirrored even if topics does not name them.",
    ),
    _METRIC_FORMATS_ROW,
)
_CHECKPOINT_ROWS: tuple[_Row, ...] = (
    _POLL_TIMEOUT_ROW,
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
        java_classes.get_java_class(java_classes.GROUP_FILTER),
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
    _SYNCS_LOCATION_ROW,
    _TOPIC_FILTER_ROW,
    _METRIC_FORMATS_ROW,
)
_HEARTBEAT_ROWS: tuple[_Row, ...] = (
    (EMIT_HEARTBEATS, Type.BOOLEAN, True, LOW, "Whether heartbeats are written to the target."),
    (EMIT_HEARTBEATS_S, Type.LONG, 1, LOW, "How often, in seconds."),
    (HEARTBEATS_FACTOR, Type.SHORT, 3, LOW, "Replicas of the heartbeats topic."),
)
_VALIDATORS: dict[str, Validator] = {
    METRIC_FORMATS: _METRIC_FORMATS_VALIDATOR,
    SYNCS_TOPIC_LOCATION: _LOCATION_VALIDATOR,
}


def _define_rows(into: ConfigDef, rows: tuple[_Row, ...]) -> ConfigDef:
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


BASE_KEYS = client_keys.define_security_keys(_define_rows(ConfigDef(), _BASE_ROWS))
SOURCE_KEYS = _define_rows(ConfigDef(BASE_KEYS), _SOURCE_ROWS)
CHECKPOINT_KEYS = _define_rows(ConfigDef(BASE_KEYS), _CHECKPOINT_ROWS)
HEARTBEAT_KEYS = _define_rows(ConfigDef(BASE_KEYS), _HEARTBEAT_ROWS)
ALL_KEYS: frozenset[str] = COMMON_KEYS.union(
    SOURCE_KEYS.keys, CHECKPOINT_KEYS.keys, HEARTBEAT_KEYS.keys
)
"""`MirrorMakerConfig.allConfigNames`."""


_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

START = "start"
TARGET_TOPICS = "target.topics"
DELIVERY = "delivery"
ON_SOURCE_GAP = "on.source.gap"
BUFFER_MEMORY = "buffer.memory"
OFFSET_MAP_BYTES = "offset.map.bytes"
UNREACHABLE_AFTER = "unreachable.after.seconds"
THROTTLE = "throttle"
TOPIC_THROTTLES = "throttle.topics"
JAVA_STOPPED_CLEANLY = "java.stopped.cleanly"
OVERRIDE_THROTTLE = "live.throttle"
OVERRIDE_TOPIC_THROTTLE = "live.throttle.topic."
OVERRIDE_PAUSED_TOPIC = "live.paused.topic."
OVERRIDE_PREFIXES = (OVERRIDE_THROTTLE, OVERRIDE_PAUSED_TOPIC)
"""What keys begin with that operators set while a flow runs: no file has these, and tasks take them
up as they run. Each topic has a key of its own (its name follows), so that two who set something of
two topics at once undo nothing of each other."""
ENGINE = "mm2.engine"
SPARK_PREFIX = "mm2.spark."
MIN_BUFFER_BYTES, MAX_BUFFER_BYTES = 1024 * 1024, 64 * 1024**3


def _parser_validator(read: Callable[[str], object], allowed: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            return
        for text in value if isinstance(value, list) else [value]:
            try:
                read(text)
            except PatternError as error:
                raise config_types.invalid(name, text, str(error)) from None
            except ValueError:
                raise config_types.invalid(name, text, f"allowed: {allowed}") from None

    return Lambda(check, allowed)


def _enum_validator(values: type[DeliveryMode | OnSourceGap | TargetTopicAccess]) -> Any:
    return ValidString(*(each.value for each in values))


EXTENSION_KEYS = (
    ConfigDef()
    .define(
        START,
        Type.STRING,
        "Where partitions begin that were never mirrored; null: as auto.offset.reset says.",
        default=None,
        validator=_parser_validator(value_types.parse_start_position, value_types.START_ALLOWED),
        importance=_MEDIUM,
    )
    .define(
        TARGET_TOPICS,
        Type.STRING,
        "Who may write to mirror topics: exclusive or shared; null: shared where the policy does "
        "not rename topics.",
        default=None,
        validator=Lambda(
            lambda name, value: (
                None
                if value is None
                else _enum_validator(TargetTopicAccess).ensure_valid(name, value)
            ),
            "exclusive or shared",
        ),
        importance=_MEDIUM,
    )
    .define(
        DELIVERY,
        Type.STRING,
        "How records are copied: auto, transactional or at-least-once.",
        default=DeliveryMode.AUTO.value,
        validator=_enum_validator(DeliveryMode),
        importance=_MEDIUM,
    )
    .define(
        ON_SOURCE_GAP,
        Type.STRING,
        "What follows when the source deleted records before they were copied: continue or fail.",
        default=OnSourceGap.CONTINUE.value,
        validator=_enum_validator(OnSourceGap),
        importance=_MEDIUM,
    )
    .define(
        BUFFER_MEMORY,
        Type.LONG,
        "Most bytes that one copy process buffers between source and target, and the largest size "
        "that one batch may decompress to if it must be decoded.",
        default=flow_config.DEFAULT_BUFFER_BYTES,
        validator=Range(at_least=MIN_BUFFER_BYTES, at_most=MAX_BUFFER_BYTES),
        importance=_LOW,
    )
    .define(
        OFFSET_MAP_BYTES,
        Type.LONG,
        "Bytes of one partition's offset map at most: beyond it what is old is translated less "
        "exactly.",
        default=flow_config.DEFAULT_OFFSET_MAP_BYTES,
        validator=Range(at_least=MIN_BUFFER_BYTES, at_most=MAX_BUFFER_BYTES),
        importance=_LOW,
    )
    .define(
        UNREACHABLE_AFTER,
        Type.INT,
        "Seconds without an answer after which a broker counts as unreachable: the lag of its "
        "partitions is then unknown.",
        default=flow_config.DEFAULT_UNREACHABLE_AFTER_S,
        validator=Range(
            at_least=reachability.MIN_UNREACHABLE_AFTER_S,
            at_most=reachability.MAX_UNREACHABLE_AFTER_S,
        ),
        importance=_LOW,
    )
    .define(
        THROTTLE,
        Type.STRING,
        "Bytes per second of the whole flow at most, as the source sends them; null: no limit.",
        default=None,
        validator=_parser_validator(value_types.parse_byte_rate, value_types.RATE_ALLOWED),
        importance=_LOW,
    )
    .define(
        TOPIC_THROTTLES,
        Type.LIST,
        "The same for each topic that matches: EXPRESSION=RATE, the first counts.",
        default=[],
        validator=_parser_validator(
            value_types.parse_topic_throttle, "EXPRESSION=RATE, such as orders.*=5MB"
        ),
        importance=_LOW,
    )
    .define(
        JAVA_STOPPED_CLEANLY,
        Type.BOOLEAN,
        "Workers of Java that ran tasks of this have ended for certain: what they may still send "
        "is not waited for. To be taken out again before Java has it back.",
        default=False,
        importance=_LOW,
    )
    .define(
        OVERRIDE_THROTTLE,
        Type.STRING,
        "Instead of throttle, set by an operator; none: no limit.",
        default=None,
        validator=_parser_validator(value_types.parse_throttle, value_types.LIMIT_ALLOWED),
        importance=_LOW,
    )
    .define(
        ENGINE,
        Type.STRING,
        "Where the copies run: in Spark's processes, or inline in the worker's.",
        default="spark",
        validator=ValidString("spark", "inline"),
        importance=_LOW,
    )
)
