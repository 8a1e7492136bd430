"""Creates mirror topics, adds partitions and alters configs, and waits until brokers report these
changes.

Transient errors are retried for a limited time, so that one failing topic does not delay the other
topics until the next refresh. Failures are reported per topic, with the command that may resolve
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    TopicMissingError,
)
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from mm2 import suggested_commands
from mm2.kafka import kafka_client_interfaces
from mm2.kafka.kafka_client_interfaces import Admin, PerTopicResult
from mm2.suggested_commands import OperatorCommands
from mm2.topics import mirror_topic_plan, replication_policy
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_topic_plan import (
    MirrorFindingSeverity,
    MirrorTopicFinding,
    MirrorTopicPlan,
    ObservedTopic,
    TopicsSnapshot,
)

T = TypeVar("T")

TARGET_SETTING_CAUSE = "target-setting"
"""Halt reason: the mirror topic has a setting that would damage the replicated data."""
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
"""Codes of all problems that prevent the replication of a topic or partition. They are values of
the metric label `reason`; `docs/guides/halt-reasons.md` explains them."""
SOURCE_TOPIC_OPERATIONS = ("Describe", "DescribeConfigs", "Read")
MIRROR_TOPIC_OPERATIONS = (
    *("Create", "Alter", "AlterConfigs", "Describe", "DescribeConfigs"),
    *("Read", "Write"),
)
"""All operations that a flow needs on a mirror topic, so that they can be granted together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAndMirrorTopic:
    """A source topic and its mirror topic as reported by the target's brokers. The mirror may still
    have too few partitions."""

    topic: ObservedTopic
    mirror: ObservedTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicProblem:
    """A problem that prevents the replication of a topic."""

    cause: str
    message: str
    partitions: int
    """Number of affected partitions."""
    is_transient: bool = False
    """True if the problem may disappear without intervention."""
    remedy: str = ""
    """A command that may resolve the problem; "" if none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicsResult:
    """Results by source topic: each topic is either in `pairs` (with its mirror topic) or in
    `problems`, and may have warnings."""

    pairs: Mapping[str, SourceAndMirrorTopic]
    problems: Mapping[str, MirrorTopicProblem]
    warnings: Mapping[str, tuple[str, ...]]

    def list_transiently_failed_topics(self) -> list[str]:
        return sorted(name for name, each in self.problems.items() if each.is_transient)

    def merge_later_result(self, later: MirrorTopicsResult) -> MirrorTopicsResult:
        """Return this result, updated with a later result for some of the topics."""
        topics = later.pairs.keys() | later.problems.keys()
        return MirrorTopicsResult(
            pairs={**self.pairs, **later.pairs},
            problems={**_exclude_topics(self.problems, topics), **later.problems},
            warnings={**_exclude_topics(self.warnings, topics), **later.warnings},
        )


def pair_source_and_mirror_topics(
    flow: Flow,
    operator: OperatorCommands,
    *,
    source: PerTopicResult[ObservedTopic],
    mirrors: PerTopicResult[ObservedTopic],
    blocked: Mapping[str, MirrorTopicFinding],
) -> MirrorTopicsResult:
    """Pair source topics with their mirror topics, from the topic descriptions of both clusters.

    A topic becomes a problem instead if its description could not be read, or if a setting prevents
    its replication (`blocked`).
    """
    topics = {flow.format_remote_topic(name): topic for name, topic in source.succeeded.items()}
    problems = {
        name: _build_request_failure_problem(
            f"{flow.name} {name}: {error}",
            1,
            error,
            passing=isinstance(error, RetriableError),
            grant_command=operator.source.build_allow_topic_command(name, *SOURCE_TOPIC_OPERATIONS),
        )
        for name, error in source.failed.items()
    }
    for mirror, error in mirrors.failed.items():
        topic = topics[mirror]
        problems[topic.name] = _build_request_failure_problem(
            f"{flow.name} {topic.name}: {error}",
            topic.partitions,
            error,
            passing=_is_transient_mirror_error(error),
            grant_command=operator.target.build_allow_topic_command(
                mirror, *MIRROR_TOPIC_OPERATIONS
            ),
        )
    for name, finding in blocked.items():
        problems[name] = _build_setting_problem(source.succeeded[name], finding)
    return MirrorTopicsResult(
        pairs={
            topics[mirror].name: SourceAndMirrorTopic(topic=topics[mirror], mirror=each)
            for mirror, each in mirrors.succeeded.items()
            if topics[mirror].name not in blocked
        },
        problems=problems,
        warnings={},
    )


def collect_topic_warnings(plan: MirrorTopicPlan) -> dict[str, tuple[str, ...]]:
    """Collect warnings about topics with findings that do not prevent replication."""
    warnings: dict[str, tuple[str, ...]] = {}
    for each in plan.findings:
        if not prevents_replication(each):
            line = (
                f"{each}. {suggested_commands.format_remedy(each.command)}"
                if each.command
                else str(each)
            )
            warnings[each.topic] = (*warnings.get(each.topic, ()), line)
    return warnings


def prevents_replication(finding: MirrorTopicFinding) -> bool:
    """Return True if the finding prevents the topic from being replicated."""
    return finding.severity is MirrorFindingSeverity.STOP


def is_transient_describe_error(error: ConnectError) -> bool:
    """Return True if a failed description of a mirror topic may soon succeed: after a transient
    error, or because a broker does not know the new topic yet."""
    return isinstance(error, (RetriableError, TopicMissingError))


def _build_request_failure_problem(
    message: str, partitions: int, error: ConnectError, *, passing: bool, grant_command: str
) -> MirrorTopicProblem:
    """Build the problem of a topic for which a request failed. `grant_command` is a command that
    grants the missing permission."""
    is_denied = isinstance(error, NotAuthorizedError)
    return MirrorTopicProblem(
        cause=TOPIC_REFUSED_CAUSE,
        message=message,
        partitions=partitions,
        is_transient=passing,
        remedy=grant_command if is_denied else "",
    )


def _build_setting_problem(topic: ObservedTopic, finding: MirrorTopicFinding) -> MirrorTopicProblem:
    return MirrorTopicProblem(
        cause=TARGET_SETTING_CAUSE,
        message=str(finding),
        partitions=topic.partitions,
        remedy=finding.command,
    )


def _exclude_topics(by_topic: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: each for name, each in by_topic.items() if name not in names}


def _is_transient_mirror_error(error: ConnectError) -> bool:
    """Return True if an error of a mirror topic is transient. The mirror topic may exist although a
    broker does not know it yet."""
    return is_transient_describe_error(error) or isinstance(error, TopicExistsError)


METADATA_PROPAGATION_TIMEOUT_S = 10.0
"""Maximum time in seconds to wait until brokers apply a change that the controller has
acknowledged."""
TOPIC_RETRY_TIMEOUT_S = 20.0
"""Maximum time in seconds for which retries for one topic may delay the other topics."""
_METADATA_POLL_INTERVAL_S = 0.1
_TOPIC_RETRY_DELAY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTopicPreview:
    """Source topics, their existing mirror topics, and the planned changes to mirror topics."""

    source: PerTopicResult[ObservedTopic]
    existing: PerTopicResult[ObservedTopic]
    plan: MirrorTopicPlan


class MirrorTopicWriter:
    """Creates and updates the mirror topics of a flow. Not thread-safe.

    `pause` sleeps for the given seconds and returns True if waiting should stop. Once `stopped`
    returns True, no further changes are made, because another worker may own the flow.
    """

    def __init__(
        self,
        flow: Flow,
        *,
        source: Admin,
        target: Admin,
        clock: Clock,
        pause: Callable[[float], bool],
        stopped: Callable[[], bool],
        operator: OperatorCommands = suggested_commands.GENERIC_COMMANDS,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = clock
        self._pause = pause
        self._stopped = stopped
        self._operator = operator
        self._sync_configs = True

    def apply_changes(
        self, names: Iterable[str], end: Deadline, *, sync_configs: bool
    ) -> MirrorTopicsResult:
        """Create missing mirror topics and add partitions. With `sync_configs`, also sync topic
        configs.

        Transient failures are retried for at most `TOPIC_RETRY_TIMEOUT_S`, and for at most half of
        the time remaining until `end`. Other failures are reported without retry. Raises the same
        errors as `Admin` if a whole cluster does not respond or denies access, and `RetriableError`
        once `stopped` returns True.
        """
        self._sync_configs = sync_configs
        until = Deadline.after(
            min(TOPIC_RETRY_TIMEOUT_S, self._compute_remaining_s(end) / 2.0),
            now_s=self._clock.now_s(),
        )
        result = self._apply_changes_once(names, end)
        transient = result.list_transiently_failed_topics()
        if transient:
            first = result.problems[transient[0]].message
            _log.warning(
                "retrying %s; first error: %s",
                plurals.format_count(len(transient), "topic"),
                first,
            )
        while (
            transient and self._compute_remaining_s(until) and not self._pause(_TOPIC_RETRY_DELAY_S)
        ):
            result = result.merge_later_result(self._apply_changes_once(transient, end))
            transient = result.list_transiently_failed_topics()
        return result

    def describe_topics(self, partitions: Mapping[str, int], end: Deadline) -> MirrorTopicsResult:
        """Describe the given source topics and their mirror topics without changing them.

        Waits up to `METADATA_PROPAGATION_TIMEOUT_S` until each mirror topic has the number of
        partitions that `partitions` specifies for its source topic. Raises the same errors as
        `apply_changes`.
        """
        source = self._describe_topics_with_configs(self._source, partitions, end)
        sizes = {
            self._flow.format_remote_topic(name): partitions[name] for name in source.succeeded
        }
        mirrors = self._wait_until_topics_visible(sizes, end)
        findings = mirror_topic_plan.plan_mirror_topics(
            replace(self._flow, sync_topic_configs_interval_s=None),
            TopicsSnapshot(
                topics={
                    name: topic
                    for name, topic in source.succeeded.items()
                    if self._flow.format_remote_topic(name) in mirrors.succeeded
                }
            ),
            TopicsSnapshot(topics=mirrors.succeeded),
            sync_configs=False,
            operator=self._operator,
        ).findings
        return self._build_mirror_topics_result(source, mirrors, findings)

    def preview_changes(self, names: Iterable[str], end: Deadline) -> MirrorTopicPreview:
        """Plan the changes that `apply_changes` would make, without applying them. Raises the same
        errors as `apply_changes`."""
        source = self._describe_topics_with_configs(self._source, names, end)
        topics = {
            self._flow.format_remote_topic(name): topic for name, topic in source.succeeded.items()
        }
        listed = self._target.list_topics(self._compute_remaining_s(end))
        existing = self._describe_topics_with_configs(self._target, topics.keys() & listed, end)
        # A mirror that cannot be described may exist, with an unknown number of partitions.
        describable = {
            each.name: each for mirror, each in topics.items() if mirror not in existing.failed
        }
        plan = self._build_mirror_topic_plan(describable, existing.succeeded, end, listed=listed)
        return MirrorTopicPreview(source=source, existing=existing, plan=plan)

    def sync_configs(self, names: Iterable[str], end: Deadline) -> None:
        """Sync topic configs to existing mirror topics, without creating topics or adding
        partitions.

        Failures are logged. Raises the same errors as `apply_changes`.
        """
        self._sync_configs = True
        topics = {
            self._flow.format_remote_topic(name): topic
            for name, topic in self._describe_topics_with_configs(
                self._source, names, end
            ).succeeded.items()
        }
        listed = self._target.list_topics(self._compute_remaining_s(end))
        existing = self._describe_topics_with_configs(self._target, topics.keys() & listed, end)
        existing_topics = {topics[mirror].name: topics[mirror] for mirror in existing.succeeded}
        plan = self._build_mirror_topic_plan(
            existing_topics, existing.succeeded, end, listed=listed
        )
        if not self._stopped():
            self._apply_plan(replace(plan, create=(), add_partitions=()), end)

    def _compute_remaining_s(self, end: Deadline) -> float:
        return end.remaining_s(self._clock.now_s())

    def _describe_topics_with_configs(
        self, side: Admin, names: Iterable[str], end: Deadline
    ) -> PerTopicResult[ObservedTopic]:
        return kafka_client_interfaces.describe_topics_with_configs(
            side, sorted(names), self._compute_remaining_s(end), clock=self._clock
        )

    def _apply_changes_once(self, names: Iterable[str], end: Deadline) -> MirrorTopicsResult:
        preview = self.preview_changes(names, end)
        source, existing, plan = preview.source, preview.existing, preview.plan
        topics = {
            self._flow.format_remote_topic(name): topic for name, topic in source.succeeded.items()
        }
        if self._stopped():
            raise RetriableError(f"{self._flow.name} is stopping: no mirror topics are created")
        refused = {**existing.failed, **self._apply_plan(plan, end)}
        blocked = {each.topic for each in plan.findings if prevents_replication(each)}
        partitions = {
            mirror: each.partitions
            for mirror, each in topics.items()
            if mirror not in refused and each.name not in blocked
        }
        visible = self._wait_until_topics_visible(partitions, end)
        failed = {**refused, **visible.failed}
        mirrors = PerTopicResult(succeeded=visible.succeeded, failed=failed)
        result = self._build_mirror_topics_result(source, mirrors, plan.findings)
        return replace(result, warnings=collect_topic_warnings(plan))

    def _build_mirror_topics_result(
        self,
        source: PerTopicResult[ObservedTopic],
        mirrors: PerTopicResult[ObservedTopic],
        findings: Iterable[MirrorTopicFinding],
    ) -> MirrorTopicsResult:
        return pair_source_and_mirror_topics(
            self._flow,
            self._operator,
            source=source,
            mirrors=mirrors,
            blocked={each.topic: each for each in findings if prevents_replication(each)},
        )

    def _build_mirror_topic_plan(
        self,
        source: Mapping[str, ObservedTopic],
        existing: Mapping[str, ObservedTopic],
        end: Deadline,
        *,
        listed: Collection[str],
    ) -> MirrorTopicPlan:
        defaults = self._target.read_broker_configs(
            list(mirror_topic_plan.BROKER_CONFIG_NAMES.values()), self._compute_remaining_s(end)
        )
        source_snapshot = TopicsSnapshot(topics=source)
        target_snapshot = TopicsSnapshot(
            topics=existing,
            default_configs=mirror_topic_plan.derive_topic_defaults(defaults),
            config_names=self._read_supported_configs(existing, listed, end),
        )

        def build_plan(*, sync_configs: bool) -> MirrorTopicPlan:
            return mirror_topic_plan.plan_mirror_topics(
                self._flow,
                source_snapshot,
                target_snapshot,
                sync_configs=sync_configs,
                operator=self._operator,
            )

        plan = build_plan(sync_configs=self._sync_configs)
        if self._sync_configs or not self._flow.syncs_topic_configs:
            return plan
        # Differences that the next config sync resolves need no warning.
        return replace(build_plan(sync_configs=True), alter=plan.alter)

    def _read_supported_configs(
        self,
        existing: Mapping[str, ObservedTopic],
        listed: Collection[str],
        end: Deadline,
    ) -> Collection[str] | None:
        """Return the names of the topic configs that the target's release supports, read from any
        of its topics.

        Prefers a mirror topic, then the flow's offset map topic.
        """
        for each in existing.values():
            if each.configs:
                return each.configs.keys()
        own = replication_policy.format_offset_map_topic(self._flow.source)
        sample = [own] if own in listed else sorted(listed)[:1]
        described = (
            self._target.read_topic_configs(sample, self._compute_remaining_s(end)).succeeded
            if sample
            else {}
        )
        return next((configs.keys() for configs in described.values()), None)

    def _apply_plan(self, plan: MirrorTopicPlan, end: Deadline) -> dict[str, ConnectError]:
        """Create mirror topics, add partitions and alter configs. Returns failures by mirror
        topic."""
        refused: dict[str, ConnectError] = dict(self._create_mirror_topics(plan, end).failed)
        if plan.add_partitions:
            growth = {each.name: each.partitions for each in plan.add_partitions}
            refused.update(
                self._target.add_partitions(growth, self._compute_remaining_s(end)).failed
            )
        if plan.alter:
            changes = {
                each.name: ConfigChange(set=each.set, delete=each.delete) for each in plan.alter
            }
            results = self._target.alter_configs(changes, self._compute_remaining_s(end))
            for name, error in results.failed.items():
                _log.warning("syncing configs of %s failed: %s", name, error)
        return refused

    def _create_mirror_topics(
        self, planned: MirrorTopicPlan, end: Deadline
    ) -> PerTopicResult[None]:
        topics = select_topics_to_create(planned)
        if not topics:
            return PerTopicResult(succeeded={}, failed={})
        return self._target.create_topics(topics, self._compute_remaining_s(end))

    def _wait_until_topics_visible(
        self, partitions: Mapping[str, int], end: Deadline
    ) -> PerTopicResult[ObservedTopic]:
        """Describe mirror topics repeatedly until each has the number of partitions given in
        `partitions`, or the deadline has passed.

        Any broker may respond, and brokers learn of a new topic or partition only shortly after its
        creation was acknowledged.
        """
        until = Deadline.after(
            min(METADATA_PROPAGATION_TIMEOUT_S, self._compute_remaining_s(end)),
            now_s=self._clock.now_s(),
        )
        observed = self._describe_topics_with_configs(self._target, partitions, end)
        done, failed = dict(observed.succeeded), dict(observed.failed)
        while True:
            incomplete = {name for name, each in done.items() if each.partitions < partitions[name]}
            incomplete |= {
                name for name, error in failed.items() if is_transient_describe_error(error)
            }
            if (
                not incomplete
                or not self._compute_remaining_s(until)
                or self._pause(_METADATA_POLL_INTERVAL_S)
            ):
                return PerTopicResult(succeeded=done, failed=failed)
            observed = self._describe_topics_with_configs(self._target, incomplete, end)
            for name in incomplete:
                done.pop(name, None)
                failed.pop(name, None)
            done.update(observed.succeeded)
            failed.update(observed.failed)


def select_topics_to_create(plan: MirrorTopicPlan) -> list[NewTopic]:
    """Select the missing mirror topics to create, except for those whose source topic must not be
    replicated."""
    return [
        NewTopic(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            configs=each.configs,
        )
        for each in plan.create
        if each.topic not in plan.list_stopped_topics()
    ]
