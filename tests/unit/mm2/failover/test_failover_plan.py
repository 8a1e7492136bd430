from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import (
    ClusterPairSnapshot,
    GroupSnapshot,
    MirroredPartition,
    PositionBasis,
    TranslatedPosition,
)
from mm2.failover import failover_plan
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity, PlanVerdict
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState, TargetGroup
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset, UntranslatedReason

HERE = TopicPartition("t", 0)
THERE = TopicPartition("east.t", 0)
State, Verdict, Weight = GroupState, PlanVerdict, PlanSeverity


def mirrored(**changed: Any):
    given: dict[str, Any] = {
        "copied_to": 100,
        "source_bounds": LogBounds(start=0, end=100),
    } | changed
    return MirroredPartition(
        partition=HERE, mirror=THERE, **{"mirror_bounds": LogBounds(start=0, end=120), **given}
    )


def group(committed=50, *, name="g", origin=PositionBasis.COMMITTED, state=State.EMPTY, there=None):
    return GroupSnapshot(
        name=name,
        basis=origin,
        state=state,
        positions={HERE: OffsetAndMetadata(offset=committed)},
        target=there or TargetGroup(state=State.ABSENT),
    )


def made(
    mirror=None, *groups, kind=FailoverKind.EMERGENCY, outcome=None, accepted=(), log=120, **given
):
    wanted = FailoverRequest(
        origin="east", destination="west", kind=kind, accepted=frozenset(accepted)
    )
    found = ClusterPairSnapshot(
        at_ms=10_000,
        flow="east->west",
        mirrored=(mirror or mirrored(),),
        groups=groups or (group(),),
        target_bounds={THERE: LogBounds(start=0, end=log)},
        **given,
    )
    outcome = outcome or ExactOffset(downstream=60)
    return failover_plan.build_failover_plan(
        wanted, found, lambda *_: TranslatedPosition(partition=THERE, outcome=outcome)
    )


def codes(found):
    return {each.code: each.severity for each in found.findings}


def test_nothing_to_lose_is_a_plain_go():
    found = made()
    assert (found.verdict, found.findings) == (Verdict.GO, ())
    assert (found.lag_records, found.lag_ms) == (0, 0)
    assert [each.offsets_to_write[THERE].offset for each in found.groups] == [60]


AHEAD = TargetGroup(state=State.EMPTY, positions={THERE: OffsetAndMetadata(offset=70)})
BEYOND = TargetGroup(state=State.EMPTY, positions={THERE: OffsetAndMetadata(offset=121)})
ACTIVE = TargetGroup(state=State.ACTIVE)
LAGGING = {"source_bounds": LogBounds(start=0, end=130), "waiting_since_ms": 4_000}


@pytest.mark.parametrize(
    ("found", "code", "weight"),
    [
        (made(mirrored(**LAGGING)), "lag", Weight.COSTS),
        (made(mirrored(**LAGGING), kind=FailoverKind.PLANNED), "lag", Weight.NOTE),
        (
            made(mirrored(source_bounds=None), origin_error="no route"),
            "origin-unreachable",
            Weight.COSTS,
        ),
        (
            made(mirrored(source_bounds=None), origin_error="no route", kind=FailoverKind.PLANNED),
            "origin-unreachable",
            Weight.FORBIDS,
        ),
        (made(mirrored(stop_reason="it was recreated")), "halted", Weight.FORBIDS),
        (made(mirrored(mirror_bounds=None)), "mirror-missing", Weight.FORBIDS),
        (
            made(mirrored(source_bounds=LogBounds(start=0, end=99))),
            "origin-truncated",
            Weight.FORBIDS,
        ),
        (made(loss_count=3), "earlier-incidents", Weight.NOTE),
        (made(None, group(there=ACTIVE)), "group-active", Weight.FORBIDS),
        (made(None, group(there=AHEAD)), "higher-position", Weight.COSTS),
        (made(None, group(there=BEYOND)), "rewind", Weight.NOTE),
        (made(None, group(state=State.ACTIVE)), "group-active-on-origin", Weight.COSTS),
        (made(None, group(origin=PositionBasis.CHECKPOINTED)), "as-of-checkpoint", Weight.COSTS),
        (made(outcome=UntranslatedReason.UNKNOWN), "untranslated", Weight.FORBIDS),
        (made(log=59), "no-target-offset", Weight.FORBIDS),
        (made(outcome=EarlierOffset(downstream=40, reread_max=9)), "rereads", Weight.COSTS),
        (made(None, group(committed=107)), "read-unreplicated", Weight.COSTS),
    ],
)
def test_what_is_found(found, code, weight):
    assert codes(found).get(code) is weight
    expected = {
        Weight.FORBIDS: Verdict.NO_GO,
        Weight.COSTS: Verdict.GO_AT_A_COST,
        Weight.NOTE: Verdict.GO,
    }
    assert found.verdict is expected[weight]


def test_how_far_ahead_is_said():
    (found,) = made(None, group(there=AHEAD)).findings
    assert "10 offsets beyond its translated position 60" in found.text


def test_what_the_operator_accepts_costs_and_no_longer_forbids():
    found = made(mirrored(stop_reason="it was recreated"), accepted=["halted"])
    assert codes(found) == {"halted": Weight.COSTS}
    assert found.verdict is Verdict.GO_AT_A_COST


def test_a_planned_move_does_not_mind_members_that_are_about_to_be_stopped():
    assert "group-active-on-origin" not in codes(
        made(None, group(state=State.ACTIVE), kind=FailoverKind.PLANNED)
    )


def test_one_partition_whose_lag_is_unknown_makes_the_sum_unknown():
    found = made(mirrored(source_bounds=None), origin_error="no route")
    assert (found.lag_records, found.lag_ms) == (None, None)


def test_a_topic_of_which_nothing_is_known_makes_the_sum_unknown():
    found = made(unlisted_topics={"new": "no broker tells"})
    assert (found.lag_records, found.lag_ms, found.unlisted_topics) == (None, None, ("new",))


def test_lag_in_records_and_time():
    found = made(mirrored(**LAGGING))
    assert (found.lag_records, found.lag_ms) == (30, 6_000)


def test_nothing_mirrored_forbids():
    wanted = FailoverRequest(origin="east", destination="west", kind=FailoverKind.EMERGENCY)
    found = ClusterPairSnapshot(at_ms=0, flow="east->west", mirrored=(), groups=())
    made_of_it = failover_plan.build_failover_plan(wanted, found, lambda *_: None)
    assert set(codes(made_of_it)) == {"nothing-replicated", "no-groups"}
    assert made_of_it.verdict is Verdict.NO_GO


@pytest.mark.parametrize(("accepted", "verdict"), [((), Verdict.NO_GO), (("x",), "cost")])
def test_further_findings_weigh_as_its_own(accepted, verdict):
    more = PlanFinding(severity=Weight.FORBIDS, code="x", text="no")
    found = failover_plan.add_findings(made(accepted=accepted), [more])
    expected = Verdict.GO_AT_A_COST if verdict == "cost" else verdict
    assert (found.verdict, len(found.findings)) == (expected, 1)
