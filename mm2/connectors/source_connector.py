"""Which topics a flow mirrors, and what must be true of them before they are copied.

Read (both clusters), plan (`core/topics`), write (topics and settings on the target); the result is
the list of partitions to copy and of those that must not be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import clock, deadline, errors, ids
from mm2.cluster import admin
from mm2.core import flows
from mm2.core.copy import setup
from mm2.core.topics import plan as topic_plan
from mm2.core.topics import snapshot
from mm2.formats import map_record

PRODUCER_EXPIRATION = "producer.id.expiration.ms"
TRANSACTIONAL_EXPIRATION = "transactional.id.expiration.ms"
DAY_MS = 86_400_000
FIRST_CONTACT_S = 10.0
"""An unreachable cluster is told soon; planning itself may take longer."""
RENEWALS = 3
"""A fence is renewed this many times within what the brokers remember."""

_CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A partition that is not copied as things are: what is wrong and what to do."""

    partition: ids.TopicPartition
    cause: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """`partitions` can be copied, `findings` cannot; a source partition is in at most one."""

    partitions: tuple[setup.PartitionSetup, ...]
    findings: tuple[Finding, ...]


class SourceConnector:
    """Talks to both clusters' administration; one thread at a time. `pause` waits so many
    seconds."""

    def __init__(
        self,
        flow: flows.Flow,
        *,
        source: admin.Admin,
        target: admin.Admin,
        now: clock.Clock,
        pause: Callable[[float], object],
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._pause = pause

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def plan(self, timeout_s: float) -> SourcePlan:
        """Observe, create what is missing, and say what can be copied.

        Raises `RetriableError` when a cluster does not answer and `FatalError` when it refuses us;
        what is wrong with single topics becomes findings.
        """
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        clusters = (
            self._source.cluster_id(min(FIRST_CONTACT_S, self._left_s(end))),
            self._target.cluster_id(min(FIRST_CONTACT_S, self._left_s(end))),
        )
        if clusters[0] == clusters[1]:
            _log.warning("%s: both aliases lead to the same cluster", self._flow.name)
        names = self._source.list_topics(self._left_s(end))
        wanted = sorted(name for name in names if self._flow.should_replicate_topic(name))
        observed = self._observe(self._source, wanted, end)
        planned, refused = self._bring_about(observed.done, end)
        mirrors = {self._flow.remote_topic(name) for name in observed.done}
        there = self._observe_there(mirrors, end)
        failed = {**observed.failed, **there.failed, **refused}
        blocked = {each.topic: each for each in planned.findings if _stops(each)}
        for each in planned.findings:
            if not _stops(each):
                _log.warning("%s: %s", self._flow.name, each)
        return self._sort(
            observed.done,
            there.done,
            failed=failed,
            blocked=blocked,
            base=self._base(clusters, end),
        )

    def _left_s(self, end: deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())

    def _observe(
        self, side: admin.Admin, names: list[str], end: deadline.Deadline
    ) -> admin.PerTopic[snapshot.Topic]:
        return admin.observe_topics(side, names, self._left_s(end), clock=self._clock)

    def _bring_about(
        self, source: Mapping[str, snapshot.Topic], end: deadline.Deadline
    ) -> tuple[topic_plan.Plan, dict[str, errors.ConnectError]]:
        """Create and grow mirror topics; failures by the mirror topic's name."""
        target = self._target.list_topics(self._left_s(end))
        mirrors = {self._flow.remote_topic(name) for name in source} & target
        there = self._observe(self._target, sorted(mirrors), end)
        defaults = self._target.broker_configs(
            list(snapshot.BROKER_NAMES.values()), self._left_s(end)
        )
        planned = topic_plan.plan(
            self._flow,
            snapshot.Snapshot(topics=source),
            snapshot.Snapshot(topics=there.done, new_topic=snapshot.new_topic_settings(defaults)),
            sync_configs=self._flow.sync_topic_configs_interval_s is not None,
        )
        refused: dict[str, errors.ConnectError] = dict(there.failed)
        refused.update(self._create(planned, end).failed)
        if planned.grow:
            growth = {each.name: each.partitions for each in planned.grow}
            refused.update(self._target.grow_topics(growth, self._left_s(end)).failed)
        if planned.alter:
            changes = {
                each.name: admin.ConfigChange(set=each.set, delete=each.delete)
                for each in planned.alter
            }
            answered = self._target.alter_configs(changes, self._left_s(end))
            for name, error in answered.failed.items():
                _log.warning("%s: settings of %s: %s", self._flow.name, name, error)
        return planned, refused

    def _create(self, planned: topic_plan.Plan, end: deadline.Deadline) -> admin.PerTopic[None]:
        topics = [
            admin.NewTopic(
                name=each.name,
                partitions=each.partitions,
                replication_factor=each.replication_factor,
                configs=each.configs,
            )
            for each in planned.create
            if each.topic not in planned.stopped_topics()
        ]
        if not topics:
            return admin.PerTopic(done={}, failed={})
        return self._target.create_topics(topics, self._left_s(end))

    def _observe_there(
        self, mirrors: set[str], end: deadline.Deadline
    ) -> admin.PerTopic[snapshot.Topic]:
        """Brokers learn of a new topic a little after its creation was acknowledged."""
        seen = self._observe(self._target, sorted(mirrors), end)
        until_s = self._clock.now_s() + 10.0
        while seen.failed and self._clock.now_s() < until_s and self._left_s(end):
            missing = sorted(seen.failed)
            self._pause(0.1)
            again = self._observe(self._target, missing, end)
            seen = admin.PerTopic(done={**seen.done, **again.done}, failed=again.failed)
        return seen

    def _base(self, clusters: tuple[str, str], end: deadline.Deadline) -> setup.PartitionSetup:
        """What all partitions of the flow share."""
        flow = self._flow
        names = (PRODUCER_EXPIRATION, TRANSACTIONAL_EXPIRATION)
        found = self._target.broker_configs(names, self._left_s(end))
        if found is None:
            _log.warning(
                "%s: the target's %s may not be read (DESCRIBE_CONFIGS on the cluster); "
                "24 hours are assumed",
                flow.name,
                PRODUCER_EXPIRATION,
            )
        known = [int(value) for value in (found or {}).values() if value is not None]
        forgets_ms = min(known, default=DAY_MS)
        producer_ms = (found or {}).get(PRODUCER_EXPIRATION)
        return setup.PartitionSetup(
            flow=flow.name,
            topic="",
            remote_topic="",
            partition=0,
            transactional_id="",
            source_cluster=clusters[0],
            target_cluster=clusters[1],
            start=_position(flow.start),
            target_topics=flow.target_topics,
            delivery=flow.delivery,
            old_after_ms=(int(producer_ms) if producer_ms else forgets_ms) // 2,
            renew_after_s=forgets_ms / 1000.0 / RENEWALS,
        )

    def _sort(
        self,
        source: Mapping[str, snapshot.Topic],
        target: Mapping[str, snapshot.Topic],
        *,
        failed: Mapping[str, errors.ConnectError],
        blocked: Mapping[str, topic_plan.Finding],
        base: setup.PartitionSetup,
    ) -> SourcePlan:
        partitions: list[setup.PartitionSetup] = []
        findings: list[Finding] = []
        for name in sorted({*source, *(each for each in failed if each not in target)}):
            remote = self._flow.remote_topic(name)
            topic, mirror = source.get(name), target.get(remote)
            problem = self._problem(name, remote, failed=failed, blocked=blocked)
            if topic is None or mirror is None or problem is not None:
                if topic is not None or name not in failed or self._is_source_name(name):
                    missing = ("topic-refused", f"{remote} is not there on the target")
                    findings.extend(_findings(name, topic, problem or missing))
                continue
            partitions.extend(self._setups(topic, mirror, base))
        return SourcePlan(partitions=tuple(partitions), findings=tuple(findings))

    def _is_source_name(self, name: str) -> bool:
        return self._flow.should_replicate_topic(name)

    def _problem(
        self,
        name: str,
        remote: str,
        *,
        failed: Mapping[str, errors.ConnectError],
        blocked: Mapping[str, topic_plan.Finding],
    ) -> tuple[str, str] | None:
        """(cause, message), None when the topic can be copied."""
        if name in blocked:
            return "target-setting", str(blocked[name])
        for each in (name, remote):
            if each in failed:
                return "topic-refused", f"{self._flow.name} {each}: {failed[each]}"
        return None

    def _setups(
        self, topic: snapshot.Topic, mirror: snapshot.Topic, base: setup.PartitionSetup
    ) -> list[setup.PartitionSetup]:
        codec = _CODECS.get(mirror.config("compression.type") or "producer")
        return [
            replace(
                base,
                topic=topic.name,
                remote_topic=mirror.name,
                partition=number,
                transactional_id=self._flow.transactional_id(
                    ids.TopicPartition(topic.name, number)
                ),
                source_topic_id=_id(topic),
                target_topic_id=_id(mirror),
                target_codec=codec,
            )
            for number in range(min(topic.partitions, mirror.partitions))
        ]


def _findings(name: str, topic: snapshot.Topic | None, problem: tuple[str, str]) -> list[Finding]:
    cause, message = problem
    return [
        Finding(partition=ids.TopicPartition(name, number), cause=cause, message=message)
        for number in range(topic.partitions if topic is not None else 1)
    ]


def _stops(finding: topic_plan.Finding) -> bool:
    return finding.severity is topic_plan.Severity.STOP


def _id(topic: snapshot.Topic) -> bytes:
    return topic.topic_id.bytes if topic.topic_id is not None else map_record.NO_TOPIC_ID


def _position(start: flows.StartPosition) -> str:
    if start.at is flows.StartAt.TIMESTAMP:
        return str(start.timestamp_ms)
    return str(start.at.value)
