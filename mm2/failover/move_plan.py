"""`MovePlan`: what a move would do and cost now, with its verdict.

A plan changes nothing. `move_steps` has the order of the steps, `journal` the steps that are done.
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
    """What moving now would cost. Lag as DESIGN defines it, None where it cannot be told. `silent`,
    `unmoved` and `checkpointed_ms` as in `ClusterPairSnapshot`; of the topics `untold` nothing is
    known."""

    wanted: MoveRequest
    at_ms: int
    flow: str
    mirrored: tuple[MirroredPartition, ...]
    groups: tuple[GroupMove, ...]
    unmoved: tuple[UnmovedGroup, ...] = ()
    silent: str = ""
    untold: tuple[str, ...] = ()
    checkpointed_ms: int | None = None
    unreplicated: tuple[UnreplicatedRecords, ...] = ()
    findings: tuple[PlanFinding, ...] = field(default=())

    @property
    def verdict(self) -> PlanVerdict:
        return plan_findings.decide_verdict(self.findings)

    @property
    def lag_records(self) -> int | None:
        """Of all partitions: the recovery point in records; None as soon as one is unknown."""
        found = [each.lag_records for each in self.mirrored]
        return None if None in found or self.untold else sum(each or 0 for each in found)

    @property
    def lag_ms(self) -> int | None:
        """Of the partition that is furthest behind: the recovery point in time."""
        found = [each.lag_ms(self.at_ms) for each in self.mirrored]
        return (
            None if None in found or self.untold else max((each or 0 for each in found), default=0)
        )

    @property
    def newest_ms(self) -> int | None:
        """Timestamp of the newest record that arrived of what nobody knows the lag of: what was
        written later may be missing."""
        return max((each.newest_ms for each in self.mirrored if each.newest_ms), default=None)

    @property
    def unreplicated_records(self) -> int | None:
        """What the cluster gone to holds that never reached this one; None: too many to count."""
        found = [each.records for each in self.unreplicated]
        return None if None in found else sum(each or 0 for each in found)


def build_plan(
    wanted: MoveRequest,
    found: ClusterPairSnapshot,
    translate: TranslatePosition,
    *,
    settled: AgreedEnds | None = None,
) -> MovePlan:
    """Numbers and verdict, of what was seen. `settled`: this is the last look of a planned move,
    when the flow is stopped and fenced: what was only worth knowing before forbids it now."""
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
    """The plan with further findings, weighed as its own."""
    weighed = tuple(plan_findings.apply_acceptance(each, found.wanted.accepted) for each in more)
    return replace(found, findings=(*found.findings, *weighed))
