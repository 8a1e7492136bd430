"""Parses and validates the configurations of the mirror connectors and of source tasks.

`validate_*` functions return all problems by key. `parse_*` functions raise `ConfigError` for the
first problem. Settings that Java accepts but that would fail later or be ignored are refused by
name. `can_reconfigure_live` decides which changes a running task applies without a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api.config_def import ConfigDef, ConfigValue
from connect_runtime.api.config_types import ClassLoader
from connect_runtime.api.errors import ConfigError
from connect_runtime.base.ids import TopicPartition
from mm2.config import (
    config_value_types,
    connector_checks,
    copy_engine_config,
    java_class_placeholders,
    mirror_connector_client_properties,
    mirror_connector_config_keys,
    mm2_only_keys,
    pause_and_throttle_overrides,
    policy_and_filter_factory,
)
from mm2.config.connector_checks import KeyErrors
from mm2.config.mirror_connector_client_properties import ClientRole
from mm2.config.policy_and_filter_factory import ParsedConfig
from mm2.replication import record_transforms
from mm2.replication.record_transforms import TransformChainError
from mm2.topics import task_assignment
from mm2.topics.flow_config import (
    Flow,
    FlowThrottles,
    StartPosition,
    StartPositionKind,
    TargetTopicAccess,
)
from mm2.topics.replication_policy import ReplicationPolicy
from mm2.topics.task_assignment import TaskThrottle
from mm2.topics.topic_filters import TopicOrGroupFilter

T = TypeVar("T")
Props = Mapping[str, str]

SOURCE_CONFIG_DEF = ConfigDef(mirror_connector_config_keys.SOURCE_KEYS)
for _key in mirror_connector_config_keys.EXTENSION_KEYS.keys.values():
    SOURCE_CONFIG_DEF.add(_key)
CHECKPOINT_CONFIG_DEF = mirror_connector_config_keys.CHECKPOINT_KEYS
HEARTBEAT_CONFIG_DEF = mirror_connector_config_keys.HEARTBEAT_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConnectorConfig:
    """Configuration that is common to all three mirror connectors."""

    props: Props = field(repr=False)
    """All properties, with placeholders `${…}` resolved. They may contain secrets."""
    name: str
    enabled: bool
    source: str
    target: str
    policy: ReplicationPolicy
    admin_timeout_s: float
    metric_formats: tuple[str, ...]
    """Metric name formats: `legacy`, `new` or both. Empty for heartbeats."""

    def resolve_client_properties(
        self, role: ClientRole, use: str, *, task: int | str | None = None
    ) -> Props:
        """Return the properties of the client with this role and purpose, with MirrorMaker 2's
        `client.id`."""
        label = mirror_connector_client_properties.format_client_label(
            self.source, self.target, self.name, task=task
        )
        return mirror_connector_client_properties.resolve_properties_with_client_id(
            self.props, role, label=label, use=use
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsTopic:
    """Name of the offset-syncs topic, and the cluster that contains it (source or target)."""

    on_source: bool
    name: str

    @property
    def cluster_role(self) -> str:
        return "source" if self.on_source else "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSourceConfig:
    """Configuration of MirrorSourceConnector."""

    common: MirrorConnectorConfig
    flow: Flow
    """The flow. Its throttles include the throttles that operators have set."""
    sync_acls_interval_s: float | None
    """Interval between ACL syncs in seconds; None: ACLs are not synced."""
    syncs_topic: OffsetSyncsTopic | None
    """Topic for offset syncs; None: offset syncs are not written."""
    syncs_topic_factor: int
    lag_max: int
    """Value of `offset.lag.max`, in records."""
    paused_topics: frozenset[str] = frozenset()
    """Source topics that an operator has paused."""
    transforms: Props = field(default_factory=dict, repr=False)
    """Properties of the transformation chain (`record_transforms`)."""
    java_stopped: bool = False
    """True if Java MirrorMaker 2 has stopped, so that mm2 does not wait for its in-flight
    writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCheckpointConfig:
    """Configuration of MirrorCheckpointConnector. An interval of None disables the periodic
    operation."""

    common: MirrorConnectorConfig
    flow: Flow
    syncs_topic: OffsetSyncsTopic
    checkpoints_topic: str
    checkpoints_topic_factor: int
    refresh_groups_interval_s: float | None
    emit_interval_s: float | None
    sync_groups_interval_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorHeartbeatConfig:
    """Configuration of MirrorHeartbeatConnector."""

    common: MirrorConnectorConfig
    topic_factor: int
    interval_s: float | None
    """Interval between heartbeats in seconds; None: heartbeats are not emitted."""


def parse_source_config(props: Props) -> MirrorSourceConfig:
    """Parse a source connector's configuration. Raises `ConfigError` for the first problem."""
    return _read_source_config(_ConfigReader(SOURCE_CONFIG_DEF, props, strict=True))


def parse_checkpoint_config(props: Props) -> MirrorCheckpointConfig:
    """Parse a checkpoint connector's configuration. Raises `ConfigError` for the first problem."""
    return _read_checkpoint_config(_ConfigReader(CHECKPOINT_CONFIG_DEF, props, strict=True))


def parse_heartbeat_config(props: Props) -> MirrorHeartbeatConfig:
    """Parse a heartbeat connector's configuration. Raises `ConfigError` for the first problem."""
    return _read_heartbeat_config(_ConfigReader(HEARTBEAT_CONFIG_DEF, props, strict=True))


def validate_source_config(
    props: Props, *, load: ClassLoader = java_class_placeholders.resolve_class
) -> list[ConfigValue]:
    """Validate a source connector's configuration. Returns all keys with values and errors, for
    `Connector.validate`."""
    return _validate_connector(
        SOURCE_CONFIG_DEF,
        props,
        java=connector_checks.find_source_connector_errors(props),
        read=_read_source_config,
        load=load,
    )


def validate_checkpoint_config(
    props: Props, *, load: ClassLoader = java_class_placeholders.resolve_class
) -> list[ConfigValue]:
    """Validate a checkpoint connector's configuration. Returns all keys with values and errors, for
    `Connector.validate`."""
    return _validate_connector(
        CHECKPOINT_CONFIG_DEF,
        props,
        java=connector_checks.find_checkpoint_connector_errors(props),
        read=_read_checkpoint_config,
        load=load,
    )


def validate_heartbeat_config(
    props: Props, *, load: ClassLoader = java_class_placeholders.resolve_class
) -> list[ConfigValue]:
    """Validate a heartbeat connector's configuration. Returns all keys with values and errors, for
    `Connector.validate`."""
    return _validate_connector(
        HEARTBEAT_CONFIG_DEF, props, java={}, read=_read_heartbeat_config, load=load
    )


class _ConfigReader:
    """Reads one connector configuration. Collects problems, or raises the first problem if
    `strict`."""

    def __init__(
        self,
        definition: ConfigDef,
        props: Props,
        *,
        strict: bool,
        load: ClassLoader = java_class_placeholders.resolve_class,
    ) -> None:
        """Create a reader. `load` resolves class names; for class names from the configuration
        file, use `java_class_placeholders.import_class`."""
        self.props = props
        self.load = load
        self.values = definition.parse(props, load=load)
        self.errors: KeyErrors = {}
        self._strict = strict
        for key, text in connector_checks.find_refused_keys(props).items():
            self.report_problem(key, text)

    def report_problem(self, key: str, text: str) -> None:
        if self._strict:
            raise ConfigError(text)
        self.errors.setdefault(key, []).append(text)

    def build_value_or_report_problem(self, key: str, build: Callable[[], T], instead: T) -> T:
        """Return the result of `build`. If it raises `ConfigError`, report the error at `key` and
        return `instead`."""
        try:
            return build()
        except ConfigError as error:
            self.report_problem(key, str(error))
            return instead

    def find_faulty_key(self, of_class: str, key: str) -> str:
        """Return the key under which a filter's problem is reported. `of_class` is the key that
        names the filter's class, and is returned for a custom class. `key` is returned for a
        built-in class."""
        return (
            key if java_class_placeholders.get_java_class_name(self.values[of_class]) else of_class
        )

    def read_interval(self, enabled: str, seconds: str) -> float | None:
        """Read an interval in seconds. Returns None (never) if the operation is disabled or the
        interval is negative, as in Java."""
        found: int = self.values[seconds]
        if found == 0 and self.values[enabled]:
            self.report_problem(
                seconds, f"{seconds} is 0: set it to at least 1, or set {enabled}=false"
            )
        return found if self.values[enabled] and found > 0 else None

    def read_replication_factor(self, key: str) -> int:
        """Read a replication factor; -1 means the brokers' default."""
        found: int = self.values[key]
        if found != -1 and not 1 <= found <= 32_767:
            self.report_problem(key, f"{key} is {found}: it must be from 1 to 32767, or -1")
        return found


def _validate_connector(
    definition: ConfigDef,
    props: Props,
    *,
    java: KeyErrors,
    read: Callable[[_ConfigReader], Any],
    load: ClassLoader,
) -> list[ConfigValue]:
    values = connector_checks.validate_keys(definition, props, cross_key_errors=java, load=load)
    if any(value.error_messages for value in values):
        return values
    reading = _ConfigReader(definition, props, strict=False, load=load)
    read(reading)
    return connector_checks.validate_keys(
        definition, props, cross_key_errors=reading.errors, load=load
    )


def _read_common_keys(reading: _ConfigReader) -> MirrorConnectorConfig:
    values = reading.values
    timeout_ms: int = values[mirror_connector_config_keys.ADMIN_TIMEOUT]
    if timeout_ms < 1:
        reading.report_problem(
            mirror_connector_config_keys.ADMIN_TIMEOUT,
            f"{mirror_connector_config_keys.ADMIN_TIMEOUT} is {timeout_ms}: it must be at least 1",
        )
    ends = [
        values[mirror_connector_config_keys.SOURCE_ALIAS] or "",
        values[mirror_connector_config_keys.TARGET_ALIAS] or "",
    ]
    return MirrorConnectorConfig(
        props=reading.props,
        name=(reading.props.get(mirror_connector_config_keys.NAME) or "").strip(),
        enabled=values[mirror_connector_config_keys.ENABLED],
        source=ends[0],
        target=ends[1],
        policy=reading.build_value_or_report_problem(
            mirror_connector_config_keys.POLICY,
            lambda: policy_and_filter_factory.build_replication_policy(reading.props, values),
            Flow(source="", target="").policy,
        ),
        admin_timeout_s=timeout_ms / 1000,
        metric_formats=tuple(values.get(mirror_connector_config_keys.METRIC_FORMATS) or ()),
    )


def _read_syncs_topic(common: MirrorConnectorConfig, values: ParsedConfig) -> OffsetSyncsTopic:
    """Read the location and name of the offset-syncs topic. If the source cluster stores the topic,
    the name contains the alias of the target, and vice versa."""
    on_source = values[mirror_connector_config_keys.SYNCS_TOPIC_LOCATION] == "source"
    other = common.target if on_source else common.source
    return OffsetSyncsTopic(on_source=on_source, name=common.policy.offset_syncs_topic(other))


def _read_source_config(reading: _ConfigReader) -> MirrorSourceConfig:
    values, common = reading.values, _read_common_keys(reading)
    syncs = _read_syncs_topic(common, values)
    reading.build_value_or_report_problem(
        mirror_connector_config_keys.ENGINE,
        lambda: copy_engine_config.parse_engine_settings(reading.props),
        None,
    )
    return MirrorSourceConfig(
        common=common,
        flow=_read_source_flow(reading, common),
        sync_acls_interval_s=reading.read_interval(
            mirror_connector_config_keys.SYNC_ACLS, mirror_connector_config_keys.SYNC_ACLS_S
        ),
        syncs_topic=syncs if values[mirror_connector_config_keys.EMIT_SYNCS] else None,
        syncs_topic_factor=reading.read_replication_factor(
            mirror_connector_config_keys.SYNCS_TOPIC_FACTOR
        ),
        lag_max=values[mirror_connector_config_keys.LAG_MAX],
        paused_topics=frozenset(pause_and_throttle_overrides.list_paused_topics(reading.props)),
        transforms=_read_transforms(reading),
        java_stopped=values[mirror_connector_config_keys.JAVA_STOPPED_CLEANLY],
    )


def _read_transforms(reading: _ConfigReader) -> Props:
    """Read the keys of the transformation chain. Creates a chain once to validate the keys."""
    try:
        made = record_transforms.create_chain(reading.props, load=reading.load)
    except TransformChainError as error:
        reading.report_problem(error.key, str(error))
        return {}
    if made is not None:
        made.close()
    return record_transforms.select_transform_keys(reading.props)


def _read_source_flow(reading: _ConfigReader, common: MirrorConnectorConfig) -> Flow:
    props, values = reading.props, reading.values
    base = Flow(source=common.source, target=common.target)
    return Flow(
        source=common.source,
        target=common.target,
        policy=common.policy,
        topics=_read_topic_filter(reading, base.topics),
        config_filter=reading.build_value_or_report_problem(
            reading.find_faulty_key(
                mirror_connector_config_keys.PROPERTY_FILTER,
                mirror_connector_config_keys.PROPERTIES_EXCLUDE,
            ),
            lambda: policy_and_filter_factory.build_property_filter(props, values),
            base.config_filter,
        ),
        replicate_heartbeats=values[mirror_connector_config_keys.REPLICATE_HEARTBEATS],
        replication_factor=reading.read_replication_factor(
            mirror_connector_config_keys.REPLICATION_FACTOR
        ),
        tasks_max=_read_tasks_max(props),
        start=_read_start_position(reading),
        target_topics=_read_target_topics(common, values),
        refresh_topics_interval_s=reading.read_interval(
            mirror_connector_config_keys.REFRESH_TOPICS,
            mirror_connector_config_keys.REFRESH_TOPICS_S,
        ),
        sync_topic_configs_interval_s=reading.read_interval(
            mirror_connector_config_keys.SYNC_CONFIGS, mirror_connector_config_keys.SYNC_CONFIGS_S
        ),
        admin_timeout_s=common.admin_timeout_s,
        throttles=_read_throttles(reading),
        **mm2_only_keys.build_single_key_flow_fields(lambda key: values[key.name]),
    )


def _read_throttles(reading: _ConfigReader) -> FlowThrottles:
    """Read the flow's throttles. If an operator's limit is invalid, report it and return no
    throttles."""
    wrong = pause_and_throttle_overrides.find_override_problems(reading.props)
    for key, words in wrong.items():
        reading.report_problem(key, words)
    return (
        FlowThrottles()
        if wrong
        else pause_and_throttle_overrides.resolve_throttles(reading.values, reading.props)
    )


def _read_topic_filter(reading: _ConfigReader, base: TopicOrGroupFilter) -> TopicOrGroupFilter:
    """Read the configured topic filter. If it is invalid, report the problem and return the default
    filter `base`."""
    return reading.build_value_or_report_problem(
        reading.find_faulty_key(
            mirror_connector_config_keys.TOPIC_FILTER, mirror_connector_config_keys.TOPICS
        ),
        lambda: policy_and_filter_factory.build_topic_filter(reading.props, reading.values),
        base,
    )


def _read_tasks_max(props: Props) -> int:
    """Parse `tasks.max`, which the worker has already validated."""
    text = (props.get(mirror_connector_config_keys.TASKS_MAX) or "1").strip()
    return int(text) if text.isdecimal() else 1


def _read_start_position(reading: _ConfigReader) -> StartPosition:
    """Read the start position from `start`, or from the source consumer's `auto.offset.reset` if
    `start` is not set."""
    given = reading.values[mm2_only_keys.START.name]
    if given is not None:
        return config_value_types.parse_start_position(given)
    reset = mirror_connector_client_properties.resolve_role_properties(
        reading.props, mirror_connector_client_properties.SOURCE_CONSUMER
    )["auto.offset.reset"].strip()
    if reset not in ("earliest", "latest"):
        reading.report_problem(
            "source.consumer.auto.offset.reset",
            f"auto.offset.reset is {reset}: it must be earliest or latest",
        )
        reset = "earliest"
    return StartPosition(StartPositionKind(reset))


def _read_target_topics(common: MirrorConnectorConfig, values: ParsedConfig) -> TargetTopicAccess:
    given = values[mm2_only_keys.TARGET_TOPICS.name]
    if given is not None:
        return TargetTopicAccess(given)
    renames = common.policy.renames_topics
    return TargetTopicAccess.EXCLUSIVE if renames else TargetTopicAccess.SHARED


def _read_checkpoint_config(reading: _ConfigReader) -> MirrorCheckpointConfig:
    props, values, common = reading.props, reading.values, _read_common_keys(reading)
    base = Flow(source=common.source, target=common.target)
    return MirrorCheckpointConfig(
        common=common,
        flow=Flow(
            source=common.source,
            target=common.target,
            policy=common.policy,
            topics=_read_topic_filter(reading, base.topics),
            groups=reading.build_value_or_report_problem(
                reading.find_faulty_key(
                    mirror_connector_config_keys.GROUP_FILTER, mirror_connector_config_keys.GROUPS
                ),
                lambda: policy_and_filter_factory.build_group_filter(props, values),
                base.groups,
            ),
            tasks_max=_read_tasks_max(props),
            admin_timeout_s=common.admin_timeout_s,
        ),
        syncs_topic=_read_syncs_topic(common, values),
        checkpoints_topic=common.policy.checkpoints_topic(common.source),
        checkpoints_topic_factor=reading.read_replication_factor(
            mirror_connector_config_keys.CHECKPOINTS_FACTOR
        ),
        refresh_groups_interval_s=reading.read_interval(
            mirror_connector_config_keys.REFRESH_GROUPS,
            mirror_connector_config_keys.REFRESH_GROUPS_S,
        ),
        emit_interval_s=reading.read_interval(
            mirror_connector_config_keys.EMIT_CHECKPOINTS,
            mirror_connector_config_keys.EMIT_CHECKPOINTS_S,
        ),
        sync_groups_interval_s=reading.read_interval(
            mirror_connector_config_keys.SYNC_GROUPS, mirror_connector_config_keys.SYNC_GROUPS_S
        ),
    )


def _read_heartbeat_config(reading: _ConfigReader) -> MirrorHeartbeatConfig:
    return MirrorHeartbeatConfig(
        common=_read_common_keys(reading),
        topic_factor=reading.read_replication_factor(
            mirror_connector_config_keys.HEARTBEATS_FACTOR
        ),
        interval_s=reading.read_interval(
            mirror_connector_config_keys.EMIT_HEARTBEATS,
            mirror_connector_config_keys.EMIT_HEARTBEATS_S,
        ),
    )


_LIVE_KEYS = frozenset(
    {
        mm2_only_keys.THROTTLE.name,
        mm2_only_keys.TOPIC_THROTTLES.name,
        mirror_connector_config_keys.JAVA_STOPPED_CLEANLY,
        task_assignment.THROTTLE_KEY,
        task_assignment.TOPIC_THROTTLES_KEY,
        task_assignment.ADDED_PARTITIONS_KEY,
    }
)
"""Keys that a running task applies without a restart, in addition to operator overrides. Two of the
keys, `ADDED_PARTITIONS_KEY` and `JAVA_STOPPED_CLEANLY`, matter only when a task starts."""
_CONNECTOR_ONLY_KEYS = frozenset(
    {
        *(
            mirror_connector_config_keys.TOPICS,
            mirror_connector_config_keys.TOPICS_EXCLUDE,
            mirror_connector_config_keys.TOPIC_FILTER,
        ),
        *(
            mirror_connector_config_keys.PROPERTIES_EXCLUDE,
            mirror_connector_config_keys.PROPERTY_FILTER,
            mirror_connector_config_keys.USE_DEFAULTS_FROM,
        ),
        *(
            mirror_connector_config_keys.REFRESH_TOPICS,
            mirror_connector_config_keys.REFRESH_TOPICS_S,
            mirror_connector_config_keys.TASKS_MAX,
        ),
        *(
            mirror_connector_config_keys.SYNC_CONFIGS,
            mirror_connector_config_keys.SYNC_CONFIGS_S,
            mirror_connector_config_keys.SYNC_ACLS,
            mirror_connector_config_keys.SYNC_ACLS_S,
        ),
        *(
            mirror_connector_config_keys.REPLICATION_FACTOR,
            mirror_connector_config_keys.SYNCS_TOPIC_FACTOR,
        ),
        *(
            mirror_connector_config_keys.ALL_KEYS
            - frozenset(SOURCE_CONFIG_DEF.keys)
            - {mirror_connector_config_keys.NAME, *record_transforms.LIST_KEYS}
        ),
    }
)
"""Keys that only the source connector itself or other connectors use. No task depends on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSourceTaskConfig:
    """Configuration of a task of MirrorSourceConnector."""

    config: MirrorSourceConfig
    partitions: tuple[TopicPartition, ...]
    """The assigned source partitions."""
    added_partitions: frozenset[TopicPartition]
    """Assigned partitions that were added to their topic after the flow was started."""
    throttle: TaskThrottle
    """The task's share of the flow's throttles."""
    task_index: int | None
    """Task number; None if the configuration has none because a Java worker wrote it."""


def parse_source_task_config(props: Mapping[str, str]) -> MirrorSourceTaskConfig:
    """Parse a source task's configuration. Raises `ConfigError` for the first problem."""
    config = parse_source_config(props)
    partitions = tuple(task_assignment.parse_partitions(props))
    if not partitions:
        raise ConfigError(f"{task_assignment.PARTITIONS_KEY} has no partition")
    told = task_assignment.THROTTLE_KEY in props or task_assignment.TOPIC_THROTTLES_KEY in props
    budget = (
        task_assignment.parse_throttle(props)
        if told
        else task_assignment.split_throttles(config.flow.throttles, [partitions])[0]
    )
    return MirrorSourceTaskConfig(
        config=config,
        partitions=partitions,
        added_partitions=task_assignment.parse_added_partitions(props),
        throttle=budget,
        task_index=task_assignment.parse_task_index(props),
    )


def can_reconfigure_live(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return True if a running task can change from the configuration `before` to the configuration
    `after` without a restart."""
    return all(
        before.get(key) == after.get(key)
        for key in before.keys() | after.keys()
        if key not in _LIVE_KEYS
        and key not in _CONNECTOR_ONLY_KEYS
        and not pause_and_throttle_overrides.is_override_key(key)
    )
