"""What follows from a flow's snapshot.

The board: parts by their places, and who may take them away."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.connectors.status_registry import (
    CheckpointGroupsSnapshot,
    ConnectorSnapshot,
    FlowState,
    GroupSearchResult,
    RegistrySnapshot,
    StatusRegistry,
    TaskSnapshot,
    TaskState,
    TaskStatus,
)
from mm2.replication.replication_latency import LatencySnapshot
from tests.support import statuses


@pytest.mark.parametrize(
    ("flow", "empty"),
    [
        (statuses.flow(), True),
        (statuses.flow(tasks=[]), True),
        (statuses.flow(statuses.partition(phase="halted", task=-1)), False),
        (statuses.flow(elsewhere=1), False),
        (statuses.flow(state=FlowState.PLANNING), False),
    ],
)
def test_a_flow_is_empty_where_it_is_known_to_have_nothing_to_copy(flow, empty):
    assert flow.is_empty is empty


def shown(index: int, reason: str = "") -> TaskSnapshot:
    return TaskSnapshot(
        status=TaskStatus(index=index, state=TaskState.RUNNING, reason=reason, restarts=0)
    )


def test_parts_are_seen_by_flow_and_number():
    on = StatusRegistry()
    one, two = shown(0), shown(1)
    on.create_task_publisher("A->B", 0).publish(one)
    on.create_task_publisher("A->B", 1).publish(two)
    on.create_task_publisher("B->A", 0).publish(one)
    on.create_connector_publisher("A->B").publish(ConnectorSnapshot(is_planned=True))
    seen = on.get_snapshot()
    assert seen.tasks == {"A->B": {0: one, 1: two}, "B->A": {0: one}}
    assert seen.tasks["A->B"][1] is two
    assert seen.connectors["A->B"].is_planned


def test_who_comes_later_has_the_place():
    on = StatusRegistry()
    old = on.create_task_publisher("A->B", 0)
    old.publish(shown(0, "old"))
    new = on.create_task_publisher("A->B", 0)
    new.publish(shown(0, "new"))
    old.publish(shown(0, "late"))
    old.remove()
    assert on.get_snapshot().tasks["A->B"][0].status.reason == "new"
    new.remove()
    new.remove()
    assert on.get_snapshot() == RegistrySnapshot()


def test_a_snapshot_stays_as_it_was():
    on = StatusRegistry()
    place = on.create_task_publisher("A->B", 0)
    place.publish(shown(0))
    seen = on.get_snapshot()
    place.remove()
    assert 0 in seen.tasks["A->B"]


def test_groups_are_seen_by_flow_and_the_number_of_their_task():
    on = StatusRegistry()
    found = GroupSearchResult(total_count=0, matching_count=0, groups={})
    part = CheckpointGroupsSnapshot(last_round_s=5, find_groups=lambda *_: found)
    place = on.create_groups_publisher("A->B", 3)
    place.publish(part)
    assert on.get_snapshot().groups == {"A->B": {3: part}}
    place.remove()
    assert on.get_snapshot() == RegistrySnapshot()


def test_groups_are_as_old_as_what_was_done_longest_ago_or_is_waited_for():
    found = GroupSearchResult(total_count=0, matching_count=0, groups={})
    new = CheckpointGroupsSnapshot(last_round_s=None, started_s=3, find_groups=lambda *_: found)
    read = dataclasses.replace(new, last_round_s=9)
    assert [(each.last_completed_s, each.is_waiting) for each in (new, read)] == [
        (3, True),
        (9, False),
    ]
    writes = dataclasses.replace(read, writes_offsets=True)
    assert (writes.last_completed_s, writes.is_waiting) == (3, True)
    written = dataclasses.replace(writes, last_write_s=7)
    assert (written.last_completed_s, written.is_waiting) == (7, False)


def test_pulses_are_apart_from_their_tasks():
    on = StatusRegistry()
    place = on.create_latency_publisher("A->B", 3)
    place.publish(LatencySnapshot(replicated_at_s=5.0))
    assert on.get_snapshot().latencies == {"A->B": {3: LatencySnapshot(replicated_at_s=5.0)}}
    assert on.get_snapshot().tasks == {}
    place.remove()
    assert on.get_snapshot() == RegistrySnapshot()
