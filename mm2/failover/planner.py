"""Collects a snapshot of both clusters and builds the plan of a move from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from mm2.clusters import fencing_results, group_state, log_end_offsets, mirror_state
from mm2.clusters.fencing_results import FencingSummary
from mm2.clusters.flow_pair import FlowClusters
from mm2.clusters.group_state import GroupPositions
from mm2.clusters.mirror_state import MirrorState
from mm2.clusters.pair_snapshot import AgreedEnds, ClusterPairSnapshot, PlanBaseline
from mm2.failover import move_plan, reverse_flow_state
from mm2.failover.move_plan import MovePlan
from mm2.failover.move_request import MoveKind, MoveRequest
from mm2.failover.position_translation import OffsetSources, PositionTranslator, ReverseOffsetSyncs
from mm2.failover.reverse_flow_state import ReverseFlowCollector
from mm2.failover.unreplicated_records import FindUnreplicated
from mm2.failover.unreplicated_tails import UnreplicatedTail
from mm2.kafka.client_interfaces import PerPartitionResult
from mm2.offsets.log_bounds import LogBounds
from mm2.operator_commands import ClusterCommands


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFlow:
    """What is known after the flow has been stopped and fenced."""

    locked: FencingSummary
    """Result of fencing the flow's writers."""
    settled: AgreedEnds | None = None
    """See `move_plan.build_plan`."""
    before: PlanBaseline | None = None
    """See `ClusterPairSnapshot`."""


_OPEN_FLOW = ClosedFlow(locked=FencingSummary())


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlanner:
    """Plans moves of one flow's groups; makes no changes."""

    both: FlowClusters
    find: FindUnreplicated
    """Finds records of the destination that never reached the origin."""
    clock: Clock
    timeout_s: float
    """How long collecting one snapshot may take."""
    lost: str = ""
    """Why the origin is not queried, "" if it is."""
    ways: OffsetSources = field(default_factory=OffsetSources)
    """Where the configuration says that offsets of the reverse flow are found."""
    tools: ClusterCommands = field(default_factory=ClusterCommands)

    def make(self, wanted: MoveRequest, closed: ClosedFlow | None = None) -> MovePlan:
        """Collect a snapshot and build the plan.

        Raises `RetriableError` or `FatalError` if the destination does not answer, or either
        cluster denies access."""
        return self.look(wanted, closed)[0]

    def look(
        self, wanted: MoveRequest, closed: ClosedFlow | None = None
    ) -> tuple[MovePlan, Mapping[TopicPartition, UnreplicatedTail]]:
        """As `make`, and the unreplicated records of the destination, if they were counted."""
        known, both = closed or _OPEN_FLOW, self.both
        end = Deadline.after(self.timeout_s, now_s=self.clock.now_s())
        found = mirror_state.collect_mirror_state(
            both, clock=self.clock, timeout_s=self.timeout_s, lost=self.lost
        )
        standing = self._collect_groups(wanted, known.before, found, timeout_s=self._left_s(end))
        topics = {place.topic for group in standing.groups for place in group.positions}
        opposite = ReverseFlowCollector(
            both=both, find=self.find, ways=self.ways, timeout_s=self.timeout_s
        ).look(wanted, found, topics)
        own, why_no_syncs = self._read_own_syncs(found)
        mirrored = mirror_state.mark_contradicted(
            fencing_results.apply_counted_tails(found.mirrored, known.locked), found.known, own
        )
        where = PositionTranslator(
            flow=both.flow,
            known=found.known,
            mirrored={each.partition: each for each in mirrored},
            back=opposite.back,
            left=opposite.left,
            still=closed is not None,
        )
        ends = self._fetch_log_ends(where.of_groups(standing.groups), self._left_s(end))
        what = ClusterPairSnapshot(
            at_ms=self.clock.wall_ms(),
            flow=both.flow.name,
            mirrored=mirrored,
            groups=standing.groups,
            unmoved=standing.unmoved,
            tools=self.tools,
            logs=ends.done,
            unheard=log_end_offsets.list_unanswered(ends),
            silent=self._explain_silence(found),
            unlisted=standing.unlisted,
            checkpointed_ms=standing.checkpointed_ms,
            untold=found.untold,
            way_back=opposite.why,
            unsynced=why_no_syncs,
            left_out=found.left_out,
            unfenced=known.locked.unfenced,
            unreplicated=opposite.unreplicated if wanted.kind is MoveKind.BACK else (),
            losses=found.losses,
            before=known.before,
        )
        return move_plan.build_plan(
            wanted, what, where.translate, settled=known.settled
        ), opposite.left

    def _fetch_log_ends(
        self, places: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        """Fetch log ends on the destination."""
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        side = self.both.target
        topics = side.admin.describe_topics({each.topic for each in places}, timeout_s)
        led = log_end_offsets.find_leaders(places, topics)
        return log_end_offsets.fetch_log_ends(side, led, end=end, clock=self.clock)

    def _left_s(self, end: Deadline) -> float:
        """Time left for the next query, with a minimum for the last ones."""
        return max(reverse_flow_state.LOG_ENDS_TIMEOUT_S, end.left_s(self.clock.now_s()))

    def _collect_groups(
        self,
        wanted: MoveRequest,
        before: PlanBaseline | None,
        found: MirrorState,
        *,
        timeout_s: float,
    ) -> GroupPositions:
        return group_state.collect_group_positions(
            self.both,
            origin_answers=not found.silent,
            names=wanted.groups,
            stable=wanted.planned,
            before=None if before is None else before.positions,
            streams=() if before is None else before.streams,
            topics={*found.left_out, *(each.partition.topic for each in found.mirrored)},
            clock=self.clock,
            timeout_s=timeout_s,
        )

    def _explain_silence(self, found: MirrorState) -> str:
        if not found.silent or self.lost:
            return found.silent
        asked_s = mirror_state.compute_source_timeout_s(self.timeout_s)
        return f"{found.silent}; waited for {asked_s:g} s, use --look to wait longer"

    def _read_own_syncs(self, found: MirrorState) -> tuple[ReverseOffsetSyncs, str]:
        """Read the flow's own offset syncs; the second value is the reason if that fails."""
        flow, here = self.both.flow, self.ways.syncs_here
        if here and found.silent:
            return {}, ""
        side = self.both.source if here else self.both.target
        topic = flow.policy.offset_syncs_topic(flow.target if here else flow.source)
        try:
            return mirror_state.read_offset_syncs(
                side, topic, mirror_state.compute_source_timeout_s(self.timeout_s)
            ), ""
        except ConnectError as error:
            return {}, str(error)
