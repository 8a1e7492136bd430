"""What is told of one group that moves."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import (
    ClusterPairSnapshot,
    MirroredPartition,
    PositionBasis,
    UnmovedGroup,
)
from mm2.failover import plan_finding_rules
from mm2.failover.consumer_group_plan import GroupAction, GroupMove, PartitionMove
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.suggested_commands import ClusterCommands

HERE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
ELSEWHERE = TopicPartition("u", 0)
Kind, State, Way = FailoverKind, GroupState, GroupAction
Weight = PlanSeverity
STANDS = PartitionMove(partition=HERE, action=Way.IS_THERE, committed=50)


def found(
    *moves: PartitionMove,
    kind: FailoverKind = Kind.EMERGENCY,
    about: dict[str, Any] | None = None,
    **given: Any,
) -> list[PlanFinding]:
    """`about`: what was seen besides."""
    wanted = FailoverRequest(origin="east", destination="west", kind=kind)
    usual: dict[str, Any] = {
        "group": "g",
        "basis": PositionBasis.COMMITTED,
        "state": State.EMPTY,
        "blocking_state": None,
        "partitions": moves,
    }
    what = {"at_ms": 90_000, "flow": "f", "mirrored": (), "groups": (), **(about or {})}
    group = GroupMove(**usual | given)
    return list(
        plan_finding_rules.check_group(wanted, ClusterPairSnapshot(**what), group, final=False)
    )


def weights(*moves: PartitionMove, **given: Any) -> dict[str, PlanSeverity]:
    return {each.code: each.severity for each in found(*moves, **given)}


def test_of_a_group_that_stands_where_it_should_there_is_nothing_to_tell():
    assert weights(STANDS) == {}


@pytest.mark.parametrize(
    ("kind", "moves", "refused", "code", "weight"),
    [
        (Kind.EMERGENCY, (STANDS,), False, "group-unreadable", Weight.COSTS),
        (Kind.PLANNED, (STANDS,), False, "group-unreadable", Weight.FORBIDS),
        (Kind.EMERGENCY, (), False, "group-unreadable", Weight.FORBIDS),
        (Kind.EMERGENCY, (STANDS,), True, "group-read-denied", Weight.FORBIDS),
    ],
)
def test_a_group_that_was_not_read_tells_less(kind, moves, refused, code, weight):
    """One that we may not read never will, and the right is named."""
    told = found(*moves, kind=kind, unread_reason="no response", is_access_denied=refused)
    assert [(each.code, each.severity, each.group) for each in told] == [(code, weight, "g")]
    assert "(no response)" in told[0].text
    assert ("grant mm2 DESCRIBE" in told[0].text) is refused


LATER = "records that it read later will be re-read: their number is unknown"


@pytest.mark.parametrize(
    ("written_ms", "again_max", "words"),
    [
        (None, None, f"its last checkpoint; {LATER}"),
        (60_000, None, f"its last checkpoint, 30 s old; {LATER}"),
        (
            60_000,
            900,
            f"its last checkpoint, 30 s old; {LATER}, at most the 900 records on west after the "
            "checkpoint",
        ),
    ],
)
def test_the_age_of_a_checkpoint_and_the_bound_that_can_be_proven_are_said(
    written_ms, again_max, words
):
    move = dataclasses.replace(
        STANDS,
        basis=PositionBasis.CHECKPOINTED,
        checkpoint_ms=written_ms,
        max_rereads=again_max,
        target_offset=50,
    )
    (told,) = found(move, basis=PositionBasis.CHECKPOINTED)
    assert (told.code, told.severity) == ("as-of-checkpoint", Weight.COSTS)
    assert told.text == f"group g resumes at {words}"


def test_what_a_group_began_to_read_after_its_checkpoint_is_said():
    move = dataclasses.replace(
        STANDS, basis=PositionBasis.CHECKPOINTED, max_rereads=900, target_offset=50
    )
    (told,) = found(move, basis=PositionBasis.CHECKPOINTED, may_read_more=True)
    assert (
        "at most the 900 records on west after the checkpoint, and topics that it started"
        in told.text
    )
    assert "start according to auto.offset.reset: earliest re-reads all their records" in told.text


def test_a_group_without_a_checkpoint_is_not_said_to_continue_at_one():
    unread, told = found(
        basis=PositionBasis.CHECKPOINTED, unread_reason="away", max_unlisted_rereads=None
    )
    assert (unread.code, told.code) == ("group-unreadable", "as-of-checkpoint")
    assert told.text == (
        "group g starts on west according to auto.offset.reset; the number of re-read records is "
        "unknown"
    )


UNMOVED = {"orders": "east.orders"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topics": UNMOVED}, "it reads orders. On west it starts"),
        ({"topics": dict.fromkeys("abcdefg", "x")}, "it reads a, b, c, d, e and 2 more. On"),
        (
            {"topics": None, "unread_reason": "no response"},
            "its topics on east are unknown (no response)",
        ),
        ({}, "it has read nothing on east yet"),
    ],
)
@pytest.mark.parametrize("kind", ["share", "streams"])
def test_a_group_of_another_kind_is_named_and_forbids(kind, given, words):
    told = unmoved(kind, "s", **given)
    assert (told.code, told.severity, told.group) == (f"{kind}-group", Weight.FORBIDS, "s")
    assert told.text.startswith(f"{kind} group s is not moved: ")
    assert words in told.text
    assert told.text.endswith(f"Then add --accept {kind}-group:s")


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_the_name_of_a_group_is_quoted_for_the_shell(kind):
    told = unmoved(kind, "x$(touch y)", topics=UNMOVED)
    assert told.text.endswith(f"Then add --accept '{kind}-group:x$(touch y)'")
    assert "--group 'x$(touch y)'" in told.text


def unmoved(kind: str, name: str, **given: Any) -> PlanFinding:
    wanted = FailoverRequest(origin="east", destination="west", kind=Kind.EMERGENCY)
    group = UnmovedGroup(name=name, type=kind, **given)
    tools = ClusterCommands(bootstrap="w:9092")
    found = ClusterPairSnapshot(
        at_ms=1, flow="east->west", mirrored=(), groups=(), target_commands=tools
    )
    return plan_finding_rules.describe_unmoved_group(wanted, found, group)


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        (
            "share",
            [
                "kafka-share-groups.sh --bootstrap-server w:9092 --group 'a b' --topic east.orders "
                "--reset-offsets --to-datetime TIME --execute",
            ],
        ),
        (
            "streams",
            [
                "mm2 offsets translate --group 'a b' --flow 'east->west' --csv > FILE",
                "kafka-streams-groups.sh --bootstrap-server w:9092 --group 'a b' --reset-offsets "
                "--from-file FILE --execute",
            ],
        ),
    ],
)
def test_the_commands_that_set_offsets_of_such_a_group_are_told(kind, typed):
    told = unmoved(kind, "a b", topics=UNMOVED)
    assert all(each in told.text for each in typed)


@pytest.mark.parametrize(
    ("blocking_state", "code"),
    [
        (State.ACTIVE, "group-active"),
        (State.FOREIGN, "group-type-conflict"),
        (State.UNKNOWN, "group-unknown"),
    ],
)
def test_a_group_that_is_in_the_way_there_forbids(blocking_state, code):
    (told,) = found(STANDS, blocking_state=blocking_state)
    assert (told.code, told.severity) == (code, Weight.FORBIDS)


def test_why_nobody_could_look_at_it_there_is_said():
    (told,) = found(STANDS, blocking_state=State.UNKNOWN, target_unread_reason="refused")
    assert "(refused): try again, or grant mm2 DESCRIBE on the group" in told.text


def mirrored(partition: TopicPartition, end: int, *, pending: int = 0) -> MirroredPartition:
    there = LogBounds(start=0, end=end, pending=pending)
    return MirroredPartition(partition=partition, mirror=partition, mirror_bounds=there)


NOWHERE = PartitionMove(partition=OTHER, action=Way.NO_OFFSET, committed=None)
STANDS_TOO = PartitionMove(partition=OTHER, action=Way.IS_THERE, committed=3)


@pytest.mark.parametrize(
    ("moves", "end", "pending", "told"),
    [
        ((STANDS,), 5, 0, True),
        ((STANDS, NOWHERE), 5, 0, True),
        ((STANDS, STANDS_TOO), 5, 0, False),
        ((STANDS,), 0, 0, False),
        ((STANDS,), 0, 4, True),
    ],
)
def test_a_partition_in_which_it_has_no_position_is_a_note(moves, end, pending, told):
    """Its consumers begin there by auto.offset.reset: latest would pass over what is there."""
    about = {
        "mirrored": (
            mirrored(HERE, 9),
            mirrored(OTHER, end, pending=pending),
            mirrored(ELSEWHERE, 9),
        )
    }
    assert weights(*moves, about=about) == ({"no-position": Weight.NOTE} if told else {})


@pytest.mark.parametrize(
    ("to", "place"), [(7, "the position there, 7 in the offset map,"), (None, "position there")]
)
def test_a_leader_that_is_away_there_is_no_missing_place(to, place):
    move = PartitionMove(
        partition=HERE,
        action=Way.MOVES,
        committed=5,
        mirror=OTHER,
        target_offset=to,
        unanswered_reason="it hangs",
    )
    (told,) = found(move)
    assert (told.code, told.severity, told.group) == ("mirror-unknown", Weight.FORBIDS, "g")
    assert "west does not respond for t-1 (it hangs)" in told.text
    assert place in told.text
    assert "try again" in told.text


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"outdated_reason": "recreated"}, "halted"),
        ({"local_records_reason": "who knows"}, "shared-names"),
    ],
)
def test_a_place_that_nobody_is_sure_of_forbids(given, code):
    move = PartitionMove(partition=HERE, action=Way.MOVES, committed=5, target_offset=5, **given)
    assert weights(move) == {code: Weight.FORBIDS}
