"""Computes a flow's status from snapshots of its worker, connector and tasks. Pure.

Each node of a group reports the tasks that it runs itself. A flow is RUNNING once its connector has
assigned all partitions and every task has started on some node.

Operator overrides (paused, stopped) are read from the configuration stored by the Connect group.
The description of an override includes the command that resumes the flow.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage.cluster_config_state import ClusterConfigState, TargetState
from mm2 import suggested_commands, text_format
from mm2.config import flow_connector_configs, pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
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
    flow_connector_configs.HEARTBEAT_CONNECTOR: "no heartbeats are written to the flow's target",
    flow_connector_configs.CHECKPOINT_CONNECTOR: (
        "no checkpoints are written; after a failover, groups resume at their last checkpoints"
    ),
}


def find_operator_override(config: ClusterConfigState, connector: str) -> OverrideKind | None:
    """Return the operator override (paused or stopped) of the connector; None if the connector has
    no override or does not exist."""
    state = config.target_state(connector) if config.has_connector(connector) else None
    return None if state is None else _OVERRIDES.get(state)


def find_connector_overrides(config: ClusterConfigState) -> Mapping[str, OverrideKind]:
    """Return the operator overrides (paused, stopped) of the connectors other than the source
    connector."""
    found = {name: find_operator_override(config, name) for name in _OVERRIDE_EFFECTS}
    return {name: each for name, each in found.items() if each is not None}


def describe_paused_flow(resume: str, beside: str = "") -> str:
    """Describe a flow that an operator paused, with the command that resumes it.

    `beside` is another message about the flow that is included, for example a task failure; "" for
    none.
    """
    return "; ".join(filter(None, ("paused by an operator", beside, f"resume with: {resume}")))


def describe_overrides(holds: OperatorOverrides, *, resume: str) -> list[str]:
    """Describe each overridden connector except the source connector, with the command that resumes
    the flow. Empty for a stopped flow, because all its connectors are expected to be stopped."""
    if holds.stopped:
        return []
    way_on = suggested_commands.format_remedy(resume)
    return [
        f"{name} is {each.value} by an operator: {_OVERRIDE_EFFECTS[name]}. {way_on}"
        for name, each in sorted(holds.other_connectors.items())
    ]


_State = FlowState
_TaskState = TaskState

TASK_NOT_RUNNING = "its task is not running"


class FlowWorkerState(enum.Enum):
    """State of a flow's worker in this process."""

    STARTING = "STARTING"
    WORKING = "WORKING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """Status of a connector or task in the Connect group."""

    state: str = ""
    """State reported by Connect, or "" if none was reported."""
    is_local: bool = False
    """True if the connector or task is assigned to this node."""
    reason: str = ""
    node: str = ""
    """Worker that reported the state."""

    @property
    def is_failed(self) -> bool:
        """True if the connector or task has failed."""
        return self.state == "FAILED"

    @property
    def is_paused(self) -> bool:
        """True if the connector or task reports that it is paused. A task that was already paused
        when it was assigned is not started and reports no state."""
        return self.state == "PAUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSnapshot:
    """Snapshot of one flow on this node: the worker, the group, and the reports of its connector
    and tasks."""

    flow: str
    worker_state: FlowWorkerState
    """State of the worker."""
    reason: str = ""
    """Reason for the worker's state."""
    has_joined: bool = False
    """True once the worker has joined its group."""
    fatal_error: str = ""
    """Reason why this node cannot copy any partition or no longer restarts the flow, or "" if there
    is none."""
    unreachable: str = ""
    """Reason why a cluster of the flow cannot be reached, or "" while both respond."""
    config_error: str = ""
    """Connectors that keep their previous configuration because the new one was rejected, each with
    the reason; "" if there are none."""
    stopped_ms: int = -1
    """Time when the flow's connector was stopped, or -1 if unknown."""
    resume: str = ""
    """Command that resumes the flow."""
    connector: GroupStatus = GroupStatus()
    tasks: Mapping[int, GroupStatus] = field(default_factory=dict)
    """Tasks of the source connector, by number."""
    configured: Mapping[int, frozenset[TopicPartition]] = field(default_factory=dict)
    """Partitions in the configuration of each source connector task."""
    is_config_current: bool = True
    """True if the connector configurations stored by the group match the leader's file and the
    tasks have been reconfigured with them."""
    is_plan_current: bool = True
    """True if the source connector runs with the configuration in the configuration file. Checked
    only on the leader; True on other nodes."""
    is_assigned: bool = True
    """True if the group's last rebalance assigned the tasks according to the current task
    configurations."""
    is_config_applied: bool = True
    """True if the tasks on this node run with the settings in the configuration file."""
    overrides: OperatorOverrides = pause_and_throttle_overrides.NO_OVERRIDES
    connector_snapshot: ConnectorSnapshot | None = None
    checkpoint_tasks: int = 0
    connector_failures: tuple[str, ...] = ()
    """Failed connectors and checkpoint tasks of this node, with their reasons."""
    task_snapshots: Mapping[int, TaskSnapshot] = field(default_factory=dict)


def compute_flow_status(seen: WorkerSnapshot, before: FlowStatus | None = None) -> FlowStatus:
    """Compute the flow status from a worker snapshot. If nothing has changed since the previous
    status `before`, return that same object."""
    state, reason = _compute_state(seen, before)
    tasks = [seen.task_snapshots[number] for number in sorted(seen.task_snapshots)]
    away = seen.configured.keys() - _find_reporting_tasks(seen)
    findings = seen.connector_snapshot.findings if seen.connector_snapshot is not None else ()
    resting = (
        *_list_unstarted_partitions(seen),
        *_list_last_known_partitions(seen, before),
        *findings,
    )
    found = {each.partition: each for each in resting}
    for task in tasks:
        found.update((each.partition, each) for each in task.partitions)
    if (
        seen.worker_state in (FlowWorkerState.STOPPED, FlowWorkerState.FAILED)
        and before is not None
        and not tasks
    ):
        made = FlowStatus(
            flow=seen.flow,
            state=state,
            reason=reason,
            tasks=before.tasks,
            partitions=before.partitions,
            fencing_command=before.fencing_command,
        )
    else:
        made = FlowStatus(
            flow=seen.flow,
            state=state,
            reason=reason,
            tasks=(*(task.status for task in tasks), *_list_failed_tasks(seen)),
            partitions=tuple(found.values()),
            slots_missing=sum(task.slots_missing for task in tasks),
            fencing_command=next(
                (task.fencing_command for task in tasks if task.fencing_command), ""
            ),
            remote_partitions=sum(len(seen.configured[each] - found.keys()) for each in away),
            assigned_partitions=seen.connector_snapshot.copyable
            if seen.connector_snapshot is not None and seen.connector_snapshot.is_planned
            else None,
            overrides=seen.overrides,
            placements=tuple(
                _format_task_location(number, each) for number, each in sorted(seen.tasks.items())
            ),
            warnings=seen.connector_snapshot.warnings
            if seen.connector_snapshot is not None
            else (),
            checkpoint_tasks=seen.checkpoint_tasks,
            connector_failures=seen.connector_failures,
        )
    return before if before is not None and made == before else made


def _format_task_location(number: int, told: GroupStatus) -> TaskPlacement:
    return TaskPlacement(number=number, state=told.state, node=told.node, reason=told.reason)


def _list_failed_tasks(seen: WorkerSnapshot) -> Iterable[TaskStatus]:
    """List the statuses of this node's failed tasks. The copy processes of these tasks no longer
    report a status, so the states that were reported to the Connect group are used."""
    return (
        TaskStatus(index=number, state=_TaskState.FAILED, reason=each.reason, restarts=0)
        for number, each in _list_tasks_failed_here(seen)
    )


def _list_unstarted_partitions(seen: WorkerSnapshot) -> Iterable[PartitionStatus]:
    """List the statuses of the failed tasks' partitions. No other task replicates these
    partitions."""
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
            oldest_uncopied_ms=-1,
            transactional=False,
        )
        for number, _ in _list_tasks_failed_here(seen)
        for partition in sorted(seen.configured.get(number, ()))
    )


def _list_tasks_failed_here(seen: WorkerSnapshot) -> Iterable[tuple[int, GroupStatus]]:
    """List the tasks of this node that have failed and were not restarted."""
    return (
        (number, each)
        for number, each in sorted(seen.tasks.items())
        if each.is_local and each.is_failed and number not in seen.task_snapshots
    )


def _list_last_known_partitions(
    seen: WorkerSnapshot, before: FlowStatus | None
) -> Iterable[PartitionStatus]:
    """List the last partition reports of this node's tasks that have failed or are being
    restarted."""
    away = {number for number, each in seen.tasks.items() if each.is_local} - _find_reporting_tasks(
        seen
    )
    found = (each for each in (before.partitions if before else ()) if each.task in away)
    return (
        map(_mark_partition_not_running, found)
        if seen.worker_state is FlowWorkerState.WORKING
        else found
    )


def _mark_partition_not_running(each: PartitionStatus) -> PartitionStatus:
    """Return the partition's last report with the phase "waiting", because its task is not running.
    The report of a halted partition is returned unchanged."""
    if each.is_halted or each.reason == TASK_NOT_RUNNING:
        return each
    return replace(each, phase="waiting", reason=TASK_NOT_RUNNING)


def _find_reporting_tasks(seen: WorkerSnapshot) -> set[int]:
    """Return the numbers of the tasks that report partitions."""
    return {number for number, each in seen.task_snapshots.items() if each.partitions}


def is_configuration_applied(seen: WorkerSnapshot) -> bool:
    """Return True if all connectors and tasks of this node run with the configuration in the
    configuration file."""
    return seen.is_config_applied and not _describe_wait_reason(seen)


def explain_why_no_task_runs(seen: WorkerSnapshot, made: FlowStatus, begun: Collection[int]) -> str:
    """Explain why none of the tasks assigned to this node is running. Return "" if at least one is
    running, or if an operator stopped the flow.

    `made` is the flow's status. `begun` contains the numbers of the tasks whose copy processes have
    already run on this node; such a task counts as running while it restarts.
    """
    if seen.overrides.stopped:
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
        return f"its copy processes have not started yet: task {', '.join(starting)}"
    waiting = [each is _TaskState.WAITING_FOR_SLOT for each in states.values()]
    return "all its tasks are waiting for a Spark slot" if waiting and all(waiting) else ""


def describe_stopped_flow(resume: str, at_ms: int) -> str:
    """Describe a flow whose connector was stopped at time `at_ms` (-1 if unknown), with the command
    that resumes it."""
    when = f" at {text_format.format_time(at_ms)}" if at_ms >= 0 else ""
    return f"stopped by failover or REST{when}; resume with: {resume}"


def extract_error_message(trace: str | None) -> str:
    """Extract the message from a Java stack trace, without the exception class."""
    line = (trace or "").strip().partition("\n")[0]
    name, separator, words = line.partition(": ")
    return words if separator and " " not in name else line


def _compute_state(seen: WorkerSnapshot, before: FlowStatus | None) -> tuple[_State, str]:
    if seen.fatal_error or seen.worker_state is FlowWorkerState.FAILED:
        reason = seen.fatal_error or seen.reason
        cause = seen.unreachable if seen.unreachable not in reason else ""
        return _State.FAILED, "; ".join(filter(None, (cause, reason)))
    match seen.worker_state:
        case FlowWorkerState.STOPPED:
            return _State.STOPPED, seen.reason or "stopped"
        case FlowWorkerState.STOPPING:
            return _State.STOPPING, seen.reason
        case FlowWorkerState.STARTING:
            return _State.PLANNING, seen.unreachable or seen.reason
    if seen.overrides.stopped:
        if seen.task_snapshots:
            return _State.STOPPING, "its tasks are stopping"
        return _State.STOPPED, describe_stopped_flow(seen.resume, seen.stopped_ms)
    failed, beside = _describe_failure(seen), _describe_java_workers(seen)
    if before is not None and before.state is _State.RUNNING:
        return _State.RUNNING, failed or seen.config_error or beside
    waiting = _describe_wait_reason(seen)
    if failed or waiting:
        return _State.PLANNING, failed or seen.unreachable or waiting
    return _State.RUNNING, seen.config_error or beside


def _describe_java_workers(seen: WorkerSnapshot) -> str:
    """Return a warning that Java Connect workers run some of the flow's tasks, for which only the
    guarantees of Java's MirrorMaker 2 apply; return "" if they run none."""
    return next(
        (each.java_warning for each in seen.task_snapshots.values() if each.java_warning), ""
    )


def _describe_failure(seen: WorkerSnapshot) -> str:
    told: Iterable[tuple[str, GroupStatus]] = (
        ("", seen.connector),
        *((f"task {number}: ", each) for number, each in sorted(seen.tasks.items())),
    )
    failed = (prefix + each.reason for prefix, each in told if each.is_local and each.is_failed)
    return next(failed, "")


def _describe_other_node(connector: GroupStatus) -> str:
    """Describe that the flow is waiting for its connector, which runs on another node or is not
    assigned to a node yet. The last status that the other node reported may be outdated."""
    node = connector.node.partition("/")[0]
    if connector.is_failed and node:
        why = f": {connector.reason}" if connector.reason else ""
        return f"its connector failed on node {node}{why}; see the log of that node"
    where = f"node {node}, which last ran the connector," if node else "another node"
    return f"waiting for {where} to list the topics and configure the tasks"


def _describe_wait_reason(seen: WorkerSnapshot) -> str:
    """Explain what is missing before the flow can run; return "" if nothing is missing. Statuses
    reported by other nodes may be outdated and are ignored."""
    if not seen.has_joined:
        return seen.reason or "joining its Connect group"
    if not seen.is_config_current:
        return seen.config_error or "the leader of the Connect group is configuring the connectors"
    shown = seen.connector_snapshot
    if seen.connector.is_local and not (shown is None and seen.connector.is_paused):
        if shown is None or not shown.is_planned or not seen.is_plan_current:
            return (shown.reason if shown else "") or "its connector is starting"
        if shown.copyable != sum(map(len, seen.configured.values())):
            return "its tasks are being configured"
    elif not seen.tasks:
        return _describe_other_node(seen.connector)
    if not seen.is_assigned:
        return "the tasks are being assigned to the nodes of the Connect group"
    for number, each in sorted(seen.tasks.items()):
        task = seen.task_snapshots.get(number)
        known = {where.partition for where in task.partitions} if task is not None else set()
        begins = each.is_local and not (task is None and each.is_paused)
        if begins and not seen.configured.get(number, frozenset()) <= known:
            return f"task {number} is starting"
    return ""
