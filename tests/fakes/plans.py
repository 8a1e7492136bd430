"""Two clusters in memory, of which one is copied to the other, and the plan of leaving one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect_runtime.base import ids
from mm2.app.failover import planning
from mm2.core import filters, flows, naming
from mm2.core.failover import fences, group_moves, orders, places, plan, seen, tails, verdicts
from mm2.formats import checkpoint
from tests.fakes import copied_map, two_sides

TOPIC = "orders"
HERE, THERE = ids.TopicPartition(TOPIC, 0), ids.TopicPartition("east.orders", 0)
COPIED, DELTA = 100, 5
ONE_WAY = places.Ways()


class Clock:
    def now_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1_000


def scene(**given: Any) -> two_sides.FakeSides:
    """100 records copied from east to west."""
    flow = flows.Flow(
        **{"source": "east", "target": "west", "topics": filters.topic_filter((TOPIC,)), **given}
    )
    sides = two_sides.FakeSides(flow)
    sides.source.log(TOPIC, COPIED)
    sides.target.log(flow.remote_topic(TOPIC), COPIED + DELTA)
    sides.target.topics.topics[naming.map_topic("east")] = copied_map.log(
        HERE, through=COPIED, delta=DELTA
    )
    sides.source.members.commit("billing", {HERE: 40})
    return sides


def made(
    sides: two_sides.FakeSides,
    *,
    kind: orders.Kind = orders.Kind.EMERGENCY,
    found: Mapping[ids.TopicPartition, tails.Tail] | None = None,
    locked: fences.Fences | None = None,
    lost: str = "",
    ways: places.Ways = ONE_WAY,
    find: Callable[[Any], Any] | None = None,
    before: seen.Before | None = None,
    **given: Any,
) -> plan.Plan:
    planner = planning.Planner(
        both=sides,
        find=find or (lambda _: found or {}),
        clock=Clock(),
        timeout_s=10.0,
        lost=lost,
        ways=ways,
    )
    wanted = orders.Wanted(origin="east", destination="west", kind=kind, **given)
    closed = None
    if locked is not None or before is not None:
        closed = planning.Closed(locked=locked or fences.Fences(), before=before)
    return planner.make(wanted, closed)


def codes(found: plan.Plan) -> dict[str, verdicts.Weight]:
    return {each.code: each.weight for each in found.findings}


def only(found: plan.Plan) -> group_moves.PartitionMove:
    (group,) = found.groups
    (place,) = group.partitions
    return place


def checkpoints(sides: two_sides.FakeSides, group: str, upstream: int, *, at_ms: int = -1) -> None:
    point = checkpoint.Checkpoint(
        group=group, partition=THERE, upstream=upstream, downstream=upstream + DELTA, metadata=""
    )
    sides.target.topics.topics["east.checkpoints.internal"] = [checkpoint.encode(point)]
    sides.target.topics.time_ms = at_ms
