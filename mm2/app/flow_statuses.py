"""A flow as this node sees it: what its worker, connector and tasks say, put together. Pure.

In a group of several nodes each shows the tasks that it runs itself; a flow is RUNNING once its
connector has handed out all partitions and every task has begun somewhere.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.base import ids
from mm2.connectors import board, flow_status
from mm2.core import holds as holding

State = flow_status.FlowState
TaskState = flow_status.TaskState

NOT_RUNNING = "its task does not run at present"


class Life(enum.Enum):
    """Of a flow's worker in this process."""

    STARTING = "STARTING"
    WORKING = "WORKING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
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
class Seen:
    """`life` and `reason` are the worker's; `met`: it has met its group once.

    `tasks` by number are those of the flow's source connector; `configured` has the partitions in
    their configurations. `current`: these are what the leader's file says; `planned_anew`: so is
    the connector that is shown; `handed_out`: the group's last round was about these tasks.
    `taken_up`: tasks that run here run with it. `unreachable`: why a cluster of the flow cannot be
    reached, "" while all answer. `stopped_ms`: when its connector was stopped. `refused`: why
    something of what the file says is not so. `resume`: the command that ends a stop. `given_up`:
    why the flow will not go on, "" while it may. `checkpoint_tasks` as in `flow_status.FlowStatus`.
    """

    flow: str
    life: Life
    reason: str = ""
    met: bool = False
    given_up: str = ""
    unreachable: str = ""
    refused: str = ""
    stopped_ms: int = -1
    resume: str = ""
    connector: Told = Told()
    tasks: Mapping[int, Told] = field(default_factory=dict)
    configured: Mapping[int, frozenset[ids.TopicPartition]] = field(default_factory=dict)
    current: bool = True
    planned_anew: bool = True
    handed_out: bool = True
    taken_up: bool = True
    holds: holding.Holds = holding.NOTHING
    shown: board.ConnectorShown | None = None
    checkpoint_tasks: int = 0
    tasks_shown: Mapping[int, board.TaskShown] = field(default_factory=dict)


def status(seen: Seen, before: flow_status.FlowStatus | None = None) -> flow_status.FlowStatus:
    """`before` itself where nothing has changed."""
    state, reason = _state(seen, before)
    tasks = [seen.tasks_shown[number] for number in sorted(seen.tasks_shown)]
    away = seen.configured.keys() - _telling(seen)
    findings = seen.shown.findings if seen.shown is not None else ()
    resting = (*_not_begun(seen), *_in_between(seen, before), *findings)
    found = {each.partition: each for each in resting}
    for task in tasks:
        found.update((each.partition, each) for each in task.partitions)
    if seen.life in (Life.STOPPED, Life.FAILED) and before is not None and not tasks:
        made = flow_status.FlowStatus(
            flow=seen.flow,
            state=state,
            reason=reason,
            tasks=before.tasks,
            partitions=before.partitions,
            fencing=before.fencing,
        )
    else:
        made = flow_status.FlowStatus(
            flow=seen.flow,
            state=state,
            reason=reason,
            tasks=(*(task.status for task in tasks), *_failed_tasks(seen)),
            partitions=tuple(found.values()),
            slots_missing=sum(task.slots_missing for task in tasks),
            fencing=next((task.fencing for task in tasks if task.fencing), ""),
            elsewhere=sum(len(seen.configured[each] - found.keys()) for each in away),
            wanted=seen.shown.copyable if seen.shown is not None and seen.shown.planned else None,
            holds=seen.holds,
            places=tuple(_place(number, each) for number, each in sorted(seen.tasks.items())),
            warnings=seen.shown.warnings if seen.shown is not None else (),
            checkpoint_tasks=seen.checkpoint_tasks,
        )
    return before if before is not None and made == before else made


def _place(number: int, told: Told) -> flow_status.TaskPlace:
    return flow_status.TaskPlace(
        number=number, state=told.state, node=told.node, reason=told.reason
    )


def _failed_tasks(seen: Seen) -> Iterable[flow_status.TaskStatus]:
    """What fails shows nothing of itself any more."""
    return (
        flow_status.TaskStatus(index=number, state=TaskState.FAILED, reason=each.reason, restarts=0)
        for number, each in _failed_here(seen)
    )


def _not_begun(seen: Seen) -> Iterable[flow_status.PartitionStatus]:
    """What is given to tasks that fail, however early: nobody else copies it."""
    return (
        flow_status.PartitionStatus(
            partition=partition,
            task=number,
            phase="waiting",
            reason=NOT_RUNNING,
            cause="",
            records=0,
            bytes=0,
            copied_to=-1,
            source_end=-1,
            age_ms=0,
            oldest_ms=-1,
            transactional=False,
        )
        for number, _ in _failed_here(seen)
        for partition in sorted(seen.configured.get(number, ()))
    )


def _failed_here(seen: Seen) -> Iterable[tuple[int, Told]]:
    """Tasks of this node that have failed, and were not begun again."""
    return (
        (number, each)
        for number, each in sorted(seen.tasks.items())
        if each.here and each.is_failed and number not in seen.tasks_shown
    )


def _in_between(
    seen: Seen, before: flow_status.FlowStatus | None
) -> Iterable[flow_status.PartitionStatus]:
    """What tasks of this node showed last that stand still, or are just being started again."""
    away = {number for number, each in seen.tasks.items() if each.here} - _telling(seen)
    found = (each for each in (before.partitions if before else ()) if each.task in away)
    return map(_at_rest, found) if seen.life is Life.WORKING else found


def _at_rest(each: flow_status.PartitionStatus) -> flow_status.PartitionStatus:
    """What was known of its source says nothing about now."""
    if each.stopped or each.reason == NOT_RUNNING:
        return each
    return replace(each, phase="waiting", reason=NOT_RUNNING)


def _telling(seen: Seen) -> set[int]:
    """Tasks that have come so far that they tell of partitions."""
    return {number for number, each in seen.tasks_shown.items() if each.partitions}


def settled(seen: Seen) -> bool:
    """Is all that runs here as the file says?"""
    return seen.taken_up and not _waiting(seen)


def not_serving(seen: Seen, made: flow_status.FlowStatus, begun: Collection[int]) -> str:
    """Why what this node was given does not run, "" where it does, at least in part, or where an
    operator stopped it. `made` is its `status`; `begun` are the tasks whose copies have run here:
    one that restarts stays ready."""
    if seen.holds.stopped:
        return ""
    if made.state is not State.RUNNING:
        return made.reason or made.state.value
    states = {each.index: each.state for each in made.tasks}
    if states and all(each is TaskState.FAILED for each in states.values()):
        return next((each.reason for each in made.tasks if each.reason), "all its tasks failed")
    starting = [
        str(number)
        for number, state in sorted(states.items())
        if state is TaskState.STARTING and number not in begun
    ]
    if starting:
        return f"its copies have not started yet: task {', '.join(starting)}"
    waiting = [each is TaskState.WAITING_FOR_SLOT for each in states.values()]
    return "all its tasks wait for a Spark slot" if waiting and all(waiting) else ""


def stopped_reason(resume: str, at_ms: int) -> str:
    """Of a flow whose connector was stopped, at `at_ms`, -1 where that is not known; `resume` is
    the command that resumes it."""
    when = ""
    if at_ms >= 0:
        moment = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
        when = f" at {moment:%Y-%m-%dT%H:%M:%SZ}"
    return f"stopped by failover or REST{when}; resume with: {resume}"


def first_line(trace: str | None) -> str:
    """The words of the failure that a status tells, without its class."""
    line = (trace or "").strip().partition("\n")[0]
    name, separator, words = line.partition(": ")
    return words if separator and " " not in name else line


def _state(seen: Seen, before: flow_status.FlowStatus | None) -> tuple[State, str]:
    if seen.given_up or seen.life is Life.FAILED:
        reason = seen.given_up or seen.reason
        cause = seen.unreachable if seen.unreachable not in reason else ""
        return State.FAILED, "; ".join(filter(None, (cause, reason)))
    match seen.life:
        case Life.STOPPED:
            return State.STOPPED, seen.reason or "stopped"
        case Life.STOPPING:
            return State.STOPPING, seen.reason
        case Life.STARTING:
            return State.PLANNING, seen.unreachable or seen.reason
    if seen.holds.stopped:
        if seen.tasks_shown:
            return State.STOPPING, "its tasks stop"
        return State.STOPPED, stopped_reason(seen.resume, seen.stopped_ms)
    failed, beside = _failed(seen), _beside_java(seen)
    if before is not None and before.state is State.RUNNING:
        return State.RUNNING, failed or seen.refused or beside
    waiting = _waiting(seen)
    if failed or waiting:
        return State.PLANNING, failed or seen.unreachable or waiting
    return State.RUNNING, seen.refused or beside


def _beside_java(seen: Seen) -> str:
    """While a worker of Java shares the work, what it guarantees is all that holds."""
    return next((each.beside_java for each in seen.tasks_shown.values() if each.beside_java), "")


def _failed(seen: Seen) -> str:
    told: Iterable[tuple[str, Told]] = (
        ("", seen.connector),
        *((f"task {number}: ", each) for number, each in sorted(seen.tasks.items())),
    )
    failed = (prefix + each.reason for prefix, each in told if each.here and each.is_failed)
    return next(failed, "")


def _another_node(connector: Told) -> str:
    """The connector runs on another node, or on none yet: what was last said of it may be old."""
    node = connector.node.partition("/")[0]
    if connector.is_failed and node:
        why = f": {connector.reason}" if connector.reason else ""
        return f"its connector failed on node {node}{why}; see the log of that node"
    where = f"node {node}, which ran its connector last," if node else "another node"
    return f"waiting for {where} to find the topics and configure its tasks"


def _waiting(seen: Seen) -> str:
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
        return _another_node(seen.connector)
    if not seen.handed_out:
        return "its tasks are being assigned to the nodes of its group"
    for number, each in sorted(seen.tasks.items()):
        task = seen.tasks_shown.get(number)
        known = {where.partition for where in task.partitions} if task is not None else set()
        begins = each.here and not (task is None and each.is_paused)
        if begins and not seen.configured.get(number, frozenset()) <= known:
            return f"task {number} is starting"
    return ""
