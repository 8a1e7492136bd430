"""Parsed configuration of each mirror connector and of a source task.

`validate_*` return every problem, key by key; `parse_*` raise `ConfigError` for the first.
What Java accepts but could only fail later, or would be ignored, is refused here by name.
`can_reconfigure_live` says which changes a running task takes without a restart.
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
    client_roles,
    connector_checks,
    engine_config,
    java_classes,
    keys,
    operator_overrides,
    policy_classes,
    value_types,
)
from mm2.config.client_roles import ClientRole
from mm2.config.connector_checks import KeyErrors
from mm2.config.policy_classes import ParsedConfig
from mm2.replication import record_transforms
from mm2.replication.record_transforms import TransformChainError
from mm2.topics import assignment
from mm2.topics.assignment import TaskThrottle
from mm2.topics.filters import TopicOrGroupFilter
from mm2.topics.flow_config import (
    DeliveryMode,
    Flow,
    FlowThrottles,
    OnSourceGap,
    StartAt,
    StartPosition,
    TargetTopicAccess,
)
from mm2.topics.naming import ReplicationPolicy

T = TypeVar("T")
Props = Mapping[str, str]

SOURCE_CONFIG_DEF = ConfigDef(keys.SOURCE_KEYS)
for _key in keys.EXTENSION_KEYS.keys.values():
    SOURCE_CONFIG_DEF.add(_key)
CHECKPOINT_CONFIG_DEF = keys.CHECKPOINT_KEYS
HEARTBEAT_CONFIG_DEF = keys.HEARTBEAT_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConnectorConfig:
    """What all three have. `props`: everything as given, `${…}` resolved; it may hold secrets.

    `metric_formats` has "legacy", "new" or both, and is empty for heartbeats.
    """

    props: Props = field(repr=False)
    name: str
    enabled: bool
    source: str
    target: str
    policy: ReplicationPolicy
    admin_timeout_s: float
    metric_formats: tuple[str, ...]

    def client(self, role: ClientRole, use: str, *, task: int | str | None = None) -> Props:
        """The properties of one client, with Java's `client.id`."""
        label = client_roles.format_client_label(self.source, self.target, self.name, task=task)
        return client_roles.resolve_with_client_id(self.props, role, label=label, use=use)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsTopic:
    """The offset-syncs topic: on the source cluster, or on the target."""

    on_source: bool
    name: str

    @property
    def location(self) -> str:
        return "source" if self.on_source else "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSourceConfig:
    """MirrorSourceConnector. Intervals are seconds; None means never.

    `syncs_topic` None: no offset syncs are written. `lag_max` is `offset.lag.max`. Of topics in
    `paused` nothing is copied for now; the flow's budgets are those in force, an operator's
    first. `transforms` are the keys of the records' chain, if there is one
    (`record_transforms`). `java_stopped`: nothing of Java's is waited for.
    """

    common: MirrorConnectorConfig
    flow: Flow
    sync_acls_interval_s: float | None
    syncs_topic: OffsetSyncsTopic | None
    syncs_topic_factor: int
    lag_max: int
    paused: frozenset[str] = frozenset()
    transforms: Props = field(default_factory=dict, repr=False)
    java_stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCheckpointConfig:
    """MirrorCheckpointConnector. `flow` has its filters; intervals are seconds, None: never."""

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
    """MirrorHeartbeatConnector. `interval_s` None: none are written."""

    common: MirrorConnectorConfig
    topic_factor: int
    interval_s: float | None


def parse_source(props: Props) -> MirrorSourceConfig:
    """Raises `ConfigError`."""
    return _read_source(_ConfigReader(SOURCE_CONFIG_DEF, props, strict=True))


def parse_checkpoint(props: Props) -> MirrorCheckpointConfig:
    """Raises `ConfigError`."""
    return _read_checkpoint(_ConfigReader(CHECKPOINT_CONFIG_DEF, props, strict=True))


def parse_heartbeat(props: Props) -> MirrorHeartbeatConfig:
    """Raises `ConfigError`."""
    return _read_heartbeat(_ConfigReader(HEARTBEAT_CONFIG_DEF, props, strict=True))


def validate_source(
    props: Props, *, load: ClassLoader = java_classes.resolve_class
) -> list[ConfigValue]:
    """For `Connector.validate`."""
    return _validate_connector(
        SOURCE_CONFIG_DEF,
        props,
        java=connector_checks.check_source(props),
        read=_read_source,
        load=load,
    )


def validate_checkpoint(
    props: Props, *, load: ClassLoader = java_classes.resolve_class
) -> list[ConfigValue]:
    """For `Connector.validate`."""
    return _validate_connector(
        CHECKPOINT_CONFIG_DEF,
        props,
        java=connector_checks.check_checkpoint(props),
        read=_read_checkpoint,
        load=load,
    )


def validate_heartbeat(
    props: Props, *, load: ClassLoader = java_classes.resolve_class
) -> list[ConfigValue]:
    """For `Connector.validate`."""
    return _validate_connector(
        HEARTBEAT_CONFIG_DEF, props, java={}, read=_read_heartbeat, load=load
    )


class _ConfigReader:
    """One configuration being read; mistakes are noted, or raised at once if `strict`."""

    def __init__(
        self,
        definition: ConfigDef,
        props: Props,
        *,
        strict: bool,
        load: ClassLoader = java_classes.resolve_class,
    ) -> None:
        """`load`: finds the user's own classes; `load_and_import` for an operator's file."""
        self.props = props
        self.load = load
        self.values = definition.parse(props, load=load)
        self.errors: KeyErrors = {}
        self._strict = strict
        for key, text in connector_checks.find_refused_keys(props).items():
            self.note(key, text)

    def note(self, key: str, text: str) -> None:
        if self._strict:
            raise ConfigError(text)
        self.errors.setdefault(key, []).append(text)

    def attempt(self, key: str, made: Callable[[], T], instead: T) -> T:
        """What `made` gives; after a ConfigError, which is noted at `key`, something else."""
        try:
            return made()
        except ConfigError as error:
            self.note(key, str(error))
            return instead

    def blamed(self, of_class: str, key: str) -> str:
        """The key with the class where that is the user's, else the one that the shipped class is
        made with."""
        return key if java_classes.get_java_name(self.values[of_class]) else of_class

    def interval(self, enabled: str, seconds: str) -> float | None:
        """None: never, which a negative number says in Java."""
        found: int = self.values[seconds]
        if found == 0 and self.values[enabled]:
            self.note(seconds, f"{seconds} is 0: write 1 at least, or {enabled}=false")
        return found if self.values[enabled] and found > 0 else None

    def factor(self, key: str) -> int:
        """Of replicas; -1 leaves it to the brokers."""
        found: int = self.values[key]
        if found != -1 and not 1 <= found <= 32_767:
            self.note(key, f"{key} is {found}: it has to be from 1 to 32767, or -1")
        return found


def _validate_connector(
    definition: ConfigDef,
    props: Props,
    *,
    java: KeyErrors,
    read: Callable[[_ConfigReader], Any],
    load: ClassLoader,
) -> list[ConfigValue]:
    values = connector_checks.validate_keys(definition, props, across=java, load=load)
    if any(value.error_messages for value in values):
        return values
    reading = _ConfigReader(definition, props, strict=False, load=load)
    read(reading)
    return connector_checks.validate_keys(definition, props, across=reading.errors, load=load)


def _read_common(reading: _ConfigReader) -> MirrorConnectorConfig:
    values = reading.values
    timeout_ms: int = values[keys.ADMIN_TIMEOUT]
    if timeout_ms < 1:
        reading.note(keys.ADMIN_TIMEOUT, f"{keys.ADMIN_TIMEOUT} is {timeout_ms}: at least 1")
    ends = [values[keys.SOURCE_ALIAS] or "", values[keys.TARGET_ALIAS] or ""]
    return MirrorConnectorConfig(
        props=reading.props,
        name=(reading.props.get(keys.NAME) or "").strip(),
        enabled=values[keys.ENABLED],
        source=ends[0],
        target=ends[1],
        policy=reading.attempt(
            keys.POLICY,
            lambda: policy_classes.build_policy(reading.props, values),
            Flow(source="", target="").policy,
        ),
        admin_timeout_s=timeout_ms / 1000,
        metric_formats=tuple(values.get(keys.METRIC_FORMATS) or ()),
    )


def _read_syncs_topic(common: MirrorConnectorConfig, values: ParsedConfig) -> OffsetSyncsTopic:
    """Its name has the alias of the cluster that it is not on."""
    on_source = values[keys.SYNCS_TOPIC_LOCATION] == "source"
    other = common.target if on_source else common.source
    return OffsetSyncsTopic(on_source=on_source, name=common.policy.offset_syncs_topic(other))


def _read_source(reading: _ConfigReader) -> MirrorSourceConfig:
    values, common = reading.values, _read_common(reading)
    syncs = _read_syncs_topic(common, values)
    reading.attempt(keys.ENGINE, lambda: engine_config.parse_engine_settings(reading.props), None)
    return MirrorSourceConfig(
        common=common,
        flow=_read_source_flow(reading, common),
        sync_acls_interval_s=reading.interval(keys.SYNC_ACLS, keys.SYNC_ACLS_S),
        syncs_topic=syncs if values[keys.EMIT_SYNCS] else None,
        syncs_topic_factor=reading.factor(keys.SYNCS_TOPIC_FACTOR),
        lag_max=values[keys.LAG_MAX],
        paused=frozenset(operator_overrides.list_paused_topics(reading.props)),
        transforms=_read_transforms(reading),
        java_stopped=values[keys.JAVA_STOPPED_CLEANLY],
    )


def _read_transforms(reading: _ConfigReader) -> Props:
    """A chain is made here only to see that it can be."""
    try:
        made = record_transforms.create_chain(reading.props, load=reading.load)
    except TransformChainError as error:
        reading.note(error.key, str(error))
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
        properties=reading.attempt(
            reading.blamed(keys.PROPERTY_FILTER, keys.PROPERTIES_EXCLUDE),
            lambda: policy_classes.build_property_filter(props, values),
            base.properties,
        ),
        replicate_heartbeats=values[keys.REPLICATE_HEARTBEATS],
        replication_factor=reading.factor(keys.REPLICATION_FACTOR),
        tasks_max=_read_tasks_max(props),
        start=_read_start(reading),
        target_topics=_read_target_topics(common, values),
        delivery=DeliveryMode(values[keys.DELIVERY]),
        on_source_gap=OnSourceGap(values[keys.ON_SOURCE_GAP]),
        refresh_topics_interval_s=reading.interval(keys.REFRESH_TOPICS, keys.REFRESH_TOPICS_S),
        sync_topic_configs_interval_s=reading.interval(keys.SYNC_CONFIGS, keys.SYNC_CONFIGS_S),
        admin_timeout_s=common.admin_timeout_s,
        buffer_bytes=values[keys.BUFFER_MEMORY],
        map_bytes=values[keys.OFFSET_MAP_BYTES],
        unreachable_after_s=values[keys.UNREACHABLE_AFTER],
        budgets=_read_budgets(reading),
    )


def _read_budgets(reading: _ConfigReader) -> FlowThrottles:
    """None where it is noted what is wrong with an operator's limit."""
    wrong = operator_overrides.find_problems(reading.props)
    for key, words in wrong.items():
        reading.note(key, words)
    return (
        FlowThrottles()
        if wrong
        else operator_overrides.resolve_budgets(reading.values, reading.props)
    )


def _read_topic_filter(reading: _ConfigReader, base: TopicOrGroupFilter) -> TopicOrGroupFilter:
    """`base` where it is noted why there is no filter."""
    return reading.attempt(
        reading.blamed(keys.TOPIC_FILTER, keys.TOPICS),
        lambda: policy_classes.build_topic_filter(reading.props, reading.values),
        base,
    )


def _read_tasks_max(props: Props) -> int:
    """The worker has checked it."""
    text = (props.get(keys.TASKS_MAX) or "1").strip()
    return int(text) if text.isdecimal() else 1


def _read_start(reading: _ConfigReader) -> StartPosition:
    """Without `start`, as `auto.offset.reset` of the reading client says."""
    given = reading.values[keys.START]
    if given is not None:
        return value_types.parse_start_position(given)
    reset = client_roles.resolve_properties(reading.props, client_roles.SOURCE_CONSUMER)[
        "auto.offset.reset"
    ].strip()
    if reset not in ("earliest", "latest"):
        reading.note(
            "source.consumer.auto.offset.reset",
            f"auto.offset.reset is {reset}: it has to be earliest or latest",
        )
        reset = "earliest"
    return StartPosition(StartAt(reset))


def _read_target_topics(common: MirrorConnectorConfig, values: ParsedConfig) -> TargetTopicAccess:
    given = values[keys.TARGET_TOPICS]
    if given is not None:
        return TargetTopicAccess(given)
    renames = common.policy.renames_topics
    return TargetTopicAccess.EXCLUSIVE if renames else TargetTopicAccess.SHARED


def _read_checkpoint(reading: _ConfigReader) -> MirrorCheckpointConfig:
    props, values, common = reading.props, reading.values, _read_common(reading)
    base = Flow(source=common.source, target=common.target)
    return MirrorCheckpointConfig(
        common=common,
        flow=Flow(
            source=common.source,
            target=common.target,
            policy=common.policy,
            topics=_read_topic_filter(reading, base.topics),
            groups=reading.attempt(
                reading.blamed(keys.GROUP_FILTER, keys.GROUPS),
                lambda: policy_classes.build_group_filter(props, values),
                base.groups,
            ),
            tasks_max=_read_tasks_max(props),
            admin_timeout_s=common.admin_timeout_s,
        ),
        syncs_topic=_read_syncs_topic(common, values),
        checkpoints_topic=common.policy.checkpoints_topic(common.source),
        checkpoints_topic_factor=reading.factor(keys.CHECKPOINTS_FACTOR),
        refresh_groups_interval_s=reading.interval(keys.REFRESH_GROUPS, keys.REFRESH_GROUPS_S),
        emit_interval_s=reading.interval(keys.EMIT_CHECKPOINTS, keys.EMIT_CHECKPOINTS_S),
        sync_groups_interval_s=reading.interval(keys.SYNC_GROUPS, keys.SYNC_GROUPS_S),
    )


def _read_heartbeat(reading: _ConfigReader) -> MirrorHeartbeatConfig:
    return MirrorHeartbeatConfig(
        common=_read_common(reading),
        topic_factor=reading.factor(keys.HEARTBEATS_FACTOR),
        interval_s=reading.interval(keys.EMIT_HEARTBEATS, keys.EMIT_HEARTBEATS_S),
    )


_LIVE_KEYS = frozenset(
    {
        keys.THROTTLE,
        keys.TOPIC_THROTTLES,
        keys.JAVA_STOPPED_CLEANLY,
        assignment.THROTTLE_KEY,
        assignment.TOPIC_THROTTLES_KEY,
        assignment.ADDED_PARTITIONS_KEY,
    }
)
"""What a task can take up as it copies, beside what operators set; `ADDED` and `JAVA_STOPPED`
matter before it began only."""
_CONNECTOR_ONLY_KEYS = frozenset(
    {
        *(keys.TOPICS, keys.TOPICS_EXCLUDE, keys.TOPIC_FILTER),
        *(keys.PROPERTIES_EXCLUDE, keys.PROPERTY_FILTER, keys.USE_DEFAULTS_FROM),
        *(keys.REFRESH_TOPICS, keys.REFRESH_TOPICS_S, keys.TASKS_MAX),
        *(keys.SYNC_CONFIGS, keys.SYNC_CONFIGS_S, keys.SYNC_ACLS, keys.SYNC_ACLS_S),
        *(keys.REPLICATION_FACTOR, keys.SYNCS_TOPIC_FACTOR),
        *(
            keys.ALL_KEYS
            - frozenset(SOURCE_CONFIG_DEF.keys)
            - {keys.NAME, *record_transforms.LIST_KEYS}
        ),
    }
)
"""What the connector alone acts on, and other connectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSourceTaskConfig:
    """`partitions` of the source, of which `added` came to the flow later; `budget` is the task's
    part of the flow's. `number` is None where whoever wrote the configuration gave none."""

    config: MirrorSourceConfig
    partitions: tuple[TopicPartition, ...]
    added: frozenset[TopicPartition]
    budget: TaskThrottle
    number: int | None


def parse_source_task(props: Mapping[str, str]) -> MirrorSourceTaskConfig:
    """Raises `ConfigError`."""
    config = parse_source(props)
    partitions = tuple(assignment.parse_partitions(props))
    if not partitions:
        raise ConfigError(f"{assignment.PARTITIONS_KEY} names no partition")
    told = assignment.THROTTLE_KEY in props or assignment.TOPIC_THROTTLES_KEY in props
    budget = (
        assignment.parse_throttle(props)
        if told
        else assignment.split_throttles(config.flow.budgets, [partitions])[0]
    )
    return MirrorSourceTaskConfig(
        config=config,
        partitions=partitions,
        added=assignment.parse_added_partitions(props),
        budget=budget,
        number=assignment.parse_task_index(props),
    )


def can_reconfigure_live(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """May a task that runs with `before` go on with `after`?"""
    return all(
        before.get(key) == after.get(key)
        for key in before.keys() | after.keys()
        if key not in _LIVE_KEYS
        and key not in _CONNECTOR_ONLY_KEYS
        and not operator_overrides.is_override_key(key)
    )
