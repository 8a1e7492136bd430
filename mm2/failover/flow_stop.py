"""Stops a flow durably from outside, then fences its writers.

The flow's connectors are set to STOPPED in the config topic of its Connect group, as a leader
writes it for `PUT /connectors/NAME/stop`. Running nodes, ours and Java's from Kafka 3.5 on, stop
the flow as soon as they read it; nodes that start later do not run it. `mm2 resume FLOW` undoes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState
from mm2.clusters import connect_group, fencing_results
from mm2.clusters.connect_group import ConnectGroupSnapshot
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.flow_pair import FlowSide
from mm2.config import dedicated_mode
from mm2.failover import plan_findings, readiness, writer_fencing
from mm2.failover.move_context import MoveContext
from mm2.failover.move_request import MoveRequest
from mm2.failover.writer_fencing import FencingRounds
from mm2.kafka.client_interfaces import RecordWriter

STOPPED_CONNECTORS = tuple(name for name in dedicated_mode.CONNECTORS if "Heartbeat" not in name)
"""What a move stops: copying, and checkpoints, which would set groups by what they do on the
cluster that was left. Heartbeats lose nothing."""
_RUNNING_STATES = frozenset({RunState.RUNNING, RunState.PAUSED})
_STOPPED_STATE = TargetState.STOPPED
_WRITE_POLL_INTERVAL_S = 0.1


class WritableFlowSide(FlowSide, Protocol):
    """The cluster that the flow's Connect group keeps its state on."""

    def writer(self, topic: str) -> RecordWriter: ...


def list_configured_connectors(found: ConnectGroupSnapshot) -> list[str]:
    """Those of the flow's connectors that were ever configured."""
    return [name for name in STOPPED_CONNECTORS if found.config.config(name) is not None]


def list_active_connectors(found: ConnectGroupSnapshot) -> list[str]:
    """Those that go on, or begin again, as soon as somebody runs the group."""
    config = found.config
    return [
        name
        for name in list_configured_connectors(found)
        if config.target_state(name) is not _STOPPED_STATE or config.tasks(name)
    ]


def list_running_tasks(found: ConnectGroupSnapshot) -> list[str]:
    """The tasks of which somebody says that they still run: a worker says otherwise once its
    producer is closed, one that was killed never; a group without members has none."""
    if found.hosts == ():
        return []
    return [
        f"{task.connector}-{task.task} on {status.worker_id}"
        for name in STOPPED_CONNECTORS
        for task, status in found.statuses.tasks(name).items()
        if status.state in _RUNNING_STATES
    ]


def stop_connectors(
    side: WritableFlowSide,
    props: Mapping[str, str],
    *,
    clock: Clock,
    timeout_s: float,
) -> list[str]:
    """Returns the connectors that are stopped now, for good; empty where none was ever configured.
    `props` are the worker's.

    Raises `RetriableError` and `FatalError`; what was written then may stand all the same. Doing it
    again does no harm.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    topic = props["config.storage.topic"]
    before = connect_group.read_connect_group(side, props, clock=clock, timeout_s=timeout_s)
    wanted = list_active_connectors(before)
    if not wanted:
        return list_configured_connectors(before)
    writer = side.writer(topic)
    try:
        _write_stop_records(writer, wanted, end=end, clock=clock)
    finally:
        writer.close(end.left_s(clock.now_s()))
    after = connect_group.read_connect_group(
        side, props, clock=clock, timeout_s=end.left_s(clock.now_s())
    )
    if left := list_active_connectors(after):
        raise RetriableError(
            f"{', '.join(left)}: written down as stopped in {topic}, and read back as "
            "going on; does somebody resume the flow at the same time?"
        )
    return list_configured_connectors(after)


def _write_stop_records(
    writer: RecordWriter,
    names: Sequence[str],
    *,
    end: Deadline,
    clock: Clock,
) -> None:
    """First it has no tasks, then it is stopped: in the order of Java's leaders."""
    records = [
        record
        for name in names
        for record in (
            config_records.encode_commit(name, 0),
            config_records.encode_target_state(name, _STOPPED_STATE),
        )
    ]
    told: list[ConnectError | None] = []
    for record in records:
        assert record.value is not None
        writer.write(record.key, record.value, on_written=told.append)
    while len(told) < len(records):
        if end.passed(clock.now_s()):
            raise RetriableError("stopping the flow: the cluster did not answer in time")
        writer.poll(_WRITE_POLL_INTERVAL_S)
    failure = next((each for each in told if each is not None), None)
    if failure is not None:
        raise failure


TASK_END_TIMEOUT_S = 20.0
"""So long is waited for tasks of a stopped flow to say that they have ended: who was killed says
nothing, and is fenced all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedFlow:
    """`connectors` are stopped now; `running` tasks had not said that they ended."""

    connectors: list[str]
    running: list[str]


def stop_flow(about: MoveContext, wanted: MoveRequest) -> StoppedFlow:
    """Who takes part in the flow reads that it is stopped, ends its tasks and says so."""
    stopped = list(about.stop())
    if not stopped and readiness.NO_CONNECTORS_CODE not in wanted.accepted:
        raise FatalError(readiness.explain_no_connectors(about.both.flow.name, wanted.destination))
    left: list[str] = []

    def ended() -> bool:
        left[:] = about.running()
        return not left

    if stopped:
        with contextlib.suppress(RetriableError):  # they are fenced all the same
            about.await_(ended, lambda: f"{', '.join(left)} still run", most_s=TASK_END_TIMEOUT_S)
    return StoppedFlow(connectors=stopped, running=left)


def fence_flow(about: MoveContext, wanted: MoveRequest) -> list[FencingResult]:
    """Once more where somebody takes a partition meanwhile, or begins one: he has not read yet
    that the flow is stopped. What does not answer is left unfenced where that is accepted; what
    answers never is. Raises `ConnectError`."""
    leaves = wanted.accepts(plan_findings.MIRROR_UNKNOWN)
    turns = FencingRounds(about, leaves=leaves)
    try:
        about.await_(turns.turn, turns.why)
    except RetriableError:
        if not (leaves and turns.late):
            raise
        turns.leave_late()
    found = turns.found
    return [found[each] for each in sorted(found)]


def fence_flow_again(
    about: MoveContext, wanted: MoveRequest, fenced: Collection[FencingResult]
) -> list[FencingResult]:
    """Whoever has taken a partition since, or begun one, is fenced once more, with all others;
    empty where nobody has."""
    known = about.known()
    fresh = writer_fencing.list_partitions_to_fence(about, known).keys() - {
        each.partition for each in fenced
    }
    if fresh or any(fencing_results.is_acquired_since(known, each) for each in fenced):
        return fence_flow(about, wanted)
    return []
