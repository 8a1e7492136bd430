"""Decides whether an interrupted failover can be resumed, and which steps are repeated.

The clusters may have changed since the interruption, and moved groups cannot be moved back. The
results of completed steps are therefore valid only if no partition has been replicated since the
interruption and, for a planned failover, no records have been written to the origin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from connect_runtime.base.ids import TopicPartition
from mm2.clusters import fencing_results
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.clusters.fencing_results import FencingResult
from mm2.failover import journal_step_results
from mm2.failover.failover_journal import FailoverJournal
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_steps import FailoverStep
from mm2.offsets.offset_map import OffsetMap

_Step = FailoverStep
_QUIESCENCE_STEPS = (_Step.STOP_PRODUCERS, _Step.STOP_CONSUMERS, _Step.IDLE, _Step.AGREE)


def find_outdated_steps(found: FailoverJournal) -> list[FailoverStep]:
    """Return the completed steps that must be repeated.

    If the flow has not been stopped yet, the steps that stop applications are repeated, because
    applications may have been restarted. If the flow has been stopped, the final positions are
    computed again, unless all groups have already been moved.
    """
    if _Step.STOP_FLOW not in found.details:
        return [step for step in _QUIESCENCE_STEPS if step in found.details]
    looked = found.details.get(_Step.FINAL_POSITIONS)
    if looked is None or _Step.MOVE_GROUPS in found.details:
        return []
    all_moved = found.moved and all(each["group"] in found.moved for each in looked["groups"])
    return [] if all_moved else [_Step.FINAL_POSITIONS]


def drop_moved_groups(found: FailoverPlan, moved: Collection[str]) -> FailoverPlan:
    """Return the plan without the groups that were already moved."""
    return dataclasses.replace(
        found,
        groups=tuple(each for each in found.groups if each.group not in moved),
        findings=tuple(each for each in found.findings if each.group not in moved),
    )


def explain_how_to_abandon(found: FailoverJournal, *, path: str, resume: str) -> str:
    """Explain how to abandon the failover. Return "" if groups were already moved, because that
    cannot be undone.

    `resume` is the command that resumes the flow.
    """
    assert found.identity is not None, "the failover has begun"
    if found.moved:
        return ""
    lets_go_on = f"resume the flow ({resume}), " if _Step.STOP_FLOW in found.started_ms else ""
    return (
        f"to abandon the failover: {lets_go_on}restart the stopped applications, and move {path} "
        "to another directory"
    )


def read_last_fencing(found: FailoverJournal) -> list[FencingResult]:
    """Return the fencing results of the last step that fenced partitions."""
    voided = found.voided.get(_Step.FINAL_POSITIONS, {})
    again = found.details.get(_Step.FINAL_POSITIONS, voided).get("fenced_again", [])
    return journal_step_results.decode_fencing_results(
        {"partitions": again} if again else found.details[_Step.FENCE]
    )


def explain_outdated_positions(
    found: FailoverJournal,
    *,
    offset_map: OffsetMap,
    to_fence: Collection[TopicPartition],
    mirrored: Collection[MirroredPartition],
) -> str:
    """Explain why the final positions are no longer valid; return "" if they are still valid.

    `mirrored` is the current state of the mirrored partitions for a planned failover, and empty for
    other failovers.
    """
    fenced = read_last_fencing(found)
    begun = sorted(set(to_fence) - {each.partition for each in fenced})
    taken = [
        each.partition
        for each in fenced
        if fencing_results.is_partition_acquired_after_fencing(offset_map, each)
    ]
    for partition in (*begun, *taken):
        return f"{partition} was acquired by another process"
    agreed: Mapping[TopicPartition, int] = {}
    if _Step.AGREE in found.details:
        agreed = journal_step_results.decode_offsets(found.details[_Step.AGREE]["ends"])
    for each in mirrored:
        end = agreed.get(each.partition)
        if end is not None and (each.source_bounds is None or each.source_bounds.end != end):
            now = "an unknown offset" if each.source_bounds is None else f"{each.source_bounds.end}"
            return (
                f"the end offset of {each.partition} has changed from {end} (equal on both "
                f"clusters) to {now}"
            )
    return ""
