"""Which topics a flow mirrors, and what must be true of them before they are copied.

`mirror_topics` brings the mirrors about; the result here is the list of partitions to copy and of
those that must not be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from connect_runtime.base import clock, deadline, ids
from mm2.cluster import admin
from mm2.connectors import mirror_topics
from mm2.core import commands, flows
from mm2.core.copy import setup
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A partition that is not copied as things are: what is wrong and what to do.

    `spoils`: to go on copying it would do harm.
    """

    partition: ids.TopicPartition
    cause: str
    message: str
    spoils: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """`partitions` can be copied, `findings` cannot; a source partition is in at most one.

    `warnings` are lines for people.
    """

    partitions: tuple[setup.PartitionSetup, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()


class SourceConnector:
    """Talks to both clusters' administration; one thread at a time. `pause` waits so many
    seconds; True: no more waiting is wanted. `stopped`: nothing may be changed any more."""

    def __init__(
        self,
        flow: flows.Flow,
        *,
        source: admin.Admin,
        target: admin.Admin,
        now: clock.Clock,
        pause: Callable[[float], bool],
        stopped: Callable[[], bool],
        operator: commands.Operator = commands.NOBODY,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._operator = operator
        self._synced_at_s: float | None = None
        self._mirrors = mirror_topics.MirrorTopics(
            flow,
            source=source,
            target=target,
            now=now,
            pause=pause,
            stopped=stopped,
            operator=operator,
        )

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def plan(self, timeout_s: float) -> SourcePlan:
        """Observe, create what is missing, and say what can be copied.

        Every partition's `start` is the flow's, also where one was added (`start_positions`).
        Raises `RetriableError` when a cluster does not answer and `FatalError` when it refuses us;
        what is wrong with single topics becomes findings.
        """
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        clusters = (
            self._source.cluster_id(min(FIRST_CONTACT_S, self._left_s(end))),
            self._target.cluster_id(min(FIRST_CONTACT_S, self._left_s(end))),
        )
        warnings = ["both aliases lead to the same cluster"] if clusters[0] == clusters[1] else []
        names = self._source.list_topics(self._left_s(end))
        wanted = sorted(name for name in names if self._flow.should_replicate_topic(name))
        topics = self._mirrors.bring_about(wanted, end, sync_configs=self._settings_are_due())
        for _, lines in sorted(topics.warnings.items()):
            warnings.extend(lines)
        base = self._base(clusters, end, warnings=warnings)
        return replace(self._sort(topics, base), warnings=tuple(warnings))

    def _settings_are_due(self) -> bool:
        """Do settings of mirrors follow their sources' now? With every look, if that is seldom."""
        interval_s = self._flow.sync_topic_configs_interval_s
        now_s = self._clock.now_s()
        if interval_s is None:
            return False
        if self._synced_at_s is not None and now_s < self._synced_at_s + interval_s:
            return False
        self._synced_at_s = now_s
        return True

    def _when(self) -> str:
        """When it is tried again."""
        interval_s = self._flow.refresh_topics_interval_s
        if interval_s is None:
            return "; it is tried again at the next start"
        return f"; it is tried again every {interval_s:g} s (refresh.topics.interval.seconds)"

    def _left_s(self, end: deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())

    def _base(
        self, clusters: tuple[str, str], end: deadline.Deadline, *, warnings: list[str]
    ) -> setup.PartitionSetup:
        """What all partitions of the flow share; `warnings` is added to."""
        flow = self._flow
        names = (PRODUCER_EXPIRATION, TRANSACTIONAL_EXPIRATION)
        found = self._target.broker_configs(names, self._left_s(end))
        if found is None:
            told = commands.to_go_on(self._operator.target.allow_cluster("DescribeConfigs"))
            warnings.append(
                f"the target's {PRODUCER_EXPIRATION} may not be read; 24 hours are assumed. {told}"
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
            on_source_gap=flow.on_source_gap,
            old_after_ms=(int(producer_ms) if producer_ms else forgets_ms) // 2,
            renew_after_s=forgets_ms / 1000.0 / RENEWALS,
            operator=self._operator,
        )

    def _sort(self, topics: mirror_topics.Topics, base: setup.PartitionSetup) -> SourcePlan:
        partitions: list[setup.PartitionSetup] = []
        findings: list[Finding] = []
        for name in sorted({*topics.pairs, *topics.problems}):
            problem = topics.problems.get(name)
            if problem is not None:
                findings.extend(self._findings(name, problem))
            else:
                pair = topics.pairs[name]
                partitions.extend(self._setups(pair.topic, pair.mirror, base))
                findings.extend(self._missing(pair))
        return SourcePlan(partitions=tuple(partitions), findings=tuple(findings))

    def _findings(self, name: str, problem: mirror_topics.Problem) -> list[Finding]:
        """Further looks try again by themselves, so that a remedy is all it takes then."""
        looks = self._flow.refresh_topics_interval_s is not None
        lines = [problem.remedy] if problem.remedy else []
        if not (lines and looks):
            lines.append(self._operator.run())
        return [
            Finding(
                partition=ids.TopicPartition(name, number),
                cause=problem.cause,
                message=f"{problem.message}{self._when()}. {commands.to_go_on(*lines)}",
                spoils=problem.cause == mirror_topics.TARGET_SETTING,
            )
            for number in range(problem.partitions)
        ]

    def _missing(self, pair: mirror_topics.Pair) -> list[Finding]:
        """Partitions that the mirror should have by now, and has not."""
        topic, mirror = pair.topic, pair.mirror
        message = (
            f"{self._flow.name} {topic.name}: the target tells of {mirror.partitions} partitions "
            f"of {mirror.name}, {topic.partitions} are needed{self._when()}. "
            f"{commands.to_go_on(self._operator.target.show_topic(mirror.name))}"
        )
        return [
            Finding(
                partition=ids.TopicPartition(topic.name, number),
                cause="mirror-too-small",
                message=message,
            )
            for number in range(mirror.partitions, topic.partitions)
        ]

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


def _id(topic: snapshot.Topic) -> bytes:
    return topic.topic_id.bytes if topic.topic_id is not None else map_record.NO_TOPIC_ID


def _position(start: flows.StartPosition) -> str:
    if start.at is flows.StartAt.TIMESTAMP:
        return str(start.timestamp_ms)
    return str(start.at.value)
