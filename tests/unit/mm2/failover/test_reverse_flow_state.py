"""What the flow that leads back has to say of a plan, and where its word no longer holds."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_request import FailoverKind
from mm2.failover.foreign_record_scan import RecordRange
from mm2.failover.plan_findings import PlanSeverity, PlanVerdict
from mm2.failover.position_translation import OffsetSyncLocations
from mm2.failover.unreplicated_offset_ranges import (
    PartitionScanInputs,
    RecordsReplicatedBack,
    UnreplicatedTail,
)
from mm2.topics import replication_policy, topic_filters
from mm2.topics.flow_config import Flow
from tests.fakes import copied_map, plans
from tests.fakes.two_sides import FakeSides

LOCAL, BROUGHT = TopicPartition("local", 0), TopicPartition("west.local", 0)
TOPICS = topic_filters.compile_topic_filter(("local.*",))
BOTH = OffsetSyncLocations(reverse_flow=Flow(source="west", target="east", topics=TOPICS))
Weight, Kind = PlanSeverity, FailoverKind


def brought(**anew: bool) -> FakeSides:
    """100 records of `local` were brought from west to east; a group has read 90 of them. `source`
    or `target`: that topic was recreated since, and has grown."""
    sides = plans.scene()
    name = replication_policy.format_offset_map_topic("west")
    era, segment = copied_map.log(LOCAL, through=100, delta=0)
    value = era[1] or b""
    at = value.index(bytes(32))
    other = b"another topic id"
    value = (
        value[:at]
        + (other if anew.get("source") else bytes(16))
        + (other if anew.get("target") else bytes(16))
        + value[at + 32 :]
    )
    sides.source.topics.topics[name] = [(era[0], value), segment]
    sides.target.log("local", 500)
    sides.source.log("west.local", 100)
    sides.source.members.groups.clear()
    sides.source.members.commit("back", {BROUGHT: 90})
    return sides


def whole(begins: Any) -> dict[TopicPartition, UnreplicatedTail]:
    """All that is behind what arrived was born there."""

    def tail(partition: TopicPartition, begin: PartitionScanInputs) -> UnreplicatedTail:
        found = begin.build_local_record_scan()
        count = found.end - found.start
        found.foreign.append(RecordRange(found.start, found.end - 1, count, 1, 2))
        return begin.build_tail(
            partition, found, RecordsReplicatedBack(0, begin.mirror_next), whole=True
        )

    return {each: tail(each, begin) for each, begin in begins.items()}


def back(sides: FakeSides, **given: Any) -> FailoverPlan:
    return plans.made(sides, **{"kind": Kind.BACK, "ways": BOTH, "find": whole, **given})


def left(found: FailoverPlan) -> dict[TopicPartition, int | None]:
    return {each.partition: each.records for each in found.unreplicated}


def test_what_has_arrived_is_not_left():
    found = back(brought())
    assert left(found) == {LOCAL: 400}
    assert (plans.only(found).target_offset, plans.codes(found)) == (
        90,
        {"unreplicated": Weight.COSTS},
    )


@pytest.mark.parametrize("kind", [Kind.BACK, Kind.EMERGENCY])
@pytest.mark.parametrize("which", ["source", "target"])
def test_the_map_of_topics_that_were_made_anew_says_nothing(which, kind):
    """Offsets that it knows are of the ones before: who went on there would miss records."""
    found = back(brought(**{which: True}), kind=kind)
    assert plans.codes(found)["halted"] is Weight.FORBIDS
    assert "recreated" in next(each.text for each in found.findings if each.code == "halted")
    assert plans.only(found).target_offset == 0
    assert left(found) == ({LOCAL: 500} if kind is Kind.BACK else {})
    accepted = back(brought(**{which: True}), kind=kind, accepted=frozenset({"halted:back"}))
    assert accepted.verdict is PlanVerdict.GO_AT_A_COST


def test_a_topic_that_was_made_shortly_before_is_left_whole():
    """Nothing of it was ever begun, nor of a partition that was added."""
    sides = brought()
    sides.target.log("local-new", 77)
    sides.target.cluster.topics["local"].partitions = 2
    sides.target.log("local", 8, partition=1)
    sides.target.log("other", 9)
    assert left(back(sides)) == {
        LOCAL: 400,
        TopicPartition("local", 1): 8,
        TopicPartition("local-new", 0): 77,
    }


def test_a_partition_whose_leader_there_is_away_is_told_and_not_counted():
    sides = brought()
    sides.target.logs.failures[LOCAL] = RetriableError("it has no leader")
    found = back(sides)
    assert (left(found), found.unreplicated_records) == ({LOCAL: None}, None)
    text = next(each.text for each in found.findings if each.code == "unreplicated")
    assert "are not counted: it has no leader" in text


def test_a_topic_that_is_gone_there_has_nothing_left():
    sides = brought()
    del sides.target.logs.logs[LOCAL]
    assert left(back(sides)) == {}


@pytest.mark.parametrize("kind", [Kind.BACK, Kind.EMERGENCY])
def test_topics_that_nobody_describes_end_a_planned_move(kind):
    sides = brought()
    sides.source.cluster.failures["describe_topics", "west.local"] = RetriableError("away")
    if kind is Kind.BACK:
        with pytest.raises(RetriableError, match="away"):
            back(sides)
        return
    assert plans.codes(back(sides, kind=kind))["reverse-flow-unknown"] is Weight.COSTS
