"""What has to change on the target so that a flow's topics can be mirrored (planner).

Creation, growth and settings follow MirrorMaker 2 (`MirrorSourceConnector`), with two exceptions:
bounds on record timestamps are set wide on mirror topics and never follow the source, and what
already is as it should be is left alone. Planning again after a plan was carried out yields nothing
but the same findings.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from connect_runtime.base import amounts
from mm2.core import commands, flows, naming
from mm2.core.topics import snapshot

WIDEST_MS = str(2**63 - 1)

_COMPRESSION = "compression.type"
_CLEANUP = "cleanup.policy"
_MESSAGE_BYTES = "max.message.bytes"
_TIMESTAMP_TYPE = "message.timestamp.type"


class Severity(enum.Enum):
    """`STOP`: the topic must not be copied as things are. `WARN`: it may go wrong later."""

    STOP = "stop"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """`replication_factor` None leaves it to the brokers. `configs` are in order of name."""

    topic: str
    name: str
    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str]

    def __str__(self) -> str:
        copies = self.replication_factor or "the brokers' default"
        count = amounts.counted(self.partitions, "partition")
        line = f"create {self.name}: {count}, replication factor {copies}"
        return ", ".join([line, *(f"{key}={value}" for key, value in self.configs.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic:
    topic: str
    name: str
    partitions_now: int
    partitions: int

    def __str__(self) -> str:
        return f"grow {self.name}: from {self.partitions_now} to {self.partitions} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopic:
    """Overrides to set and to take away on an existing topic, in order of name."""

    topic: str
    name: str
    set: Mapping[str, str]
    delete: tuple[str, ...]

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.set.items()]
        return f"set {self.name}: " + ", ".join(words + [f"{key} removed" for key in self.delete])


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What stands in the way of mirroring `topic` into `target_topic`, and what to do about it.

    `command` does it; "" where nothing that could be typed would.
    """

    topic: str
    target_topic: str
    setting: str
    severity: Severity
    problem: str
    remedy: str
    command: str = ""

    def __str__(self) -> str:
        return (
            f"{self.severity.value} {self.topic} -> {self.target_topic}: "
            f"{self.problem}; {self.remedy}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything to do, each part in order of the source topics' names."""

    create: tuple[CreateTopic, ...] = ()
    grow: tuple[GrowTopic, ...] = ()
    alter: tuple[AlterTopic, ...] = ()
    findings: tuple[Finding, ...] = ()

    def stopped_topics(self) -> frozenset[str]:
        """Source topics that must not be copied as things are."""
        return frozenset(item.topic for item in self.findings if item.severity is Severity.STOP)

    def __str__(self) -> str:
        return "\n".join(
            str(item)
            for part in (self.create, self.grow, self.alter, self.findings)
            for item in part
        )


def plan(
    flow: flows.Flow,
    source: snapshot.Snapshot,
    target: snapshot.Snapshot,
    *,
    sync_configs: bool,
    operator: commands.Operator = commands.NOBODY,
) -> Plan:
    """Compare what the flow mirrors with what is there.

    `sync_configs`: settings of existing topics follow the source now, too (they do at intervals of
    their own, `sync.topic.configs.interval.seconds`); new topics are always created with them, and
    what would stop a topic meanwhile is not put off.
    `operator` is for the commands of findings.
    """
    create: list[CreateTopic] = []
    grow: list[GrowTopic] = []
    alter: list[AlterTopic] = []
    findings: list[Finding] = []
    for name in sorted(source.topics):
        if not flow.should_replicate_topic(name):
            continue
        pair = _Pair(flow, source.topics[name], flow.remote_topic(name), target, operator)
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
    return Plan(
        create=tuple(create), grow=tuple(grow), alter=tuple(alter), findings=tuple(findings)
    )


class _Remedy(NamedTuple):
    """What to do, and the command that does it, "" where there is none."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A source topic and its place on the target."""

    flow: flows.Flow
    topic: snapshot.Topic
    remote: str
    target: snapshot.Snapshot
    operator: commands.Operator

    @property
    def there(self) -> snapshot.Topic | None:
        return self.target.topics.get(self.remote)

    def creation(self) -> CreateTopic:
        configs = {name: value for name, value in self._synced() if value is not None}
        configs.update(dict.fromkeys(self.target.timestamp_bounds(), WIDEST_MS))
        factor = self.flow.replication_factor
        return CreateTopic(
            topic=self.topic.name,
            name=self.remote,
            partitions=self.topic.partitions,
            replication_factor=None if factor == -1 else factor,
            configs=dict(sorted(configs.items())),
        )

    def growth(self, there: snapshot.Topic) -> GrowTopic:
        return GrowTopic(
            topic=self.topic.name,
            name=self.remote,
            partitions_now=there.partitions,
            partitions=self.topic.partitions,
        )

    def alteration(self, there: snapshot.Topic) -> AlterTopic | None:
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
        for name in snapshot.TIMESTAMP_BOUNDS:
            # A narrower bound on the topic itself is somebody's decision: a finding, not ours.
            narrow = name in there.configs and there.config(name) != WIDEST_MS
            if narrow and not there.is_overridden(name):
                to_set[name] = WIDEST_MS
        if not to_set and not to_delete:
            return None
        return AlterTopic(
            topic=self.topic.name,
            name=self.remote,
            set=dict(sorted(to_set.items())),
            delete=tuple(sorted(to_delete)),
        )

    def is_freed_by(self, change: AlterTopic | None) -> bool:
        """Must the topic not be copied without it, and may it be with it?"""
        return _stops(self.findings(None)) and not _stops(self.findings(change))

    def _synced(self) -> Iterator[tuple[str, str | None]]:
        """Settings that follow the source, with the value to set; None: no override."""
        if self.topic.configs is None:
            return
        for name, entry in sorted(self.topic.configs.items()):
            if (
                entry.read_only
                or entry.sensitive
                or entry.source is snapshot.ConfigSource.STATIC_BROKER
                or name in snapshot.NOT_FOLLOWED
                or not self.flow.properties.takes(name)
                or not self.target.knows(name)
            ):
                continue
            is_default = entry.source is snapshot.ConfigSource.DEFAULT
            if is_default and not self.flow.properties.takes_default(name):
                yield name, None
            elif entry.value is not None:
                yield name, entry.value

    def findings(self, change: AlterTopic | None) -> Iterator[Finding]:
        """What is wrong even once the plan is carried out."""
        if len(self.remote) > naming.TOPIC_NAME_CHARS_MAX:
            problem = f"its name would have more than {naming.TOPIC_NAME_CHARS_MAX} characters"
            yield self._stop("", problem, _Remedy("exclude the topic", self.operator.reload()))
        if self.topic.configs is None:
            problem = "the source topic's settings may not be read, so none are mirrored"
            right = self.operator.source.allow_topic(self.topic.name, "DescribeConfigs")
            yield self._warn("", problem, _Remedy("grant DESCRIBE_CONFIGS on it", right))
        yield from self._unknown_findings()
        there = self.there
        if there is None:
            planned: dict[str, str] = dict(self.target.new_topic or {})
            planned.update(self.creation().configs)
        else:
            if there.configs is None:
                problem = "the target topic's settings may not be read, so they are not checked"
                right = self.operator.target.allow_topic(self.remote, "DescribeConfigs")
                yield self._warn("", problem, _Remedy("grant DESCRIBE_CONFIGS on it", right))
            planned = self._after(there, change)
            yield from self._partition_findings(there)
        yield from self._setting_findings(planned)

    def _after(self, there: snapshot.Topic, change: AlterTopic | None) -> dict[str, str]:
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

    def _partition_findings(self, there: snapshot.Topic) -> Iterator[Finding]:
        if there.partitions > self.topic.partitions:
            problem = (
                f"it has {there.partitions} partitions, the source {self.topic.partitions}: "
                "partitions cannot be taken away"
            )
            remedy = "the last ones stay as they are; nothing to do unless readers count on keys"
            yield self._warn("partitions", problem, _Remedy(remedy))

    def _unknown_findings(self) -> Iterator[Finding]:
        """Settings of the source topic that the target's release does not have."""
        for name in sorted(self.topic.configs or ()):
            if (
                self.topic.is_overridden(name)
                and name not in snapshot.NOT_FOLLOWED
                and self.flow.properties.takes(name)
                and not self.target.knows(name)
            ):
                problem = (
                    f"{name}={self.topic.config(name)} is not mirrored: the brokers of "
                    f"{self.flow.target} have no such setting"
                )
                remedy = f"nothing to do, or exclude {name} (config.properties.exclude)"
                yield self._warn(name, problem, _Remedy(remedy))

    def _setting_findings(self, planned: Mapping[str, str]) -> Iterator[Finding]:
        if planned.get(_TIMESTAMP_TYPE) == "LogAppendTime":
            problem = "message.timestamp.type is LogAppendTime, which replaces every timestamp"
            remedy = self._set(_TIMESTAMP_TYPE, "CreateTime")
            yield self._stop(_TIMESTAMP_TYPE, problem, remedy)
        yield from self._compression_findings(planned.get(_COMPRESSION))
        yield from self._cleanup_findings(planned.get(_CLEANUP))
        yield from self._size_findings(planned.get(_MESSAGE_BYTES))
        for name in snapshot.TIMESTAMP_BOUNDS:
            if name in planned and planned[name] != WIDEST_MS:
                problem = f"{name} is {planned[name]}: records further off are refused"
                remedy = self._set(name, WIDEST_MS)
                yield self._warn(name, problem, remedy)

    def _compression_findings(self, planned: str | None) -> Iterator[Finding]:
        if planned in (None, "producer", self.topic.config(_COMPRESSION)):
            return
        problem = f"compression.type is {planned}: batches of other codecs are opened for it"
        remedy = self._set(_COMPRESSION, "producer")
        yield self._warn(_COMPRESSION, problem, remedy)

    def _cleanup_findings(self, planned: str | None) -> Iterator[Finding]:
        wanted = self.topic.config(_CLEANUP)
        if planned is None or wanted is None:
            return
        source, target = _words(wanted), _words(planned)
        remedy = self._set(_CLEANUP, wanted)
        if "compact" in target - source:
            problem = f"cleanup.policy is {planned}, the source's {wanted}: records would vanish"
            yield self._stop(_CLEANUP, problem, remedy)
        elif "delete" in target - source:
            problem = f"cleanup.policy is {planned}, the source's {wanted}: old keys would vanish"
            yield self._warn(_CLEANUP, problem, remedy)
        elif source != target:
            problem = f"cleanup.policy is {planned}, the source's {wanted}"
            yield self._warn(_CLEANUP, problem, remedy)

    def _size_findings(self, planned: str | None) -> Iterator[Finding]:
        wanted = self.topic.config(_MESSAGE_BYTES)
        if planned is None or wanted is None or int(planned) >= int(wanted):
            return
        problem = f"max.message.bytes is {planned}, the source's {wanted}: larger batches fail"
        remedy = self._set(_MESSAGE_BYTES, wanted)
        yield self._warn(_MESSAGE_BYTES, problem, remedy)

    def _set(self, name: str, value: str) -> _Remedy:
        text = f"set {name}={value} on {self.remote} of {self.flow.target}"
        target = self.operator.target
        if self.there is not None:
            return _Remedy(text, target.set_topic(self.remote, {name: value}))
        wanted = self.creation()  # which is left to people while the topic is stopped
        command = target.create_topic(
            self.remote,
            partitions=wanted.partitions,
            replication_factor=wanted.replication_factor,
            settings={**wanted.configs, name: value},
        )
        return _Remedy(text, command)

    def _stop(self, setting: str, problem: str, remedy: _Remedy) -> Finding:
        return self._finding(setting, Severity.STOP, problem=problem, remedy=remedy)

    def _warn(self, setting: str, problem: str, remedy: _Remedy) -> Finding:
        return self._finding(setting, Severity.WARN, problem=problem, remedy=remedy)

    def _finding(
        self, setting: str, severity: Severity, *, problem: str, remedy: _Remedy
    ) -> Finding:
        return Finding(
            topic=self.topic.name,
            target_topic=self.remote,
            setting=setting,
            severity=severity,
            problem=problem,
            remedy=remedy.text,
            command=remedy.command,
        )


def _stops(findings: Iterator[Finding]) -> bool:
    return any(each.severity is Severity.STOP for each in findings)


def _words(policy: str) -> frozenset[str]:
    return frozenset(word.strip() for word in policy.split(",") if word.strip())
