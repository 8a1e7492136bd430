"""What a copy has to know of each of its partitions, and which ones must not be copied.

Both clusters are looked at and nothing is changed: mirrors are brought about by `mirror_topics`,
for a whole flow at once, and each task describes its own share of them here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import amounts, clock, deadline, ids
from mm2.cluster import admin
from mm2.connectors.topics import mirror_findings, mirror_topics
from mm2.core import commands, flows, loops
from mm2.core.copy import setup, stops
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What all partitions of a flow share, and what was noticed on the way, for people."""

    setup: setup.PartitionSetup
    warnings: tuple[str, ...]

    @property
    def one_cluster(self) -> bool:
        """Do both aliases lead to the same one?"""
        return self.setup.source_cluster == self.setup.target_cluster


class PartitionSetups:
    """Talks to both clusters' administration; one thread at a time."""

    def __init__(
        self,
        flow: flows.Flow,
        *,
        source: admin.Admin,
        target: admin.Admin,
        now: clock.Clock,
        operator: commands.Operator = commands.NOBODY,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._operator = operator

    def look(
        self,
        partitions: Collection[ids.TopicPartition],
        timeout_s: float,
        *,
        pause: Callable[[float], bool],
    ) -> SourcePlan:
        """These partitions of the source: each is copyable, or a finding.

        A mirror that brokers do not know of yet is waited for up to `mirror_topics.SPREADS_S`, with
        `pause`, which waits so many seconds and is True where no more waiting is wanted.
        Raises `RetriableError` when a cluster does not answer and `FatalError` when it refuses us.
        """
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        common = self.common(end)
        wanted: dict[str, list[int]] = defaultdict(list)
        for each in sorted(set(partitions)):
            wanted[each.topic].append(each.partition)
        mirrors = mirror_topics.MirrorTopics(
            self._flow,
            source=self._source,
            target=self._target,
            now=self._clock,
            pause=pause,
            stopped=lambda: False,
            operator=self._operator,
        )
        sizes = {topic: numbers[-1] + 1 for topic, numbers in wanted.items()}
        return self.sort(mirrors.describe(sizes, end), common, wanted=wanted)

    def common(self, end: deadline.Deadline) -> Common:
        """Raises as `look`, and soon where a cluster cannot be reached at all."""
        flow = self._flow
        source_id = self._source.cluster_id(min(FIRST_CONTACT_S, self._left_s(end)))
        target_id = self._target.cluster_id(min(FIRST_CONTACT_S, self._left_s(end)))
        warnings = ["both aliases lead to the same cluster"] if source_id == target_id else []
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
        shared = setup.PartitionSetup(
            flow=flow.name,
            topic="",
            remote_topic="",
            partition=0,
            transactional_id="",
            source_cluster=source_id,
            target_cluster=target_id,
            start=flow.start.text,
            target_topics=flow.target_topics,
            delivery=flow.delivery,
            on_source_gap=flow.on_source_gap,
            old_after_ms=(int(producer_ms) if producer_ms else forgets_ms) // 2,
            renew_after_s=forgets_ms / 1000.0 / RENEWALS,
            operator=self._operator,
        )
        return Common(setup=shared, warnings=tuple(warnings))

    def sort(
        self,
        topics: mirror_findings.Topics,
        common: Common,
        *,
        wanted: Mapping[str, Iterable[int]] | None = None,
    ) -> SourcePlan:
        """What of `topics` can be copied. `wanted`: numbers of partitions by topic; None: all."""
        partitions: list[setup.PartitionSetup] = []
        findings: list[Finding] = []
        for name in sorted({*topics.pairs, *topics.problems}):
            problem = topics.problems.get(name)
            if problem is not None:
                numbers = range(problem.partitions) if wanted is None else wanted[name]
                findings.extend(self._findings(name, problem, numbers))
                continue
            pair = topics.pairs[name]
            numbers = range(pair.topic.partitions) if wanted is None else wanted[name]
            for number in numbers:
                found = self._missing(pair, number, common)
                if found is None:
                    partitions.append(self._setup(pair, number, common))
                else:
                    findings.append(found)
        return SourcePlan(
            partitions=tuple(partitions), findings=tuple(findings), warnings=common.warnings
        )

    def _left_s(self, end: deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())

    def _when(self) -> str:
        """When it is tried again."""
        interval_s = self._flow.refresh_topics_interval_s
        if interval_s is None:
            return "; it is tried again at the next start"
        return f"; it is tried again every {interval_s:g} s (refresh.topics.interval.seconds)"

    def _findings(
        self, name: str, problem: mirror_findings.Problem, numbers: Iterable[int]
    ) -> list[Finding]:
        """The restart has it tried at once, not minutes later."""
        lines = [*filter(None, (problem.remedy,)), self._operator.restart(self._flow.name)]
        left_out = ""
        if problem.cause == mirror_findings.TOPIC_REFUSED and not problem.remedy:
            reload = self._operator.reload()
            left_out = f"Resolve that, or exclude the topic with topics.exclude ({reload}). "
        told = f"{problem.message}{self._when()}. {left_out}{commands.to_go_on(*lines)}"
        return [
            Finding(
                partition=ids.TopicPartition(name, number),
                cause=problem.cause,
                message=stops.with_code(problem.cause, told),
                spoils=problem.cause == mirror_findings.TARGET_SETTING,
            )
            for number in numbers
        ]

    def _missing(self, pair: mirror_findings.Pair, number: int, common: Common) -> Finding | None:
        """Why this partition of a topic cannot be copied, None where it can."""
        topic, mirror = pair.topic, pair.mirror
        where = ids.TopicPartition(topic.name, number)
        if common.one_cluster and topic.name == mirror.name:
            cause = mirror_findings.SAME_TOPIC
            told = (
                f"{self._flow.name} {topic.name}: both aliases lead to the same cluster, so the "
                "topic would be replicated into itself. Correct bootstrap.servers. "
                f"{commands.to_go_on(self._operator.reload())}"
            )
            message = stops.with_code(cause, told)
            return Finding(partition=where, cause=cause, message=message, spoils=True)
        if number >= topic.partitions:
            cause = mirror_findings.SOURCE_TOO_SMALL
            count = amounts.counted(topic.partitions, "partition")
            told = f"the source topic has {count}, partition {number} is assigned"
            line = self._operator.source.show_topic(topic.name)
        elif number >= mirror.partitions:
            cause = mirror_findings.MIRROR_TOO_SMALL
            told = (
                f"mirror topic {mirror.name} has "
                f"{amounts.counted(mirror.partitions, 'partition')}, {topic.partitions} are needed"
            )
            line = self._operator.target.show_topic(mirror.name)
        else:
            return None
        told = f"{self._flow.name} {topic.name}: {told}{self._when()}. {commands.to_go_on(line)}"
        return Finding(partition=where, cause=cause, message=stops.with_code(cause, told))

    def _setup(
        self, pair: mirror_findings.Pair, number: int, common: Common
    ) -> setup.PartitionSetup:
        topic, mirror = pair.topic, pair.mirror
        opposite = loops.opposite_map_topic(self._flow)
        return replace(
            common.setup,
            topic=topic.name,
            remote_topic=mirror.name,
            opposite_map=opposite if mirror.name == topic.name else "",
            partition=number,
            transactional_id=self._flow.transactional_id(ids.TopicPartition(topic.name, number)),
            source_topic_id=_id(topic),
            target_topic_id=_id(mirror),
            target_codec=_CODECS.get(mirror.config("compression.type") or "producer"),
        )


def _id(topic: snapshot.Topic) -> bytes:
    return topic.topic_id.bytes if topic.topic_id is not None else map_record.NO_TOPIC_ID
