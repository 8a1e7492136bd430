"""Two clusters in memory, of which one is copied to the other, and the plan of leaving one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import PlanBaseline
from mm2.clusters.fencing_results import FencingSummary
from mm2.failover.consumer_group_plan import PartitionMove
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_planner import FailoverPlanner, FencedFlowState
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.plan_findings import PlanSeverity
from mm2.failover.position_translation import OffsetSyncLocations
from mm2.failover.unreplicated_offset_ranges import UnreplicatedTail
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.topics import replication_policy, topic_filters
from mm2.topics.flow_config import Flow
from tests.fakes import copied_map
from tests.fakes.two_sides import FakeSides

TOPIC = "orders"
HERE, THERE = TopicPartition(TOPIC, 0), TopicPartition("east.orders", 0)
COPIED, DELTA = 100, 5
ONE_WAY = OffsetSyncLocations()


class Clock:
    def now_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1_000


def scene(**given: Any) -> FakeSides:
    """100 records copied from east to west."""
    flow = Flow(
        **{
            "source": "east",
            "target": "west",
            "topics": topic_filters.compile_topic_filter((TOPIC,)),
            **given,
        }
    )
    sides = FakeSides(flow)
    sides.source.log(TOPIC, COPIED)
    sides.target.log(flow.format_remote_topic(TOPIC), COPIED + DELTA)
    sides.target.topics.topics[replication_policy.format_offset_map_topic("east")] = copied_map.log(
        HERE, through=COPIED, delta=DELTA
    )
    sides.source.members.commit("billing", {HERE: 40})
    return sides


def made(
    sides: FakeSides,
    *,
    kind: FailoverKind = FailoverKind.EMERGENCY,
    found: Mapping[TopicPartition, UnreplicatedTail] | None = None,
    locked: FencingSummary | None = None,
    lost: str = "",
    ways: OffsetSyncLocations = ONE_WAY,
    find: Callable[[Any], Any] | None = None,
    before: PlanBaseline | None = None,
    **given: Any,
) -> FailoverPlan:
    planner = FailoverPlanner(
        clusters=sides,
        find_unreplicated=find or (lambda _: found or {}),
        clock=Clock(),
        timeout_s=10.0,
        lost_reason=lost,
        offset_sources=ways,
    )
    wanted = FailoverRequest(origin="east", destination="west", kind=kind, **given)
    closed = None
    if locked is not None or before is not None:
        closed = FencedFlowState(fencing=locked or FencingSummary(), baseline=before)
    return planner.build_plan(wanted, closed)


def codes(found: FailoverPlan) -> dict[str, PlanSeverity]:
    return {each.code: each.severity for each in found.findings}


def only(found: FailoverPlan) -> PartitionMove:
    (group,) = found.groups
    (place,) = group.partitions
    return place


def checkpoints(sides: FakeSides, group: str, upstream: int, *, at_ms: int = -1) -> None:
    point = Checkpoint(
        group=group, partition=THERE, upstream=upstream, downstream=upstream + DELTA, metadata=""
    )
    sides.target.topics.topics["east.checkpoints.internal"] = [
        mirrormaker2_records.encode_checkpoint(point)
    ]
    sides.target.topics.time_ms = at_ms
