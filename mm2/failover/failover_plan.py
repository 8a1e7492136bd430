"""Defines `FailoverPlan`: what a failover would do and cost if it were executed now, and the
verdict.

Building a plan changes nothing. `failover_steps` defines the order of the steps, and `journal`
records the completed steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mm2.clusters.cluster_pair_snapshot import (
    ClusterPairSnapshot,
    MatchingEndOffsets,
    MirroredPartition,
    TranslatePosition,
    UnmovedGroup,
    UnreplicatedRecords,
)
from mm2.failover import consumer_group_plan, plan_finding_rules, plan_findings
from mm2.failover.consumer_group_plan import GroupMove
from mm2.failover.failover_request import FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """Effects and costs that a failover would have if it were executed now."""

    request: FailoverRequest
    at_ms: int
    flow: str
    mirrored: tuple[MirroredPartition, ...]
    groups: tuple[GroupMove, ...]
    unmoved_groups: tuple[UnmovedGroup, ...] = ()
    """Share and streams groups, which are not moved."""
    origin_error: str = ""
    """Reason why the origin did not respond, or "" if it did."""
    unlisted_topics: tuple[str, ...] = ()
    """Topics whose partitions the origin could not list."""
    checkpointed_ms: int | None = None
    """Time when the newest checkpoint was written."""
    unreplicated: tuple[UnreplicatedRecords, ...] = ()
    findings: tuple[PlanFinding, ...] = field(default=())

    @property
    def verdict(self) -> PlanVerdict:
        """Verdict on the failover, which follows from the most severe finding."""
        return plan_findings.decide_verdict(self.findings)

    @property
    def lag_records(self) -> int | None:
        """Total replication lag in records: the number of records that are lost if the origin is
        not available again (RPO). None if the lag of any partition is unknown."""
        found = [each.lag_records for each in self.mirrored]
        return None if None in found or self.unlisted_topics else sum(each or 0 for each in found)

    @property
    def lag_ms(self) -> int | None:
        """Largest replication lag of a partition in milliseconds: the time span of the records that
        are lost if the origin is not available again (RPO). None if the lag of any partition is
        unknown."""
        found = [each.lag_ms(self.at_ms) for each in self.mirrored]
        return (
            None
            if None in found or self.unlisted_topics
            else max((each or 0 for each in found), default=0)
        )

    @property
    def newest_replicated_ms(self) -> int | None:
        """Timestamp of the newest replicated record in the partitions whose lag is unknown. Records
        written later may be missing."""
        return max((each.newest_ms for each in self.mirrored if each.newest_ms), default=None)

    @property
    def unreplicated_records(self) -> int | None:
        """Number of records on the destination that were never replicated to the origin. None if
        some of these records could not be counted."""
        found = [each.records for each in self.unreplicated]
        return None if None in found else sum(each or 0 for each in found)


def build_failover_plan(
    request: FailoverRequest,
    snapshot: ClusterPairSnapshot,
    translate: TranslatePosition,
    *,
    agreed_ends: MatchingEndOffsets | None = None,
) -> FailoverPlan:
    """Build the plan from a snapshot.

    `agreed_ends` contains the end offsets at which both clusters were equal. It is passed only for
    the final check of a planned failover, after the flow was stopped and fenced. Lag or a changed
    end offset then forbids the failover; in earlier plans, both are only reported.
    """
    mirrored = {each.partition: each for each in snapshot.mirrored}
    groups = tuple(
        consumer_group_plan.plan_group_move(
            each,
            translate,
            mirrored=mirrored,
            logs=snapshot.target_bounds,
            unanswered=snapshot.unanswered,
            rewind=request.rewind,
        )
        for each in sorted(snapshot.groups, key=lambda group: group.name)
    )
    told = plan_finding_rules.check_plan(request, snapshot, groups, agreed_ends=agreed_ends)
    return FailoverPlan(
        request=request,
        at_ms=snapshot.at_ms,
        flow=snapshot.flow,
        mirrored=tuple(sorted(snapshot.mirrored, key=lambda each: each.partition)),
        groups=groups,
        unmoved_groups=snapshot.unmoved_groups,
        origin_error=snapshot.origin_error,
        unlisted_topics=tuple(sorted(snapshot.unlisted_topics)),
        checkpointed_ms=snapshot.checkpointed_ms,
        unreplicated=snapshot.unreplicated,
        findings=tuple(
            plan_findings.lower_severity_if_accepted(each, request.accepted) for each in told
        ),
    )


def add_findings(plan: FailoverPlan, more: Iterable[PlanFinding]) -> FailoverPlan:
    """Return a copy of the plan with the findings `more` added. A finding that the operator has
    accepted is added as a cost."""
    weighed = tuple(
        plan_findings.lower_severity_if_accepted(each, plan.request.accepted) for each in more
    )
    return replace(plan, findings=(*plan.findings, *weighed))
