"""What a move that lay still does again before it goes on, and whether it still can.

Who goes on cannot know what was done meanwhile. What is moved cannot be taken back, so what is left
of such a move holds only while nobody copies, and, of a planned one, nobody writes on the cluster
that is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from connect_runtime.base import ids
from mm2.core.failover import details, fences, journal, plan, seen, steps
from mm2.core.offsets import offset_map

Step = steps.Step
_AT_REST = (Step.STOP_PRODUCERS, Step.STOP_CONSUMERS, Step.IDLE, Step.AGREE)


def outdated(found: journal.Journal) -> list[steps.Step]:
    """Steps that are done and that it does again. Before the flow is stopped whoever was stopped
    may have been started again; afterwards positions count that were final, until all groups are
    moved by them."""
    if Step.STOP_FLOW not in found.details:
        return [step for step in _AT_REST if step in found.details]
    looked = found.details.get(Step.LOOK_AGAIN)
    if looked is None or Step.MOVE_GROUPS in found.details:
        return []
    all_moved = found.moved and all(each["group"] in found.moved for each in looked["groups"])
    return [] if all_moved else [Step.LOOK_AGAIN]


def of_others(found: plan.Plan, moved: Collection[str]) -> plan.Plan:
    """The plan without the groups that were moved: what is said of them is past."""
    return dataclasses.replace(
        found,
        groups=tuple(each for each in found.groups if each.group not in moved),
        findings=tuple(each for each in found.findings if each.group not in moved),
    )


def give_up(found: journal.Journal, *, path: str, resume: str) -> str:
    """How to leave it at that, in words, with the command that resumes the flow; "" where groups
    were moved, which cannot be undone."""
    assert found.begun is not None, "it was begun"
    if found.moved:
        return ""
    lets_go_on = f"resume the flow ({resume}), " if Step.STOP_FLOW in found.started_ms else ""
    return f"to abandon the move: {lets_go_on}restart what was stopped, and move {path} away"


def last_fenced(found: journal.Journal) -> list[fences.Fenced]:
    """As the last step that fenced has noted them."""
    voided = found.voided.get(Step.LOOK_AGAIN, {})
    again = found.details.get(Step.LOOK_AGAIN, voided).get("fenced_again", [])
    return details.fenced({"partitions": again} if again else found.details[Step.FENCE])


def why_changed(
    found: journal.Journal,
    *,
    known: offset_map.OffsetMap,
    to_fence: Collection[ids.TopicPartition],
    mirrored: Collection[seen.Mirrored],
) -> str:
    """ "" where it is as it was. `mirrored` as seen now, of a planned move."""
    fenced = last_fenced(found)
    begun = sorted(set(to_fence) - {each.partition for each in fenced})
    taken = [each.partition for each in fenced if fences.taken_since(known, each)]
    for partition in (*begun, *taken):
        return f"somebody has copied {partition}"
    agreed: Mapping[ids.TopicPartition, int] = {}
    if Step.AGREE in found.details:
        agreed = details.partitions(found.details[Step.AGREE]["ends"])
    for each in mirrored:
        end = agreed.get(each.partition)
        if end is not None and (each.here is None or each.here.end != end):
            now = "cannot be asked for" if each.here is None else f"is {each.here.end}"
            return f"the end of {each.partition} was {end} when both agreed, and {now}"
    return ""
