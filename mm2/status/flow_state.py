"""Computes a flow's status from snapshots of its worker, connector and tasks. Pure.

Each node of a group shows the tasks that it runs itself. A flow is RUNNING once its connector
has assigned all partitions and every task has started on some node.

Operator overrides (paused, stopped) are read from the configuration that the Connect group
stores, and described with the command that ends them.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage.cluster_config_state import ClusterConfigState, TargetState
from mm2 import operator_commands
from mm2.config import flow_plan, operator_overrides
from mm2.config.operator_overrides import OperatorOverrides, OverrideKind
from mm2.connectors.status_registry import (
    ConnectorSnapshot,
    FlowState,
    FlowStatus,
    PartitionStatus,
    TaskPlacement,
    TaskSnapshot,
    TaskState,
    TaskStatus,
)

_OVERRIDES = {
    TargetState.PAUSED: OverrideKind.PAUSED,
    TargetState.STOPPED: OverrideKind.STOPPED,
}
_OVERRIDE_EFFECTS = {
    flow_plan.HEARTBEAT_CONNECTOR: "no heartbeats are written to its target",
    flow_plan.CHECKPOINT_CONNECTOR: "no checkpoints are made; groups that move go on where "
    "they were then",
}


def find_override(config: ClusterConfigState, connector: str) -> OverrideKind | None:
    """How an operator holds it; None: not at all, or there is no such connector."""
    state = config.target_state(connector) if config.contains(connector) else None
    return None if state is None else _OVERRIDES.get(state)


def find_connector_overrides(config: ClusterConfigState) -> Mapping[str, OverrideKind]:
    """`holds.Holds.beside`."""
    found = {name: find_override(config, name) for name in _OVERRIDE_EFFECTS}
    return {name: each for name, each in found.items() if each is not None}


def describe_pause(resume: str, beside: str = "") -> str:
    """Of a flow that an operator paused, with the command that resumes it;
    `find_connector_overrides` is what else is to be said of its state."""
    return "; ".join(filter(None, ("paused by an operator", beside, f"resume with: {resume}")))


def describe_overrides(holds: OperatorOverrides, *, resume: str) -> list[str]:
    """A line for each connector beside the source's that is held, with the command that resumes the
    flow; none of a flow that is stopped, where nothing else is to be expected."""
    if holds.stopped:
        return []
    way_on = operator_commands.format_remedy(resume)
    return [
        f"{name} is {each.value}, by an operator: {_OVERRIDE_EFFECTS[name]}. {way_on}"
        for name, each in sorted(holds.beside.items())
    ]


_State = FlowState
_TaskState = TaskState

TASK_NOT_RUNNING = "its task does not run at present"


class FlowWorkerState(enum.Enum):
    """Of a flow's worker in this process."""

    STARTING = "STARTING"
    WORKING = "WORKING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """What the group's topics say of a connector or task; `here`: it is for this node to run.

    `state` is Connect's word, "" where nobody has said anything; `node` the worker that said so.
    """

    state: str = ""
    here: bool = False
    reason: str = ""
    node: str = ""

    @property
    def is_failed(self) -> bool:
        return self.state == "FAILED"

    @property
    def is_paused(self) -> bool:
        """What begins paused is not started, and shows nothing."""
        return self.state == "PAUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSnapshot:
    """`life` and `reason` are the worker's; `met`: it has met its group once.

    `tasks` by number are those of the flow's source connector; `configured` has the partitions in
    their configurations. `current`: these are what the leader's file says; `planned_anew`: so is
    the connector that is shown; `handed_out`: the group's last round was about these tasks.
    `taken_up`: tasks that run here run with it. `unreachable`: why a cluster of the flow cannot be
    reached, "" while all answer. `stopped_ms`: when its connector was stopped. `refused`: why
    something of what the file says is not so. `resume`: the command that ends a stop. `given_up`:
    why the flow will not go on, "" while it may. `checkpoint_tasks` as in `FlowStatus`.
    """

    flow: str
    life: FlowWorkerState
    reason: str = ""
    met: bool = False
    given_up: str = ""
    unreachable: str = ""
    refused: str = ""
    stopped_ms: int = -1
    resume: str = ""
    connector: GroupStatus = GroupStatus()
    tasks: Mapping[int, GroupStatus] = field(default_factory=dict)
    configured: Mapping[int, frozenset[TopicPartition]] = field(default_factory=dict)
    current: bool = True
    planned_anew: bool = True
    handed_out: bool = True
    taken_up: bool = True
    holds: OperatorOverrides = operator_overrides.NO_OVERRIDES
    shown: ConnectorSnapshot | None = None
    checkpoint_tasks: int = 0
    tasks_shown: Mapping[int, TaskSnapshot] = field(default_factory=dict)


def compute_flow_status(seen: WorkerSnapshot, before: FlowStatus | None = None) -> FlowStatus:
    """`before` itself where nothing has changed."""
    state, reason = _compute_state(seen, before)
    tasks = [seen.tasks_shown[number] for number in sorted(seen.tasks_shown)]
    away = seen.configured.keys() - _find_reporting_tasks(seen)
    findings = seen.shown.findings if seen.shown is not None else ()
    resting = (
        *_list_unstarted_partitions(seen),
        *_list_last_known_partitions(seen, before),
        *findings,
    )
    found = {each.partition: each for each in resting}
    for task in tasks:
        found.update((each.partition, each) for each in task.partitions)
    if (
        seen.life in (FlowWorkerState.STOPPED, FlowWorkerState.FAILED)
        and before is not None
        and not tasks
    ):
        made = FlowStatus(
            flow=seen.flow,
            state=state,
            reason=reason,
            tasks=before.tasks,
            partitions=before.partitions,
            fencing=before.fencing,
        )
    else:
        made = FlowStatus(
            flow=seen.flow,
            state=state,
            reason=reason,
            tasks=(*(task.status for task in tasks), *_list_failed_tasks(seen)),
            partitions=tuple(found.values()),
            slots_missing=sum(task.slots_missing for task in tasks),
            fencing=next((task.fencing for task in tasks if task.fencing), ""),
            elsewhere=sum(len(seen.configured[each] - found.keys()) for each in away),
            wanted=seen.shown.copyable if seen.shown is not None and seen.shown.planned else None,
            holds=seen.holds,
            places=tuple(_locate_task(number, each) for number, each in sorted(seen.tasks.items())),
            warnings=seen.shown.warnings if seen.shown is not None else (),
            checkpoint_tasks=seen.checkpoint_tasks,
        )
    return before if before is not None and made == before else made


def _locate_task(number: int, told: GroupStatus) -> TaskPlacement:
    return TaskPlacement(number=number, state=told.state, node=told.node, reason=told.reason)


def _list_failed_tasks(seen: WorkerSnapshot) -> Iterable[TaskStatus]:
    """What fails shows nothing of itself any more."""
    return (
        TaskStatus(index=number, state=_TaskState.FAILED, reason=each.reason, restarts=0)
        for number, each in _list_tasks_failed_here(seen)
    )


def _list_unstarted_partitions(seen: WorkerSnapshot) -> Iterable[PartitionStatus]:
    """What is given to tasks that fail, however early: nobody else copies it."""
    return (
        PartitionStatus(
            partition=partition,
            task=number,
            phase="waiting",
            reason=TASK_NOT_RUNNING,
            cause="",
            records=0,
            bytes=0,
            copied_to=-1,
            source_end=-1,
            age_ms=0,
            oldest_ms=-1,
            transactional=False,
        )
        for number, _ in _list_tasks_failed_here(seen)
        for partition in sorted(seen.configured.get(number, ()))
    )


def _list_tasks_failed_here(seen: WorkerSnapshot) -> Iterable[tuple[int, GroupStatus]]:
    """Tasks of this node that have failed, and were not begun again."""
    return (
        (number, each)
        for number, each in sorted(seen.tasks.items())
        if each.here and each.is_failed and number not in seen.tasks_shown
    )


def _list_last_known_partitions(
    seen: WorkerSnapshot, before: FlowStatus | None
) -> Iterable[PartitionStatus]:
    """What tasks of this node showed last that stand still, or are just being started again."""
    away = {number for number, each in seen.tasks.items() if each.here} - _find_reporting_tasks(
        seen
    )
    found = (each for each in (before.partitions if before else ()) if each.task in away)
    return map(_mark_not_running, found) if seen.life is FlowWorkerState.WORKING else found


def _mark_not_running(each: PartitionStatus) -> PartitionStatus:
    """What was known of its source says nothing about now."""
    if each.stopped or each.reason == TASK_NOT_RUNNING:
        return each
    return replace(each, phase="waiting", reason=TASK_NOT_RUNNING)


def _find_reporting_tasks(seen: WorkerSnapshot) -> set[int]:
    """Tasks that have come so far that they tell of partitions."""
    return {number for number, each in seen.tasks_shown.items() if each.partitions}


def is_configuration_applied(seen: WorkerSnapshot) -> bool:
    """Is all that runs here as the file says?"""
    return seen.taken_up and not _describe_wait(seen)


def explain_not_serving(seen: WorkerSnapshot, made: FlowStatus, begun: Collection[int]) -> str:
    """Why what this node was given does not run, "" where it does, at least in part, or where an
    operator stopped it. `made` is its `compute_flow_status`; `begun` are the tasks whose copies
    have run here: one that restarts stays ready."""
    if seen.holds.stopped:
        return ""
    if made.state is not _State.RUNNING:
        return made.reason or made.state.value
    states = {each.index: each.state for each in made.tasks}
    if states and all(each is _TaskState.FAILED for each in states.values()):
        return next((each.reason for each in made.tasks if each.reason), "all its tasks failed")
    starting = [
        str(number)
        for number, state in sorted(states.items())
        if state is _TaskState.STARTING and number not in begun
    ]
    if starting:
        return f"its copies have not started yet: task {', '.join(starting)}"
    waiting = [each is _TaskState.WAITING_FOR_SLOT for each in states.values()]
    return "all its tasks wait for a Spark slot" if waiting and all(waiting) else ""


def describe_stop(resume: str, at_ms: int) -> str:
    """Of a flow whose connector was stopped, at `at_ms`, -1 where that is not known; `resume` is
    the command that resumes it."""
    when = ""
    if at_ms >= 0:
        moment = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
        when = f" at {moment:%Y-%m-%dT%H:%M:%SZ}"
    return f"stopped by failover or REST{when}; resume with: {resume}"


def extract_error_message(trace: str | None) -> str:
    """The words of the failure that a status tells, without its class."""
    line = (trace or "").strip().partition("\n")[0]
    name, separator, words = line.partition(": ")
    return words if separator and " " not in name else line


def _compute_state(seen: WorkerSnapshot, before: FlowStatus | None) -> tuple[_State, str]:
    if seen.given_up or seen.life is FlowWorkerState.FAILED:
        reason = seen.given_up or seen.reason
        cause = seen.unreachable if seen.unreachable not in reason else ""
        return _State.FAILED, "; ".join(filter(None, (cause, reason)))
    match seen.life:
        case FlowWorkerState.STOPPED:
            return _State.STOPPED, seen.reason or "stopped"
        case FlowWorkerState.STOPPING:
            return _State.STOPPING, seen.reason
        case FlowWorkerState.STARTING:
            return _State.PLANNING, seen.unreachable or seen.reason
    if seen.holds.stopped:
        if seen.tasks_shown:
            return _State.STOPPING, "its tasks are stopping"
        return _State.STOPPED, describe_stop(seen.resume, seen.stopped_ms)
    failed, beside = _describe_failure(seen), _describe_java_workers(seen)
    if before is not None and before.state is _State.RUNNING:
        return _State.RUNNING, failed or seen.refused or beside
    waiting = _describe_wait(seen)
    if failed or waiting:
        return _State.PLANNING, failed or seen.unreachable or waiting
    return _State.RUNNING, seen.refused or beside


def _describe_java_workers(seen: WorkerSnapshot) -> str:
    """While a worker of Java shares the work, what it guarantees is all that holds."""
    return next((each.beside_java for each in seen.tasks_shown.values() if each.beside_java), "")


def _describe_failure(seen: WorkerSnapshot) -> str:
    told: Iterable[tuple[str, GroupStatus]] = (
        ("", seen.connector),
        *((f"task {number}: ", each) for number, each in sorted(seen.tasks.items())),
    )
    failed = (prefix + each.reason for prefix, each in told if each.here and each.is_failed)
    return next(failed, "")


def _describe_other_node(connector: GroupStatus) -> str:
    """The connector runs on another node, or on none yet: what was last said of it may be old."""
    node = connector.node.partition("/")[0]
    if connector.is_failed and node:
        why = f": {connector.reason}" if connector.reason else ""
        return f"its connector failed on node {node}{why}; see the log of that node"
    where = f"node {node}, which ran its connector last," if node else "another node"
    return f"waiting for {where} to find the topics and configure its tasks"


def _describe_wait(seen: WorkerSnapshot) -> str:
    """What must come before the flow runs; "" when all has. Of what other nodes run the group's
    topics may tell what was long ago: that counts for nothing."""
    if not seen.met:
        return seen.reason or "joining its Connect group"
    if not seen.current:
        return seen.refused or "its connectors are being configured by the leader of its group"
    shown = seen.shown
    if seen.connector.here and not (shown is None and seen.connector.is_paused):
        if shown is None or not shown.planned or not seen.planned_anew:
            return (shown.reason if shown else "") or "its connector is starting"
        if shown.copyable != sum(map(len, seen.configured.values())):
            return "its tasks are being configured"
    elif not seen.tasks:
        return _describe_other_node(seen.connector)
    if not seen.handed_out:
        return "its tasks are being assigned to the nodes of its group"
    for number, each in sorted(seen.tasks.items()):
        task = seen.tasks_shown.get(number)
        known = {where.partition for where in task.partitions} if task is not None else set()
        begins = each.here and not (task is None and each.is_paused)
        if begins and not seen.configured.get(number, frozenset()) <= known:
            return f"task {number} is starting"
    return ""
