"""Topic refresh of a flow: reads both clusters, updates mirror topics, syncs configs and ACLs.

`RefreshSchedule` determines when topic refresh, config sync, ACL sync and load balancing are due.
Not thread-safe.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2 import suggested_commands
from mm2.config import mirror_connector_config_keys
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors import mirror_topic_writer, mirrormaker2_internal_topics
from mm2.connectors.acl_sync import AclSync
from mm2.connectors.connector_kafka_clients import SourceConnectorClients
from mm2.connectors.mirror_topic_writer import MirrorTopicWriter
from mm2.connectors.mirrormaker2_internal_topics import Mm2InternalTopic
from mm2.connectors.partition_setup_builder import (
    PartitionFinding,
    PartitionSetupBuilder,
    PartitionSetupPlan,
)
from mm2.kafka import kafka_client_interfaces
from mm2.kafka.flow_state_topics import MisconfiguredTopicError
from mm2.kafka.kafka_client_interfaces import Admin
from mm2.replication import partition_halt_messages
from mm2.topics import task_assignment, topic_selection
from mm2.topics.flow_config import Flow
from mm2.topics.task_assignment import AssignableTopics

REFRESH_RETRY_DELAY_S = 10.0
"""Delay in seconds before a failed periodic action is retried, unless the action's interval is
shorter."""
LOAD_CHECK_INTERVAL_S = 30.0
"""Interval at which the load of tasks is checked."""


@dataclass(slots=True)
class PeriodicAction:
    """Schedule of an action that runs at an interval."""

    interval_s: float | None
    """Interval in seconds; None to run once."""
    due_s: float | None
    """When the action is due (monotonic seconds); None if it will not run again."""

    def is_due(self, now_s: float) -> bool:
        return self.due_s is not None and now_s >= self.due_s

    def record_success(self, now_s: float) -> None:
        self.due_s = None if self.interval_s is None else now_s + self.interval_s

    def record_failure(self, now_s: float) -> None:
        self.due_s = now_s + min(REFRESH_RETRY_DELAY_S, self.interval_s or REFRESH_RETRY_DELAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSchedule:
    """Schedule of the source connector's periodic actions.

    The first refresh runs immediately and includes a config sync; later config syncs run at their
    own interval. ACLs are synced shortly after the start, as in Java.
    """

    topics: PeriodicAction
    """Topic refresh."""
    configs: PeriodicAction
    """Config sync."""
    acls: PeriodicAction
    """ACL sync."""
    loads: PeriodicAction
    """Load check of tasks."""

    def compute_delay_s(self, now_s: float) -> float | None:
        """Compute the seconds until an action is due; None if no action will be due."""
        every = (self.topics, self.configs, self.acls, self.loads)
        dues = (each.due_s for each in every)
        first_s = min((each for each in dues if each is not None), default=None)
        return None if first_s is None else max(0.0, first_s - now_s)


def build_refresh_schedule(config: MirrorSourceConfig, *, now_s: float) -> RefreshSchedule:
    """Build the refresh schedule from the connector configuration."""
    flow = config.flow
    settings_s, acls_s = flow.sync_topic_configs_interval_s, config.sync_acls_interval_s
    return RefreshSchedule(
        topics=PeriodicAction(flow.refresh_topics_interval_s, now_s),
        configs=PeriodicAction(settings_s, None if settings_s is None else now_s + settings_s),
        acls=PeriodicAction(acls_s, None if acls_s is None else now_s),
        loads=PeriodicAction(
            LOAD_CHECK_INTERVAL_S, now_s + LOAD_CHECK_INTERVAL_S if flow.tasks_max > 1 else None
        ),
    )


def describe_new_partitions(
    before: Iterable[TopicPartition], now: Iterable[TopicPartition]
) -> Iterator[str]:
    """Yield log lines for new topics and topics with added partitions."""
    known = set(before)
    topics = {each.topic for each in known}
    more = Counter(each.topic for each in now if each not in known)
    for topic, count in sorted(more.items()):
        if topic in topics:
            added = plurals.format_count(count, "partition")
            yield f"topic {topic}: {added} added, replicated from the first record on"
        else:
            yield f"topic {topic}: now mirrored ({plurals.format_count(count, 'partition')})"


def describe_missing_topics(before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """Yield log lines for mirrored topics that the source no longer lists."""
    for topic in sorted(set(before).difference(now)):
        yield (
            f"topic {topic} is no longer listed by the source (deleted, or DESCRIBE is no longer "
            "allowed): its mirror topic keeps the replicated records"
        )


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRefreshResult:
    """Result of a topic refresh: topics, findings and warnings."""

    topics: AssignableTopics
    """Partitions to assign to tasks."""
    findings: tuple[PartitionFinding, ...]
    """Partitions that must not be replicated."""
    warnings: tuple[str, ...]
    """Warnings to log."""


class TopicRefresher:
    """Refreshes the topics of a flow. Raises the same errors as `KafkaSourceConnectorClients`.

    `wait` waits for the given seconds and returns True if the connector is stopping; `is_stopping`
    returns the same without waiting. Nothing is changed once the connector is stopping.
    """

    def __init__(
        self,
        config: MirrorSourceConfig,
        clients: SourceConnectorClients,
        *,
        clock: Clock,
        wait: Callable[[float], bool],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._config = config
        self._clients = clients
        self._clock = clock
        self._wait = wait
        self._operator = clients.get_operator_commands()
        self._source = clients.create_source_admin()
        self._target = clients.create_target_admin()
        self._mirrors = MirrorTopicWriter(
            config.flow,
            source=self._source,
            target=self._target,
            clock=clock,
            pause=wait,
            stopped=is_stopping,
            operator=self._operator,
        )
        self._setups = PartitionSetupBuilder(
            config.flow,
            source=self._source,
            target=self._target,
            clock=clock,
            operator=self._operator,
        )
        self._java_reverse_flow = clients.create_java_reverse_flow_detector(
            source=self._source, target=self._target
        )
        self._acls: AclSync | None = None
        self._topics: frozenset[str] = task_assignment.NO_TOPICS
        self._mirrored_topics: frozenset[str] = task_assignment.NO_TOPICS

    def close(self) -> None:
        self._source.close()
        self._target.close()
        if self._acls is not None:
            self._acls.close()

    def create_internal_topics(self, on_retry: Callable[[str], object]) -> None:
        """Create the offset-syncs topic and the flow's internal topics.

        Retries while a cluster does not respond or a topic is misconfigured; `on_retry` is called
        with the reason. Raises `FatalError` if a topic is rejected.
        """
        config = self._config
        if config.syncs_topic is not None:
            _create_offset_syncs_topic(
                config, self._clients.create_offset_syncs_admin(), wait=self._wait, waits=on_retry
            )
        topics = self._clients.create_flow_state_topics_client(self._target)
        names = list(
            kafka_client_interfaces.build_flow_state_topic_names(config.flow.source).values()
        )
        logged = ""
        while True:
            try:
                return topics.ensure_topics(names, config.common.admin_timeout_s)
            except RetriableError as error:
                message = f"{error}; retrying"
            except MisconfiguredTopicError as error:
                message = suggested_commands.insert_sentence_before_remedy(
                    str(error), "The flow is waiting until this topic is corrected."
                )
            if message != logged:
                logged = message
                _LOG.warning("%s", message)
            on_retry(message)
            if self._wait(mirrormaker2_internal_topics.CREATE_RETRY_DELAY_S):
                return None

    def refresh_topics(
        self, assigned_topics: Collection[str], *, sync_configs: bool
    ) -> TopicRefreshResult:
        """Create missing mirror topics and add missing partitions to existing ones. With
        `sync_configs`, also sync topic configs.

        `assigned_topics` are topics with assigned partitions. Raises `RetriableError` if a cluster
        does not respond and `FatalError` if it denies access.
        """
        flow, end = self._config.flow, self._build_deadline()
        common = self._setups.read_flow_setup(end)
        listed = self._list_topics(assigned_topics, end)
        selected = frozenset(
            each for each in listed if topic_selection.should_replicate_topic(flow, each)
        )
        conflicts = task_assignment.find_mirror_name_conflicts(selected, flow.format_remote_topic)
        selected = selected.difference(*conflicts.values())
        topics = self._mirrors.apply_changes(sorted(selected), end, sync_configs=sync_configs)
        plan = self._java_reverse_flow.exclude_looping_partitions(
            self._setups.build_plan_from_topics(topics, common), self._compute_remaining_s(end)
        )
        self._topics = selected
        self._mirrored_topics = frozenset(each.topic for each in plan.partitions)
        warnings = [line for _, lines in sorted(topics.warnings.items()) for line in lines]
        return TopicRefreshResult(
            topics=_build_assignable_topics(plan, selected),
            findings=plan.findings,
            warnings=(
                *plan.warnings,
                *warnings,
                *_describe_name_conflicts(flow, conflicts),
                *_describe_reserved_names(flow, listed),
            ),
        )

    def build_capacity_findings(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[PartitionFinding, ...]:
        """Build the findings about partitions that the flow's task configurations have no room
        for."""
        cause = mirror_topic_writer.TOPIC_REFUSED_CAUSE
        problem = (
            "the task configurations have no room for its partitions. Increase tasks.max, or "
            f"exclude the topic with topics.exclude ({self._operator.build_reload_command()})"
        )
        return tuple(
            PartitionFinding(
                partition=each,
                cause=cause,
                message=partition_halt_messages.format_halt_message(
                    cause, f"{self._config.flow.name} {each.topic}: {problem}"
                ),
            )
            for each in sorted(partitions)
        )

    def sync_configs(self) -> None:
        """Sync topic configs to the mirrors of the topics found by the last refresh. Raises the
        same errors as `refresh_topics`."""
        if self._topics:
            self._mirrors.sync_configs(sorted(self._topics), self._build_deadline())

    def sync_acls(self) -> None:
        """Sync ACLs of the topics that the flow replicates according to the last refresh. Raises
        the same errors as `refresh_topics`."""
        if self._acls is None:
            self._acls = AclSync(
                self._config.flow,
                source=self._clients.create_source_acl_admin(),
                target=self._clients.create_target_acl_admin(),
                clock=self._clock,
                operator=self._operator,
            )
        self._acls.sync_acls(self._mirrored_topics, self._config.common.admin_timeout_s)

    def _list_topics(self, held: Collection[str], end: Deadline) -> frozenset[str]:
        """List the source's topics. Topics with assigned partitions are included unless it is
        certain that they no longer exist."""
        listed = self._source.list_topics(self._compute_remaining_s(end))
        missing = {name for name in held if name not in listed}
        if missing:
            failed = self._source.describe_topics(
                sorted(missing), self._compute_remaining_s(end)
            ).failed
            missing -= {
                name for name, error in failed.items() if isinstance(error, TopicMissingError)
            }
        return listed | missing

    def _build_deadline(self) -> Deadline:
        return Deadline.after(self._config.common.admin_timeout_s, now_s=self._clock.now_s())

    def _compute_remaining_s(self, end: Deadline) -> float:
        return end.remaining_s(self._clock.now_s())


def _build_assignable_topics(plan: PartitionSetupPlan, topics: frozenset[str]) -> AssignableTopics:
    copyable = (TopicPartition(each.topic, each.partition) for each in plan.partitions)
    unsure = (each.partition.topic for each in plan.findings if not each.is_harmful)
    return AssignableTopics(
        topics=topics, assignable=frozenset(copyable), uncertain=frozenset(unsure)
    )


def _describe_name_conflicts(flow: Flow, clashes: Mapping[str, Collection[str]]) -> Iterator[str]:
    for mirror, topics in sorted(clashes.items()):
        names = " and ".join(sorted(topics))
        yield (
            f"topics {names} would all be mirrored to {mirror} on {flow.target}, so none of them "
            f"is mirrored: use a {mirror_connector_config_keys.POLICY} with distinct names, or "
            "exclude "
            f"all but one with {mirror_connector_config_keys.TOPICS_EXCLUDE}"
        )


def _describe_reserved_names(flow: Flow, listed: Collection[str]) -> Iterator[str]:
    for topic in sorted(listed):
        if not topic_selection.has_reserved_mirror_name(flow, topic):
            continue
        reason = topic_selection.explain_mismatch(flow, topic)
        yield (
            f"topic {topic} of {flow.source} is not mirrored: {reason}; "
            f"rename it, or exclude it with {mirror_connector_config_keys.TOPICS_EXCLUDE}"
        )


def _create_offset_syncs_topic(
    config: MirrorSourceConfig,
    cluster: Admin,
    *,
    wait: Callable[[float], bool],
    waits: Callable[[str], object],
) -> None:
    assert config.syncs_topic is not None
    topic = Mm2InternalTopic(
        name=config.syncs_topic.name,
        replication_factor=config.syncs_topic_factor,
        factor_key=mirror_connector_config_keys.SYNCS_TOPIC_FACTOR,
    )
    try:
        mirrormaker2_internal_topics.create_topic(
            topic,
            cluster,
            timeout_s=config.common.admin_timeout_s,
            wait=wait,
            on_retry=waits,
        )
    finally:
        cluster.close()
