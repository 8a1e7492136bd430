"""What operators hold of a flow's connectors, and how that is said.

When a flow runs, from what its connector and tasks say."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    ConnectorConfigEntry,
    TargetState,
)
from mm2.config import flow_connector_configs, pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
from mm2.connectors.status_registry import (
    ConnectorSnapshot,
    FlowState,
    PartitionStatus,
    TaskPlacement,
    TaskSnapshot,
    TaskState,
    TaskStatus,
)
from mm2.status import flow_status
from mm2.status.flow_status import FlowWorkerState, GroupStatus, WorkerSnapshot

State = TargetState
RESUME = "mm2 resume x"
SOURCE, HEARTBEAT, CHECKPOINT = (
    flow_connector_configs.SOURCE_CONNECTOR,
    flow_connector_configs.HEARTBEAT_CONNECTOR,
    flow_connector_configs.CHECKPOINT_CONNECTOR,
)


def config(**states: State) -> ClusterConfigState:
    entries = {
        name: ConnectorConfigEntry(config={"name": name}, target_state=state)
        for name, state in states.items()
    }
    return ClusterConfigState(entries=entries)


@pytest.mark.parametrize(
    ("state", "by"),
    [
        (State.STARTED, None),
        (None, None),
        (State.PAUSED, OverrideKind.PAUSED),
        (State.STOPPED, OverrideKind.STOPPED),
    ],
)
def test_how_a_connector_is_held(state, by):
    assert flow_status.find_operator_override(config(**{SOURCE: state}), SOURCE) is by


def test_what_is_not_configured_nobody_holds():
    entry = ConnectorConfigEntry(target_state=State.PAUSED)
    found = ClusterConfigState(entries={CHECKPOINT: entry})
    assert flow_status.find_operator_override(found, CHECKPOINT) is None
    assert flow_status.find_connector_overrides(cluster_config_state.EMPTY_CONFIG_STATE) == {}


def test_those_beside_the_source_connector():
    found = config(**{SOURCE: State.STOPPED, CHECKPOINT: State.PAUSED, HEARTBEAT: State.STARTED})
    assert flow_status.find_connector_overrides(found) == {CHECKPOINT: OverrideKind.PAUSED}


def test_what_is_held_is_told_with_what_is_not_done_and_the_way_on():
    both = {HEARTBEAT: OverrideKind.STOPPED, CHECKPOINT: OverrideKind.PAUSED}
    assert flow_status.describe_overrides(
        OperatorOverrides(paused=True, other_connectors=both), resume=RESUME
    ) == [
        "MirrorCheckpointConnector is paused by an operator: no checkpoints are written; "
        "after a failover, groups resume at their last checkpoints. Remedy: mm2 resume x",
        "MirrorHeartbeatConnector is stopped by an operator: no heartbeats are written to the "
        "flow's target. Remedy: mm2 resume x",
    ]
    assert (
        flow_status.describe_overrides(pause_and_throttle_overrides.NO_OVERRIDES, resume=RESUME)
        == []
    )


def test_a_pause_is_told_with_the_command_that_ends_it():
    assert (
        flow_status.describe_paused_flow(RESUME)
        == "paused by an operator; resume with: mm2 resume x"
    )
    told = flow_status.describe_paused_flow(RESUME, "task 0 failed")
    assert told == "paused by an operator; task 0 failed; resume with: mm2 resume x"


def test_of_a_flow_that_is_stopped_nothing_else_is_expected():
    beside = {CHECKPOINT: OverrideKind.STOPPED}
    stopped = OperatorOverrides(paused=True, stopped=True, other_connectors=beside)
    assert flow_status.describe_overrides(stopped, resume=RESUME) == []


HERE = GroupStatus(state="RUNNING", is_local=True)
THERE = GroupStatus(state="RUNNING")
ELSEWHERE = GroupStatus(state="RUNNING", node="b:8083/a->b")


def partition(number: int, task: int = 0) -> PartitionStatus:
    return PartitionStatus(
        partition=TopicPartition("t", number), task=task, phase="copying", reason="", cause="",
        records=0, bytes=0, copied_to=-1, source_end=-1, age_ms=0, oldest_uncopied_ms=-1,
        transactional=False,
    )  # fmt: skip


def shown(*numbers: int, task: int = 0) -> TaskSnapshot:
    status = TaskStatus(index=task, state=TaskState.RUNNING, reason="", restarts=0)
    return TaskSnapshot(
        status=status, partitions=tuple(partition(each, task) for each in numbers), slots_missing=1
    )


RUNS = WorkerSnapshot(
    flow="a->b",
    worker_state=FlowWorkerState.WORKING,
    has_joined=True,
    connector=HERE,
    tasks={0: HERE},
    configured={0: frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})},
    connector_snapshot=ConnectorSnapshot(is_planned=True, copyable=2),
    task_snapshots={0: shown(0, 1)},
)


def test_a_flow_runs_once_all_its_partitions_are_shown():
    found = flow_status.compute_flow_status(RUNS)
    assert (found.state, found.reason, found.slots_missing) == (FlowState.RUNNING, "", 1)
    assert [each.partition.partition for each in found.partitions] == [0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"has_joined": False}, "joining its Connect group"),
        ({"connector_snapshot": None}, "connector is starting"),
        (
            {"connector_snapshot": ConnectorSnapshot(is_planned=False, reason="east is silent")},
            "east is silent",
        ),
        ({"configured": {}, "tasks": {}}, "tasks are being configured"),
        ({"is_assigned": False}, "assigned to the nodes"),
        ({"is_config_current": False}, "the leader of the Connect group is configuring"),
        ({"is_plan_current": False}, "connector is starting"),
        ({"task_snapshots": {}}, "task 0 is starting"),
        ({"task_snapshots": {0: shown(0)}}, "task 0 is starting"),
        (
            {"connector": THERE, "connector_snapshot": None, "tasks": {}},
            "waiting for another node to list the topics",
        ),
        (
            {"connector": ELSEWHERE, "connector_snapshot": None, "tasks": {}},
            "waiting for node b:8083, which last ran the connector, to list the topics",
        ),
        (
            {
                "connector": dataclasses.replace(ELSEWHERE, state="FAILED", reason="no right"),
                "connector_snapshot": None,
                "tasks": {},
            },
            "its connector failed on node b:8083: no right; see the log of that node",
        ),
        ({"worker_state": FlowWorkerState.STARTING, "reason": "no broker"}, "no broker"),
        (
            {"connector": GroupStatus(state="FAILED", is_local=True, reason="not allowed")},
            "not allowed",
        ),
    ],
)
def test_until_then_it_says_what_it_waits_for(changes, words):
    found = flow_status.compute_flow_status(dataclasses.replace(RUNS, **changes))
    assert found.state is FlowState.PLANNING
    assert words in found.reason


def test_what_is_paused_when_a_node_begins_is_not_waited_for():
    paused = GroupStatus(state="PAUSED", is_local=True)
    rests = dataclasses.replace(
        RUNS, connector=paused, tasks={0: paused}, connector_snapshot=None, task_snapshots={}
    )
    assert flow_status.compute_flow_status(rests).state is FlowState.RUNNING
    begins = dataclasses.replace(rests, tasks={0: HERE})
    assert flow_status.compute_flow_status(begins).state is FlowState.PLANNING


def test_what_tasks_elsewhere_have_is_counted():
    assert flow_status.compute_flow_status(RUNS).remote_partitions == 0
    moving = dataclasses.replace(RUNS, tasks={0: THERE}, task_snapshots={})
    found = flow_status.compute_flow_status(moving, flow_status.compute_flow_status(RUNS))
    assert (found.state, found.partitions, found.remote_partitions) == (FlowState.RUNNING, (), 2)
    begins = dataclasses.replace(moving, tasks={0: HERE}, task_snapshots={0: shown()})
    found = flow_status.compute_flow_status(begins, found)
    assert (found.state, found.partitions, found.remote_partitions) == (FlowState.RUNNING, (), 2)


FAILED = GroupStatus(state="FAILED", is_local=True, reason="no right")
BOTH = dataclasses.replace(
    RUNS,
    tasks={0: HERE, 1: HERE},
    configured={
        0: frozenset({TopicPartition("t", 0)}),
        1: frozenset({TopicPartition("t", 1)}),
    },
    task_snapshots={0: shown(0), 1: shown(1, task=1)},
)


def test_a_task_that_failed_is_still_a_task_and_its_partitions_are_here():
    before = flow_status.compute_flow_status(BOTH)
    failed = dataclasses.replace(BOTH, tasks={0: HERE, 1: FAILED}, task_snapshots={0: shown(0)})
    for known in (before, None):
        found = flow_status.compute_flow_status(failed, known)
        assert [(each.index, each.state.value, each.reason) for each in found.tasks] == [
            (0, "RUNNING", ""),
            (1, "FAILED", "no right"),
        ]
        phases = {each.partition.partition: (each.task, each.phase) for each in found.partitions}
        assert phases == {0: (0, "copying"), 1: (1, "waiting")}
        assert (found.remote_partitions, found.is_copying_all_partitions) == (0, False)
    assert flow_status.compute_flow_status(failed, found) is found
    begun = dataclasses.replace(failed, task_snapshots=BOTH.task_snapshots)
    assert flow_status.compute_flow_status(begun, found).tasks == before.tasks


def test_while_a_failed_task_is_begun_again_its_partitions_stay_here():
    failed = dataclasses.replace(BOTH, tasks={0: HERE, 1: FAILED}, task_snapshots={0: shown(0)})
    begins = dataclasses.replace(failed, tasks={0: HERE, 1: HERE})
    found = flow_status.compute_flow_status(begins, flow_status.compute_flow_status(failed))
    assert (len(found.tasks), len(found.partitions), found.remote_partitions) == (1, 2, 0)
    assert not found.is_copying_all_partitions


def test_what_failed_elsewhere_is_told_there():
    there = GroupStatus(state="FAILED", reason="no right")
    seen = dataclasses.replace(BOTH, tasks={0: HERE, 1: there}, task_snapshots={0: shown(0)})
    found = flow_status.compute_flow_status(seen, flow_status.compute_flow_status(BOTH))
    assert (len(found.tasks), len(found.partitions), found.remote_partitions) == (1, 1, 1)


def test_a_node_is_not_ready_before_its_copies_have_started_or_when_all_have_failed():
    before = flow_status.compute_flow_status(BOTH)
    assert flow_status.explain_why_no_task_runs(BOTH, before, ()) == ""
    one = dataclasses.replace(BOTH, tasks={0: HERE, 1: FAILED}, task_snapshots={0: shown(0)})
    assert (
        flow_status.explain_why_no_task_runs(one, flow_status.compute_flow_status(one, before), ())
        == ""
    )
    both = dataclasses.replace(
        BOTH, tasks={0: FAILED, 1: dataclasses.replace(FAILED, reason="no")}, task_snapshots={}
    )
    found = flow_status.compute_flow_status(both, before)
    assert found.state is FlowState.RUNNING
    assert flow_status.explain_why_no_task_runs(both, found, ()) != ""
    held = dataclasses.replace(both, overrides=OperatorOverrides(stopped=True))
    assert (
        flow_status.explain_why_no_task_runs(
            held, flow_status.compute_flow_status(held, before), ()
        )
        == ""
    )
    elsewhere = dataclasses.replace(BOTH, tasks={0: THERE, 1: THERE}, task_snapshots={})
    assert (
        flow_status.explain_why_no_task_runs(
            elsewhere, flow_status.compute_flow_status(elsewhere, before), ()
        )
        == ""
    )


@pytest.mark.parametrize(
    ("states", "begun", "words"),
    [
        (["STARTING", "RUNNING"], (), "its copy processes have not started yet: task 0"),
        (["STARTING", "RUNNING"], (0,), ""),
        (["WAITING_FOR_SLOT", "RUNNING"], (), ""),
        (
            ["WAITING_FOR_SLOT", "WAITING_FOR_SLOT"],
            (),
            "all its tasks are waiting for a Spark slot",
        ),
        (["RESTARTING", "RUNNING"], (), ""),
    ],
)
def test_what_of_its_tasks_keeps_a_node_from_being_ready(states, begun, words):
    tasks = {
        number: dataclasses.replace(
            shown(number, task=number),
            status=TaskStatus(index=number, state=TaskState[state], reason="", restarts=0),
        )
        for number, state in enumerate(states)
    }
    seen = dataclasses.replace(BOTH, task_snapshots=tasks)
    assert (
        flow_status.explain_why_no_task_runs(seen, flow_status.compute_flow_status(seen), begun)
        == words
    )


def test_how_much_is_handed_out_is_told_where_the_connector_knows():
    assert flow_status.compute_flow_status(RUNS).assigned_partitions == 2
    for unknown in (None, ConnectorSnapshot(is_planned=False, copyable=2)):
        assert (
            flow_status.compute_flow_status(
                dataclasses.replace(RUNS, connector_snapshot=unknown)
            ).assigned_partitions
            is None
        )


def test_tasks_of_other_nodes_are_theirs_to_show():
    seen = dataclasses.replace(
        RUNS,
        connector=THERE,
        connector_snapshot=None,
        tasks={0: THERE, 1: HERE},
        task_snapshots={1: shown(1)},
    )
    assert flow_status.compute_flow_status(seen).state is FlowState.RUNNING


def test_no_topic_at_all_is_a_flow_that_runs():
    seen = dataclasses.replace(
        RUNS,
        connector_snapshot=ConnectorSnapshot(is_planned=True),
        tasks={},
        configured={},
        task_snapshots={},
    )
    assert flow_status.compute_flow_status(seen).state is FlowState.RUNNING


def test_what_has_run_goes_on_running_while_tasks_move():
    before = flow_status.compute_flow_status(RUNS)
    gone = dataclasses.replace(RUNS, task_snapshots={}, tasks={0: THERE})
    moved = flow_status.compute_flow_status(gone, before)
    assert moved.state is FlowState.RUNNING
    assert moved.partitions == ()
    starting = flow_status.compute_flow_status(dataclasses.replace(RUNS, task_snapshots={}), before)
    assert [each.partition for each in starting.partitions] == [
        each.partition for each in before.partitions
    ]
    assert {each.phase for each in starting.partitions} == {"waiting"}
    ending = dataclasses.replace(RUNS, task_snapshots={}, worker_state=FlowWorkerState.STOPPING)
    assert flow_status.compute_flow_status(ending, before).partitions == before.partitions
    again = dataclasses.replace(RUNS, task_snapshots={})
    assert flow_status.compute_flow_status(again, starting) is starting
    assert flow_status.compute_flow_status(RUNS, before) is before


def test_findings_are_shown_unless_a_task_has_the_partition():
    finding = dataclasses.replace(partition(1, -1), phase="halted")
    late = dataclasses.replace(partition(2, -1), phase="halted")
    seen = dataclasses.replace(
        RUNS,
        connector_snapshot=ConnectorSnapshot(is_planned=True, copyable=2, findings=(finding, late)),
    )
    tasks = {
        each.partition.partition: each.task
        for each in flow_status.compute_flow_status(seen).partitions
    }
    assert tasks == {0: 0, 1: 0, 2: -1}


def test_what_an_operator_has_stopped_says_when_and_how_it_goes_on():
    before = flow_status.compute_flow_status(RUNS)
    stopped = dataclasses.replace(
        RUNS,
        connector=GroupStatus(state="STOPPED", is_local=True),
        overrides=OperatorOverrides(paused=True, stopped=True),
        stopped_ms=1_700_000_000_000,
        resume="mm2 resume 'a->b' --config /f.yaml",
    )
    stops = flow_status.compute_flow_status(stopped, before)
    assert (stops.state, stops.reason) == (FlowState.STOPPING, "its tasks are stopping")
    ended = dataclasses.replace(stopped, tasks={}, task_snapshots={})
    for found in (
        flow_status.compute_flow_status(ended),
        flow_status.compute_flow_status(ended, before),
    ):
        assert (found.state, found.reason) == (
            FlowState.STOPPED,
            "stopped by failover or REST at 2023-11-14T22:13:20Z; "
            "resume with: mm2 resume 'a->b' --config /f.yaml",
        )
        assert not found.is_final, "it can be resumed: mm2 run goes on"
    undated = flow_status.compute_flow_status(dataclasses.replace(ended, stopped_ms=-1))
    assert (
        undated.reason
        == "stopped by failover or REST; resume with: mm2 resume 'a->b' --config /f.yaml"
    )


def test_while_a_cluster_cannot_be_reached_that_is_the_reason():
    cause = "b: connection refused (b:1), retrying; diagnose with: mm2 check"
    begins = WorkerSnapshot(
        flow="a->b",
        worker_state=FlowWorkerState.STARTING,
        reason="connecting to b",
        unreachable=cause,
    )
    assert flow_status.compute_flow_status(begins).reason == cause
    works = dataclasses.replace(begins, worker_state=FlowWorkerState.WORKING, reason="")
    assert flow_status.compute_flow_status(works).reason == cause
    answers = dataclasses.replace(works, unreachable="")
    assert (
        flow_status.compute_flow_status(answers, flow_status.compute_flow_status(works)).reason
        != cause
    )
    runs = flow_status.compute_flow_status(dataclasses.replace(RUNS, unreachable=cause))
    assert (runs.state, runs.reason) == (FlowState.RUNNING, ""), "old news"
    given_up = flow_status.compute_flow_status(
        dataclasses.replace(works, fatal_error="wrong password")
    )
    assert (given_up.state, given_up.reason) == (FlowState.FAILED, f"{cause}; wrong password")


def test_what_is_given_up_has_failed():
    seen = dataclasses.replace(RUNS, fatal_error="task 0: no")
    found = flow_status.compute_flow_status(seen, flow_status.compute_flow_status(RUNS))
    assert (found.state, found.reason) == (FlowState.FAILED, "task 0: no")
    ended = dataclasses.replace(seen, worker_state=FlowWorkerState.STOPPED)
    assert flow_status.compute_flow_status(ended, found).state is FlowState.FAILED


def test_after_the_end_figures_stay_what_they_were():
    before = flow_status.compute_flow_status(RUNS)
    ended = dataclasses.replace(
        RUNS, worker_state=FlowWorkerState.STOPPED, task_snapshots={}, connector_snapshot=None
    )
    found = flow_status.compute_flow_status(ended, before)
    assert (found.state, found.reason) == (FlowState.STOPPED, "stopped")
    assert found.partitions == before.partitions


def test_the_words_of_a_trace():
    assert flow_status.extract_error_message("a.b.FatalError: no right: READ\nTraceback …") == (
        "no right: READ"
    )
    assert flow_status.extract_error_message("plain words: here") == "plain words: here"
    assert flow_status.extract_error_message(None) == ""


def test_where_the_groups_tasks_are_is_told_of_all_and_what_the_connector_warns_of():
    failed = GroupStatus(state="FAILED", reason="no right", node="b:2")
    told = {1: failed, 0: GroupStatus(state="RUNNING", is_local=True, node="a:1")}
    shown = ConnectorSnapshot(is_planned=True, warnings=("its mirror is short",))
    seen = WorkerSnapshot(
        flow="a->b",
        worker_state=FlowWorkerState.WORKING,
        has_joined=True,
        tasks=told,
        connector_snapshot=shown,
    )
    found = flow_status.compute_flow_status(seen)
    assert found.placements == (
        TaskPlacement(number=0, state="RUNNING", node="a:1"),
        TaskPlacement(number=1, state="FAILED", node="b:2", reason="no right"),
    )
    assert found.warnings == ("its mirror is short",)


def test_what_of_the_file_is_refused_is_shown_beside_what_goes_on():
    seen = dataclasses.replace(RUNS, config_error="heartbeats stay as they were")
    found = flow_status.compute_flow_status(seen)
    assert (found.state, found.reason) == (FlowState.RUNNING, "heartbeats stay as they were")
    assert (
        flow_status.compute_flow_status(seen, flow_status.compute_flow_status(RUNS)).reason
        == found.reason
    )
    old = flow_status.compute_flow_status(dataclasses.replace(seen, is_config_current=False))
    assert (old.state, old.reason) == (FlowState.PLANNING, "heartbeats stay as they were")
