"""`MovePlan`: what a move would do and cost now, with its verdict.

A plan changes nothing. `move_steps` has the order of the steps, `journal` the completed steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mm2.clusters.pair_snapshot import (
    AgreedEnds,
    ClusterPairSnapshot,
    MirroredPartition,
    TranslatePosition,
    UnmovedGroup,
    UnreplicatedRecords,
)
from mm2.failover import group_plan, plan_findings, plan_rules
from mm2.failover.group_plan import GroupMove
from mm2.failover.move_request import MoveRequest
from mm2.failover.plan_findings import PlanFinding, PlanVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """What the move would cost if it were executed now."""

    wanted: MoveRequest
    at_ms: int
    flow: str
    mirrored: tuple[MirroredPartition, ...]
    groups: tuple[GroupMove, ...]
    unmoved: tuple[UnmovedGroup, ...] = ()
    """Share and streams groups, which are not moved."""
    silent: str = ""
    """Why the origin did not answer, "" if it did."""
    untold: tuple[str, ...] = ()
    """Topics whose partitions the origin did not list."""
    checkpointed_ms: int | None = None
    """Time of the newest checkpoint."""
    unreplicated: tuple[UnreplicatedRecords, ...] = ()
    findings: tuple[PlanFinding, ...] = field(default=())

    @property
    def verdict(self) -> PlanVerdict:
        """The verdict that follows from the most severe finding."""
        return plan_findings.decide_verdict(self.findings)

    @property
    def lag_records(self) -> int | None:
        """Total lag: the recovery point in records; None if one partition's lag is unknown."""
        found = [each.lag_records for each in self.mirrored]
        return None if None in found or self.untold else sum(each or 0 for each in found)

    @property
    def lag_ms(self) -> int | None:
        """Largest lag of a partition: the recovery point in time; None if one is unknown."""
        found = [each.lag_ms(self.at_ms) for each in self.mirrored]
        return (
            None if None in found or self.untold else max((each or 0 for each in found), default=0)
        )

    @property
    def newest_ms(self) -> int | None:
        """Timestamp of the newest replicated record of partitions with unknown lag: records
        written later may be missing."""
        return max((each.newest_ms for each in self.mirrored if each.newest_ms), default=None)

    @property
    def unreplicated_records(self) -> int | None:
        """Records of the destination that never reached the origin; None if not all are counted."""
        found = [each.records for each in self.unreplicated]
        return None if None in found else sum(each or 0 for each in found)


def build_plan(
    wanted: MoveRequest,
    found: ClusterPairSnapshot,
    translate: TranslatePosition,
    *,
    settled: AgreedEnds | None = None,
) -> MovePlan:
    """Build the plan from a snapshot.

    `settled` is given for the final check of a planned move, after the flow was stopped and fenced:
    lag and moving ends, which were only information before, then forbid the move."""
    mirrored = {each.partition: each for each in found.mirrored}
    groups = tuple(
        group_plan.plan_group(
            each,
            translate,
            mirrored=mirrored,
            logs=found.logs,
            unheard=found.unheard,
            sets_back=wanted.sets_back,
        )
        for each in sorted(found.groups, key=lambda group: group.name)
    )
    told = plan_rules.check_plan(wanted, found, groups, settled=settled)
    return MovePlan(
        wanted=wanted,
        at_ms=found.at_ms,
        flow=found.flow,
        mirrored=tuple(sorted(found.mirrored, key=lambda each: each.partition)),
        groups=groups,
        unmoved=found.unmoved,
        silent=found.silent,
        untold=tuple(sorted(found.untold)),
        checkpointed_ms=found.checkpointed_ms,
        unreplicated=found.unreplicated,
        findings=tuple(plan_findings.apply_acceptance(each, wanted.accepted) for each in told),
    )


def add_findings(found: MovePlan, more: Iterable[PlanFinding]) -> MovePlan:
    """Returns the plan with further findings, to which the same acceptance is applied."""
    weighed = tuple(plan_findings.apply_acceptance(each, found.wanted.accepted) for each in more)
    return replace(found, findings=(*found.findings, *weighed))
