"""Topic refresh of a flow: reads both clusters, updates mirror topics, syncs configs and ACLs.

`RefreshSchedule` holds when refresh, config sync, ACL sync and load balancing are due. One
thread at a time.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2 import operator_commands
from mm2.config import keys
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors import internal_topics
from mm2.connectors.acl_sync import AclSync
from mm2.connectors.connector_clients import SourceConnectorClients
from mm2.connectors.internal_topics import Mm2InternalTopic
from mm2.connectors.mirror_topic_writer import MirrorTopicWriter
from mm2.connectors.partition_setup import (
    PartitionFinding,
    PartitionSetupBuilder,
    PartitionSetupPlan,
)
from mm2.kafka import client_interfaces
from mm2.kafka.client_interfaces import Admin
from mm2.kafka.flow_log_topics import MisconfiguredTopicError
from mm2.topics import assignment
from mm2.topics.assignment import AssignableTopics
from mm2.topics.flow_config import Flow

REFRESH_RETRY_DELAY_S = 10.0
"""What failed is tried again after this time, or sooner if its interval is shorter."""
LOAD_CHECK_INTERVAL_S = 30.0
"""How often it is looked at what tasks carry."""


@dataclass(slots=True)
class PeriodicAction:
    """One thing that is done at intervals of seconds; None: once. `due_s` None: never again."""

    interval_s: float | None
    due_s: float | None

    def is_due(self, now_s: float) -> bool:
        return self.due_s is not None and now_s >= self.due_s

    def done(self, now_s: float) -> None:
        self.due_s = None if self.interval_s is None else now_s + self.interval_s

    def failed(self, now_s: float) -> None:
        self.due_s = now_s + min(REFRESH_RETRY_DELAY_S, self.interval_s or REFRESH_RETRY_DELAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSchedule:
    """A look is due at once. Settings follow with the first look, and then as often as is asked;
    ACLs soon after the start, as in Java. `loads`: whether a task carries too much."""

    looks: PeriodicAction
    settings: PeriodicAction
    acls: PeriodicAction
    loads: PeriodicAction

    def pause_s(self, now_s: float) -> float | None:
        """Seconds until something is due; None: nothing will be."""
        every = (self.looks, self.settings, self.acls, self.loads)
        dues = (each.due_s for each in every)
        first_s = min((each for each in dues if each is not None), default=None)
        return None if first_s is None else max(0.0, first_s - now_s)


def build_refresh_schedule(config: MirrorSourceConfig, *, now_s: float) -> RefreshSchedule:
    """As the configuration says."""
    flow = config.flow
    settings_s, acls_s = flow.sync_topic_configs_interval_s, config.sync_acls_interval_s
    return RefreshSchedule(
        looks=PeriodicAction(flow.refresh_topics_interval_s, now_s),
        settings=PeriodicAction(settings_s, None if settings_s is None else now_s + settings_s),
        acls=PeriodicAction(acls_s, None if acls_s is None else now_s),
        loads=PeriodicAction(
            LOAD_CHECK_INTERVAL_S, now_s + LOAD_CHECK_INTERVAL_S if flow.tasks_max > 1 else None
        ),
    )


def describe_new_partitions(
    before: Iterable[TopicPartition], now: Iterable[TopicPartition]
) -> Iterator[str]:
    """Of topics that came, or have more partitions than before."""
    known = set(before)
    topics = {each.topic for each in known}
    more = Counter(each.topic for each in now if each not in known)
    for topic, count in sorted(more.items()):
        if topic in topics:
            told = f"partitions: {count} more are mirrored, from their first records on"
        else:
            told = f"is mirrored from now on (partitions: {count})"
        yield f"topic {topic} {told}"


def describe_missing_topics(before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """Of topics that were mirrored, and of which nothing is known any more."""
    for topic in sorted(set(before).difference(now)):
        yield (
            f"topic {topic} is no longer listed by the source (deleted, or DESCRIBE is no longer "
            "allowed): its mirror keeps what was copied"
        )


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRefreshResult:
    """What a look found: partitions to hand out, those that must not be, and lines for people."""

    looked: AssignableTopics
    findings: tuple[PartitionFinding, ...]
    warnings: tuple[str, ...]


class TopicRefresher:
    """`wait`, given seconds, says whether it is asked to stop, `gone` the same at once: from then
    on nothing is changed any more. Raises as `KafkaSourceConnectorClients`."""

    def __init__(
        self,
        config: MirrorSourceConfig,
        clients: SourceConnectorClients,
        *,
        clock: Clock,
        wait: Callable[[float], bool],
        gone: Callable[[], bool],
    ) -> None:
        self._config = config
        self._clients = clients
        self._clock = clock
        self._wait = wait
        self._operator = clients.operator()
        self._source = clients.source_admin()
        self._target = clients.target_admin()
        self._mirrors = MirrorTopicWriter(
            config.flow,
            source=self._source,
            target=self._target,
            now=clock,
            pause=wait,
            stopped=gone,
            operator=self._operator,
        )
        self._setups = PartitionSetupBuilder(
            config.flow,
            source=self._source,
            target=self._target,
            now=clock,
            operator=self._operator,
        )
        self._way_back = clients.way_back(source=self._source, target=self._target)
        self._acls: AclSync | None = None
        self._topics: frozenset[str] = assignment.NO_TOPICS

    def close(self) -> None:
        self._source.close()
        self._target.close()
        if self._acls is not None:
            self._acls.close()

    def create_topics(self, waits: Callable[[str], object]) -> None:
        """Offset syncs, and the flow's own topics. While a cluster does not answer it is asked
        again, and while a topic must not be used as it is, it is checked again; `waits` is told
        why. Raises `FatalError` where one is refused."""
        config = self._config
        if config.syncs_topic is not None:
            _create_offset_syncs_topic(
                config, self._clients.syncs_admin(), wait=self._wait, waits=waits
            )
        topics = self._clients.log_topics(self._target)
        names = list(client_interfaces.name_flow_log_topics(config.flow.source).values())
        logged = ""
        while True:
            try:
                return topics.ensure(names, config.common.admin_timeout_s)
            except RetriableError as error:
                told = f"{error}; retrying"
            except MisconfiguredTopicError as error:
                told = operator_commands.insert_note(
                    str(error), "The flow waits until this is corrected."
                )
            if told != logged:
                logged = told
                _LOG.warning("%s", told)
            waits(told)
            if self._wait(internal_topics.CREATE_RETRY_DELAY_S):
                return None

    def look(self, held: Collection[str], *, settings: bool) -> TopicRefreshResult:
        """See to it that the flow's topics have mirrors as large as they are, with `settings` ones
        that follow theirs. `held` are topics of which tasks have partitions.

        Raises `RetriableError` when a cluster does not answer and `FatalError` when it refuses us.
        """
        flow, end = self._config.flow, self._end()
        common = self._setups.common(end)
        wanted = self._wanted(held, end)
        clashes = assignment.find_mirror_name_conflicts(wanted, flow.remote_topic)
        wanted = wanted.difference(*clashes.values())
        topics = self._mirrors.bring_about(sorted(wanted), end, sync_configs=settings)
        plan = self._way_back.sift(self._setups.sort(topics, common), self._left_s(end))
        self._topics = wanted
        told = [line for _, lines in sorted(topics.warnings.items()) for line in lines]
        return TopicRefreshResult(
            looked=_to_assignable_topics(plan, wanted),
            findings=plan.findings,
            warnings=(*plan.warnings, *told, *_describe_name_conflicts(flow, clashes)),
        )

    def follow_settings(self) -> None:
        """Of mirrors that are there, of topics that the last look found. Raises as `look`."""
        if self._topics:
            self._mirrors.follow_settings(sorted(self._topics), self._end())

    def follow_acls(self) -> None:
        """Raises as `look`."""
        if self._acls is None:
            self._acls = AclSync(
                self._config.flow,
                source=self._clients.source_acls(),
                target=self._clients.target_acls(),
                now=self._clock,
                operator=self._operator,
            )
        self._acls.sync(self._config.common.admin_timeout_s)

    def _wanted(self, held: Collection[str], end: Deadline) -> frozenset[str]:
        """Topics that are listed; of those that tasks have, only what is certainly gone is not."""
        flow = self._config.flow
        listed = self._source.list_topics(self._left_s(end))
        missing = {name for name in held if name not in listed}
        if missing:
            failed = self._source.describe_topics(sorted(missing), self._left_s(end)).failed
            missing -= {
                name for name, error in failed.items() if isinstance(error, TopicMissingError)
            }
        return frozenset(filter(flow.should_replicate_topic, listed | missing))

    def _end(self) -> Deadline:
        return Deadline.after(self._config.common.admin_timeout_s, now_s=self._clock.now_s())

    def _left_s(self, end: Deadline) -> float:
        return end.left_s(self._clock.now_s())


def _to_assignable_topics(plan: PartitionSetupPlan, topics: frozenset[str]) -> AssignableTopics:
    copyable = (TopicPartition(each.topic, each.partition) for each in plan.partitions)
    unsure = (each.partition.topic for each in plan.findings if not each.spoils)
    return AssignableTopics(topics=topics, copyable=frozenset(copyable), unsure=frozenset(unsure))


def _describe_name_conflicts(flow: Flow, clashes: Mapping[str, Collection[str]]) -> Iterator[str]:
    for mirror, topics in sorted(clashes.items()):
        told = " and ".join(sorted(topics))
        yield (
            f"topics {told} would all be {mirror} on {flow.target}: none of them is mirrored; "
            f"{keys.POLICY} has to name them apart, or {keys.TOPICS_EXCLUDE} leave all but one out"
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
        factor_key=keys.SYNCS_TOPIC_FACTOR,
    )
    try:
        internal_topics.create_topic(
            topic,
            cluster,
            timeout_s=config.common.admin_timeout_s,
            wait=wait,
            waits=waits,
        )
    finally:
        cluster.close()
