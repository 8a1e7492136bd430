"""The configuration of each mirror connector, parsed: what it means, and what cannot be meant.

`validate_*` say everything that is wrong, key by key, for validation; `source`, `checkpoint` and
`heartbeat` parse for running and raise `ConfigError` for the first mistake. Java takes more: what
could only fail later, or would be ignored, is refused here by name (DESIGN.md 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api import config_def, config_types, errors
from mm2.core import filters, flows, naming
from mm2.core.configs import (
    answers,
    checks,
    engine_settings,
    java_classes,
    live,
    own_keys,
    own_values,
    policies,
    roles,
)
from mm2.core.configs import connector_keys as keys
from mm2.core.copy import record_transforms

T = TypeVar("T")
Props = Mapping[str, str]

SOURCE = config_def.ConfigDef(keys.SOURCE)
for _key in own_keys.OWN.keys.values():
    SOURCE.add(_key)
CHECKPOINT = keys.CHECKPOINT
HEARTBEAT = keys.HEARTBEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What all three have. `props`: everything as given, `${…}` resolved; it may hold secrets.

    `metric_formats` has "legacy", "new" or both, and is empty for heartbeats.
    """

    props: Props = field(repr=False)
    name: str
    enabled: bool
    source: str
    target: str
    policy: naming.ReplicationPolicy
    admin_timeout_s: float
    metric_formats: tuple[str, ...]

    def client(self, role: roles.Role, use: str, *, task: int | str | None = None) -> Props:
        """The properties of one client, with Java's `client.id`."""
        label = roles.label(self.source, self.target, self.name, task=task)
        return roles.named(self.props, role, label=label, use=use)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncsTopic:
    """The offset-syncs topic: on the source cluster, or on the target."""

    on_source: bool
    name: str

    @property
    def location(self) -> str:
        return "source" if self.on_source else "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """MirrorSourceConnector. Intervals are seconds; None means never.

    `syncs_topic` None: no offset syncs are written. `lag_max` is `offset.lag.max`. Of topics in
    `paused` nothing is copied for now; the flow's budgets are those in force, an operator's
    first. `transforms` are the keys of the records' chain, if there is one
    (`record_transforms`). `java_stopped`: nothing of Java's is waited for.
    """

    common: Common
    flow: flows.Flow
    sync_acls_interval_s: float | None
    syncs_topic: SyncsTopic | None
    syncs_topic_factor: int
    lag_max: int
    paused: frozenset[str] = frozenset()
    transforms: Props = field(default_factory=dict, repr=False)
    java_stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """MirrorCheckpointConnector. `flow` has its filters; intervals are seconds, None: never."""

    common: Common
    flow: flows.Flow
    syncs_topic: SyncsTopic
    checkpoints_topic: str
    checkpoints_topic_factor: int
    refresh_groups_interval_s: float | None
    emit_interval_s: float | None
    sync_groups_interval_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatConfig:
    """MirrorHeartbeatConnector. `interval_s` None: none are written."""

    common: Common
    topic_factor: int
    interval_s: float | None


def source(props: Props) -> SourceConfig:
    """Raises `ConfigError`."""
    return _source(_Reading(SOURCE, props, strict=True))


def checkpoint(props: Props) -> CheckpointConfig:
    """Raises `ConfigError`."""
    return _checkpoint(_Reading(CHECKPOINT, props, strict=True))


def heartbeat(props: Props) -> HeartbeatConfig:
    """Raises `ConfigError`."""
    return _heartbeat(_Reading(HEARTBEAT, props, strict=True))


def validate_source(
    props: Props, *, load: config_types.LoadClass = java_classes.load
) -> list[config_def.ConfigValue]:
    """For `Connector.validate`."""
    return _validate(SOURCE, props, java=checks.source(props), read=_source, load=load)


def validate_checkpoint(
    props: Props, *, load: config_types.LoadClass = java_classes.load
) -> list[config_def.ConfigValue]:
    """For `Connector.validate`."""
    return _validate(CHECKPOINT, props, java=checks.checkpoint(props), read=_checkpoint, load=load)


def validate_heartbeat(
    props: Props, *, load: config_types.LoadClass = java_classes.load
) -> list[config_def.ConfigValue]:
    """For `Connector.validate`."""
    return _validate(HEARTBEAT, props, java={}, read=_heartbeat, load=load)


class _Reading:
    """One configuration being read; mistakes are noted, or raised at once if `strict`."""

    def __init__(
        self,
        definition: config_def.ConfigDef,
        props: Props,
        *,
        strict: bool,
        load: config_types.LoadClass = java_classes.load,
    ) -> None:
        """`load`: finds the user's own classes; `load_and_import` for an operator's file."""
        self.props = props
        self.load = load
        self.values = definition.parse(props, load=load)
        self.errors: checks.Errors = {}
        self._strict = strict
        for key, text in answers.refusals(props).items():
            self.note(key, text)

    def note(self, key: str, text: str) -> None:
        if self._strict:
            raise errors.ConfigError(text)
        self.errors.setdefault(key, []).append(text)

    def attempt(self, key: str, made: Callable[[], T], instead: T) -> T:
        """What `made` gives; after a ConfigError, which is noted at `key`, something else."""
        try:
            return made()
        except errors.ConfigError as error:
            self.note(key, str(error))
            return instead

    def blamed(self, of_class: str, key: str) -> str:
        """The key with the class where that is the user's, else the one that the shipped class is
        made with."""
        return key if java_classes.java_name(self.values[of_class]) else of_class

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


def _validate(
    definition: config_def.ConfigDef,
    props: Props,
    *,
    java: checks.Errors,
    read: Callable[[_Reading], Any],
    load: config_types.LoadClass,
) -> list[config_def.ConfigValue]:
    values = checks.validate(definition, props, across=java, load=load)
    if any(value.error_messages for value in values):
        return values
    reading = _Reading(definition, props, strict=False, load=load)
    read(reading)
    return checks.validate(definition, props, across=reading.errors, load=load)


def _common(reading: _Reading) -> Common:
    values = reading.values
    timeout_ms: int = values[keys.ADMIN_TIMEOUT]
    if timeout_ms < 1:
        reading.note(keys.ADMIN_TIMEOUT, f"{keys.ADMIN_TIMEOUT} is {timeout_ms}: at least 1")
    ends = [values[keys.SOURCE_ALIAS] or "", values[keys.TARGET_ALIAS] or ""]
    return Common(
        props=reading.props,
        name=(reading.props.get(keys.NAME) or "").strip(),
        enabled=values[keys.ENABLED],
        source=ends[0],
        target=ends[1],
        policy=reading.attempt(
            keys.POLICY,
            lambda: policies.policy(reading.props, values),
            flows.Flow(source="", target="").policy,
        ),
        admin_timeout_s=timeout_ms / 1000,
        metric_formats=tuple(values.get(keys.METRIC_FORMATS) or ()),
    )


def _syncs_topic(common: Common, values: policies.Parsed) -> SyncsTopic:
    """Its name has the alias of the cluster that it is not on."""
    on_source = values[keys.SYNCS_TOPIC_LOCATION] == "source"
    other = common.target if on_source else common.source
    return SyncsTopic(on_source=on_source, name=common.policy.offset_syncs_topic(other))


def _source(reading: _Reading) -> SourceConfig:
    values, common = reading.values, _common(reading)
    syncs = _syncs_topic(common, values)
    reading.attempt(own_keys.ENGINE, lambda: engine_settings.read(reading.props), None)
    return SourceConfig(
        common=common,
        flow=_source_flow(reading, common),
        sync_acls_interval_s=reading.interval(keys.SYNC_ACLS, keys.SYNC_ACLS_S),
        syncs_topic=syncs if values[keys.EMIT_SYNCS] else None,
        syncs_topic_factor=reading.factor(keys.SYNCS_TOPIC_FACTOR),
        lag_max=values[keys.LAG_MAX],
        paused=frozenset(live.paused(reading.props)),
        transforms=_transforms(reading),
        java_stopped=values[own_keys.JAVA_STOPPED],
    )


def _transforms(reading: _Reading) -> Props:
    """A chain is made here only to see that it can be."""
    try:
        made = record_transforms.chain(reading.props, load=reading.load)
    except record_transforms.ChainError as error:
        reading.note(error.key, str(error))
        return {}
    if made is not None:
        made.close()
    return record_transforms.settings(reading.props)


def _source_flow(reading: _Reading, common: Common) -> flows.Flow:
    props, values = reading.props, reading.values
    base = flows.Flow(source=common.source, target=common.target)
    return flows.Flow(
        source=common.source,
        target=common.target,
        policy=common.policy,
        topics=_topics(reading, base.topics),
        properties=reading.attempt(
            reading.blamed(keys.PROPERTY_FILTER, keys.PROPERTIES_EXCLUDE),
            lambda: policies.properties(props, values),
            base.properties,
        ),
        replicate_heartbeats=values[keys.REPLICATE_HEARTBEATS],
        replication_factor=reading.factor(keys.REPLICATION_FACTOR),
        tasks_max=_tasks_max(props),
        start=_start(reading),
        target_topics=_target_topics(common, values),
        delivery=flows.Delivery(values[own_keys.DELIVERY]),
        on_source_gap=flows.OnSourceGap(values[own_keys.ON_SOURCE_GAP]),
        refresh_topics_interval_s=reading.interval(keys.REFRESH_TOPICS, keys.REFRESH_TOPICS_S),
        sync_topic_configs_interval_s=reading.interval(keys.SYNC_CONFIGS, keys.SYNC_CONFIGS_S),
        admin_timeout_s=common.admin_timeout_s,
        buffer_bytes=values[own_keys.BUFFER_MEMORY],
        map_bytes=values[own_keys.OFFSET_MAP_BYTES],
        unreachable_after_s=values[own_keys.UNREACHABLE_AFTER],
        budgets=_budgets(reading),
    )


def _budgets(reading: _Reading) -> flows.Budgets:
    """None where it is noted what is wrong with an operator's limit."""
    wrong = live.mistakes(reading.props)
    for key, words in wrong.items():
        reading.note(key, words)
    return flows.Budgets() if wrong else live.budgets(reading.values, reading.props)


def _topics(reading: _Reading, base: filters.Names) -> filters.Names:
    """`base` where it is noted why there is no filter."""
    return reading.attempt(
        reading.blamed(keys.TOPIC_FILTER, keys.TOPICS),
        lambda: policies.topics(reading.props, reading.values),
        base,
    )


def _tasks_max(props: Props) -> int:
    """The worker has checked it."""
    text = (props.get(keys.TASKS_MAX) or "1").strip()
    return int(text) if text.isdecimal() else 1


def _start(reading: _Reading) -> flows.StartPosition:
    """Without `start`, as `auto.offset.reset` of the reading client says."""
    given = reading.values[own_keys.START]
    if given is not None:
        return own_values.read_start(given)
    reset = roles.properties(reading.props, roles.SOURCE_CONSUMER)["auto.offset.reset"].strip()
    if reset not in ("earliest", "latest"):
        reading.note(
            "source.consumer.auto.offset.reset",
            f"auto.offset.reset is {reset}: it has to be earliest or latest",
        )
        reset = "earliest"
    return flows.StartPosition(flows.StartAt(reset))


def _target_topics(common: Common, values: policies.Parsed) -> flows.TargetTopics:
    given = values[own_keys.TARGET_TOPICS]
    if given is not None:
        return flows.TargetTopics(given)
    renames = common.policy.renames_topics
    return flows.TargetTopics.EXCLUSIVE if renames else flows.TargetTopics.SHARED


def _checkpoint(reading: _Reading) -> CheckpointConfig:
    props, values, common = reading.props, reading.values, _common(reading)
    base = flows.Flow(source=common.source, target=common.target)
    return CheckpointConfig(
        common=common,
        flow=flows.Flow(
            source=common.source,
            target=common.target,
            policy=common.policy,
            topics=_topics(reading, base.topics),
            groups=reading.attempt(
                reading.blamed(keys.GROUP_FILTER, keys.GROUPS),
                lambda: policies.groups(props, values),
                base.groups,
            ),
            tasks_max=_tasks_max(props),
            admin_timeout_s=common.admin_timeout_s,
        ),
        syncs_topic=_syncs_topic(common, values),
        checkpoints_topic=common.policy.checkpoints_topic(common.source),
        checkpoints_topic_factor=reading.factor(keys.CHECKPOINTS_FACTOR),
        refresh_groups_interval_s=reading.interval(keys.REFRESH_GROUPS, keys.REFRESH_GROUPS_S),
        emit_interval_s=reading.interval(keys.EMIT_CHECKPOINTS, keys.EMIT_CHECKPOINTS_S),
        sync_groups_interval_s=reading.interval(keys.SYNC_GROUPS, keys.SYNC_GROUPS_S),
    )


def _heartbeat(reading: _Reading) -> HeartbeatConfig:
    return HeartbeatConfig(
        common=_common(reading),
        topic_factor=reading.factor(keys.HEARTBEATS_FACTOR),
        interval_s=reading.interval(keys.EMIT_HEARTBEATS, keys.EMIT_HEARTBEATS_S),
    )
