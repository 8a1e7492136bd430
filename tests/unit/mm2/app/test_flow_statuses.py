"""When a flow runs, from what its connector and tasks say."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base import ids
from mm2.app import flow_statuses
from mm2.connectors import board, flow_status
from mm2.connectors.flow_status import FlowState
from mm2.core import holds

HERE = flow_statuses.Told(state="RUNNING", here=True)
THERE = flow_statuses.Told(state="RUNNING")
ELSEWHERE = flow_statuses.Told(state="RUNNING", node="b:8083/a->b")


def partition(number: int, task: int = 0) -> flow_status.PartitionStatus:
    return flow_status.PartitionStatus(
        partition=ids.TopicPartition("t", number), task=task, phase="copying", reason="", cause="",
        records=0, bytes=0, copied_to=-1, source_end=-1, age_ms=0, oldest_ms=-1,
        transactional=False,
    )  # fmt: skip


def shown(*numbers: int, task: int = 0) -> board.TaskShown:
    status = flow_status.TaskStatus(
        index=task, state=flow_status.TaskState.RUNNING, reason="", restarts=0
    )
    return board.TaskShown(
        status=status, partitions=tuple(partition(each, task) for each in numbers), slots_missing=1
    )


RUNS = flow_statuses.Seen(
    flow="a->b",
    life=flow_statuses.Life.WORKING,
    met=True,
    connector=HERE,
    tasks={0: HERE},
    configured={0: frozenset({ids.TopicPartition("t", 0), ids.TopicPartition("t", 1)})},
    shown=board.ConnectorShown(planned=True, copyable=2),
    tasks_shown={0: shown(0, 1)},
)


def test_a_flow_runs_once_all_its_partitions_are_shown():
    found = flow_statuses.status(RUNS)
    assert (found.state, found.reason, found.slots_missing) == (FlowState.RUNNING, "", 1)
    assert [each.partition.partition for each in found.partitions] == [0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"met": False}, "joining its Connect group"),
        ({"shown": None}, "connector is starting"),
        ({"shown": board.ConnectorShown(planned=False, reason="east is silent")}, "east is silent"),
        ({"configured": {}, "tasks": {}}, "tasks are being configured"),
        ({"handed_out": False}, "assigned to the nodes"),
        ({"current": False}, "configured by the leader"),
        ({"planned_anew": False}, "connector is starting"),
        ({"tasks_shown": {}}, "task 0 is starting"),
        ({"tasks_shown": {0: shown(0)}}, "task 0 is starting"),
        (
            {"connector": THERE, "shown": None, "tasks": {}},
            "waiting for another node to find the topics",
        ),
        (
            {"connector": ELSEWHERE, "shown": None, "tasks": {}},
            "waiting for node b:8083, which ran its connector last, to find the topics",
        ),
        (
            {
                "connector": dataclasses.replace(ELSEWHERE, state="FAILED", reason="no right"),
                "shown": None,
                "tasks": {},
            },
            "its connector failed on node b:8083: no right; see the log of that node",
        ),
        ({"life": flow_statuses.Life.STARTING, "reason": "no broker"}, "no broker"),
        (
            {"connector": flow_statuses.Told(state="FAILED", here=True, reason="not allowed")},
            "not allowed",
        ),
    ],
)
def test_until_then_it_says_what_it_waits_for(changes, words):
    found = flow_statuses.status(dataclasses.replace(RUNS, **changes))
    assert found.state is FlowState.PLANNING
    assert words in found.reason


def test_what_is_paused_when_a_node_begins_is_not_waited_for():
    paused = flow_statuses.Told(state="PAUSED", here=True)
    rests = dataclasses.replace(
        RUNS, connector=paused, tasks={0: paused}, shown=None, tasks_shown={}
    )
    assert flow_statuses.status(rests).state is FlowState.RUNNING
    begins = dataclasses.replace(rests, tasks={0: HERE})
    assert flow_statuses.status(begins).state is FlowState.PLANNING


def test_what_tasks_elsewhere_have_is_counted():
    assert flow_statuses.status(RUNS).elsewhere == 0
    moving = dataclasses.replace(RUNS, tasks={0: THERE}, tasks_shown={})
    found = flow_statuses.status(moving, flow_statuses.status(RUNS))
    assert (found.state, found.partitions, found.elsewhere) == (FlowState.RUNNING, (), 2)
    begins = dataclasses.replace(moving, tasks={0: HERE}, tasks_shown={0: shown()})
    found = flow_statuses.status(begins, found)
    assert (found.state, found.partitions, found.elsewhere) == (FlowState.RUNNING, (), 2)


FAILED = flow_statuses.Told(state="FAILED", here=True, reason="no right")
BOTH = dataclasses.replace(
    RUNS,
    tasks={0: HERE, 1: HERE},
    configured={
        0: frozenset({ids.TopicPartition("t", 0)}),
        1: frozenset({ids.TopicPartition("t", 1)}),
    },
    tasks_shown={0: shown(0), 1: shown(1, task=1)},
)


def test_a_task_that_failed_is_still_a_task_and_its_partitions_are_here():
    before = flow_statuses.status(BOTH)
    failed = dataclasses.replace(BOTH, tasks={0: HERE, 1: FAILED}, tasks_shown={0: shown(0)})
    for known in (before, None):
        found = flow_statuses.status(failed, known)
        assert [(each.index, each.state.value, each.reason) for each in found.tasks] == [
            (0, "RUNNING", ""),
            (1, "FAILED", "no right"),
        ]
        phases = {each.partition.partition: (each.task, each.phase) for each in found.partitions}
        assert phases == {0: (0, "copying"), 1: (1, "waiting")}
        assert (found.elsewhere, found.all_move) == (0, False)
    assert flow_statuses.status(failed, found) is found
    begun = dataclasses.replace(failed, tasks_shown=BOTH.tasks_shown)
    assert flow_statuses.status(begun, found).tasks == before.tasks


def test_while_a_failed_task_is_begun_again_its_partitions_stay_here():
    failed = dataclasses.replace(BOTH, tasks={0: HERE, 1: FAILED}, tasks_shown={0: shown(0)})
    begins = dataclasses.replace(failed, tasks={0: HERE, 1: HERE})
    found = flow_statuses.status(begins, flow_statuses.status(failed))
    assert (len(found.tasks), len(found.partitions), found.elsewhere) == (1, 2, 0)
    assert not found.all_move


def test_what_failed_elsewhere_is_told_there():
    there = flow_statuses.Told(state="FAILED", reason="no right")
    seen = dataclasses.replace(BOTH, tasks={0: HERE, 1: there}, tasks_shown={0: shown(0)})
    found = flow_statuses.status(seen, flow_statuses.status(BOTH))
    assert (len(found.tasks), len(found.partitions), found.elsewhere) == (1, 1, 1)


def test_a_node_is_not_ready_before_its_copies_have_started_or_when_all_have_failed():
    before = flow_statuses.status(BOTH)
    assert flow_statuses.not_serving(BOTH, before, ()) == ""
    one = dataclasses.replace(BOTH, tasks={0: HERE, 1: FAILED}, tasks_shown={0: shown(0)})
    assert flow_statuses.not_serving(one, flow_statuses.status(one, before), ()) == ""
    both = dataclasses.replace(
        BOTH, tasks={0: FAILED, 1: dataclasses.replace(FAILED, reason="no")}, tasks_shown={}
    )
    found = flow_statuses.status(both, before)
    assert found.state is FlowState.RUNNING
    assert flow_statuses.not_serving(both, found, ()) != ""
    held = dataclasses.replace(both, holds=holds.Holds(stopped=True))
    assert flow_statuses.not_serving(held, flow_statuses.status(held, before), ()) == ""
    elsewhere = dataclasses.replace(BOTH, tasks={0: THERE, 1: THERE}, tasks_shown={})
    assert flow_statuses.not_serving(elsewhere, flow_statuses.status(elsewhere, before), ()) == ""


@pytest.mark.parametrize(
    ("states", "begun", "words"),
    [
        (["STARTING", "RUNNING"], (), "its copies have not started yet: task 0"),
        (["STARTING", "RUNNING"], (0,), ""),
        (["WAITING_FOR_SLOT", "RUNNING"], (), ""),
        (["WAITING_FOR_SLOT", "WAITING_FOR_SLOT"], (), "all its tasks wait for a Spark slot"),
        (["RESTARTING", "RUNNING"], (), ""),
    ],
)
def test_what_of_its_tasks_keeps_a_node_from_being_ready(states, begun, words):
    tasks = {
        number: dataclasses.replace(
            shown(number, task=number),
            status=flow_status.TaskStatus(
                index=number, state=flow_status.TaskState[state], reason="", restarts=0
            ),
        )
        for number, state in enumerate(states)
    }
    seen = dataclasses.replace(BOTH, tasks_shown=tasks)
    assert flow_statuses.not_serving(seen, flow_statuses.status(seen), begun) == words


def test_how_much_is_handed_out_is_told_where_the_connector_knows():
    assert flow_statuses.status(RUNS).wanted == 2
    for unknown in (None, board.ConnectorShown(planned=False, copyable=2)):
        assert flow_statuses.status(dataclasses.replace(RUNS, shown=unknown)).wanted is None


def test_tasks_of_other_nodes_are_theirs_to_show():
    seen = dataclasses.replace(
        RUNS, connector=THERE, shown=None, tasks={0: THERE, 1: HERE}, tasks_shown={1: shown(1)}
    )
    assert flow_statuses.status(seen).state is FlowState.RUNNING


def test_no_topic_at_all_is_a_flow_that_runs():
    seen = dataclasses.replace(
        RUNS, shown=board.ConnectorShown(planned=True), tasks={}, configured={}, tasks_shown={}
    )
    assert flow_statuses.status(seen).state is FlowState.RUNNING


def test_what_has_run_goes_on_running_while_tasks_move():
    before = flow_statuses.status(RUNS)
    gone = dataclasses.replace(RUNS, tasks_shown={}, tasks={0: THERE})
    moved = flow_statuses.status(gone, before)
    assert moved.state is FlowState.RUNNING
    assert moved.partitions == ()
    starting = flow_statuses.status(dataclasses.replace(RUNS, tasks_shown={}), before)
    assert [each.partition for each in starting.partitions] == [
        each.partition for each in before.partitions
    ]
    assert {each.phase for each in starting.partitions} == {"waiting"}
    ending = dataclasses.replace(RUNS, tasks_shown={}, life=flow_statuses.Life.STOPPING)
    assert flow_statuses.status(ending, before).partitions == before.partitions
    again = dataclasses.replace(RUNS, tasks_shown={})
    assert flow_statuses.status(again, starting) is starting
    assert flow_statuses.status(RUNS, before) is before


def test_findings_are_shown_unless_a_task_has_the_partition():
    finding = dataclasses.replace(partition(1, -1), phase="stopped")
    late = dataclasses.replace(partition(2, -1), phase="stopped")
    seen = dataclasses.replace(
        RUNS, shown=board.ConnectorShown(planned=True, copyable=2, findings=(finding, late))
    )
    tasks = {each.partition.partition: each.task for each in flow_statuses.status(seen).partitions}
    assert tasks == {0: 0, 1: 0, 2: -1}


def test_what_an_operator_has_stopped_says_when_and_how_it_goes_on():
    before = flow_statuses.status(RUNS)
    stopped = dataclasses.replace(
        RUNS,
        connector=flow_statuses.Told(state="STOPPED", here=True),
        holds=holds.Holds(paused=True, stopped=True),
        stopped_ms=1_700_000_000_000,
        resume="mm2 resume 'a->b' --config /f.yaml",
    )
    stops = flow_statuses.status(stopped, before)
    assert (stops.state, stops.reason) == (FlowState.STOPPING, "its tasks stop")
    ended = dataclasses.replace(stopped, tasks={}, tasks_shown={})
    for found in (flow_statuses.status(ended), flow_statuses.status(ended, before)):
        assert (found.state, found.reason) == (
            FlowState.STOPPED,
            "stopped by failover or REST at 2023-11-14T22:13:20Z; "
            "resume with: mm2 resume 'a->b' --config /f.yaml",
        )
        assert not found.final, "it can be resumed: mm2 run goes on"
    undated = flow_statuses.status(dataclasses.replace(ended, stopped_ms=-1))
    assert (
        undated.reason
        == "stopped by failover or REST; resume with: mm2 resume 'a->b' --config /f.yaml"
    )


def test_while_a_cluster_cannot_be_reached_that_is_the_reason():
    cause = "b: connection refused (b:1), retrying; diagnose with: mm2 check"
    begins = flow_statuses.Seen(
        flow="a->b", life=flow_statuses.Life.STARTING, reason="connecting to b", unreachable=cause
    )
    assert flow_statuses.status(begins).reason == cause
    works = dataclasses.replace(begins, life=flow_statuses.Life.WORKING, reason="")
    assert flow_statuses.status(works).reason == cause
    answers = dataclasses.replace(works, unreachable="")
    assert flow_statuses.status(answers, flow_statuses.status(works)).reason != cause
    runs = flow_statuses.status(dataclasses.replace(RUNS, unreachable=cause))
    assert (runs.state, runs.reason) == (FlowState.RUNNING, ""), "old news"
    given_up = flow_statuses.status(dataclasses.replace(works, given_up="wrong password"))
    assert (given_up.state, given_up.reason) == (FlowState.FAILED, f"{cause}; wrong password")


def test_what_is_given_up_has_failed():
    seen = dataclasses.replace(RUNS, given_up="task 0: no")
    found = flow_statuses.status(seen, flow_statuses.status(RUNS))
    assert (found.state, found.reason) == (FlowState.FAILED, "task 0: no")
    ended = dataclasses.replace(seen, life=flow_statuses.Life.STOPPED)
    assert flow_statuses.status(ended, found).state is FlowState.FAILED


def test_after_the_end_figures_stay_what_they_were():
    before = flow_statuses.status(RUNS)
    ended = dataclasses.replace(RUNS, life=flow_statuses.Life.STOPPED, tasks_shown={}, shown=None)
    found = flow_statuses.status(ended, before)
    assert (found.state, found.reason) == (FlowState.STOPPED, "stopped")
    assert found.partitions == before.partitions


def test_the_words_of_a_trace():
    assert flow_statuses.first_line("a.b.FatalError: no right: READ\nTraceback …") == (
        "no right: READ"
    )
    assert flow_statuses.first_line("plain words: here") == "plain words: here"
    assert flow_statuses.first_line(None) == ""


def test_where_the_groups_tasks_are_is_told_of_all_and_what_the_connector_warns_of():
    failed = flow_statuses.Told(state="FAILED", reason="no right", node="b:2")
    told = {1: failed, 0: flow_statuses.Told(state="RUNNING", here=True, node="a:1")}
    shown = board.ConnectorShown(planned=True, warnings=("its mirror is short",))
    seen = flow_statuses.Seen(
        flow="a->b", life=flow_statuses.Life.WORKING, met=True, tasks=told, shown=shown
    )
    found = flow_statuses.status(seen)
    assert found.places == (
        flow_status.TaskPlace(number=0, state="RUNNING", node="a:1"),
        flow_status.TaskPlace(number=1, state="FAILED", node="b:2", reason="no right"),
    )
    assert found.warnings == ("its mirror is short",)


def test_what_of_the_file_is_refused_is_shown_beside_what_goes_on():
    seen = dataclasses.replace(RUNS, refused="heartbeats stay as they were")
    found = flow_statuses.status(seen)
    assert (found.state, found.reason) == (FlowState.RUNNING, "heartbeats stay as they were")
    assert flow_statuses.status(seen, flow_statuses.status(RUNS)).reason == found.reason
    old = flow_statuses.status(dataclasses.replace(seen, current=False))
    assert (old.state, old.reason) == (FlowState.PLANNING, "heartbeats stay as they were")
