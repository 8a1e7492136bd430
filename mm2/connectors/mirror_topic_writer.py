"""Creates mirror topics, adds partitions, alters configs, and waits until brokers show the result.

Transient errors are retried for a limited time, so one failing topic does not delay the others
until the next refresh. Failures are reported per topic, with the command that may resolve them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    TopicMissingError,
)
from mm2 import operator_commands
from mm2.kafka import client_interfaces
from mm2.kafka.client_interfaces import Admin, ConfigChange, NewTopic, PerTopicResult
from mm2.operator_commands import OperatorCommands
from mm2.topics import mirror_plan, naming
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_plan import (
    MirrorFindingSeverity,
    MirrorTopicFinding,
    MirrorTopicPlan,
    ObservedTopic,
    TopicsSnapshot,
)

T = TypeVar("T")

TARGET_SETTING_CAUSE = "target-setting"
"""Cause of a problem: a setting of the mirror under which copying would do harm."""
TOPIC_REFUSED_CAUSE = "topic-refused"
SAME_TOPIC_CAUSE = "same-topic"
SOURCE_TOO_SMALL_CAUSE = "source-too-small"
MIRROR_TOO_SMALL_CAUSE = "mirror-too-small"
MIRROR_PROBLEM_CAUSES = (
    TARGET_SETTING_CAUSE,
    TOPIC_REFUSED_CAUSE,
    SAME_TOPIC_CAUSE,
    SOURCE_TOO_SMALL_CAUSE,
    MIRROR_TOO_SMALL_CAUSE,
)
"""Every cause of a problem or finding, as in the metric label `reason`;
`deploy/guides/halt-reasons.md` explains each."""
SOURCE_TOPIC_OPERATIONS = ("Describe", "DescribeConfigs", "Read")
MIRROR_TOPIC_OPERATIONS = (
    *("Create", "Alter", "AlterConfigs", "Describe", "DescribeConfigs"),
    *("Read", "Write"),
)
"""All that a flow needs on a topic, so that granting it is done once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPair:
    """A topic of the source and its mirror, as the target's brokers know it (it may be short)."""

    topic: ObservedTopic
    mirror: ObservedTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicProblem:
    """Why a topic of so many `partitions` is not copied. `passing`: it may go by itself.

    `remedy` is a command that may mend it, "" where none is known.
    """

    cause: str
    message: str
    partitions: int
    passing: bool = False
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicsResult:
    """By the source topic's name: each is in `pairs` or in `problems`, and may have warnings."""

    pairs: Mapping[str, MirrorPair]
    problems: Mapping[str, MirrorTopicProblem]
    warnings: Mapping[str, tuple[str, ...]]

    def passing(self) -> list[str]:
        return sorted(name for name, each in self.problems.items() if each.passing)

    def updated(self, later: MirrorTopicsResult) -> MirrorTopicsResult:
        """With what was found of some topics later."""
        seen = later.pairs.keys() | later.problems.keys()
        return MirrorTopicsResult(
            pairs={**self.pairs, **later.pairs},
            problems={**_exclude_topics(self.problems, seen), **later.problems},
            warnings={**_exclude_topics(self.warnings, seen), **later.warnings},
        )


def collect_mirror_topics(
    flow: Flow,
    operator: OperatorCommands,
    *,
    source: PerTopicResult[ObservedTopic],
    mirrors: PerTopicResult[ObservedTopic],
    blocked: Mapping[str, MirrorTopicFinding],
) -> MirrorTopicsResult:
    """What both sides answered, and which topics of the source a setting blocks."""
    topics = {flow.remote_topic(name): topic for name, topic in source.done.items()}
    problems = {
        name: _to_failure_problem(
            f"{flow.name} {name}: {error}",
            1,
            error,
            passing=isinstance(error, RetriableError),
            right=operator.source.allow_topic(name, *SOURCE_TOPIC_OPERATIONS),
        )
        for name, error in source.failed.items()
    }
    for mirror, error in mirrors.failed.items():
        topic = topics[mirror]
        problems[topic.name] = _to_failure_problem(
            f"{flow.name} {topic.name}: {error}",
            topic.partitions,
            error,
            passing=_is_transient_mirror_error(error),
            right=operator.target.allow_topic(mirror, *MIRROR_TOPIC_OPERATIONS),
        )
    for name, finding in blocked.items():
        problems[name] = _to_setting_problem(source.done[name], finding)
    return MirrorTopicsResult(
        pairs={
            topics[mirror].name: MirrorPair(topic=topics[mirror], mirror=each)
            for mirror, each in mirrors.done.items()
            if topics[mirror].name not in blocked
        },
        problems=problems,
        warnings={},
    )


def collect_warnings(planned: MirrorTopicPlan) -> dict[str, tuple[str, ...]]:
    """By topic: what copying goes on in spite of."""
    found: dict[str, tuple[str, ...]] = {}
    for each in planned.findings:
        if not is_stop_finding(each):
            line = (
                f"{each}. {operator_commands.format_remedy(each.command)}"
                if each.command
                else str(each)
            )
            found[each.topic] = (*found.get(each.topic, ()), line)
    return found


def is_stop_finding(finding: MirrorTopicFinding) -> bool:
    """Is the topic not copied because of it?"""
    return finding.severity is MirrorFindingSeverity.STOP


def may_become_visible(error: ConnectError) -> bool:
    """Of a mirror that was listed, or whose creation was acknowledged, just now."""
    return isinstance(error, (RetriableError, TopicMissingError))


def _to_failure_problem(
    message: str, partitions: int, error: ConnectError, *, passing: bool, right: str
) -> MirrorTopicProblem:
    """`right` is the command that grants what may be lacking."""
    lacking = isinstance(error, NotAuthorizedError)
    return MirrorTopicProblem(
        cause=TOPIC_REFUSED_CAUSE,
        message=message,
        partitions=partitions,
        passing=passing,
        remedy=right if lacking else "",
    )


def _to_setting_problem(topic: ObservedTopic, finding: MirrorTopicFinding) -> MirrorTopicProblem:
    return MirrorTopicProblem(
        cause=TARGET_SETTING_CAUSE,
        message=str(finding),
        partitions=topic.partitions,
        remedy=finding.command,
    )


def _exclude_topics(found: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: each for name, each in found.items() if name not in names}


def _is_transient_mirror_error(error: ConnectError) -> bool:
    """Of a mirror: one that exists although it was not listed will be listed."""
    return may_become_visible(error) or isinstance(error, TopicExistsError)


METADATA_PROPAGATION_TIMEOUT_S = 10.0
"""So long brokers may take to learn of what the controller has acknowledged."""
TOPIC_RETRY_TIMEOUT_S = 20.0
"""So long a topic's passing failure holds up the others' copies, at most."""
_METADATA_POLL_INTERVAL_S = 0.1
_TOPIC_RETRY_DELAY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicPreview:
    """Topics of the source, by name, their mirrors that are there, and what would be done."""

    source: PerTopicResult[ObservedTopic]
    there: PerTopicResult[ObservedTopic]
    planned: MirrorTopicPlan


class MirrorTopicWriter:
    """One thread at a time. `pause` waits so many seconds; True: no more waiting is wanted.

    `stopped`: from now on nothing may be changed any more; another flow may have taken over.
    """

    def __init__(
        self,
        flow: Flow,
        *,
        source: Admin,
        target: Admin,
        now: Clock,
        pause: Callable[[float], bool],
        stopped: Callable[[], bool],
        operator: OperatorCommands = operator_commands.GENERIC_COMMANDS,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._pause = pause
        self._stopped = stopped
        self._operator = operator
        self._sync_configs = True

    def bring_about(
        self, names: Iterable[str], end: Deadline, *, sync_configs: bool
    ) -> MirrorTopicsResult:
        """See to it that these topics of the source have mirrors, as large as they are, and with
        `sync_configs` with settings that follow theirs.

        Failures that may pass are tried again for `TOPIC_RETRY_TIMEOUT_S`, or until half of the
        time is over. What is refused, or blocked by a setting, is waited for by nobody. Raises as
        `Admin` where a whole cluster does not answer or refuses us, and RetriableError once it is
        `stopped`."""
        self._sync_configs = sync_configs
        until = Deadline.after(
            min(TOPIC_RETRY_TIMEOUT_S, self._left_s(end) / 2.0), now_s=self._clock.now_s()
        )
        found = self._round(names, end)
        passing = found.passing()
        if passing:
            first = found.problems[passing[0]].message
            _log.warning("topics that are tried again: %d, first %s", len(passing), first)
        while passing and self._left_s(until) and not self._pause(_TOPIC_RETRY_DELAY_S):
            found = found.updated(self._round(passing, end))
            passing = found.passing()
        return found

    def describe(self, partitions: Mapping[str, int], end: Deadline) -> MirrorTopicsResult:
        """These topics of the source and their mirrors as they are; nothing is changed.

        A mirror is waited for, up to `METADATA_PROPAGATION_TIMEOUT_S`, until it has so many
        `partitions`. Raises as `bring_about`."""
        source = self._observe(self._source, partitions, end)
        sizes = {self._flow.remote_topic(name): partitions[name] for name in source.done}
        mirrors = self._await_there(sizes, end)
        standing = mirror_plan.plan_mirror_topics(
            replace(self._flow, sync_topic_configs_interval_s=None),
            TopicsSnapshot(
                topics={
                    name: topic
                    for name, topic in source.done.items()
                    if self._flow.remote_topic(name) in mirrors.done
                }
            ),
            TopicsSnapshot(topics=mirrors.done),
            sync_configs=False,
            operator=self._operator,
        ).findings
        return self._told(source, mirrors, standing)

    def foresee(self, names: Iterable[str], end: Deadline) -> MirrorTopicPreview:
        """What bringing about the mirrors of these topics would do; nothing is changed.

        Raises as `bring_about`.
        """
        source = self._observe(self._source, names, end)
        topics = {self._flow.remote_topic(name): topic for name, topic in source.done.items()}
        listed = self._target.list_topics(self._left_s(end))
        there = self._observe(self._target, topics.keys() & listed, end)
        # A mirror that cannot be seen is neither missing nor of a known size.
        known = {each.name: each for mirror, each in topics.items() if mirror not in there.failed}
        planned = self._plan(known, there.done, end, listed=listed)
        return MirrorTopicPreview(source=source, there=there, planned=planned)

    def follow_settings(self, names: Iterable[str], end: Deadline) -> None:
        """Have settings of the mirrors of these topics follow theirs; nothing is made or grown.

        What is refused is told. Raises as `bring_about`.
        """
        self._sync_configs = True
        topics = {
            self._flow.remote_topic(name): topic
            for name, topic in self._observe(self._source, names, end).done.items()
        }
        listed = self._target.list_topics(self._left_s(end))
        there = self._observe(self._target, topics.keys() & listed, end)
        followed = {topics[mirror].name: topics[mirror] for mirror in there.done}
        planned = self._plan(followed, there.done, end, listed=listed)
        if not self._stopped():
            self._carry_out(replace(planned, create=(), grow=()), end)

    def _left_s(self, end: Deadline) -> float:
        return end.left_s(self._clock.now_s())

    def _observe(
        self, side: Admin, names: Iterable[str], end: Deadline
    ) -> PerTopicResult[ObservedTopic]:
        return client_interfaces.observe_topics(
            side, sorted(names), self._left_s(end), clock=self._clock
        )

    def _round(self, names: Iterable[str], end: Deadline) -> MirrorTopicsResult:
        seen = self.foresee(names, end)
        source, there, planned = seen.source, seen.there, seen.planned
        topics = {self._flow.remote_topic(name): topic for name, topic in source.done.items()}
        if self._stopped():
            raise RetriableError(f"{self._flow.name} is ending: no mirrors are made any more")
        refused = {**there.failed, **self._carry_out(planned, end)}
        blocked = {each.topic for each in planned.findings if is_stop_finding(each)}
        wanted = {
            mirror: each.partitions
            for mirror, each in topics.items()
            if mirror not in refused and each.name not in blocked
        }
        after = self._await_there(wanted, end)
        failed = {**refused, **after.failed}
        mirrors = PerTopicResult(done=after.done, failed=failed)
        found = self._told(source, mirrors, planned.findings)
        return replace(found, warnings=collect_warnings(planned))

    def _told(
        self,
        source: PerTopicResult[ObservedTopic],
        mirrors: PerTopicResult[ObservedTopic],
        findings: Iterable[MirrorTopicFinding],
    ) -> MirrorTopicsResult:
        return collect_mirror_topics(
            self._flow,
            self._operator,
            source=source,
            mirrors=mirrors,
            blocked={each.topic: each for each in findings if is_stop_finding(each)},
        )

    def _plan(
        self,
        source: Mapping[str, ObservedTopic],
        there: Mapping[str, ObservedTopic],
        end: Deadline,
        *,
        listed: Collection[str],
    ) -> MirrorTopicPlan:
        defaults = self._target.broker_configs(
            list(mirror_plan.BROKER_CONFIG_NAMES.values()), self._left_s(end)
        )
        ours = TopicsSnapshot(topics=source)
        theirs = TopicsSnapshot(
            topics=there,
            new_topic=mirror_plan.derive_topic_defaults(defaults),
            settings=self._settings(there, listed, end),
        )

        def planned(*, sync_configs: bool) -> MirrorTopicPlan:
            return mirror_plan.plan_mirror_topics(
                self._flow, ours, theirs, sync_configs=sync_configs, operator=self._operator
            )

        now = planned(sync_configs=self._sync_configs)
        if self._sync_configs or not self._flow.syncs_topic_configs:
            return now
        # What is about to follow is nothing to warn of.
        return replace(planned(sync_configs=True), alter=now.alter)

    def _settings(
        self,
        there: Mapping[str, ObservedTopic],
        listed: Collection[str],
        end: Deadline,
    ) -> Collection[str] | None:
        """Which settings the target's release has: any one of its topics shows them.

        Before there are mirrors, that is the flow's own topic, or whatever is there.
        """
        for each in there.values():
            if each.configs:
                return each.configs.keys()
        own = naming.offset_map_topic(self._flow.source)
        any_one = [own] if own in listed else sorted(listed)[:1]
        found = self._target.topic_configs(any_one, self._left_s(end)).done if any_one else {}
        return next((configs.keys() for configs in found.values()), None)

    def _carry_out(self, planned: MirrorTopicPlan, end: Deadline) -> dict[str, ConnectError]:
        """Create, grow and set; failures by the mirror topic's name."""
        refused: dict[str, ConnectError] = dict(self._create(planned, end).failed)
        if planned.grow:
            growth = {each.name: each.partitions for each in planned.grow}
            refused.update(self._target.grow_topics(growth, self._left_s(end)).failed)
        if planned.alter:
            changes = {
                each.name: ConfigChange(set=each.set, delete=each.delete) for each in planned.alter
            }
            answered = self._target.alter_configs(changes, self._left_s(end))
            for name, error in answered.failed.items():
                _log.warning("settings of %s: %s", name, error)
        return refused

    def _create(self, planned: MirrorTopicPlan, end: Deadline) -> PerTopicResult[None]:
        topics = select_topics_to_create(planned)
        if not topics:
            return PerTopicResult(done={}, failed={})
        return self._target.create_topics(topics, self._left_s(end))

    def _await_there(
        self, partitions: Mapping[str, int], end: Deadline
    ) -> PerTopicResult[ObservedTopic]:
        """The mirrors as brokers know them, once each has so many partitions or time is up.

        Brokers learn of a new topic, or of its growth, a little after it was acknowledged; any one
        of them may answer.
        """
        until = Deadline.after(
            min(METADATA_PROPAGATION_TIMEOUT_S, self._left_s(end)), now_s=self._clock.now_s()
        )
        seen = self._observe(self._target, partitions, end)
        done, failed = dict(seen.done), dict(seen.failed)
        while True:
            late = {name for name, each in done.items() if each.partitions < partitions[name]}
            late |= {name for name, error in failed.items() if may_become_visible(error)}
            if not late or not self._left_s(until) or self._pause(_METADATA_POLL_INTERVAL_S):
                return PerTopicResult(done=done, failed=failed)
            seen = self._observe(self._target, late, end)
            for name in late:
                done.pop(name, None)
                failed.pop(name, None)
            done.update(seen.done)
            failed.update(seen.failed)


def select_topics_to_create(planned: MirrorTopicPlan) -> list[NewTopic]:
    """Mirrors that are missing, but for those that must not be copied as things are."""
    return [
        NewTopic(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            configs=each.configs,
        )
        for each in planned.create
        if each.topic not in planned.stopped_topics()
    ]
