"""What a planned move's last look forbids, and what is told of clusters that answer in part."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import (
    ClusterPairSnapshot,
    GroupSnapshot,
    MatchingEndOffsets,
    MirroredPartition,
    PlanBaseline,
    PositionBasis,
    TranslatedPosition,
    UnreplicatedRecords,
)
from mm2.failover import failover_plan
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset

HERE, THERE = TopicPartition("t", 0), TopicPartition("east.t", 0)
Kind, State, Weight = FailoverKind, GroupState, PlanSeverity
ENDS = LogBounds(start=0, end=100)


def codes(**given: Any) -> dict[str, PlanSeverity]:
    return {each.code: each.severity for each in findings_of(**given)}


def findings_of(
    *,
    kind: FailoverKind = Kind.PLANNED,
    here: LogBounds | None = ENDS,
    copied_to: int = 100,
    agreed: int | None = None,
    state: GroupState = State.EMPTY,
    unsure: str = "",
    stopped: str = "",
    groups: tuple[GroupSnapshot, ...] | None = None,
    names: frozenset[str] = frozenset(),
    again: int = 0,
    **given: Any,
) -> tuple[PlanFinding, ...]:
    """`agreed`: the end that both had agreed on; None: it is not the last look."""
    wanted = FailoverRequest(origin="east", destination="west", kind=kind, groups=names)
    mirrored = MirroredPartition(
        partition=HERE,
        mirror=THERE,
        copied_to=copied_to,
        source_bounds=here,
        mirror_bounds=LogBounds(start=0, end=120),
    )
    group = GroupSnapshot(
        name="g",
        basis=PositionBasis.COMMITTED,
        state=state,
        positions={HERE: OffsetAndMetadata(offset=50)},
    )
    found = ClusterPairSnapshot(
        at_ms=1,
        flow="east->west",
        mirrored=(mirrored,),
        groups=(group,) if groups is None else groups,
        target_bounds={THERE: LogBounds(start=0, end=120)},
        **given,
    )
    exact, earlier = ExactOffset(downstream=60), EarlierOffset
    outcome = earlier(downstream=60, reread_max=again) if again else exact
    place = TranslatedPosition(
        partition=THERE, outcome=outcome, local_records_reason=unsure, outdated_reason=stopped
    )
    made = failover_plan.build_failover_plan(
        wanted,
        found,
        lambda *_: place,
        agreed_ends=None if agreed is None else MatchingEndOffsets(ends={HERE: agreed}),
    )
    return made.findings


MORE = LogBounds(start=0, end=130)
PENDING = LogBounds(start=0, end=100, pending=4)


def test_the_last_look_of_a_planned_move_finds_nothing_when_all_is_still():
    assert codes(agreed=100) == {}


@pytest.mark.parametrize(
    ("given", "code", "before", "last"),
    [
        ({"here": MORE}, "lag", Weight.NOTE, Weight.FORBIDS),
        ({"here": PENDING}, "open-transactions", Weight.NOTE, Weight.FORBIDS),
        ({"here": None}, "lag-unknown", Weight.FORBIDS, Weight.FORBIDS),
        ({"state": State.ACTIVE}, "group-active-on-origin", None, Weight.FORBIDS),
        ({"here": MORE, "copied_to": 130}, "origin-written", None, Weight.FORBIDS),
        ({"copied_to": 40}, "read-unreplicated", Weight.NOTE, Weight.COSTS),
        ({"copied_to": 40, "again": 8}, "rereads", Weight.NOTE, Weight.COSTS),
        ({"again": 8}, "rereads", Weight.COSTS, Weight.COSTS),
    ],
)
def test_what_was_waited_for_forbids_in_the_end(given, code, before, last):
    assert codes(**given).get(code) is before
    assert codes(**given, agreed=100).get(code) is last


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"here": MORE}, "lag"),
        ({"here": PENDING}, "open-transactions"),
        ({"here": None}, "lag-unknown"),
        ({"incomplete_reason": "a broker is away"}, "groups-unlisted"),
        ({"unfenced": {HERE: "no right"}}, "unfenced"),
    ],
)
def test_in_an_emergency_it_costs(given, code):
    found = codes(kind=Kind.EMERGENCY, **given)
    half = (
        {"origin-partly-unreachable": Weight.NOTE}
        if code in {"lag-unknown", "groups-unlisted"}
        else {}
    )
    assert found == {code: Weight.COSTS} | half


def test_a_silent_cluster_is_told_once_and_why():
    assert codes(kind=Kind.EMERGENCY, here=None, origin_error="no route") == {
        "origin-unreachable": Weight.COSTS
    }


BEFORE = PlanBaseline(positions={"g": {}}, findings=frozenset({("lag", "")}))


def test_less_than_was_known_when_the_move_was_begun_forbids():
    lost: dict[str, Any] = {"kind": Kind.EMERGENCY, "here": None, "origin_error": "no route"}
    assert codes(**lost, baseline=BEFORE) == {"origin-unreachable": Weight.FORBIDS}
    known = PlanBaseline(positions={}, findings=frozenset({("origin-unreachable", "")}))
    assert codes(**lost, baseline=known) == {"origin-unreachable": Weight.COSTS}
    assert codes(kind=Kind.EMERGENCY, here=MORE, baseline=BEFORE) == {"lag": Weight.COSTS}


@pytest.mark.parametrize(("other", "weight"), [("g", Weight.COSTS), ("h", Weight.FORBIDS)])
def test_what_was_agreed_to_of_one_group_is_not_of_another(other, weight):
    group = GroupSnapshot(
        name="g",
        basis=PositionBasis.CHECKPOINTED,
        positions={HERE: OffsetAndMetadata(offset=50)},
        unread_reason="no coordinator",
    )
    before = frozenset({("group-unreadable", other), ("as-of-checkpoint", other)})
    found = codes(
        kind=Kind.EMERGENCY,
        groups=(group,),
        baseline=PlanBaseline(positions={}, findings=before),
    )
    assert found["group-unreadable"] is found["as-of-checkpoint"] is weight


def test_a_silent_cluster_whose_groups_nobody_knows_forbids():
    lost: dict[str, Any] = {"kind": Kind.EMERGENCY, "here": None, "origin_error": "no route"}
    assert codes(**lost, groups=()) == {
        "origin-unreachable": Weight.COSTS,
        "groups-unlisted": Weight.FORBIDS,
    }
    assert codes(kind=Kind.EMERGENCY, groups=()) == {"no-groups": Weight.NOTE}


def test_a_group_that_is_gone_since_the_move_was_begun_forbids():
    gone = PlanBaseline(positions={"g": {}, "lost": {}}, findings=frozenset())
    assert codes(baseline=gone) == {"group-deleted": Weight.FORBIDS}


def test_names_that_both_write_forbid_where_nobody_knows_what_was_read():
    assert codes(unsure="nobody can say") == {"shared-names": Weight.FORBIDS}


def test_a_place_in_a_topic_that_was_made_anew_forbids():
    assert codes(stopped="it was recreated") == {"halted": Weight.FORBIDS}


def test_a_group_that_was_named_has_to_have_a_position():
    assert codes(names=frozenset({"g", "typo"})) == {"no-such-group": Weight.FORBIDS}


def test_topics_that_are_mirrored_no_more_are_a_note():
    assert codes(excluded_topics={"old": "it no longer exists"}) == {
        "no-longer-replicated": Weight.NOTE
    }


@pytest.mark.parametrize(("records", "found"), [(0, {}), (3, {"unreplicated": Weight.COSTS})])
def test_what_never_left_the_cluster_gone_back_to(records, found):
    tail = UnreplicatedRecords(partition=HERE, start=5, end=9, records=records, at_least=records)
    assert codes(kind=Kind.BACK, unreplicated=(tail,)) == found


@pytest.mark.parametrize(
    ("at_least", "why", "words"),
    [
        (9, "", "at least 9 records of west were never replicated to east"),
        (0, "", "are not counted: the scan did not reach the end of the log in time"),
        (0, "it has no leader", "are not counted: it has no leader"),
    ],
)
def test_what_was_not_counted_whole_is_told_too(at_least, why, words):
    tail = UnreplicatedRecords(
        partition=HERE, start=5, end=9, records=None, at_least=at_least, unknown_reason=why
    )
    (found,) = findings_of(kind=Kind.BACK, unreplicated=(tail,))
    assert (found.code, found.severity) == ("unreplicated", Weight.COSTS)
    assert words in found.text
