"""The keys of a flow: MirrorMaker 2's names and defaults, and those that are not done yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from connect_runtime.api import config_def
from mm2.app.settings import reader
from mm2.core import filters, flows, reachability
from mm2.core.configs import connector_keys, java_classes, kinds
from mm2.core.copy import record_transforms

T = TypeVar("T")

_ALIAS = kinds.text("the alias of a cluster")
_SECONDS = kinds.whole(1, 1_000_000_000)
_BOOLEAN = kinds.boolean()
_PATTERNS = kinds.Patterns()
_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."

DEFAULT_POLICY = "DefaultReplicationPolicy"
IDENTITY_POLICY = "IdentityReplicationPolicy"

SOURCE = reader.Option(name="from", kind=_ALIAS, default=None)
TARGET = reader.Option(name="to", kind=_ALIAS, default=None)
ENABLED = reader.Option(name="enabled", kind=_BOOLEAN, default="true")

TOPICS = reader.Option(name="topics", kind=_PATTERNS, default=filters.DEFAULT_TOPICS)
TOPICS_EXCLUDE = reader.Option(
    name="topics.exclude", kind=_PATTERNS, default=filters.DEFAULT_TOPICS_EXCLUDE
)
GROUPS = reader.Option(name="groups", kind=_PATTERNS, default=filters.DEFAULT_GROUPS)
GROUPS_EXCLUDE = reader.Option(
    name="groups.exclude", kind=_PATTERNS, default=filters.DEFAULT_GROUPS_EXCLUDE
)
PROPERTIES_EXCLUDE = reader.Option(
    name="config.properties.exclude",
    kind=_PATTERNS,
    default=filters.DEFAULT_CONFIG_PROPERTIES_EXCLUDE,
)
USE_DEFAULTS_FROM = reader.Option(
    name="use.defaults.from", kind=kinds.choice("target", "source"), default="target"
)

POLICY = reader.Option(
    name="replication.policy.class",
    kind=kinds.plugin_class(
        DEFAULT_POLICY,
        IDENTITY_POLICY,
        _MIRROR_PACKAGE + DEFAULT_POLICY,
        _MIRROR_PACKAGE + IDENTITY_POLICY,
    ),
    default=DEFAULT_POLICY,
)


def _filter_class(name: str, shipped: str) -> reader.Option[str]:
    kind = kinds.plugin_class(shipped, shipped.removeprefix(_MIRROR_PACKAGE))
    return reader.Option(name=name, kind=kind, default=shipped)


TOPIC_FILTER = _filter_class(connector_keys.TOPIC_FILTER, java_classes.TOPIC_FILTER)
GROUP_FILTER = _filter_class(connector_keys.GROUP_FILTER, java_classes.GROUP_FILTER)
PROPERTY_FILTER = _filter_class(connector_keys.PROPERTY_FILTER, java_classes.PROPERTY_FILTER)
CLASSES = (POLICY, TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER)
"""What may be a class of the user's: `package.module:Class`. It may have keys of its own."""
SEPARATOR = reader.Option(
    name="replication.policy.separator",
    kind=kinds.matching(
        "[a-zA-Z0-9._-]{1,10}", "1 to 10 letters, digits, dots, dashes, underscores"
    ),
    default=".",
)
INTERNAL_SEPARATOR = reader.Option(
    name="replication.policy.internal.topic.separator.enabled", kind=_BOOLEAN, default="true"
)
HEARTBEATS = reader.Option(name="heartbeats.replication.enabled", kind=_BOOLEAN, default="true")
REPLICATION_FACTOR = reader.Option(
    name="replication.factor", kind=kinds.whole(1, 32_767, or_minus_one=True), default="-1"
)
"""The brokers' own default, and not MirrorMaker 2's 2: a file with two addresses works anywhere."""
TASKS_MAX = reader.Option(name="tasks.max", kind=kinds.whole(1, 10_000), default="1")
REFRESH_TOPICS = reader.Option(name="refresh.topics.enabled", kind=_BOOLEAN, default="true")
REFRESH_TOPICS_INTERVAL = reader.Option(
    name="refresh.topics.interval.seconds", kind=_SECONDS, default="600"
)
SYNC_CONFIGS = reader.Option(name="sync.topic.configs.enabled", kind=_BOOLEAN, default="true")
SYNC_CONFIGS_INTERVAL = reader.Option(
    name="sync.topic.configs.interval.seconds", kind=_SECONDS, default="600"
)
ADMIN_TIMEOUT = reader.Option(
    name="admin.timeout.ms", kind=kinds.whole(1_000, 2_147_483_647), default="60000"
)

# Ours: what MirrorMaker 2 has no key for.
START = reader.Option(name="start", kind=kinds.start_position(), default="earliest")
TARGET_TOPICS_NAME = "target.topics"
DELIVERY = reader.Option(
    name="delivery", kind=kinds.choice(*(mode.value for mode in flows.Delivery)), default="auto"
)
ON_SOURCE_GAP = reader.Option(
    name="on.source.gap",
    kind=kinds.choice(*(each.value for each in flows.OnSourceGap)),
    default=flows.OnSourceGap.CONTINUE.value,
)
BUFFER_MEMORY = reader.Option(
    name="buffer.memory",
    kind=kinds.whole(1024 * 1024, 64 * 1024**3),
    default=str(flows.DEFAULT_BUFFER_BYTES),
)
OFFSET_MAP_BYTES = reader.Option(
    name="offset.map.bytes",
    kind=kinds.whole(1024 * 1024, 64 * 1024**3),
    default=str(flows.DEFAULT_MAP_BYTES),
)
UNREACHABLE_AFTER = reader.Option(
    name="unreachable.after.seconds",
    kind=kinds.whole(reachability.LEAST_S, reachability.MOST_S),
    default=str(flows.DEFAULT_UNREACHABLE_AFTER_S),
)

THROTTLE = reader.Option(name="throttle", kind=kinds.byte_rate(), default=None)
TOPIC_THROTTLES = reader.Option(name="throttle.topics", kind=kinds.TopicBudgets(), default=())


def target_topics(policy: str) -> reader.Option[str]:
    """`exclusive` where the policy renames topics, `shared` where local producers may write too."""
    default = flows.TargetTopics.SHARED if is_identity(policy) else flows.TargetTopics.EXCLUSIVE
    kind = kinds.choice(*(mode.value for mode in flows.TargetTopics))
    return reader.Option(name=TARGET_TOPICS_NAME, kind=kind, default=default.value)


def is_custom(name: str) -> bool:
    """Is this, as the value of one of `CLASSES`, a class of the user's?"""
    return java_classes.is_python(name.strip())


def is_identity(policy: str) -> bool:
    """Is this one of the identity policy's names, Java's or the short one?"""
    return policy.rpartition(".")[2] == IDENTITY_POLICY


def _judged_later(name: str) -> reader.Option[Any]:
    """What only the connectors understand: they judge the text (`judge`)."""
    of = (connector_keys.SOURCE, connector_keys.CHECKPOINT, connector_keys.HEARTBEAT)
    found = next(each.keys[name] for each in of if name in each.keys)
    if found.type is config_def.Type.BOOLEAN:
        return reader.Option(name=name, kind=_BOOLEAN, default=str(found.default).lower())
    if found.type is config_def.Type.LIST:
        return reader.Option(name=name, kind=kinds.Texts(), default=tuple(found.default))
    return reader.Option(name=name, kind=kinds.text(), default=str(found.default))


CONNECTORS = tuple(
    map(
        _judged_later,
        (
            connector_keys.CHECKPOINTS_FACTOR,
            connector_keys.EMIT_CHECKPOINTS,
            connector_keys.EMIT_HEARTBEATS_S,
            connector_keys.EMIT_SYNCS,
            connector_keys.HEARTBEATS_FACTOR,
            connector_keys.LAG_MAX,
            connector_keys.METRIC_FORMATS,
            connector_keys.REFRESH_GROUPS,
            connector_keys.REFRESH_GROUPS_S,
            connector_keys.SYNC_ACLS,
            connector_keys.SYNC_ACLS_S,
            connector_keys.SYNC_GROUPS,
            connector_keys.SYNCS_TOPIC_FACTOR,
            connector_keys.SYNCS_TOPIC_LOCATION,
        ),
    )
)
"""Keys of MirrorMaker 2's connectors that the flow itself has no use for."""
EMIT_HEARTBEATS = reader.Option(name=connector_keys.EMIT_HEARTBEATS, kind=_BOOLEAN, default="false")
"""Off unless asked for, other than in MirrorMaker 2: it needs rights on the source, and a worker
for each pair of clusters, both ways."""

EMIT_CHECKPOINTS_S, SYNC_GROUPS_S = (
    reader.Option(name=name, kind=kinds.text(), default="5")
    for name in (connector_keys.EMIT_CHECKPOINTS_S, connector_keys.SYNC_GROUPS_S)
)
"""Seconds, and not MirrorMaker 2's minute: groups that do not move cost next to nothing."""
IN_YAML = (EMIT_HEARTBEATS, EMIT_CHECKPOINTS_S, SYNC_GROUPS_S, REPLICATION_FACTOR)
"""Whose defaults are not MirrorMaker 2's."""
FACTORS = tuple(
    each
    for each in CONNECTORS
    if each.name
    in (
        connector_keys.CHECKPOINTS_FACTOR,
        connector_keys.HEARTBEATS_FACTOR,
        connector_keys.SYNCS_TOPIC_FACTOR,
    )
)
"""Replicas of the topics of connectors: in YAML these default to `REPLICATION_FACTOR`."""


def with_mm2_default(option: reader.Option[T]) -> reader.Option[T]:
    """The option as a properties file has it: with the default of MirrorMaker 2."""
    return dataclasses.replace(option, default=_mm2_default(option.name))


def _mm2_default(name: str) -> str:
    of = (connector_keys.SOURCE, connector_keys.CHECKPOINT, connector_keys.HEARTBEAT)
    found = next(each.keys[name] for each in of if name in each.keys)
    return str(found.default).lower()


SYNC_WITHOUT_LOOKS = (
    f"has no effect while {REFRESH_TOPICS.name} is false: settings of mirror topics are synced "
    "when the flow starts"
)

TRANSFORMS = reader.Option(name=record_transforms.TRANSFORMS, kind=kinds.Texts(), default=())
PREDICATES = reader.Option(name=record_transforms.PREDICATES, kind=kinds.Texts(), default=())
"""Aliases; what is configured of each stands behind `transforms.<alias>.`"""

_NOT_YET = "is not supported yet"
_REMOVED = "was removed in Kafka 4.0"

REFUSED: Mapping[str, str] = {
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
        _NOT_YET,
    ),
    "add.source.alias.to.metrics": f"{_REMOVED}: the alias is always there",
    "config.properties.blacklist": f"{_REMOVED}: write config.properties.exclude",
    "connector.class": "has no meaning here: a flow runs the mirror",
    "groups.blacklist": f"{_REMOVED}: write groups.exclude",
    "name": "has no meaning here: a flow is called from->to",
    "source.cluster.alias": "has no meaning here: write from",
    "target.cluster.alias": "has no meaning here: write to",
    "topics.blacklist": f"{_REMOVED}: write topics.exclude",
    "use.incremental.alter.configs": f"{_REMOVED}: it is always so",
}

# Whole families of keys that MirrorMaker 2 and Connect know.
REFUSED_FAMILIES: Mapping[str, str] = {
    "admin.": "is not taken: write source.admin. or target.admin.",
    "consumer.": "is not taken: write source.consumer.",
    "producer.": "is not taken: write producer.override.",
    **dict.fromkeys(
        ("source.cluster.", "target.cluster."), "is not taken: write it at the cluster"
    ),
    **dict.fromkeys(
        (
            "errors.deadletterqueue.",
            "source.",
            "target.consumer.",
            "target.producer.",
            "topic.creation.",
        ),
        _NOT_YET,
    ),
}
