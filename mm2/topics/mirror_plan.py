"""Plans the changes that mirror topics need on the target: create, add partitions, alter configs.

Rules follow `MirrorSourceConnector`, with two exceptions: timestamp bounds are always unlimited
on mirror topics and never copied from the source, and settings that are already correct are
left alone. Planning again after a plan was carried out yields only the same findings.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import plurals
from mm2 import operator_commands
from mm2.operator_commands import OperatorCommands
from mm2.topics import naming
from mm2.topics.flow_config import Flow


class ConfigEntrySource(enum.Enum):
    """Where a setting's value comes from (DescribeConfigs, `ConfigEntry.ConfigSource`)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting of one topic as DescribeConfigs answers it; `value` is None when it is hidden."""

    value: str | None = field(repr=False)
    source: ConfigEntrySource = ConfigEntrySource.TOPIC
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic; `topic_id` is None before Kafka 2.8, `configs` is None when they may not be read."""

    name: str
    partitions: int
    topic_id: uuid.UUID | None = None
    configs: Mapping[str, ConfigEntry] | None = field(default_factory=dict)

    def config(self, name: str) -> str | None:
        """The value in force, wherever it comes from; None: not known here."""
        entry = None if self.configs is None else self.configs.get(name)
        return None if entry is None else entry.value

    def is_overridden(self, name: str) -> bool:
        """Is the setting set on the topic itself?"""
        entry = None if self.configs is None else self.configs.get(name)
        return entry is not None and entry.source is ConfigEntrySource.TOPIC


TIMESTAMP_BOUND_CONFIGS = (
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
)
"""How far record timestamps may be off: two since Kafka 3.6 (KIP-937), the last until 3.9."""

UNSYNCED_CONFIGS = (*TIMESTAMP_BOUND_CONFIGS, "message.format.version")
"""What a mirror never takes from its source: the bounds are its own, and in message formats before
v2 there are no transaction markers."""

BROKER_CONFIG_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    **{name: f"log.{name}" for name in TIMESTAMP_BOUND_CONFIGS},
}
"""Settings of topics that planning asks about, and what brokers call their defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSnapshot:
    """Topics of one cluster, by name.

    `new_topic` has the settings that a topic without overrides gets, by their topic names (those of
    `BROKER_CONFIG_NAMES` that the brokers know); None: we may not read them. `settings` are the
    names of all settings that topics have here, which differ from release to release; None: nothing
    shows them."""

    topics: Mapping[str, ObservedTopic]
    new_topic: Mapping[str, str] | None = None
    settings: Collection[str] | None = None

    def knows(self, name: str) -> bool:
        """May a topic here have this setting, as far as anything shows?"""
        return self.settings is None or name in self.settings

    def timestamp_bounds(self) -> tuple[str, ...]:
        """Those of `TIMESTAMP_BOUND_CONFIGS` that the brokers know, as far as anything here
        shows."""
        known: Collection[str] = self.new_topic or self.settings or ()
        for name in sorted(self.topics):
            configs = self.topics[name].configs
            if known:
                break
            known = configs or ()
        bounds = tuple(name for name in TIMESTAMP_BOUND_CONFIGS if name in known)
        return bounds or TIMESTAMP_BOUND_CONFIGS[:2]


def derive_topic_defaults(broker_configs: Mapping[str, str | None] | None) -> dict[str, str] | None:
    """A broker's settings as those of a topic without overrides; None stays None."""
    if broker_configs is None:
        return None
    found = {topic: broker_configs.get(broker) for topic, broker in BROKER_CONFIG_NAMES.items()}
    return {name: value for name, value in found.items() if value is not None}


UNLIMITED_TIMESTAMP_MS = str(2**63 - 1)

_COMPRESSION_TYPE = "compression.type"
_CLEANUP_POLICY = "cleanup.policy"
_MAX_MESSAGE_BYTES = "max.message.bytes"
_TIMESTAMP_TYPE = "message.timestamp.type"


class MirrorFindingSeverity(enum.Enum):
    """`STOP`: the topic must not be copied as things are. `WARN`: it may go wrong later."""

    STOP = "stop"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMirrorTopic:
    """`replication_factor` None leaves it to the brokers. `configs` are in order of name."""

    topic: str
    name: str
    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str]

    def __str__(self) -> str:
        copies = self.replication_factor or "the brokers' default"
        count = plurals.format_count(self.partitions, "partition")
        line = f"create {self.name}: {count}, replication factor {copies}"
        return ", ".join([line, *(f"{key}={value}" for key, value in self.configs.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMirrorPartitions:
    topic: str
    name: str
    partitions_now: int
    partitions: int

    def __str__(self) -> str:
        return f"grow {self.name}: from {self.partitions_now} to {self.partitions} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMirrorConfigs:
    """Overrides to set and to take away on an existing topic, in order of name."""

    topic: str
    name: str
    set: Mapping[str, str]
    delete: tuple[str, ...]

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.set.items()]
        return f"set {self.name}: " + ", ".join(words + [f"{key} removed" for key in self.delete])


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicFinding:
    """What stands in the way of mirroring `topic` into `target_topic`, and what to do about it.

    `command` does it; "" where nothing that could be typed would.
    """

    topic: str
    target_topic: str
    setting: str
    severity: MirrorFindingSeverity
    problem: str
    remedy: str
    command: str = ""

    def __str__(self) -> str:
        return (
            f"{self.severity.value} {self.topic} -> {self.target_topic}: "
            f"{self.problem}; {self.remedy}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicPlan:
    """Everything to do, each part in order of the source topics' names."""

    create: tuple[CreateMirrorTopic, ...] = ()
    grow: tuple[AddMirrorPartitions, ...] = ()
    alter: tuple[AlterMirrorConfigs, ...] = ()
    findings: tuple[MirrorTopicFinding, ...] = ()

    def stopped_topics(self) -> frozenset[str]:
        """Source topics that must not be copied as things are."""
        return frozenset(
            item.topic for item in self.findings if item.severity is MirrorFindingSeverity.STOP
        )

    def __str__(self) -> str:
        return "\n".join(
            str(item)
            for part in (self.create, self.grow, self.alter, self.findings)
            for item in part
        )


def plan_mirror_topics(
    flow: Flow,
    source: TopicsSnapshot,
    target: TopicsSnapshot,
    *,
    sync_configs: bool,
    operator: OperatorCommands = operator_commands.GENERIC_COMMANDS,
) -> MirrorTopicPlan:
    """Compare what the flow mirrors with what is there.

    `sync_configs`: settings of existing topics follow the source now, too (they do at intervals of
    their own, `sync.topic.configs.interval.seconds`); new topics are always created with them, and
    what would stop a topic meanwhile is not put off.
    `operator` is for the commands of findings.
    """
    create: list[CreateMirrorTopic] = []
    grow: list[AddMirrorPartitions] = []
    alter: list[AlterMirrorConfigs] = []
    findings: list[MirrorTopicFinding] = []
    for name in sorted(source.topics):
        if not flow.should_replicate_topic(name):
            continue
        pair = _MirrorPair(flow, source.topics[name], flow.remote_topic(name), target, operator)
        there = pair.there
        if there is None:
            create.append(pair.creation())
        elif there.partitions < pair.topic.partitions:
            grow.append(pair.growth(there))
        change = pair.alteration(there) if there is not None else None
        if not sync_configs and not (flow.syncs_topic_configs and pair.is_freed_by(change)):
            change = None
        if change is not None:
            alter.append(change)
        findings.extend(pair.findings(change))
    return MirrorTopicPlan(
        create=tuple(create), grow=tuple(grow), alter=tuple(alter), findings=tuple(findings)
    )


class _FindingRemedy(NamedTuple):
    """What to do, and the command that does it, "" where there is none."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class _MirrorPair:
    """A source topic and its place on the target."""

    flow: Flow
    topic: ObservedTopic
    remote: str
    target: TopicsSnapshot
    operator: OperatorCommands

    @property
    def there(self) -> ObservedTopic | None:
        return self.target.topics.get(self.remote)

    def creation(self) -> CreateMirrorTopic:
        configs = {name: value for name, value in self._synced() if value is not None}
        configs.update(dict.fromkeys(self.target.timestamp_bounds(), UNLIMITED_TIMESTAMP_MS))
        factor = self.flow.replication_factor
        return CreateMirrorTopic(
            topic=self.topic.name,
            name=self.remote,
            partitions=self.topic.partitions,
            replication_factor=None if factor == -1 else factor,
            configs=dict(sorted(configs.items())),
        )

    def growth(self, there: ObservedTopic) -> AddMirrorPartitions:
        return AddMirrorPartitions(
            topic=self.topic.name,
            name=self.remote,
            partitions_now=there.partitions,
            partitions=self.topic.partitions,
        )

    def alteration(self, there: ObservedTopic) -> AlterMirrorConfigs | None:
        """None: nothing to alter, or the target's settings cannot be seen."""
        if there.configs is None:
            return None
        to_set: dict[str, str] = {}
        to_delete: list[str] = []
        for name, value in self._synced():
            overridden = there.is_overridden(name)
            if value is None and overridden:
                to_delete.append(name)
            elif value is not None and not (overridden and there.config(name) == value):
                to_set[name] = value
        for name in TIMESTAMP_BOUND_CONFIGS:
            # A narrower bound on the topic itself is somebody's decision: a finding, not ours.
            narrow = name in there.configs and there.config(name) != UNLIMITED_TIMESTAMP_MS
            if narrow and not there.is_overridden(name):
                to_set[name] = UNLIMITED_TIMESTAMP_MS
        if not to_set and not to_delete:
            return None
        return AlterMirrorConfigs(
            topic=self.topic.name,
            name=self.remote,
            set=dict(sorted(to_set.items())),
            delete=tuple(sorted(to_delete)),
        )

    def is_freed_by(self, change: AlterMirrorConfigs | None) -> bool:
        """Must the topic not be copied without it, and may it be with it?"""
        return _has_stop_finding(self.findings(None)) and not _has_stop_finding(
            self.findings(change)
        )

    def _synced(self) -> Iterator[tuple[str, str | None]]:
        """Settings that follow the source, with the value to set; None: no override."""
        if self.topic.configs is None:
            return
        for name, entry in sorted(self.topic.configs.items()):
            if (
                entry.read_only
                or entry.sensitive
                or entry.source is ConfigEntrySource.STATIC_BROKER
                or name in UNSYNCED_CONFIGS
                or not self.flow.properties.takes(name)
                or not self.target.knows(name)
            ):
                continue
            is_default = entry.source is ConfigEntrySource.DEFAULT
            if is_default and not self.flow.properties.takes_default(name):
                yield name, None
            elif entry.value is not None:
                yield name, entry.value

    def findings(self, change: AlterMirrorConfigs | None) -> Iterator[MirrorTopicFinding]:
        """What is wrong even once the plan is carried out."""
        if len(self.remote) > naming.MAX_TOPIC_NAME_LENGTH:
            problem = f"its name would have more than {naming.MAX_TOPIC_NAME_LENGTH} characters"
            yield self._stop(
                "", problem, _FindingRemedy("exclude the topic", self.operator.reload())
            )
        if self.topic.configs is None:
            problem = "the source topic's settings may not be read, so none are mirrored"
            right = self.operator.source.allow_topic(self.topic.name, "DescribeConfigs")
            yield self._warn("", problem, _FindingRemedy("grant DESCRIBE_CONFIGS on it", right))
        yield from self._unknown_findings()
        there = self.there
        if there is None:
            planned: dict[str, str] = dict(self.target.new_topic or {})
            planned.update(self.creation().configs)
        else:
            if there.configs is None:
                problem = "the target topic's settings may not be read, so they are not checked"
                right = self.operator.target.allow_topic(self.remote, "DescribeConfigs")
                yield self._warn("", problem, _FindingRemedy("grant DESCRIBE_CONFIGS on it", right))
            planned = self._after(there, change)
            yield from self._partition_findings(there)
        yield from self._setting_findings(planned)

    def _after(self, there: ObservedTopic, change: AlterMirrorConfigs | None) -> dict[str, str]:
        """Settings in force on the target once `change` is carried out, as far as known."""
        configs = there.configs or {}
        values = {name: entry.value for name, entry in configs.items() if entry.value is not None}
        if change is not None:
            values.update(change.set)
            for name in change.delete:
                values.pop(name, None)
                if self.target.new_topic and name in self.target.new_topic:
                    values[name] = self.target.new_topic[name]
        return values

    def _partition_findings(self, there: ObservedTopic) -> Iterator[MirrorTopicFinding]:
        if there.partitions > self.topic.partitions:
            problem = (
                f"it has {there.partitions} partitions, the source {self.topic.partitions}: "
                "partitions cannot be taken away"
            )
            remedy = "the last ones stay as they are; nothing to do unless readers count on keys"
            yield self._warn("partitions", problem, _FindingRemedy(remedy))

    def _unknown_findings(self) -> Iterator[MirrorTopicFinding]:
        """Settings of the source topic that the target's release does not have."""
        for name in sorted(self.topic.configs or ()):
            if (
                self.topic.is_overridden(name)
                and name not in UNSYNCED_CONFIGS
                and self.flow.properties.takes(name)
                and not self.target.knows(name)
            ):
                problem = (
                    f"{name}={self.topic.config(name)} is not mirrored: the brokers of "
                    f"{self.flow.target} have no such setting"
                )
                remedy = f"nothing to do, or exclude {name} (config.properties.exclude)"
                yield self._warn(name, problem, _FindingRemedy(remedy))

    def _setting_findings(self, planned: Mapping[str, str]) -> Iterator[MirrorTopicFinding]:
        if planned.get(_TIMESTAMP_TYPE) == "LogAppendTime":
            problem = "message.timestamp.type is LogAppendTime, which replaces every timestamp"
            remedy = self._set(_TIMESTAMP_TYPE, "CreateTime")
            yield self._stop(_TIMESTAMP_TYPE, problem, remedy)
        yield from self._compression_findings(planned.get(_COMPRESSION_TYPE))
        yield from self._cleanup_findings(planned.get(_CLEANUP_POLICY))
        yield from self._size_findings(planned.get(_MAX_MESSAGE_BYTES))
        for name in TIMESTAMP_BOUND_CONFIGS:
            if name in planned and planned[name] != UNLIMITED_TIMESTAMP_MS:
                problem = f"{name} is {planned[name]}: records further off are refused"
                remedy = self._set(name, UNLIMITED_TIMESTAMP_MS)
                yield self._warn(name, problem, remedy)

    def _compression_findings(self, planned: str | None) -> Iterator[MirrorTopicFinding]:
        if planned in (None, "producer", self.topic.config(_COMPRESSION_TYPE)):
            return
        problem = f"compression.type is {planned}: batches of other codecs are opened for it"
        remedy = self._set(_COMPRESSION_TYPE, "producer")
        yield self._warn(_COMPRESSION_TYPE, problem, remedy)

    def _cleanup_findings(self, planned: str | None) -> Iterator[MirrorTopicFinding]:
        wanted = self.topic.config(_CLEANUP_POLICY)
        if planned is None or wanted is None:
            return
        source, target = _split_policies(wanted), _split_policies(planned)
        remedy = self._set(_CLEANUP_POLICY, wanted)
        if "compact" in target - source:
            problem = f"cleanup.policy is {planned}, the source's {wanted}: records would vanish"
            yield self._stop(_CLEANUP_POLICY, problem, remedy)
        elif "delete" in target - source:
            problem = f"cleanup.policy is {planned}, the source's {wanted}: old keys would vanish"
            yield self._warn(_CLEANUP_POLICY, problem, remedy)
        elif source != target:
            problem = f"cleanup.policy is {planned}, the source's {wanted}"
            yield self._warn(_CLEANUP_POLICY, problem, remedy)

    def _size_findings(self, planned: str | None) -> Iterator[MirrorTopicFinding]:
        wanted = self.topic.config(_MAX_MESSAGE_BYTES)
        if planned is None or wanted is None or int(planned) >= int(wanted):
            return
        problem = f"max.message.bytes is {planned}, the source's {wanted}: larger batches fail"
        remedy = self._set(_MAX_MESSAGE_BYTES, wanted)
        yield self._warn(_MAX_MESSAGE_BYTES, problem, remedy)

    def _set(self, name: str, value: str) -> _FindingRemedy:
        text = f"set {name}={value} on {self.remote} of {self.flow.target}"
        target = self.operator.target
        if self.there is not None:
            return _FindingRemedy(text, target.set_topic(self.remote, {name: value}))
        wanted = self.creation()  # which is left to people while the topic is stopped
        command = target.create_topic(
            self.remote,
            partitions=wanted.partitions,
            replication_factor=wanted.replication_factor,
            settings={**wanted.configs, name: value},
        )
        return _FindingRemedy(text, command)

    def _stop(self, setting: str, problem: str, remedy: _FindingRemedy) -> MirrorTopicFinding:
        return self._finding(setting, MirrorFindingSeverity.STOP, problem=problem, remedy=remedy)

    def _warn(self, setting: str, problem: str, remedy: _FindingRemedy) -> MirrorTopicFinding:
        return self._finding(setting, MirrorFindingSeverity.WARN, problem=problem, remedy=remedy)

    def _finding(
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


def _split_policies(policy: str) -> frozenset[str]:
    return frozenset(word.strip() for word in policy.split(",") if word.strip())
