"""What the flow that leads back has to say of a plan, and where its word no longer holds."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import errors, ids
from mm2.core import filters, flows, naming
from mm2.core.failover import orders, places, plan, tails, verdicts, whose
from tests.fakes import copied_map, plans, two_sides

LOCAL, BROUGHT = ids.TopicPartition("local", 0), ids.TopicPartition("west.local", 0)
TOPICS = filters.topic_filter(("local.*",))
BOTH = places.Ways(back=flows.Flow(source="west", target="east", topics=TOPICS))
Weight, Kind = verdicts.Weight, orders.Kind


def brought(**anew: bool) -> two_sides.FakeSides:
    """100 records of `local` were brought from west to east; a group has read 90 of them. `source`
    or `target`: that topic was made anew since, and has grown."""
    sides = plans.scene()
    name = naming.map_topic("west")
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


def whole(begins: Any) -> dict[ids.TopicPartition, tails.Tail]:
    """All that is behind what arrived was born there."""

    def tail(partition: ids.TopicPartition, begin: tails.Begin) -> tails.Tail:
        found = begin.born()
        count = found.end - found.start
        found.others.append(whose.Stretch(found.start, found.end - 1, count, 1, 2))
        return begin.tail(partition, found, tails.Arrived(0, begin.mirror_next), whole=True)

    return {each: tail(each, begin) for each, begin in begins.items()}


def back(sides: two_sides.FakeSides, **given: Any) -> plan.Plan:
    return plans.made(sides, **{"kind": Kind.BACK, "ways": BOTH, "find": whole, **given})


def left(found: plan.Plan) -> dict[ids.TopicPartition, int | None]:
    return {each.partition: each.records for each in found.unreplicated}


def test_what_has_arrived_is_not_left():
    found = back(brought())
    assert left(found) == {LOCAL: 400}
    assert (plans.only(found).to, plans.codes(found)) == (90, {"unreplicated": Weight.COSTS})


@pytest.mark.parametrize("kind", [Kind.BACK, Kind.EMERGENCY])
@pytest.mark.parametrize("which", ["source", "target"])
def test_the_map_of_topics_that_were_made_anew_says_nothing(which, kind):
    """Offsets that it knows are of the ones before: who went on there would miss records."""
    found = back(brought(**{which: True}), kind=kind)
    assert plans.codes(found)["stopped"] is Weight.FORBIDS
    assert "made anew" in next(each.text for each in found.findings if each.code == "stopped")
    assert plans.only(found).to == 0
    assert left(found) == ({LOCAL: 500} if kind is Kind.BACK else {})
    accepted = back(brought(**{which: True}), kind=kind, accepted=frozenset({"stopped:back"}))
    assert accepted.verdict is verdicts.Verdict.GO_AT_A_COST


def test_a_topic_that_was_made_shortly_before_is_left_whole():
    """Nothing of it was ever begun, nor of a partition that was added."""
    sides = brought()
    sides.target.log("local-new", 77)
    sides.target.cluster.topics["local"].partitions = 2
    sides.target.log("local", 8, partition=1)
    sides.target.log("other", 9)
    assert left(back(sides)) == {
        LOCAL: 400,
        ids.TopicPartition("local", 1): 8,
        ids.TopicPartition("local-new", 0): 77,
    }


def test_a_partition_whose_leader_there_is_away_is_told_and_not_counted():
    sides = brought()
    sides.target.logs.failures[LOCAL] = errors.RetriableError("no broker leads it")
    found = back(sides)
    assert (left(found), found.unreplicated_records) == ({LOCAL: None}, None)
    text = next(each.text for each in found.findings if each.code == "unreplicated")
    assert "is not counted: no broker leads it" in text


def test_a_topic_that_is_gone_there_has_nothing_left():
    sides = brought()
    del sides.target.logs.logs[LOCAL]
    assert left(back(sides)) == {}


@pytest.mark.parametrize("kind", [Kind.BACK, Kind.EMERGENCY])
def test_topics_that_nobody_describes_end_a_planned_move(kind):
    sides = brought()
    sides.source.cluster.failures["describe_topics", "west.local"] = errors.RetriableError("away")
    if kind is Kind.BACK:
        with pytest.raises(errors.RetriableError, match="away"):
            back(sides)
        return
    assert plans.codes(back(sides, kind=kind))["way-back-unknown"] is Weight.COSTS
