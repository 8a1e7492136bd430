"""Collects a snapshot of both clusters and builds the plan of a failover from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from mm2.clusters import (
    consumer_group_state,
    fencing_results,
    log_end_offsets,
    replication_progress,
)
from mm2.clusters.cluster_pair_snapshot import ClusterPairSnapshot, MatchingEndOffsets, PlanBaseline
from mm2.clusters.consumer_group_state import GroupPositions
from mm2.clusters.fencing_results import FencingSummary
from mm2.clusters.flow_cluster_pair import FlowClusters
from mm2.clusters.replication_progress import MirrorState
from mm2.failover import failover_plan, reverse_flow_state
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.position_translation import (
    OffsetSyncLocations,
    PositionTranslator,
    ReverseOffsetSyncs,
)
from mm2.failover.reverse_flow_state import ReverseFlowCollector
from mm2.failover.unreplicated_offset_ranges import UnreplicatedTail
from mm2.failover.unreplicated_records import FindUnreplicated
from mm2.kafka.kafka_client_interfaces import PerPartitionResult
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.suggested_commands import ClusterCommands


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedFlowState:
    """Facts that a plan can rely on after the flow has been stopped and fenced."""

    fencing: FencingSummary
    """Result of fencing the flow's writers."""
    agreed_ends: MatchingEndOffsets | None = None
    """End offsets that were equal on both clusters before the flow was stopped; see
    `failover_plan.build_failover_plan`."""
    baseline: PlanBaseline | None = None
    """Plan that was recorded when the failover began; see `ClusterPairSnapshot`."""


_OPEN_FLOW = FencedFlowState(fencing=FencingSummary())


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlanner:
    """Plans failovers of one flow's groups; makes no changes."""

    clusters: FlowClusters
    find_unreplicated: FindUnreplicated
    """Finds the records of the destination that were never replicated to the origin."""
    clock: Clock
    timeout_s: float
    """Timeout for collecting one snapshot, in seconds."""
    lost_reason: str = ""
    """Reason why the origin is not queried, or "" if it is."""
    offset_sources: OffsetSyncLocations = field(default_factory=OffsetSyncLocations)
    """Clusters that store the offset syncs of the flow and of its reverse flow, according to the
    configuration."""
    tools: ClusterCommands = field(default_factory=ClusterCommands)

    def build_plan(
        self, wanted: FailoverRequest, closed: FencedFlowState | None = None
    ) -> FailoverPlan:
        """Collect a snapshot and build the plan.

        Raises `RetriableError` or `FatalError` if the destination does not respond, or if either
        cluster denies access.
        """
        return self.build_plan_with_tails(wanted, closed)[0]

    def build_plan_with_tails(
        self, wanted: FailoverRequest, closed: FencedFlowState | None = None
    ) -> tuple[FailoverPlan, Mapping[TopicPartition, UnreplicatedTail]]:
        """Build the plan as `build_plan` does. Also return the unreplicated tails of the
        destination's partitions (the records that were never replicated to the origin), if they
        were counted."""
        known, both = closed or _OPEN_FLOW, self.clusters
        end = Deadline.after(self.timeout_s, now_s=self.clock.now_s())
        found = replication_progress.collect_mirror_state(
            both, clock=self.clock, timeout_s=self.timeout_s, lost_reason=self.lost_reason
        )
        standing = self._collect_groups(
            wanted, known.baseline, found, timeout_s=self._compute_query_timeout_s(end)
        )
        topics = {place.topic for group in standing.groups for place in group.positions}
        opposite = ReverseFlowCollector(
            clusters=both,
            find_unreplicated=self.find_unreplicated,
            offset_sources=self.offset_sources,
            timeout_s=self.timeout_s,
        ).collect_state(wanted, found, topics)
        own, why_no_syncs = self._read_flow_offset_syncs(found)
        mirrored = replication_progress.mark_partitions_contradicting_syncs(
            fencing_results.set_exact_unrecorded_record_counts(found.mirrored, known.fencing),
            found.offset_map,
            own,
        )
        where = PositionTranslator(
            flow=both.flow,
            offset_map=found.offset_map,
            mirrored={each.partition: each for each in mirrored},
            reverse=opposite.reverse,
            unreplicated=opposite.tails,
            is_stopped=closed is not None,
        )
        ends = self._fetch_log_ends(
            where.list_target_partitions(standing.groups), self._compute_query_timeout_s(end)
        )
        what = ClusterPairSnapshot(
            at_ms=self.clock.wall_ms(),
            flow=both.flow.name,
            mirrored=mirrored,
            groups=standing.groups,
            unmoved_groups=standing.unmoved,
            target_commands=self.tools,
            target_bounds=ends.succeeded,
            unanswered=log_end_offsets.list_partitions_without_response(ends),
            origin_error=self._explain_source_error(found),
            incomplete_reason=standing.incomplete_reason,
            checkpointed_ms=standing.checkpointed_ms,
            unlisted_topics=found.unlisted_topics,
            reverse_flow_error=opposite.unknown_reason,
            offset_syncs_error=why_no_syncs,
            excluded_topics=found.excluded_topics,
            unfenced=known.fencing.unfenced,
            unreplicated=opposite.unreplicated_records if wanted.kind is FailoverKind.BACK else (),
            loss_count=found.loss_count,
            baseline=known.baseline,
        )
        return failover_plan.build_failover_plan(
            wanted, what, where.translate_position, agreed_ends=known.agreed_ends
        ), opposite.tails

    def _fetch_log_ends(
        self, places: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        """Fetch log start and end offsets on the destination."""
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        side = self.clusters.target
        topics = side.admin.describe_topics({each.topic for each in places}, timeout_s)
        led = log_end_offsets.find_leaders(places, topics)
        return log_end_offsets.fetch_log_ends(side, led, end=end, clock=self.clock)

    def _compute_query_timeout_s(self, end: Deadline) -> float:
        """Return the timeout of the next query in seconds: the time until the deadline, but at
        least `LOG_ENDS_TIMEOUT_S`, so that the last queries have time to succeed."""
        return max(reverse_flow_state.LOG_ENDS_TIMEOUT_S, end.remaining_s(self.clock.now_s()))

    def _collect_groups(
        self,
        wanted: FailoverRequest,
        before: PlanBaseline | None,
        found: MirrorState,
        *,
        timeout_s: float,
    ) -> GroupPositions:
        return consumer_group_state.collect_group_positions(
            self.clusters,
            origin_answers=not found.source_error,
            names=wanted.groups,
            stable=wanted.is_planned,
            earlier_positions=None if before is None else before.positions,
            streams=() if before is None else before.streams,
            topics={*found.excluded_topics, *(each.partition.topic for each in found.mirrored)},
            clock=self.clock,
            timeout_s=timeout_s,
        )

    def _explain_source_error(self, found: MirrorState) -> str:
        if not found.source_error or self.lost_reason:
            return found.source_error
        asked_s = replication_progress.compute_source_timeout_s(self.timeout_s)
        return (
            f"{found.source_error}; waited for {asked_s:g} s, use --snapshot-timeout to wait longer"
        )

    def _read_flow_offset_syncs(self, found: MirrorState) -> tuple[ReverseOffsetSyncs, str]:
        """Read the flow's own offset syncs. The second value is the error if they cannot be read.
        It is "" on success, and if the origin, which stores the syncs, is already known not to
        respond."""
        flow, here = self.clusters.flow, self.offset_sources.syncs_on_source
        if here and found.source_error:
            return {}, ""
        side = self.clusters.source if here else self.clusters.target
        topic = flow.policy.offset_syncs_topic(flow.target if here else flow.source)
        try:
            return replication_progress.read_offset_syncs(
                side, topic, replication_progress.compute_source_timeout_s(self.timeout_s)
            ), ""
        except ConnectError as error:
            return {}, str(error)
