"""Has anything happened while a move lay still?"""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import MirroredPartition, PositionBasis
from mm2.clusters.fencing_results import FencingResult
from mm2.failover import interrupted_failover, journal_step_results
from mm2.failover.consumer_group_plan import GroupMove
from mm2.failover.failover_journal import FailoverIdentity, FailoverJournal
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap
from tests.fakes import copied_map

HERE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
Step = FailoverStep
WANTED = FailoverRequest(origin="east", destination="west", kind=FailoverKind.PLANNED)


def fenced(epoch: int) -> dict[str, Any]:
    each = FencingResult(partition=HERE, marker=1, owner_order=(1, epoch), tail=0)
    return dict(journal_step_results.encode_fencing_result(each))


def noted(*, again: int | None = None, end: int | None = None) -> FailoverJournal:
    """HERE was fenced with epoch 3, or `again` with a later one; both agreed on `end`."""
    found = FailoverJournal()
    found.details[Step.FENCE] = {"partitions": [fenced(3)]}
    found.details[Step.FINAL_POSITIONS] = {"fenced_again": [] if again is None else [fenced(again)]}
    if end is not None:
        found.details[Step.AGREE] = {"ends": journal_step_results.encode_offsets({HERE: end})}
    return found


def known(epoch: int) -> OffsetMap:
    found = OffsetMap()
    for key, value in copied_map.log(HERE, through=10, delta=5, epoch=epoch):
        found.apply_record(key or b"", value)
    return found


def mirrored(end: int | None) -> MirroredPartition:
    here = None if end is None else LogBounds(start=0, end=end)
    return MirroredPartition(partition=HERE, mirror=HERE, source_bounds=here)


def why(found: FailoverJournal, *, epoch: int = 3, **given: Any) -> str:
    return interrupted_failover.explain_outdated_positions(
        found, **{"offset_map": known(epoch), "to_fence": {HERE}, "mirrored": (), **given}
    )


def test_nothing_has_changed():
    assert why(noted(end=100), mirrored=[mirrored(100)]) == ""
    assert why(noted(again=5), epoch=5) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epoch": 4}, "orders-0 was acquired by another process"),
        ({"to_fence": {HERE, OTHER}}, "orders-1 was acquired by another process"),
    ],
)
def test_who_copies_is_named(given, said):
    assert why(noted(), **given) == said


@pytest.mark.parametrize(("end", "said"), [(103, "103"), (None, "an unknown offset")])
def test_an_end_that_moved_is_told(end, said):
    found = why(noted(end=100), mirrored=[mirrored(end)])
    assert found == (
        f"the end offset of orders-0 has changed from 100 (equal on both clusters) to {said}"
    )


def test_fences_of_a_look_that_no_longer_counts_hold():
    found = noted(again=5)
    found.voided[Step.FINAL_POSITIONS] = found.details.pop(Step.FINAL_POSITIONS)
    assert why(found, epoch=5) == ""
    assert why(found, epoch=6) == "orders-0 was acquired by another process"


REST = (Step.STOP_PRODUCERS, Step.STOP_CONSUMERS, Step.IDLE, Step.AGREE)


@pytest.mark.parametrize(
    ("done", "again"),
    [
        ((), ()),
        ((Step.RECORD, Step.EXPORT), ()),
        ((Step.RECORD, *REST[:2]), REST[:2]),
        ((Step.RECORD, *REST), REST),
        ((Step.RECORD, *REST, Step.STOP_FLOW, Step.FENCE), ()),
        ((*REST, Step.STOP_FLOW, Step.FENCE, Step.FINAL_POSITIONS), (Step.FINAL_POSITIONS,)),
        ((*REST, Step.STOP_FLOW, Step.FENCE, Step.FINAL_POSITIONS, Step.MOVE_GROUPS), ()),
    ],
)
def test_what_may_have_changed_is_done_again(done, again):
    found = FailoverJournal(details={step: {"groups": [{"group": "billing"}]} for step in done})
    assert tuple(interrupted_failover.find_outdated_steps(found)) == again


@pytest.mark.parametrize(("moved", "again"), [({"a"}, [Step.FINAL_POSITIONS]), ({"a", "b"}, [])])
def test_positions_are_taken_again_as_long_as_a_group_is_left(moved, again):
    looked = {"groups": [{"group": "a"}, {"group": "b"}]}
    found = FailoverJournal(details={Step.STOP_FLOW: {}, Step.FINAL_POSITIONS: looked}, moved=moved)
    assert interrupted_failover.find_outdated_steps(found) == again


def test_what_is_said_of_groups_that_were_moved_is_past():
    def finding(group: str) -> PlanFinding:
        return PlanFinding(severity=PlanSeverity.FORBIDS, code="x", text="x", group=group)

    def group(name: str) -> GroupMove:
        return GroupMove(
            group=name,
            basis=PositionBasis.COMMITTED,
            state=GroupState.EMPTY,
            blocking_state=None,
            partitions=(),
        )

    whole = FailoverPlan(
        request=WANTED,
        at_ms=0,
        flow="east->west",
        mirrored=(),
        groups=(group("billing"), group("mail")),
        findings=(finding("billing"), finding("mail"), finding("")),
    )
    found = interrupted_failover.drop_moved_groups(whole, {"billing"})
    assert found.groups == (group("mail"),)
    assert found.findings == (finding("mail"), finding(""))


@pytest.mark.parametrize(
    ("begun", "moved", "said"),
    [
        (
            (Step.IDLE,),
            set(),
            "to abandon the failover: restart the stopped applications, and move m to another "
            "directory",
        ),
        (
            (Step.STOP_FLOW,),
            set(),
            "to abandon the failover: resume the flow (mm2 resume x), restart the stopped "
            "applications, and move m to another directory",
        ),
        ((Step.STOP_FLOW,), {"billing"}, ""),
    ],
)
def test_it_is_given_up_as_long_as_no_group_was_moved(begun, moved, said):
    found = FailoverJournal(
        identity=FailoverIdentity(request=WANTED, flow="east->west"),
        started_ms=dict.fromkeys(begun, 1),
        moved=moved,
    )
    assert (
        interrupted_failover.explain_how_to_abandon(found, path="m", resume="mm2 resume x") == said
    )
