"""What steps note is what later steps read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import PositionBasis
from mm2.clusters.fencing_results import FencingResult
from mm2.failover import journal_step_results
from mm2.failover.consumer_group_plan import GroupAction, GroupMove, PartitionMove
from mm2.failover.failover_journal import FailoverIdentity, FailoverJournal
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.log_start_and_end_offsets import LogBounds

HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
Way, Step = GroupAction, FailoverStep


def again(detail: Any) -> Any:
    """As the file gives it back."""
    return json.loads(json.dumps(detail))


def move(way: GroupAction = Way.MOVES, *, at: int | None = None) -> GroupMove:
    place = PartitionMove(
        partition=HERE,
        action=way,
        committed=40,
        mirror=THERE,
        target_offset=45,
        current_offset=at,
        metadata="m",
    )
    return GroupMove(
        group="billing",
        basis=PositionBasis.COMMITTED,
        state=GroupState.EMPTY,
        blocking_state=None,
        partitions=(place,),
    )


@pytest.mark.parametrize(
    ("way", "at", "stands", "written"),
    [
        (Way.MOVES, None, None, True),
        (Way.MOVES, None, 44, True),
        (Way.MOVES, None, 45, False),
        (Way.MOVES, None, 46, False),
        (Way.MOVES, 60, 60, True),  # it is to be set back
        (Way.IS_AHEAD, 60, 60, False),
    ],
)
def test_who_has_got_further_is_left_there_unless_he_is_to_be_set_back(way, at, stands, written):
    noted = {"groups": [journal_step_results.encode_group_positions(move(way, at=at))]}
    final = journal_step_results.decode_final_positions(again(noted))["billing"]
    assert final.positions == {THERE: OffsetAndMetadata(offset=45, metadata="m")}
    now = None if stands is None else OffsetAndMetadata(offset=stands)
    assert final.should_write_position(THERE, now) is written
    assert final.select_positions_to_write({} if now is None else {THERE: now}) == (
        final.positions if written else {}
    )


def test_who_is_in_the_way_there_or_not_known_at_all_is_not_moved():
    found = move()
    assert journal_step_results.is_group_moved(found)
    blocking_state = dataclasses.replace(found, blocking_state=GroupState.ACTIVE)
    unknown = dataclasses.replace(found, partitions=(), unread_reason="its coordinator is away")
    assert not journal_step_results.is_group_moved(blocking_state)
    assert not journal_step_results.is_group_moved(unknown)
    assert journal_step_results.is_group_moved(
        dataclasses.replace(found, unread_reason="its coordinator is away")
    )


def test_fences_are_read_as_they_were_noted():
    found = [
        FencingResult(partition=HERE, marker=18, owner_order=(1, 4), tail=2),
        FencingResult(
            partition=THERE, marker=None, owner_order=(0, -1), tail=None, unfenced_reason="no right"
        ),
    ]
    assert journal_step_results.decode_fencing_results(
        again({"partitions": [journal_step_results.encode_fencing_result(each) for each in found]})
    ) == (found)


def test_ends_are_read_as_they_were_noted():
    assert journal_step_results.decode_offsets(
        again(journal_step_results.encode_offsets({HERE: 7, THERE: 9}))
    ) == {
        HERE: 7,
        THERE: 9,
    }


PLAN: dict[str, Any] = {
    "at_ms": 5_000,
    "origin_error": "",
    "unmoved_groups": [],
    "lag_records": 3,
    "lag_ms": 40,
    "newest_ms": 900,
    "reread_max": 2,
    "findings": [{"code": "lag", "severity": "cost", "group": "", "text": "3 records"}],
    "partitions": [{"topic": "orders", "partition": 0, "source_end": 100}],
    "groups": [
        {
            "group": name,
            "basis": "committed",
            "state": "empty",
            "blocking_state": None,
            "checkpointed_ms": None,
            "reread_max": 0,
            "reread_known_max": 0,
            "read_error": "",
            "kafka_streams": name == "mail",
            "partitions": [
                {
                    "topic": "orders",
                    "partition": 0,
                    "committed": committed,
                    "mirror": "east.orders",
                    "resume_offset": 45,
                    "reread_max": 0,
                    "basis": "committed",
                    "checkpointed_ms": None,
                    "state": "moves",
                    "reason": "",
                }
            ],
        }
        for name, committed in (("billing", 40), ("mail", None))
    ],
}


def test_what_a_plan_said_before_is_known_later():
    found = journal_step_results.decode_plan_baseline({"plan": PLAN})
    assert found.findings == {("lag", "")}
    assert found.streams == {"mail"}
    assert found.positions == {
        "billing": {HERE: OffsetAndMetadata(offset=40)},
        "mail": {HERE: None},
    }


def test_groups_that_were_moved_keep_what_was_found_of_them():
    def looked(*groups: tuple[str, int]) -> dict[str, Any]:
        return {
            "plan": {
                "lag_records": groups[0][1],
                "at_ms": 5_000,
                "kind": "failover",
                "origin_error": "",
                "reread_max": 0,
                "topics": {name: name for name, _ in groups},
                "groups": [
                    {
                        "group": name,
                        "basis": "committed",
                        "state": "empty",
                        "blocking_state": None,
                        "checkpointed_ms": None,
                        "reread_max": again,
                        "read_error": "",
                    }
                    for name, again in groups
                ],
                "findings": [
                    {"group": name, "code": "lag", "text": f"{again}"} for name, again in groups
                ],
            },
            "fenced_again": [groups[0][0]],
            "groups": [{"group": name, "positions": [again]} for name, again in groups],
        }

    found = journal_step_results.merge_final_positions(
        looked(("mail", 5)), looked(("mail", 1), ("billing", 2)), ["billing"]
    )
    expected = looked(("billing", 2), ("mail", 5))
    assert found["groups"] == expected["groups"]
    for name in ("groups", "findings", "topics"):
        assert found["plan"][name] == expected["plan"][name]
    assert (found["plan"]["reread_max"], found["plan"]["lag_records"]) == (7, 5)
    assert found["plan"]["reread"] == "at most 7 records"
    assert found["fenced_again"] == ["mail"]


def begun(plan: dict[str, Any], moved: set[str], stands: list[Any]) -> FailoverJournal:
    wanted = FailoverRequest(origin="east", destination="west", kind=FailoverKind.EMERGENCY)
    return FailoverJournal(
        identity=FailoverIdentity(request=wanted, flow="east->west"),
        begun_at_ms=1_000,
        details={Step.RECORD: {"plan": plan}, Step.VERIFY: {"positions": stands}},
        started_ms={Step.RECORD: 1_000, Step.VERIFY: 1_500},
        done_ms={Step.RECORD: 1_400, Step.VERIFY: 5_500},
        failures=[(Step.VERIFY, "somebody set it back")],
        moved=moved,
    )


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, "at most 0 records"),
        ({"origin_error": "it burns"}, "unknown"),
        (
            {"findings": [{"code": "groups-unlisted", "group": ""}]},
            "unknown",
        ),
    ],
)
def test_where_no_group_was_known_the_report_claims_no_bound(about, words):
    plan = PLAN | {"groups": []} | about
    told = journal_step_results.build_report(begun(plan, set(), []), plan, now_ms=6_000)
    assert (told["moved"], told["reread"]) == ([], words)
    assert told["reread_max"] == (None if about else 0)


def test_the_report_says_what_became_of_each_group():
    stands = [
        {
            "group": "billing",
            "current_offset": 45,
            "written_offset": 45,
            "is_below_written_offset": False,
        }
    ]
    told = journal_step_results.build_report(begun(PLAN, {"billing"}, stands), PLAN, now_ms=6_000)
    assert (told["kind"], told["from"], told["to"]) == ("failover", "east", "west")
    assert (told["begun_at_ms"], told["ended_at_ms"], told["took_ms"]) == (1_000, 6_000, 5_000)
    steps_told = [(each["step"], each["began_at_ms"], each["took_ms"]) for each in told["steps"]]
    assert steps_told == [("record", 1_000, 400), ("verify", 1_500, 4_000)]
    assert told["steps"][1]["read_back"] == "1 position: 1 as written"
    assert told["failures"] == [{"step": "verify", "error": "somebody set it back"}]
    assert [each["group"] for each in told["moved"]] == ["billing"]
    assert (told["reread"], told["snapshot_ms"]) == ("at most 0 records", 5_000)
    assert (told["unmoved"], told["verified"]) == (["mail"], stands)
    assert (told["lag_records"], told["lag_ms"], told["findings"]) == (3, 40, PLAN["findings"])


@pytest.mark.parametrize(("end", "found"), [(100, 0), (104, 4), (90, 0), (None, None)], ids=str)
def test_what_came_later_is_counted_where_it_can_be(end, found):
    now = {HERE: None if end is None else LogBounds(start=0, end=end)}
    assert journal_step_results.count_records_after_snapshot(PLAN, now) == found
    assert journal_step_results.count_records_after_snapshot(PLAN, {}) is None
