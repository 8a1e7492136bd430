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
from mm2.replication.latency import LatencySnapshot
from tests.support import statuses


@pytest.mark.parametrize(
    ("flow", "empty"),
    [
        (statuses.flow(), True),
        (statuses.flow(tasks=[]), True),
        (statuses.flow(statuses.partition(phase="stopped", task=-1)), False),
        (statuses.flow(elsewhere=1), False),
        (statuses.flow(state=FlowState.PLANNING), False),
    ],
)
def test_a_flow_is_empty_where_it_is_known_to_have_nothing_to_copy(flow, empty):
    assert flow.empty is empty


def shown(index: int, reason: str = "") -> TaskSnapshot:
    return TaskSnapshot(
        status=TaskStatus(index=index, state=TaskState.RUNNING, reason=reason, restarts=0)
    )


def test_parts_are_seen_by_flow_and_number():
    on = StatusRegistry()
    one, two = shown(0), shown(1)
    on.task("A->B", 0).put(one)
    on.task("A->B", 1).put(two)
    on.task("B->A", 0).put(one)
    on.connector("A->B").put(ConnectorSnapshot(planned=True))
    seen = on.seen()
    assert seen.tasks == {"A->B": {0: one, 1: two}, "B->A": {0: one}}
    assert seen.tasks["A->B"][1] is two
    assert seen.connectors["A->B"].planned


def test_who_comes_later_has_the_place():
    on = StatusRegistry()
    old = on.task("A->B", 0)
    old.put(shown(0, "old"))
    new = on.task("A->B", 0)
    new.put(shown(0, "new"))
    old.put(shown(0, "late"))
    old.leave()
    assert on.seen().tasks["A->B"][0].status.reason == "new"
    new.leave()
    new.leave()
    assert on.seen() == RegistrySnapshot()


def test_a_snapshot_stays_as_it_was():
    on = StatusRegistry()
    place = on.task("A->B", 0)
    place.put(shown(0))
    seen = on.seen()
    place.leave()
    assert 0 in seen.tasks["A->B"]


def test_groups_are_seen_by_flow_and_the_number_of_their_task():
    on = StatusRegistry()
    found = GroupSearchResult(known=0, matching=0, groups={})
    part = CheckpointGroupsSnapshot(round_s=5, find=lambda *_: found)
    place = on.groups("A->B", 3)
    place.put(part)
    assert on.seen().groups == {"A->B": {3: part}}
    place.leave()
    assert on.seen() == RegistrySnapshot()


def test_groups_are_as_old_as_what_was_done_longest_ago_or_is_waited_for():
    found = GroupSearchResult(known=0, matching=0, groups={})
    new = CheckpointGroupsSnapshot(round_s=None, since_s=3, find=lambda *_: found)
    read = dataclasses.replace(new, round_s=9)
    assert [(each.done_s, each.waits) for each in (new, read)] == [(3, True), (9, False)]
    writes = dataclasses.replace(read, writes=True)
    assert (writes.done_s, writes.waits) == (3, True)
    written = dataclasses.replace(writes, written_s=7)
    assert (written.done_s, written.waits) == (7, False)


def test_pulses_are_apart_from_their_tasks():
    on = StatusRegistry()
    place = on.pulse("A->B", 3)
    place.put(LatencySnapshot(crossed_s=5.0))
    assert on.seen().pulses == {"A->B": {3: LatencySnapshot(crossed_s=5.0)}}
    assert on.seen().tasks == {}
    place.leave()
    assert on.seen() == RegistrySnapshot()
