from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import ids
from mm2.core.failover import orders, plan, seen, verdicts
from mm2.core.offsets import checkpoints, group_sync, log_ends, translation

HERE = ids.TopicPartition("t", 0)
THERE = ids.TopicPartition("east.t", 0)
State, Verdict, Weight = group_sync.GroupState, verdicts.Verdict, verdicts.Weight


def mirrored(**changed: Any):
    given: dict[str, Any] = {"copied_to": 100, "here": log_ends.Ends(start=0, end=100)} | changed
    return seen.Mirrored(
        partition=HERE, mirror=THERE, **{"there": log_ends.Ends(start=0, end=120), **given}
    )


def group(committed=50, *, name="g", origin=seen.Origin.COMMITTED, state=State.EMPTY, there=None):
    return seen.Group(
        name=name,
        origin=origin,
        state=state,
        positions={HERE: checkpoints.OffsetAndMetadata(offset=committed)},
        there=there or group_sync.TargetGroup(state=State.ABSENT),
    )


def made(
    mirror=None, *groups, kind=orders.Kind.EMERGENCY, outcome=None, accepted=(), log=120, **given
):
    wanted = orders.Wanted(
        origin="east", destination="west", kind=kind, accepted=frozenset(accepted)
    )
    found = seen.Seen(
        at_ms=10_000,
        flow="east->west",
        mirrored=(mirror or mirrored(),),
        groups=groups or (group(),),
        logs={THERE: log_ends.Ends(start=0, end=log)},
        **given,
    )
    outcome = outcome or translation.Exact(downstream=60)
    return plan.make(wanted, found, lambda *_: seen.Place(partition=THERE, outcome=outcome))


def codes(found):
    return {each.code: each.weight for each in found.findings}


def test_nothing_to_lose_is_a_plain_go():
    found = made()
    assert (found.verdict, found.findings) == (Verdict.GO, ())
    assert (found.lag_records, found.lag_ms) == (0, 0)
    assert [each.write[THERE].offset for each in found.groups] == [60]


AHEAD = group_sync.TargetGroup(
    state=State.EMPTY, positions={THERE: checkpoints.OffsetAndMetadata(offset=70)}
)
BEYOND = group_sync.TargetGroup(
    state=State.EMPTY, positions={THERE: checkpoints.OffsetAndMetadata(offset=121)}
)
ACTIVE = group_sync.TargetGroup(state=State.ACTIVE)
LAGGING = {"here": log_ends.Ends(start=0, end=130), "waiting_since_ms": 4_000}


@pytest.mark.parametrize(
    ("found", "code", "weight"),
    [
        (made(mirrored(**LAGGING)), "lag", Weight.COSTS),
        (made(mirrored(**LAGGING), kind=orders.Kind.PLANNED), "lag", Weight.NOTE),
        (made(mirrored(here=None), silent="no route"), "origin-unreachable", Weight.COSTS),
        (
            made(mirrored(here=None), silent="no route", kind=orders.Kind.PLANNED),
            "origin-unreachable",
            Weight.FORBIDS,
        ),
        (made(mirrored(stopped="it was recreated")), "stopped", Weight.FORBIDS),
        (made(mirrored(there=None)), "mirror-missing", Weight.FORBIDS),
        (made(mirrored(here=log_ends.Ends(start=0, end=99))), "origin-truncated", Weight.FORBIDS),
        (made(losses=3), "losses", Weight.NOTE),
        (made(None, group(there=ACTIVE)), "group-active", Weight.FORBIDS),
        (made(None, group(there=AHEAD)), "is-ahead", Weight.COSTS),
        (made(None, group(there=BEYOND)), "set-back", Weight.NOTE),
        (made(None, group(state=State.ACTIVE)), "group-still-here", Weight.COSTS),
        (made(None, group(origin=seen.Origin.CHECKPOINTED)), "as-of-checkpoint", Weight.COSTS),
        (made(outcome=translation.Untranslated.UNKNOWN), "untranslated", Weight.FORBIDS),
        (made(log=59), "no-place", Weight.FORBIDS),
        (made(outcome=translation.Earlier(downstream=40, again_max=9)), "again", Weight.COSTS),
        (made(None, group(committed=107)), "unmirrored", Weight.COSTS),
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
    assert "10 offsets beyond its place 60" in found.text


def test_what_the_operator_accepts_costs_and_no_longer_forbids():
    found = made(mirrored(stopped="it was recreated"), accepted=["stopped"])
    assert codes(found) == {"stopped": Weight.COSTS}
    assert found.verdict is Verdict.GO_AT_A_COST


def test_a_planned_move_does_not_mind_members_that_are_about_to_be_stopped():
    assert "group-still-here" not in codes(
        made(None, group(state=State.ACTIVE), kind=orders.Kind.PLANNED)
    )


def test_one_partition_whose_lag_is_unknown_makes_the_sum_unknown():
    found = made(mirrored(here=None), silent="no route")
    assert (found.lag_records, found.lag_ms) == (None, None)


def test_a_topic_of_which_nothing_is_known_makes_the_sum_unknown():
    found = made(untold={"new": "no broker tells"})
    assert (found.lag_records, found.lag_ms, found.untold) == (None, None, ("new",))


def test_lag_in_records_and_time():
    found = made(mirrored(**LAGGING))
    assert (found.lag_records, found.lag_ms) == (30, 6_000)


def test_nothing_mirrored_forbids():
    wanted = orders.Wanted(origin="east", destination="west", kind=orders.Kind.EMERGENCY)
    found = seen.Seen(at_ms=0, flow="east->west", mirrored=(), groups=())
    made_of_it = plan.make(wanted, found, lambda *_: None)
    assert set(codes(made_of_it)) == {"nothing-mirrored", "no-groups"}
    assert made_of_it.verdict is Verdict.NO_GO


@pytest.mark.parametrize(("accepted", "verdict"), [((), Verdict.NO_GO), (("x",), "cost")])
def test_further_findings_weigh_as_its_own(accepted, verdict):
    more = verdicts.Finding(weight=Weight.FORBIDS, code="x", text="no")
    found = plan.with_more(made(accepted=accepted), [more])
    expected = Verdict.GO_AT_A_COST if verdict == "cost" else verdict
    assert (found.verdict, len(found.findings)) == (expected, 1)
