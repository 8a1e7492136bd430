"""Builds the `PartitionSetup` of every assigned partition, and says which ones must not be copied.

Both clusters are read and nothing is changed: `mirror_topic_writer` creates mirror topics for
the whole flow, and each task describes its own partitions here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from mm2 import operator_commands
from mm2.connectors import mirror_topic_writer
from mm2.connectors.mirror_topic_writer import (
    MirrorPair,
    MirrorTopicProblem,
    MirrorTopicsResult,
    MirrorTopicWriter,
)
from mm2.formats import offset_map_records
from mm2.kafka.client_interfaces import Admin
from mm2.operator_commands import OperatorCommands
from mm2.replication import halts
from mm2.replication.setup import PartitionSetup
from mm2.topics import replication_loops
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_plan import ObservedTopic

PRODUCER_EXPIRATION_CONFIG = "producer.id.expiration.ms"
TRANSACTIONAL_EXPIRATION_CONFIG = "transactional.id.expiration.ms"
DAY_MS = 86_400_000
FIRST_CONTACT_TIMEOUT_S = 10.0
"""An unreachable cluster is told soon; planning itself may take longer."""
FENCE_RENEWALS_PER_EXPIRATION = 3
"""A fence is renewed this many times within what the brokers remember."""

_CODEC_IDS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFinding:
    """A partition that is not copied as things are: what is wrong and what to do.

    `spoils`: to go on copying it would do harm.
    """

    partition: TopicPartition
    cause: str
    message: str
    spoils: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSetupPlan:
    """`partitions` can be copied, `findings` cannot; a source partition is in at most one.

    `warnings` are lines for people.
    """

    partitions: tuple[PartitionSetup, ...]
    findings: tuple[PartitionFinding, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSetup:
    """What all partitions of a flow share, and what was noticed on the way, for people."""

    setup: PartitionSetup
    warnings: tuple[str, ...]

    @property
    def one_cluster(self) -> bool:
        """Do both aliases lead to the same one?"""
        return self.setup.source_cluster == self.setup.target_cluster


class PartitionSetupBuilder:
    """Talks to both clusters' administration; one thread at a time."""

    def __init__(
        self,
        flow: Flow,
        *,
        source: Admin,
        target: Admin,
        now: Clock,
        operator: OperatorCommands = operator_commands.GENERIC_COMMANDS,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._operator = operator

    def look(
        self,
        partitions: Collection[TopicPartition],
        timeout_s: float,
        *,
        pause: Callable[[float], bool],
    ) -> PartitionSetupPlan:
        """These partitions of the source: each is copyable, or a finding.

        A mirror that brokers do not know of yet is waited for up to
        `mirror_topic_writer.METADATA_PROPAGATION_TIMEOUT_S`, with `pause`, which waits so many
        seconds and is True where no more waiting is wanted. Raises `RetriableError` when a cluster
        does not answer and `FatalError` when it refuses us."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        common = self.common(end)
        wanted: dict[str, list[int]] = defaultdict(list)
        for each in sorted(set(partitions)):
            wanted[each.topic].append(each.partition)
        mirrors = MirrorTopicWriter(
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

    def common(self, end: Deadline) -> FlowSetup:
        """Raises as `look`, and soon where a cluster cannot be reached at all."""
        flow = self._flow
        source_id = self._source.cluster_id(min(FIRST_CONTACT_TIMEOUT_S, self._left_s(end)))
        target_id = self._target.cluster_id(min(FIRST_CONTACT_TIMEOUT_S, self._left_s(end)))
        warnings = ["both aliases lead to the same cluster"] if source_id == target_id else []
        names = (PRODUCER_EXPIRATION_CONFIG, TRANSACTIONAL_EXPIRATION_CONFIG)
        found = self._target.broker_configs(names, self._left_s(end))
        if found is None:
            told = operator_commands.format_remedy(
                self._operator.target.allow_cluster("DescribeConfigs")
            )
            warnings.append(
                f"the target's {PRODUCER_EXPIRATION_CONFIG} may not be read; 24 hours are "
                f"assumed. {told}"
            )
        known = [int(value) for value in (found or {}).values() if value is not None]
        forgets_ms = min(known, default=DAY_MS)
        producer_ms = (found or {}).get(PRODUCER_EXPIRATION_CONFIG)
        shared = PartitionSetup(
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
            renew_after_s=forgets_ms / 1000.0 / FENCE_RENEWALS_PER_EXPIRATION,
            operator=self._operator,
        )
        return FlowSetup(setup=shared, warnings=tuple(warnings))

    def sort(
        self,
        topics: MirrorTopicsResult,
        common: FlowSetup,
        *,
        wanted: Mapping[str, Iterable[int]] | None = None,
    ) -> PartitionSetupPlan:
        """What of `topics` can be copied. `wanted`: numbers of partitions by topic; None: all."""
        partitions: list[PartitionSetup] = []
        findings: list[PartitionFinding] = []
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
        return PartitionSetupPlan(
            partitions=tuple(partitions), findings=tuple(findings), warnings=common.warnings
        )

    def _left_s(self, end: Deadline) -> float:
        return end.left_s(self._clock.now_s())

    def _when(self) -> str:
        """When it is tried again."""
        interval_s = self._flow.refresh_topics_interval_s
        if interval_s is None:
            return "; it is tried again at the next start"
        return f"; it is tried again every {interval_s:g} s (refresh.topics.interval.seconds)"

    def _findings(
        self, name: str, problem: MirrorTopicProblem, numbers: Iterable[int]
    ) -> list[PartitionFinding]:
        """The restart has it tried at once, not minutes later."""
        lines = [*filter(None, (problem.remedy,)), self._operator.restart(self._flow.name)]
        left_out = ""
        if problem.cause == mirror_topic_writer.TOPIC_REFUSED_CAUSE and not problem.remedy:
            reload = self._operator.reload()
            left_out = f"Resolve that, or exclude the topic with topics.exclude ({reload}). "
        told = (
            f"{problem.message}{self._when()}. {left_out}{operator_commands.format_remedy(*lines)}"
        )
        return [
            PartitionFinding(
                partition=TopicPartition(name, number),
                cause=problem.cause,
                message=halts.format_with_code(problem.cause, told),
                spoils=problem.cause == mirror_topic_writer.TARGET_SETTING_CAUSE,
            )
            for number in numbers
        ]

    def _missing(self, pair: MirrorPair, number: int, common: FlowSetup) -> PartitionFinding | None:
        """Why this partition of a topic cannot be copied, None where it can."""
        topic, mirror = pair.topic, pair.mirror
        where = TopicPartition(topic.name, number)
        if common.one_cluster and topic.name == mirror.name:
            cause = mirror_topic_writer.SAME_TOPIC_CAUSE
            told = (
                f"{self._flow.name} {topic.name}: both aliases lead to the same cluster, so the "
                "topic would be replicated into itself. Correct bootstrap.servers. "
                f"{operator_commands.format_remedy(self._operator.reload())}"
            )
            message = halts.format_with_code(cause, told)
            return PartitionFinding(partition=where, cause=cause, message=message, spoils=True)
        if number >= topic.partitions:
            cause = mirror_topic_writer.SOURCE_TOO_SMALL_CAUSE
            count = plurals.format_count(topic.partitions, "partition")
            told = f"the source topic has {count}, partition {number} is assigned"
            line = self._operator.source.show_topic(topic.name)
        elif number >= mirror.partitions:
            cause = mirror_topic_writer.MIRROR_TOO_SMALL_CAUSE
            told = (
                f"mirror topic {mirror.name} has "
                f"{plurals.format_count(mirror.partitions, 'partition')}, {topic.partitions} "
                "are needed"
            )
            line = self._operator.target.show_topic(mirror.name)
        else:
            return None
        told = f"{self._flow.name} {topic.name}: {told}{self._when()}. {operator_commands.format_remedy(line)}"
        return PartitionFinding(
            partition=where, cause=cause, message=halts.format_with_code(cause, told)
        )

    def _setup(self, pair: MirrorPair, number: int, common: FlowSetup) -> PartitionSetup:
        topic, mirror = pair.topic, pair.mirror
        opposite = replication_loops.reverse_offset_map_topic(self._flow)
        return replace(
            common.setup,
            topic=topic.name,
            remote_topic=mirror.name,
            opposite_map=opposite if mirror.name == topic.name else "",
            partition=number,
            transactional_id=self._flow.transactional_id(TopicPartition(topic.name, number)),
            source_topic_id=_topic_id_bytes(topic),
            target_topic_id=_topic_id_bytes(mirror),
            target_codec=_CODEC_IDS.get(mirror.config("compression.type") or "producer"),
        )


def _topic_id_bytes(topic: ObservedTopic) -> bytes:
    return topic.topic_id.bytes if topic.topic_id is not None else offset_map_records.NO_TOPIC_ID
