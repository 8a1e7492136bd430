"""A plan as people read it, and as programs do."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import (
    ClusterPairSnapshot,
    GroupSnapshot,
    MirroredPartition,
    PositionBasis,
    TranslatedPosition,
    UnreplicatedRecords,
)
from mm2.failover import failover_plan, plan_output
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_translation import ExactOffset

HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
GROUP = GroupSnapshot(
    name="billing",
    basis=PositionBasis.COMMITTED,
    state=GroupState.EMPTY,
    positions={HERE: OffsetAndMetadata(offset=50)},
)


ANSWERS = LogBounds(start=0, end=130)


THERE_ENDS = LogBounds(start=0, end=120)


def made(
    here: LogBounds | None = ANSWERS,
    there: LogBounds | None = THERE_ENDS,
    unheard: str = "",
    group: GroupSnapshot = GROUP,
) -> FailoverPlan:
    mirrored = MirroredPartition(
        partition=HERE,
        mirror=THERE,
        copied_to=100,
        source_bounds=here,
        mirror_bounds=there,
        mirror_error=unheard,
        waiting_since_ms=4_000,
        newest_ms=5_000,
    )
    found = ClusterPairSnapshot(
        at_ms=10_000,
        flow="east->west",
        mirrored=(mirrored,),
        groups=(group,),
        target_bounds={} if there is None else {THERE: there},
        unanswered={THERE: unheard} if unheard else {},
        origin_error="" if here is not None else "no route",
    )
    wanted = FailoverRequest(origin="east", destination="west", kind=FailoverKind.EMERGENCY)
    place = TranslatedPosition(partition=THERE, outcome=ExactOffset(downstream=60))
    return failover_plan.build_failover_plan(wanted, found, lambda *_: place)


def test_people_read_a_table():
    said = list(
        plan_output.format_plan(made(), ["stop-consumers"], {"bootstrap.servers": "west:9092"})
    )
    rows = [line.split() for line in said]
    assert ["orders", "0", "east.orders", "130", "100", "30", "6.0", "s"] in rows
    assert ["billing", "orders", "0", "50", "committed", "60", "-", "0", "0", "60", "moves"] in rows
    assert "1 group, re-read: at most 0 records" in said
    assert "RPO: 30 records, 6.0 s" in said
    assert "verdict: GO, AT A COST" in said
    assert "  2. stop-consumers: stop consumers on east (hook)" in said
    assert said[-5:-3] == [
        "client properties on west, for all groups:",
        "  bootstrap.servers=west:9092",
    ]
    assert rows[-2:] == [
        ["GROUP", "READ", "DESTINATION-TOPIC"],
        ["billing", "orders", "east.orders"],
    ]


@pytest.mark.parametrize("mirror", [HERE, THERE])
def test_under_one_name_producers_of_both_clusters_are_to_be_stopped(mirror: TopicPartition):
    found = made()
    wanted = dataclasses.replace(found.request, kind=FailoverKind.PLANNED)
    mirrored = (dataclasses.replace(found.mirrored[0], mirror=mirror),)
    found = dataclasses.replace(found, request=wanted, mirrored=mirrored)
    (step,) = (
        each for each in plan_output.format_plan(found, [], {}) if "stop-producers: " in each
    )
    assert ("stop producers on east and on west" in step) is (mirror == HERE)


def test_of_a_checkpoint_its_age_and_no_false_bound_are_shown():
    group = dataclasses.replace(
        GROUP, basis=PositionBasis.CHECKPOINTED, checkpoint_times_ms={HERE: 4_000}
    )
    said = list(plan_output.format_plan(made(None, group=group), [], {}))
    (row,) = (each for each in said if each.startswith("billing  orders  0 "))
    cells = [each for each in row.split("  ") if each]
    assert [each.strip() for each in cells[3:7]] == ["50", "checkpoint, 6 s old", "60", "-"]
    assert cells[7].strip() == "0 to 60"
    words = "unknown, at most 60 records (1 group at its last checkpoint, 6 s old)"
    assert f"1 group, re-read: {words}" in said
    assert "records already read, but not on west: unknown" in said
    found = plan_output.plan_to_json(made(None, group=group), [], {})
    assert (found["reread"], found["reread_max"]) == (words, 60)
    (place,) = found["groups"][0]["partitions"]
    assert (place["basis"], place["checkpointed_ms"]) == ("checkpoint", 4_000)


def test_a_loss_that_cannot_be_counted_is_not_called_none():
    said = list(plan_output.format_plan(made(None), [], {}))
    assert "RPO: unknown; the newest record on west was written at 1970-01-01T00:00:05Z" in said
    found = plan_output.plan_to_json(made(None), [], {})
    assert (found["lag_records"], found["lag_ms"], found["newest_ms"]) == (None, None, 5_000)


def test_programs_read_the_same():
    found = plan_output.plan_to_json(made(), [], {})
    assert (found["version"], found["verdict"]) == (1, "go-at-a-cost")
    assert (found["lag_records"], found["lag_ms"], found["reread_max"]) == (30, 6_000, 0)
    assert (found["unlisted_topics"], found["checkpointed_ms"]) == ([], None)
    (group,) = found["groups"]
    (place,) = group["partitions"]
    assert (place["committed"], place["resume_offset"], place["state"]) == (50, 60, "moves")
    assert {each["code"] for each in found["findings"]} == {"lag"}
    assert found["topics"] == group["topics"] == {"orders": "east.orders"}


@pytest.mark.parametrize(
    ("weight", "shown"), [("no-go", 7), ("cost", 4), ("note", 4)], ids=["no-go", "cost", "note"]
)
def test_of_many_findings_alike_people_see_the_first_and_what_forbids_whole(weight, shown):
    alike = [
        {"severity": weight, "code": "lag", "group": "", "text": f"partition {number}"}
        for number in range(7)
    ]
    other = {"severity": weight, "code": "rereads", "group": "mail", "text": "some"}
    said = list(plan_output.format_findings([*alike, other]))
    assert len(said) == shown + 1
    assert "some (rereads)" in said[-1]
    assert any("and 4 similar (lag)" in each for each in said) == (weight != "no-go")


def test_the_gravest_findings_come_first():
    found = [
        {"severity": weight, "code": weight, "group": "", "text": "it is so"}
        for weight in ("note", "cost", "no-go")
    ]
    assert list(plan_output.format_findings(found)) == [
        "NO-GO  it is so (no-go)",
        "COST   it is so (cost)",
        "NOTE   it is so (note)",
    ]


@pytest.mark.parametrize(
    ("point", "line"),
    [
        ((3, 1_200, 5_000), "RPO: 3 records, 1.2 s"),
        ((0, 0, None), "RPO: 0 records, 0 s"),
        ((1, None, None), "RPO: 1 record, -"),
        ((None, None, None), "RPO: unknown; the newest record on west was written at -"),
    ],
    ids=str,
)
def test_the_recovery_point(point, line):
    lag_records, lag_ms, newest_ms = point
    told = plan_output.format_rpo(
        "west", lag_records=lag_records, lag_ms=lag_ms, newest_ms=newest_ms
    )
    assert told == line


def test_what_never_left_has_a_table_of_its_own():
    tails = [
        UnreplicatedRecords(
            partition=THERE, start=5, end=9, records=4, at_least=4, first_ms=1_000, last_ms=2_000
        ),
        UnreplicatedRecords(partition=HERE, start=5, end=9, records=None, at_least=7),
    ]
    found = dataclasses.replace(made(), unreplicated=tuple(tails))
    rows = [line.split() for line in plan_output.format_plan(found, [], {})]
    first, last = "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z"
    assert ["east.orders", "0", "5", "9", "4", first, last] in rows
    assert ["orders", "0", "5", "9", ">=", "7", "-", "-"] in rows
    told = plan_output.plan_to_json(found, [], {})
    assert told["unreplicated_records"] is None
    assert told["unreplicated"][0]["records"] == 4


def test_what_nobody_counted_is_not_called_none():
    tail = UnreplicatedRecords(partition=THERE, start=5, end=9, records=None, unknown_reason="away")
    found = dataclasses.replace(made(), unreplicated=(tail,))
    rows = [line.split() for line in plan_output.format_plan(found, [], {})]
    assert ["east.orders", "0", "5", "9", "-", "-", "-"] in rows
    (told,) = plan_output.plan_to_json(found, [], {})["unreplicated"]
    assert (told["records"], told["reason"]) == (None, "away")


@pytest.mark.parametrize(
    ("unheard", "mirror", "exists", "state"),
    [
        ("it hangs", "east.orders (no response)", None, "moves: no response from the destination"),
        ("", "east.orders (missing)", False, "no mirror"),
    ],
)
def test_a_mirror_that_nobody_answers_for_is_not_called_missing(unheard, mirror, exists, state):
    found = made(there=None, unheard=unheard)
    said = "\n".join(plan_output.format_plan(found, [], {}))
    assert mirror in said
    assert state in said
    assert plan_output.plan_to_json(found, [], {})["partitions"][0]["mirror_exists"] is exists
