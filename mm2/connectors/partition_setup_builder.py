"""Builds the `PartitionSetup` of every assigned partition, and reports partitions that must not be
replicated.

Each task describes only the topics of its own partitions, and changes nothing on either cluster.
`mirror_topic_writer` creates the mirror topics of the whole flow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.connectors import mirror_topic_writer
from mm2.connectors.mirror_topic_writer import (
    MirrorTopicProblem,
    MirrorTopicsResult,
    MirrorTopicWriter,
    SourceAndMirrorTopic,
)
from mm2.formats import offset_map_records
from mm2.kafka.kafka_client_interfaces import Admin
from mm2.replication import partition_halt_messages, transactional_ids
from mm2.replication.partition_setup import PartitionSetup
from mm2.suggested_commands import OperatorCommands
from mm2.topics import replication_loops
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_topic_plan import ObservedTopic

PRODUCER_EXPIRATION_CONFIG = "producer.id.expiration.ms"
TRANSACTIONAL_EXPIRATION_CONFIG = "transactional.id.expiration.ms"
DAY_MS = 86_400_000
FIRST_CONTACT_TIMEOUT_S = 10.0
"""Time limit of the first request to each cluster, so that an unreachable cluster is reported
early."""
FENCE_RENEWALS_PER_EXPIRATION = 3
"""Number of fence renewals within the time after which brokers forget an idle producer
(`producer.id.expiration.ms`)."""

_CODEC_IDS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFinding:
    """A problem that prevents the replication of a partition, and how to resolve it."""

    partition: TopicPartition
    cause: str
    message: str
    is_harmful: bool = False
    """True if replication would damage data, so that a running copy process must be ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSetupPlan:
    """Partitions to replicate, and partitions that must not be replicated. No partition is in
    both."""

    partitions: tuple[PartitionSetup, ...]
    findings: tuple[PartitionFinding, ...]
    warnings: tuple[str, ...] = ()
    """Warnings to log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSetup:
    """Settings shared by all partitions of a flow."""

    shared: PartitionSetup
    """Settings common to all partitions: a `PartitionSetup` without topic and partition."""
    warnings: tuple[str, ...]
    """Warnings to log."""

    @property
    def is_same_cluster(self) -> bool:
        """True if both aliases denote the same cluster."""
        return self.shared.source_cluster == self.shared.target_cluster


class PartitionSetupBuilder:
    """Builds partition setups from the metadata of both clusters. Not thread-safe."""

    def __init__(
        self,
        flow: Flow,
        *,
        source: Admin,
        target: Admin,
        clock: Clock,
        operator: OperatorCommands = suggested_commands.GENERIC_COMMANDS,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = clock
        self._operator = operator

    def build_plan(
        self,
        partitions: Collection[TopicPartition],
        timeout_s: float,
        *,
        pause: Callable[[float], bool],
    ) -> PartitionSetupPlan:
        """Build a setup for each of the given source partitions, or a finding that explains why the
        partition must not be replicated.

        Waits up to `mirror_topic_writer.METADATA_PROPAGATION_TIMEOUT_S` for mirror topics that
        brokers do not know yet. `pause` sleeps for the given seconds and returns True if waiting
        should stop. Raises `RetriableError` if a cluster does not respond and `FatalError` if it
        denies access.
        """
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        common = self.read_flow_setup(end)
        numbers_by_topic: dict[str, list[int]] = defaultdict(list)
        for each in sorted(set(partitions)):
            numbers_by_topic[each.topic].append(each.partition)
        mirrors = MirrorTopicWriter(
            self._flow,
            source=self._source,
            target=self._target,
            clock=self._clock,
            pause=pause,
            stopped=lambda: False,
            operator=self._operator,
        )
        sizes = {topic: numbers[-1] + 1 for topic, numbers in numbers_by_topic.items()}
        return self.build_plan_from_topics(
            mirrors.describe_topics(sizes, end), common, partition_numbers=numbers_by_topic
        )

    def read_flow_setup(self, end: Deadline) -> FlowSetup:
        """Read the settings that all partitions of the flow share. Raises the same errors as
        `build_plan`, and reports an unreachable cluster early."""
        flow = self._flow
        source_id = self._source.read_cluster_id(
            min(FIRST_CONTACT_TIMEOUT_S, self._compute_remaining_s(end))
        )
        target_id = self._target.read_cluster_id(
            min(FIRST_CONTACT_TIMEOUT_S, self._compute_remaining_s(end))
        )
        warnings = ["both aliases denote the same cluster"] if source_id == target_id else []
        names = (PRODUCER_EXPIRATION_CONFIG, TRANSACTIONAL_EXPIRATION_CONFIG)
        configs = self._target.read_broker_configs(names, self._compute_remaining_s(end))
        if configs is None:
            remedy = suggested_commands.format_remedy(
                self._operator.target.build_allow_cluster_command("DescribeConfigs")
            )
            warnings.append(
                f"not authorized to read {PRODUCER_EXPIRATION_CONFIG} on the target; assuming 24 "
                f"hours. {remedy}"
            )
        expirations = [int(value) for value in (configs or {}).values() if value is not None]
        expiration_ms = min(expirations, default=DAY_MS)
        producer_ms = (configs or {}).get(PRODUCER_EXPIRATION_CONFIG)
        setup = PartitionSetup(
            flow=flow.name,
            topic="",
            remote_topic="",
            partition=0,
            transactional_id="",
            source_cluster=source_id,
            target_cluster=target_id,
            start=flow.start.config_text,
            target_topics=flow.target_topics,
            delivery=flow.delivery,
            on_source_gap=flow.on_source_gap,
            old_after_ms=(int(producer_ms) if producer_ms else expiration_ms) // 2,
            renew_after_s=expiration_ms / 1000.0 / FENCE_RENEWALS_PER_EXPIRATION,
            operator=self._operator,
        )
        return FlowSetup(shared=setup, warnings=tuple(warnings))

    def build_plan_from_topics(
        self,
        topics: MirrorTopicsResult,
        common: FlowSetup,
        *,
        partition_numbers: Mapping[str, Iterable[int]] | None = None,
    ) -> PartitionSetupPlan:
        """Build a setup or a finding for each partition of the topics. `partition_numbers` limits
        the partitions of each topic; None means all."""
        partitions: list[PartitionSetup] = []
        findings: list[PartitionFinding] = []
        for name in sorted({*topics.pairs, *topics.problems}):
            problem = topics.problems.get(name)
            if problem is not None:
                numbers = (
                    range(problem.partitions)
                    if partition_numbers is None
                    else partition_numbers[name]
                )
                findings.extend(self._build_findings(name, problem, numbers))
                continue
            pair = topics.pairs[name]
            numbers = (
                range(pair.topic.partitions)
                if partition_numbers is None
                else partition_numbers[name]
            )
            for number in numbers:
                finding = self._check_partition(pair, number, common)
                if finding is None:
                    partitions.append(self._build_partition_setup(pair, number, common))
                else:
                    findings.append(finding)
        return PartitionSetupPlan(
            partitions=tuple(partitions), findings=tuple(findings), warnings=common.warnings
        )

    def _compute_remaining_s(self, end: Deadline) -> float:
        return end.remaining_s(self._clock.now_s())

    def _format_next_check_clause(self) -> str:
        """Return the clause of a message that states when mm2 checks the problem again."""
        interval_s = self._flow.refresh_topics_interval_s
        if interval_s is None:
            return "; checked again at the next start"
        return f"; checked again every {interval_s:g} s (refresh.topics.interval.seconds)"

    def _build_findings(
        self, name: str, problem: MirrorTopicProblem, numbers: Iterable[int]
    ) -> list[PartitionFinding]:
        """Build the findings of a topic's partitions. Their remedy ends with the command that
        restarts the flow, which checks the topic immediately."""
        lines = [
            *filter(None, (problem.remedy,)),
            self._operator.build_restart_command(self._flow.name),
        ]
        advice = ""
        if problem.cause == mirror_topic_writer.TOPIC_REFUSED_CAUSE and not problem.remedy:
            reload_command = self._operator.build_reload_command()
            advice = (
                "Resolve this problem, or exclude the topic with topics.exclude "
                f"({reload_command}). "
            )
        remedy = suggested_commands.format_remedy(*lines)
        message = f"{problem.message}{self._format_next_check_clause()}. {advice}{remedy}"
        return [
            PartitionFinding(
                partition=TopicPartition(name, number),
                cause=problem.cause,
                message=partition_halt_messages.format_halt_message(problem.cause, message),
                is_harmful=problem.cause == mirror_topic_writer.TARGET_SETTING_CAUSE,
            )
            for number in numbers
        ]

    def _check_partition(
        self, pair: SourceAndMirrorTopic, number: int, common: FlowSetup
    ) -> PartitionFinding | None:
        """Return why this partition cannot be replicated; None if it can."""
        topic, mirror = pair.topic, pair.mirror
        where = TopicPartition(topic.name, number)
        if common.is_same_cluster and topic.name == mirror.name:
            cause = mirror_topic_writer.SAME_TOPIC_CAUSE
            problem = (
                f"{self._flow.name} {topic.name}: both aliases denote the same cluster, so the "
                "topic would be replicated into itself. Correct bootstrap.servers. "
                f"{suggested_commands.format_remedy(self._operator.build_reload_command())}"
            )
            message = partition_halt_messages.format_halt_message(cause, problem)
            return PartitionFinding(partition=where, cause=cause, message=message, is_harmful=True)
        if number >= topic.partitions:
            cause = mirror_topic_writer.SOURCE_TOO_SMALL_CAUSE
            count = plurals.format_count(topic.partitions, "partition")
            problem = f"the source topic has {count}, but partition {number} is assigned"
            command = self._operator.source.build_show_topic_command(topic.name)
        elif number >= mirror.partitions:
            cause = mirror_topic_writer.MIRROR_TOO_SMALL_CAUSE
            problem = (
                f"mirror topic {mirror.name} has "
                f"{plurals.format_count(mirror.partitions, 'partition')}, but "
                f"{topic.partitions} "
                "are needed"
            )
            command = self._operator.target.build_show_topic_command(mirror.name)
        else:
            return None
        remedy = suggested_commands.format_remedy(command)
        problem = (
            f"{self._flow.name} {topic.name}: {problem}{self._format_next_check_clause()}. {remedy}"
        )
        return PartitionFinding(
            partition=where,
            cause=cause,
            message=partition_halt_messages.format_halt_message(cause, problem),
        )

    def _build_partition_setup(
        self, pair: SourceAndMirrorTopic, number: int, common: FlowSetup
    ) -> PartitionSetup:
        topic, mirror = pair.topic, pair.mirror
        opposite = replication_loops.format_reverse_offset_map_topic(self._flow)
        return replace(
            common.shared,
            topic=topic.name,
            remote_topic=mirror.name,
            opposite_map=opposite if mirror.name == topic.name else "",
            partition=number,
            transactional_id=transactional_ids.format_transactional_id(
                self._flow.name, TopicPartition(topic.name, number)
            ),
            source_topic_id=_get_topic_id_bytes(topic),
            target_topic_id=_get_topic_id_bytes(mirror),
            target_codec=_CODEC_IDS.get(mirror.get_config("compression.type") or "producer"),
        )


def _get_topic_id_bytes(topic: ObservedTopic) -> bytes:
    return topic.topic_id.bytes if topic.topic_id is not None else offset_map_records.NO_TOPIC_ID
