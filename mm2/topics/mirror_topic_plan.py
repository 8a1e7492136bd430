"""Plans the changes that mirror topics need on the target: create topics, add partitions, alter
configs.

Rules follow `MirrorSourceConnector`, with two exceptions: timestamp bounds are always unlimited on
mirror topics and never copied from the source, and settings that are already correct are not
changed. A plan made after all changes were applied contains no changes, only the findings that
remain.
"""

from __future__ import annotations

import enum
import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import plurals
from mm2 import suggested_commands
from mm2.suggested_commands import OperatorCommands
from mm2.topics import replication_policy, topic_selection
from mm2.topics.flow_config import Flow


class ConfigEntrySource(enum.Enum):
    """Origin of a config value (DescribeConfigs, `ConfigEntry.ConfigSource`)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config of one topic from DescribeConfigs; `value` is None if it is sensitive."""

    value: str | None = field(repr=False)
    source: ConfigEntrySource = ConfigEntrySource.TOPIC
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic as observed on a cluster."""

    name: str
    partitions: int
    topic_id: uuid.UUID | None = None
    """Topic id; None on brokers before 2.8."""
    configs: Mapping[str, ConfigEntry] | None = field(default_factory=dict)
    """Topic configs by name; None if mm2 is not authorized to read them."""

    def get_config(self, name: str) -> str | None:
        """Return the effective value of a topic config, whether set on the topic or inherited; None
        if unknown."""
        entry = None if self.configs is None else self.configs.get(name)
        return None if entry is None else entry.value

    def is_overridden(self, name: str) -> bool:
        """Return whether the config is set on the topic itself."""
        entry = None if self.configs is None else self.configs.get(name)
        return entry is not None and entry.source is ConfigEntrySource.TOPIC


TIMESTAMP_BOUND_CONFIGS = (
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
)
"""Configs that limit by how much a record's timestamp may differ from the broker's clock. The first
two exist since Kafka 3.6 (KIP-937), the last one until 3.9."""

UNSYNCED_CONFIGS = (*TIMESTAMP_BOUND_CONFIGS, "message.format.version")
"""Configs that are never synced. Mirror topics have their own timestamp bounds, and message formats
before v2 have no transaction markers."""

BROKER_CONFIG_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    **{name: f"log.{name}" for name in TIMESTAMP_BOUND_CONFIGS},
}
"""Maps each topic config that planning needs to the broker config that provides its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSnapshot:
    """Topics of one cluster by name."""

    topics: Mapping[str, ObservedTopic]
    default_configs: Mapping[str, str] | None = None
    """Configs of a new topic without overrides, by topic config name. Contains those of
    `BROKER_CONFIG_NAMES` that the brokers have; None if not authorized."""
    config_names: Collection[str] | None = None
    """Names of all topic configs of the cluster's release; None if unknown."""

    def has_config(self, name: str) -> bool:
        """Return whether this cluster supports the topic config; True if that is unknown."""
        return self.config_names is None or name in self.config_names

    def list_timestamp_bound_configs(self) -> tuple[str, ...]:
        """Return the timestamp bounds (`TIMESTAMP_BOUND_CONFIGS`) that the brokers support. If
        unknown, return those of current Kafka releases."""
        known: Collection[str] = self.default_configs or self.config_names or ()
        for name in sorted(self.topics):
            configs = self.topics[name].configs
            if known:
                break
            known = configs or ()
        bounds = tuple(name for name in TIMESTAMP_BOUND_CONFIGS if name in known)
        return bounds or TIMESTAMP_BOUND_CONFIGS[:2]


def derive_topic_defaults(broker_configs: Mapping[str, str | None] | None) -> dict[str, str] | None:
    """Convert a broker's configs to the effective configs of a topic without overrides. Returns
    None if `broker_configs` is None."""
    if broker_configs is None:
        return None
    found = {topic: broker_configs.get(broker) for topic, broker in BROKER_CONFIG_NAMES.items()}
    return {name: value for name, value in found.items() if value is not None}


MIRROR_PARTITIONS_MAX = 20_000
"""Maximum number of partitions of a mirrored topic. A source with a wrong or malicious partition
count would otherwise exhaust the target's brokers."""
UNLIMITED_TIMESTAMP_MS = str(2**63 - 1)

_COMPRESSION_TYPE = "compression.type"
_CLEANUP_POLICY = "cleanup.policy"
_MAX_MESSAGE_BYTES = "max.message.bytes"
_TIMESTAMP_TYPE = "message.timestamp.type"
_INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,19}")
_SHOWN_VALUE_LENGTH = 20


class MirrorFindingSeverity(enum.Enum):
    """Severity of a problem with mirroring a topic."""

    STOP = "stop"
    """The topic must not be replicated in its current state."""
    WARN = "warn"
    """Replication may fail later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMirrorTopic:
    """Planned creation of a mirror topic. `configs` are sorted by name."""

    topic: str
    name: str
    partitions: int
    replication_factor: int | None
    """Replication factor of the topic; None uses the brokers' default."""
    configs: Mapping[str, str]

    def __str__(self) -> str:
        copies = self.replication_factor or "the broker default"
        count = plurals.format_count(self.partitions, "partition")
        line = f"create {self.name}: {count}, replication factor {copies}"
        return ", ".join([line, *(f"{key}={value}" for key, value in self.configs.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMirrorPartitions:
    """Planned addition of partitions to a mirror topic."""

    topic: str
    name: str
    partitions_now: int
    partitions: int

    def __str__(self) -> str:
        return f"add partitions to {self.name}: from {self.partitions_now} to {self.partitions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMirrorConfigs:
    """Planned config overrides to set and to remove on an existing mirror topic, sorted by name."""

    topic: str
    name: str
    set: Mapping[str, str]
    delete: tuple[str, ...]

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.set.items()]
        return f"alter {self.name}: " + ", ".join(words + [f"remove {key}" for key in self.delete])


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicFinding:
    """A problem with mirroring `topic` to `target_topic`, and its remedy."""

    topic: str
    target_topic: str
    setting: str
    severity: MirrorFindingSeverity
    problem: str
    remedy: str
    command: str = ""
    """Command that applies the remedy; "" if there is none."""

    def __str__(self) -> str:
        return (
            f"{self.severity.value} {self.topic} -> {self.target_topic}: "
            f"{self.problem}; {self.remedy}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicPlan:
    """Changes and findings, each sorted by source topic."""

    create: tuple[CreateMirrorTopic, ...] = ()
    add_partitions: tuple[AddMirrorPartitions, ...] = ()
    alter: tuple[AlterMirrorConfigs, ...] = ()
    findings: tuple[MirrorTopicFinding, ...] = ()

    def list_stopped_topics(self) -> frozenset[str]:
        """Return the source topics that must not be replicated in their present state."""
        return frozenset(
            item.topic for item in self.findings if item.severity is MirrorFindingSeverity.STOP
        )

    def __str__(self) -> str:
        return "\n".join(
            str(item)
            for part in (self.create, self.add_partitions, self.alter, self.findings)
            for item in part
        )


def plan_mirror_topics(
    flow: Flow,
    source: TopicsSnapshot,
    target: TopicsSnapshot,
    *,
    sync_configs: bool,
    operator: OperatorCommands = suggested_commands.GENERIC_COMMANDS,
) -> MirrorTopicPlan:
    """Plan the changes of mirror topics by comparing the topics that the flow mirrors with the
    topics of the target.

    If `sync_configs` is True, all config changes of existing topics are planned; the caller passes
    True every `sync.topic.configs.interval.seconds`. If it is False and the flow syncs topic
    configs, only the changes that a topic needs in order to be replicated are planned. New topics
    are always created with the source's configs. `operator` builds the remedy commands of the
    findings.
    """
    create: list[CreateMirrorTopic] = []
    grow: list[AddMirrorPartitions] = []
    alter: list[AlterMirrorConfigs] = []
    findings: list[MirrorTopicFinding] = []
    for name in sorted(source.topics):
        if not topic_selection.should_replicate_topic(flow, name):
            continue
        pair = _MirrorPair(
            flow, source.topics[name], flow.format_remote_topic(name), target, operator
        )
        mirror = pair.mirror
        if mirror is None:
            create.append(pair.plan_creation())
        elif mirror.partitions < pair.topic.partitions <= MIRROR_PARTITIONS_MAX:
            grow.append(pair.plan_partition_increase(mirror))
        change = pair.plan_config_changes(mirror) if mirror is not None else None
        if not sync_configs and not (
            flow.syncs_topic_configs and pair.is_unblocked_by_config_change(change)
        ):
            change = None
        if change is not None:
            alter.append(change)
        findings.extend(pair.find_problems(change))
    return MirrorTopicPlan(
        create=tuple(create),
        add_partitions=tuple(grow),
        alter=tuple(alter),
        findings=tuple(findings),
    )


class _FindingRemedy(NamedTuple):
    """Action that the operator should take, and its command; "" if there is no command."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class _MirrorPair:
    """A source topic and its mirror topic. The mirror topic may not exist yet."""

    flow: Flow
    topic: ObservedTopic
    remote: str
    target: TopicsSnapshot
    operator: OperatorCommands

    @property
    def mirror(self) -> ObservedTopic | None:
        return self.target.topics.get(self.remote)

    def plan_creation(self) -> CreateMirrorTopic:
        configs = {name: value for name, value in self._iter_synced_configs() if value is not None}
        configs.update(
            dict.fromkeys(self.target.list_timestamp_bound_configs(), UNLIMITED_TIMESTAMP_MS)
        )
        factor = self.flow.replication_factor
        return CreateMirrorTopic(
            topic=self.topic.name,
            name=self.remote,
            partitions=self.topic.partitions,
            replication_factor=None if factor == -1 else factor,
            configs=dict(sorted(configs.items())),
        )

    def plan_partition_increase(self, mirror: ObservedTopic) -> AddMirrorPartitions:
        return AddMirrorPartitions(
            topic=self.topic.name,
            name=self.remote,
            partitions_now=mirror.partitions,
            partitions=self.topic.partitions,
        )

    def plan_config_changes(self, mirror: ObservedTopic) -> AlterMirrorConfigs | None:
        """Plan the config changes of the mirror topic. Returns None if there are none or its
        configs are not readable."""
        if mirror.configs is None:
            return None
        to_set: dict[str, str] = {}
        to_delete: list[str] = []
        for name, value in self._iter_synced_configs():
            overridden = mirror.is_overridden(name)
            if value is None and overridden:
                to_delete.append(name)
            elif value is not None and not (overridden and mirror.get_config(name) == value):
                to_set[name] = value
        for name in TIMESTAMP_BOUND_CONFIGS:
            # A narrower bound on the topic itself was set on purpose: report it, do not change it.
            narrow = name in mirror.configs and mirror.get_config(name) != UNLIMITED_TIMESTAMP_MS
            if narrow and not mirror.is_overridden(name):
                to_set[name] = UNLIMITED_TIMESTAMP_MS
        if not to_set and not to_delete:
            return None
        return AlterMirrorConfigs(
            topic=self.topic.name,
            name=self.remote,
            set=dict(sorted(to_set.items())),
            delete=tuple(sorted(to_delete)),
        )

    def is_unblocked_by_config_change(self, change: AlterMirrorConfigs | None) -> bool:
        """Return whether the topic can be replicated only after the config change `change`."""
        return _has_stop_finding(self.find_problems(None)) and not _has_stop_finding(
            self.find_problems(change)
        )

    def _iter_synced_configs(self) -> Iterator[tuple[str, str | None]]:
        """Yield the names and values of the configs that are synced from the source topic; None
        means that the target topic has no override."""
        if self.topic.configs is None:
            return
        for name, entry in sorted(self.topic.configs.items()):
            if (
                entry.read_only
                or entry.sensitive
                or entry.source is ConfigEntrySource.STATIC_BROKER
                or name in UNSYNCED_CONFIGS
                or not self.flow.config_filter.should_replicate_config_property(name)
                or not self.target.has_config(name)
            ):
                continue
            is_default = entry.source is ConfigEntrySource.DEFAULT
            if is_default and not self.flow.config_filter.should_replicate_source_default(name):
                yield name, None
            elif entry.value is not None:
                yield name, entry.value

    def find_problems(self, change: AlterMirrorConfigs | None) -> Iterator[MirrorTopicFinding]:
        """Yield the problems with mirroring the topic that remain after the plan is applied."""
        length_max = replication_policy.MAX_TOPIC_NAME_LENGTH
        if len(self.remote) > length_max:
            problem = f"the mirror topic's name would exceed {length_max} characters"
            yield self._create_stop_finding(
                "",
                problem,
                _FindingRemedy("exclude the topic", self.operator.build_reload_command()),
            )
        if self.topic.partitions > MIRROR_PARTITIONS_MAX:
            problem = (
                f"the source topic has {self.topic.partitions:,} partitions, but a mirrored topic "
                f"may have at most {MIRROR_PARTITIONS_MAX:,}"
            )
            yield self._create_stop_finding(
                "partitions",
                problem,
                _FindingRemedy("exclude the topic", self.operator.build_reload_command()),
            )
        if self.topic.configs is None:
            problem = "not authorized to read the source topic's configs, so none are synced"
            right = self.operator.source.build_allow_topic_command(
                self.topic.name, "DescribeConfigs"
            )
            yield self._create_warning(
                "", problem, _FindingRemedy("grant DESCRIBE_CONFIGS on it", right)
            )
        yield from self._check_unsupported_configs()
        mirror = self.mirror
        if mirror is None:
            planned: dict[str, str] = dict(self.target.default_configs or {})
            planned.update(self.plan_creation().configs)
        else:
            if mirror.configs is None:
                problem = (
                    "not authorized to read the mirror topic's configs, so they cannot be checked"
                )
                right = self.operator.target.build_allow_topic_command(
                    self.remote, "DescribeConfigs"
                )
                yield self._create_warning(
                    "", problem, _FindingRemedy("grant DESCRIBE_CONFIGS on it", right)
                )
            planned = self._compute_planned_configs(mirror, change)
            yield from self._check_partition_count(mirror)
        yield from self._check_configs(planned)

    def _compute_planned_configs(
        self, mirror: ObservedTopic, change: AlterMirrorConfigs | None
    ) -> dict[str, str]:
        """Compute the configs of the mirror topic after `change`, as far as known."""
        configs = mirror.configs or {}
        values = {name: entry.value for name, entry in configs.items() if entry.value is not None}
        if change is not None:
            values.update(change.set)
            for name in change.delete:
                values.pop(name, None)
                if self.target.default_configs and name in self.target.default_configs:
                    values[name] = self.target.default_configs[name]
        return values

    def _check_partition_count(self, mirror: ObservedTopic) -> Iterator[MirrorTopicFinding]:
        if mirror.partitions > self.topic.partitions:
            problem = (
                f"the mirror topic has {mirror.partitions} partitions, but the source topic "
                f"has {self.topic.partitions}; partitions cannot be removed"
            )
            remedy = "no action is needed unless consumers rely on key partitioning"
            yield self._create_warning("partitions", problem, _FindingRemedy(remedy))

    def _check_unsupported_configs(self) -> Iterator[MirrorTopicFinding]:
        """Yield findings for configs of the source topic that the target's release does not
        support."""
        for name in sorted(self.topic.configs or ()):
            if (
                self.topic.is_overridden(name)
                and name not in UNSYNCED_CONFIGS
                and self.flow.config_filter.should_replicate_config_property(name)
                and not self.target.has_config(name)
            ):
                problem = (
                    f"{name}={self.topic.get_config(name)} is not synced: the brokers of "
                    f"{self.flow.target} do not have this config"
                )
                remedy = f"no action is needed, or exclude {name} (config.properties.exclude)"
                yield self._create_warning(name, problem, _FindingRemedy(remedy))

    def _check_configs(self, planned: Mapping[str, str]) -> Iterator[MirrorTopicFinding]:
        if planned.get(_TIMESTAMP_TYPE) == "LogAppendTime":
            problem = "message.timestamp.type is LogAppendTime, which replaces every timestamp"
            remedy = self._create_set_config_remedy(_TIMESTAMP_TYPE, "CreateTime")
            yield self._create_stop_finding(_TIMESTAMP_TYPE, problem, remedy)
        yield from self._check_compression(planned.get(_COMPRESSION_TYPE))
        yield from self._check_cleanup_policy(planned.get(_CLEANUP_POLICY))
        yield from self._check_message_size(planned.get(_MAX_MESSAGE_BYTES))
        for name in TIMESTAMP_BOUND_CONFIGS:
            if name in planned and planned[name] != UNLIMITED_TIMESTAMP_MS:
                problem = (
                    f"{name} is {planned[name]}: records whose timestamps differ more from the "
                    "broker's clock are rejected"
                )
                remedy = self._create_set_config_remedy(name, UNLIMITED_TIMESTAMP_MS)
                yield self._create_warning(name, problem, remedy)

    def _check_compression(self, planned: str | None) -> Iterator[MirrorTopicFinding]:
        if planned in (None, "producer", self.topic.get_config(_COMPRESSION_TYPE)):
            return
        problem = f"compression.type is {planned}: batches with other codecs are re-encoded"
        remedy = self._create_set_config_remedy(_COMPRESSION_TYPE, "producer")
        yield self._create_warning(_COMPRESSION_TYPE, problem, remedy)

    def _check_cleanup_policy(self, planned: str | None) -> Iterator[MirrorTopicFinding]:
        expected = self.topic.get_config(_CLEANUP_POLICY)
        if planned is None or expected is None:
            return
        source, target = _parse_cleanup_policies(expected), _parse_cleanup_policies(planned)
        remedy = self._create_set_config_remedy(_CLEANUP_POLICY, expected)
        if "compact" in target - source:
            problem = (
                f"cleanup.policy is {planned}, but {expected} on the source: the mirror topic "
                "would lose records"
            )
            yield self._create_stop_finding(_CLEANUP_POLICY, problem, remedy)
        elif "delete" in target - source:
            problem = (
                f"cleanup.policy is {planned}, but {expected} on the source: the mirror topic "
                "would lose old keys"
            )
            yield self._create_warning(_CLEANUP_POLICY, problem, remedy)
        elif source != target:
            problem = f"cleanup.policy is {planned}, but {expected} on the source"
            yield self._create_warning(_CLEANUP_POLICY, problem, remedy)

    def _check_message_size(self, planned: str | None) -> Iterator[MirrorTopicFinding]:
        expected = self.topic.get_config(_MAX_MESSAGE_BYTES)
        if planned is None or expected is None:
            return
        for cluster, topic, value in (
            (self.flow.source, self.topic.name, expected),
            (self.flow.target, self.remote, planned),
        ):
            if _INTEGER_PATTERN.fullmatch(value) is None:
                problem = (
                    f"max.message.bytes is {value[:_SHOWN_VALUE_LENGTH]!r} on {cluster}. This "
                    "value is not a whole number, so the sizes cannot be compared"
                )
                remedy = _FindingRemedy(f"correct the config of {topic} on {cluster}")
                yield self._create_warning(_MAX_MESSAGE_BYTES, problem, remedy)
                return
        if int(planned) >= int(expected):
            return
        problem = (
            f"max.message.bytes is {planned}, but {expected} on the source: the target rejects "
            "larger batches"
        )
        remedy = self._create_set_config_remedy(_MAX_MESSAGE_BYTES, expected)
        yield self._create_warning(_MAX_MESSAGE_BYTES, problem, remedy)

    def _create_set_config_remedy(self, name: str, value: str) -> _FindingRemedy:
        text = f"set {name}={value} on {self.remote} of {self.flow.target}"
        target = self.operator.target
        if self.mirror is not None:
            return _FindingRemedy(
                text, target.build_set_topic_configs_command(self.remote, {name: value})
            )
        expected = self.plan_creation()  # not created automatically while it must not be copied
        command = target.build_create_topic_command(
            self.remote,
            partitions=expected.partitions,
            replication_factor=expected.replication_factor,
            settings={**expected.configs, name: value},
        )
        return _FindingRemedy(text, command)

    def _create_stop_finding(
        self, setting: str, problem: str, remedy: _FindingRemedy
    ) -> MirrorTopicFinding:
        return self._create_finding(
            setting, MirrorFindingSeverity.STOP, problem=problem, remedy=remedy
        )

    def _create_warning(
        self, setting: str, problem: str, remedy: _FindingRemedy
    ) -> MirrorTopicFinding:
        return self._create_finding(
            setting, MirrorFindingSeverity.WARN, problem=problem, remedy=remedy
        )

    def _create_finding(
        self, setting: str, severity: MirrorFindingSeverity, *, problem: str, remedy: _FindingRemedy
    ) -> MirrorTopicFinding:
        return MirrorTopicFinding(
            topic=self.topic.name,
            target_topic=self.remote,
            setting=setting,
            severity=severity,
            problem=problem,
            remedy=remedy.text,
            command=remedy.command,
        )


def _has_stop_finding(findings: Iterator[MirrorTopicFinding]) -> bool:
    return any(each.severity is MirrorFindingSeverity.STOP for each in findings)


def _parse_cleanup_policies(policy: str) -> frozenset[str]:
    return frozenset(word.strip() for word in policy.split(",") if word.strip())
