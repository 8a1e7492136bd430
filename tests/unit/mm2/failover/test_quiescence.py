"""Who writes still is told while both ends are waited for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.failover import quiescence
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_planner import FailoverPlanner
from mm2.failover.failover_request import FailoverKind
from mm2.failover.quiescence import EqualLogEndsDetector
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.topics import replication_policy, topic_filters
from mm2.topics.flow_config import Flow
from mm2.topics.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from tests.fakes import copied_map, moves
from tests.fakes.moves import Clock
from tests.fakes.two_sides import FakeSides

HERE, COPIED, DELTA = moves.HERE, moves.COPIED, moves.DELTA


class Copying(Clock):
    """All is copied at once; somebody writes a record every ten seconds."""

    def __init__(self, sides: FakeSides) -> None:
        super().__init__()
        self.sides = sides
        self.pause(0.0)

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        end = COPIED + int(self.s / 10)
        self.sides.source.log("orders", end)
        self.sides.target.log(self.sides.flow.format_remote_topic("orders"), end + DELTA)
        topics = self.sides.target.topics.topics
        name, made = (
            replication_policy.format_offset_map_topic("east"),
            copied_map.log(HERE, through=end, delta=DELTA),
        )
        topics[name] = [*topics[name], made[-1]] if name in topics else made


@pytest.mark.parametrize(
    "policy",
    [DefaultReplicationPolicy(), IdentityReplicationPolicy(source_alias="east")],
)
def test_under_one_name_it_may_be_on_the_other_cluster(policy: ReplicationPolicy):
    topics = topic_filters.compile_topic_filter(("orders",))
    flow = Flow(source="east", target="west", topics=topics, policy=policy)
    sides = FakeSides(flow)
    clock = Copying(sides)
    unused: Any = None
    about = FailoverContext(
        clusters=sides,
        map_reader=sides.target.open_offset_map_reader("east"),
        planner=FailoverPlanner(
            clusters=sides, find_unreplicated=lambda _: {}, clock=clock, timeout_s=10.0
        ),
        stop_connectors=unused,
        list_running_tasks=unused,
        fence_partitions=unused,
        export_records=unused,
        clock=clock,
        sleep=clock.pause,
        print_line=lambda _: None,
        quiescence_s=20.0,
        wait_s=60.0,
    )
    with pytest.raises(RetriableError) as caught:
        quiescence.wait_for_equal_log_ends(about, moves.wanted(FailoverKind.PLANNED))
    said = str(caught.value)
    assert "orders-0 ended at 105 on both, and ends at 106 now: a producer" in said
    assert ("Stop producers on west, too: their records are replicated to the origin" in said) is (
        not policy.renames_topics
    )


def mirrored(end, *, copied_to=None, answers=True, pending=0):
    partition = TopicPartition("t", 0)
    return [
        MirroredPartition(
            partition=partition,
            mirror=partition,
            copied_to=end if copied_to is None else copied_to,
            source_bounds=LogBounds(start=0, end=end, pending=pending) if answers else None,
        )
    ]


def test_they_agree_when_the_same_was_seen_for_long_enough():
    found = EqualLogEndsDetector(quiescence_s=60.0)
    assert not found.check_snapshot(mirrored(7), 100.0)
    assert not found.check_snapshot(mirrored(7), 159.0)
    assert found.check_snapshot(mirrored(7), 160.0)
    assert found.ends == {TopicPartition("t", 0): 7}


def test_an_end_that_moves_begins_it_anew():
    found = EqualLogEndsDetector(quiescence_s=60.0)
    found.check_snapshot(mirrored(7), 100.0)
    assert not found.check_snapshot(mirrored(8), 160.0)
    assert found.check_snapshot(mirrored(8), 220.0)


def test_lag_begins_it_anew_and_is_told():
    found = EqualLogEndsDetector(quiescence_s=60.0)
    found.check_snapshot(mirrored(7), 100.0)
    assert not found.check_snapshot(mirrored(7, copied_to=5), 130.0)
    assert found.reason == "t-0: 2 records not replicated"
    assert not found.check_snapshot(mirrored(7), 160.0)
    assert "for less than 60 s" in found.reason


def test_a_transaction_that_is_open_begins_it_anew():
    found = EqualLogEndsDetector(quiescence_s=0.0)
    assert not found.check_snapshot(mirrored(7, pending=3), 100.0)
    assert found.reason == "t-0: 3 offsets are after the start of an open transaction"
    assert found.check_snapshot(mirrored(7), 101.0)


def test_who_does_not_answer_agrees_with_nobody():
    found = EqualLogEndsDetector(quiescence_s=0.0)
    assert not found.check_snapshot(mirrored(7, answers=False), 1.0)
    assert "does not respond" in found.reason


def test_without_a_time_to_settle_one_look_is_enough():
    assert EqualLogEndsDetector(quiescence_s=0.0).check_snapshot(mirrored(7), 1.0)


def test_the_end_that_moved_is_named_as_long_as_they_do_not_settle():
    found = EqualLogEndsDetector(quiescence_s=60.0)
    found.check_snapshot(mirrored(7), 100.0)
    assert found.reason == "equal, but for less than 60 s"
    found.check_snapshot(mirrored(8), 130.0)
    moved = "t-0 ended at 7 on both, and ends at 8 now: a producer is still writing"
    assert (found.last_change, found.reason) == (moved, f"equal, but for less than 60 s: {moved}")


def test_what_is_not_heard_of_is_passed_over_where_that_is_accepted():
    other = TopicPartition("t", 1)
    away = dataclasses.replace(mirrored(7, answers=False)[0], partition=other)
    found = EqualLogEndsDetector(quiescence_s=0.0, ignores_unanswered=True)
    assert found.check_snapshot([*mirrored(7), away], 1.0)
    assert found.ends == {TopicPartition("t", 0): 7}
    assert not found.check_snapshot([away], 2.0)
    assert "does not respond" in found.reason
