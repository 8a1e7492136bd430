"""What a flow's connector looks at and makes on its two clusters: topics, mirrors, settings, ACLs.

One thread at a time. How often each is done is the connector's business.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin, flow_log, flow_log_topics
from mm2.connectors import internal_topics
from mm2.connectors.source import acl_sync, source_clients
from mm2.connectors.topics import mirror_topics, partition_setups
from mm2.core import commands, flows
from mm2.core.configs import connector_configs
from mm2.core.configs import connector_keys as keys
from mm2.core.topics import handout

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look found: partitions to hand out, those that must not be, and lines for people."""

    looked: handout.Looked
    findings: tuple[partition_setups.Finding, ...]
    warnings: tuple[str, ...]


class SourceLooks:
    """`wait`, given seconds, says whether it is asked to stop, `gone` the same at once: from then
    on nothing is changed any more. Raises as `source_clients.KafkaClients`."""

    def __init__(
        self,
        config: connector_configs.SourceConfig,
        clients: source_clients.Clients,
        *,
        clock: base_clock.Clock,
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
        self._mirrors = mirror_topics.MirrorTopics(
            config.flow,
            source=self._source,
            target=self._target,
            now=clock,
            pause=wait,
            stopped=gone,
            operator=self._operator,
        )
        self._setups = partition_setups.PartitionSetups(
            config.flow,
            source=self._source,
            target=self._target,
            now=clock,
            operator=self._operator,
        )
        self._way_back = clients.way_back(source=self._source, target=self._target)
        self._acls: acl_sync.AclSync | None = None
        self._topics: frozenset[str] = handout.NOWHERE

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
            _create_syncs(config, self._clients.syncs_admin(), wait=self._wait, waits=waits)
        topics = self._clients.log_topics(self._target)
        names = list(flow_log.topic_names(config.flow.source).values())
        logged = ""
        while True:
            try:
                return topics.ensure(names, config.common.admin_timeout_s)
            except errors.RetriableError as error:
                told = f"{error}; retrying"
            except flow_log_topics.MisconfiguredTopicError as error:
                told = commands.with_note(str(error), "The flow waits until this is corrected.")
            if told != logged:
                logged = told
                _LOG.warning("%s", told)
            waits(told)
            if self._wait(internal_topics.AGAIN_S):
                return None

    def look(self, held: Collection[str], *, settings: bool) -> Found:
        """See to it that the flow's topics have mirrors as large as they are, with `settings` ones
        that follow theirs. `held` are topics of which tasks have partitions.

        Raises `RetriableError` when a cluster does not answer and `FatalError` when it refuses us.
        """
        flow, end = self._config.flow, self._end()
        common = self._setups.common(end)
        wanted = self._wanted(held, end)
        clashes = handout.clashes(wanted, flow.remote_topic)
        wanted = wanted.difference(*clashes.values())
        topics = self._mirrors.bring_about(sorted(wanted), end, sync_configs=settings)
        plan = self._way_back.sift(self._setups.sort(topics, common), self._left_s(end))
        self._topics = wanted
        told = [line for _, lines in sorted(topics.warnings.items()) for line in lines]
        return Found(
            looked=_looked(plan, wanted),
            findings=plan.findings,
            warnings=(*plan.warnings, *told, *_clashing(flow, clashes)),
        )

    def follow_settings(self) -> None:
        """Of mirrors that are there, of topics that the last look found. Raises as `look`."""
        if self._topics:
            self._mirrors.follow_settings(sorted(self._topics), self._end())

    def follow_acls(self) -> None:
        """Raises as `look`."""
        if self._acls is None:
            self._acls = acl_sync.AclSync(
                self._config.flow,
                source=self._clients.source_acls(),
                target=self._clients.target_acls(),
                now=self._clock,
                operator=self._operator,
            )
        self._acls.sync(self._config.common.admin_timeout_s)

    def _wanted(self, held: Collection[str], end: deadline.Deadline) -> frozenset[str]:
        """Topics that are listed; of those that tasks have, only what is certainly gone is not."""
        flow = self._config.flow
        listed = self._source.list_topics(self._left_s(end))
        missing = {name for name in held if name not in listed}
        if missing:
            failed = self._source.describe_topics(sorted(missing), self._left_s(end)).failed
            missing -= {
                name
                for name, error in failed.items()
                if isinstance(error, kafka_errors.TopicMissingError)
            }
        return frozenset(filter(flow.should_replicate_topic, listed | missing))

    def _end(self) -> deadline.Deadline:
        return deadline.Deadline.after(
            self._config.common.admin_timeout_s, now_s=self._clock.now_s()
        )

    def _left_s(self, end: deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())


def _looked(plan: partition_setups.SourcePlan, topics: frozenset[str]) -> handout.Looked:
    copyable = (ids.TopicPartition(each.topic, each.partition) for each in plan.partitions)
    unsure = (each.partition.topic for each in plan.findings if not each.spoils)
    return handout.Looked(topics=topics, copyable=frozenset(copyable), unsure=frozenset(unsure))


def _clashing(flow: flows.Flow, clashes: Mapping[str, Collection[str]]) -> Iterator[str]:
    for mirror, topics in sorted(clashes.items()):
        told = " and ".join(sorted(topics))
        yield (
            f"topics {told} would all be {mirror} on {flow.target}: none of them is mirrored; "
            f"{keys.POLICY} has to name them apart, or {keys.TOPICS_EXCLUDE} leave all but one out"
        )


def _create_syncs(
    config: connector_configs.SourceConfig,
    cluster: admin.Admin,
    *,
    wait: Callable[[float], bool],
    waits: Callable[[str], object],
) -> None:
    assert config.syncs_topic is not None
    topic = internal_topics.InternalTopic(
        name=config.syncs_topic.name,
        replication_factor=config.syncs_topic_factor,
        factor_key=keys.SYNCS_TOPIC_FACTOR,
    )
    try:
        internal_topics.create(
            topic,
            cluster,
            timeout_s=config.common.admin_timeout_s,
            wait=wait,
            waits=waits,
        )
    finally:
        cluster.close()
