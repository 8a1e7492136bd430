"""Has anything happened while a move lay still?"""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import ids
from mm2.core.failover import (
    details,
    fences,
    going_on,
    group_moves,
    journal,
    orders,
    plan,
    seen,
    steps,
    verdicts,
)
from mm2.core.offsets import group_sync, log_ends, offset_map
from tests.fakes import copied_map

HERE, OTHER = ids.TopicPartition("orders", 0), ids.TopicPartition("orders", 1)
Step = steps.Step
WANTED = orders.Wanted(origin="east", destination="west", kind=orders.Kind.PLANNED)


def fenced(epoch: int) -> dict[str, Any]:
    each = fences.Fenced(partition=HERE, marker=1, order=(1, epoch), tail=0)
    return dict(details.of_fenced(each))


def noted(*, again: int | None = None, end: int | None = None) -> journal.Journal:
    """HERE was fenced with epoch 3, or `again` with a later one; both agreed on `end`."""
    found = journal.Journal()
    found.details[Step.FENCE] = {"partitions": [fenced(3)]}
    found.details[Step.LOOK_AGAIN] = {"fenced_again": [] if again is None else [fenced(again)]}
    if end is not None:
        found.details[Step.AGREE] = {"ends": details.by_partition({HERE: end})}
    return found


def known(epoch: int) -> offset_map.OffsetMap:
    found = offset_map.OffsetMap()
    for key, value in copied_map.log(HERE, through=10, delta=5, epoch=epoch):
        found.apply(key or b"", value)
    return found


def mirrored(end: int | None) -> seen.Mirrored:
    here = None if end is None else log_ends.Ends(start=0, end=end)
    return seen.Mirrored(partition=HERE, mirror=HERE, here=here)


def why(found: journal.Journal, *, epoch: int = 3, **given: Any) -> str:
    return going_on.why_changed(
        found, **{"known": known(epoch), "to_fence": {HERE}, "mirrored": (), **given}
    )


def test_nothing_has_changed():
    assert why(noted(end=100), mirrored=[mirrored(100)]) == ""
    assert why(noted(again=5), epoch=5) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epoch": 4}, "somebody has copied orders-0"),
        ({"to_fence": {HERE, OTHER}}, "somebody has copied orders-1"),
    ],
)
def test_who_copies_is_named(given, said):
    assert why(noted(), **given) == said


@pytest.mark.parametrize(("end", "said"), [(103, "is 103"), (None, "cannot be asked for")])
def test_an_end_that_moved_is_told(end, said):
    found = why(noted(end=100), mirrored=[mirrored(end)])
    assert found == f"the end of orders-0 was 100 when both agreed, and {said}"


def test_fences_of_a_look_that_no_longer_counts_hold():
    found = noted(again=5)
    found.voided[Step.LOOK_AGAIN] = found.details.pop(Step.LOOK_AGAIN)
    assert why(found, epoch=5) == ""
    assert why(found, epoch=6) == "somebody has copied orders-0"


REST = (Step.STOP_PRODUCERS, Step.STOP_CONSUMERS, Step.IDLE, Step.AGREE)


@pytest.mark.parametrize(
    ("done", "again"),
    [
        ((), ()),
        ((Step.RECORD, Step.EXPORT), ()),
        ((Step.RECORD, *REST[:2]), REST[:2]),
        ((Step.RECORD, *REST), REST),
        ((Step.RECORD, *REST, Step.STOP_FLOW, Step.FENCE), ()),
        ((*REST, Step.STOP_FLOW, Step.FENCE, Step.LOOK_AGAIN), (Step.LOOK_AGAIN,)),
        ((*REST, Step.STOP_FLOW, Step.FENCE, Step.LOOK_AGAIN, Step.MOVE_GROUPS), ()),
    ],
)
def test_what_may_have_changed_is_done_again(done, again):
    found = journal.Journal(details={step: {"groups": [{"group": "billing"}]} for step in done})
    assert tuple(going_on.outdated(found)) == again


@pytest.mark.parametrize(("moved", "again"), [({"a"}, [Step.LOOK_AGAIN]), ({"a", "b"}, [])])
def test_positions_are_taken_again_as_long_as_a_group_is_left(moved, again):
    looked = {"groups": [{"group": "a"}, {"group": "b"}]}
    found = journal.Journal(details={Step.STOP_FLOW: {}, Step.LOOK_AGAIN: looked}, moved=moved)
    assert going_on.outdated(found) == again


def test_what_is_said_of_groups_that_were_moved_is_past():
    def finding(group: str) -> verdicts.Finding:
        return verdicts.Finding(weight=verdicts.Weight.FORBIDS, code="x", text="x", group=group)

    def group(name: str) -> group_moves.GroupMove:
        return group_moves.GroupMove(
            group=name,
            origin=seen.Origin.COMMITTED,
            state=group_sync.GroupState.EMPTY,
            barred=None,
            partitions=(),
        )

    whole = plan.Plan(
        wanted=WANTED,
        at_ms=0,
        flow="east->west",
        mirrored=(),
        groups=(group("billing"), group("mail")),
        findings=(finding("billing"), finding("mail"), finding("")),
    )
    found = going_on.of_others(whole, {"billing"})
    assert found.groups == (group("mail"),)
    assert found.findings == (finding("mail"), finding(""))


@pytest.mark.parametrize(
    ("begun", "moved", "said"),
    [
        ((Step.IDLE,), set(), "to abandon the move: restart what was stopped, and move m away"),
        (
            (Step.STOP_FLOW,),
            set(),
            "to abandon the move: resume the flow (mm2 resume x), restart what was "
            "stopped, and move m away",
        ),
        ((Step.STOP_FLOW,), {"billing"}, ""),
    ],
)
def test_it_is_given_up_as_long_as_no_group_was_moved(begun, moved, said):
    found = journal.Journal(
        begun=journal.Begun(wanted=WANTED, flow="east->west"),
        started_ms=dict.fromkeys(begun, 1),
        moved=moved,
    )
    assert going_on.give_up(found, path="m", resume="mm2 resume x") == said
