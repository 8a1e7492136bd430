"""Stops a flow permanently by writing to its Connect config topic, without access to the flow's
processes, and fences its writers.

The flow's connectors are set to STOPPED in the config topic of its Connect group, with the records
that `PUT /connectors/NAME/stop` writes. Running nodes (mm2, and MirrorMaker 2 since Kafka 3.5) stop
the flow as soon as they read these records. Nodes that start later do not run the flow. `mm2 resume
FLOW` restarts it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState
from mm2.clusters import connect_group_state, fencing_results
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.flow_cluster_pair import FlowSide
from mm2.config import dedicated_mode
from mm2.failover import plan_findings, readiness, writer_fencing
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_request import FailoverRequest
from mm2.failover.writer_fencing import FencingRounds
from mm2.kafka.kafka_client_interfaces import RecordWriter

STOPPED_CONNECTORS = tuple(name for name in dedicated_mode.CONNECTORS if "Heartbeat" not in name)
"""Connectors that a failover stops: the source connector and the checkpoint connector, which would
otherwise keep syncing group offsets from the cluster being left. The heartbeat connector is
harmless and keeps running."""
_RUNNING_STATES = frozenset({RunState.RUNNING, RunState.PAUSED})
_STOPPED_STATE = TargetState.STOPPED
_WRITE_POLL_INTERVAL_S = 0.1


class WritableFlowSide(FlowSide, Protocol):
    """Gives write access to the cluster that stores the flow's Connect topics."""

    def create_writer(self, topic: str) -> RecordWriter: ...


def list_configured_connectors(found: ConnectGroupSnapshot) -> list[str]:
    """Return the flow's connectors that have a configuration."""
    return [name for name in STOPPED_CONNECTORS if found.config.config(name) is not None]


def list_active_connectors(found: ConnectGroupSnapshot) -> list[str]:
    """Return the flow's connectors that would run as soon as a worker joins the group."""
    config = found.config
    return [
        name
        for name in list_configured_connectors(found)
        if config.target_state(name) is not _STOPPED_STATE or config.tasks(name)
    ]


def list_running_tasks(found: ConnectGroupSnapshot) -> list[str]:
    """Return the tasks whose last reported status is RUNNING, including tasks of killed workers.
    The list is empty if the group has no members."""
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
    """Set the flow's connectors to STOPPED, which lasts across restarts. Return their names; empty
    if no connector is configured.

    `props` are the worker's properties. Idempotent. Raises `RetriableError` or `FatalError` if a
    connector could not be stopped; the other connectors may then already be stopped.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    topic = props["config.storage.topic"]
    before = connect_group_state.read_connect_group(side, props, clock=clock, timeout_s=timeout_s)
    wanted = list_active_connectors(before)
    if not wanted:
        return list_configured_connectors(before)
    writer = side.create_writer(topic)
    try:
        _write_connector_stop_records(writer, wanted, end=end, clock=clock)
    finally:
        writer.close(end.remaining_s(clock.now_s()))
    after = connect_group_state.read_connect_group(
        side, props, clock=clock, timeout_s=end.remaining_s(clock.now_s())
    )
    if left := list_active_connectors(after):
        raise RetriableError(
            f"{', '.join(left)}: the STOPPED state was written to {topic}, but was then replaced: "
            "the flow was probably resumed at the same time"
        )
    return list_configured_connectors(after)


def _write_connector_stop_records(
    writer: RecordWriter,
    names: Sequence[str],
    *,
    end: Deadline,
    clock: Clock,
) -> None:
    """Write a task commit record with zero tasks and then the STOPPED state for each connector, in
    the order that Kafka Connect's leader uses."""
    records = [
        record
        for name in names
        for record in (
            config_records.encode_task_config_commit(name, 0),
            config_records.encode_target_state(name, _STOPPED_STATE),
        )
    ]
    told: list[ConnectError | None] = []
    for record in records:
        assert record.value is not None
        writer.write(record.key, record.value, on_written=told.append)
    while len(told) < len(records):
        if end.is_expired(clock.now_s()):
            raise RetriableError(
                "stopping the flow: the cluster did not acknowledge the STOPPED records in time"
            )
        writer.poll(_WRITE_POLL_INTERVAL_S)
    failure = next((each for each in told if each is not None), None)
    if failure is not None:
        raise failure


TASK_END_TIMEOUT_S = 20.0
"""How long to wait until the tasks of a stopped flow report that they have ended. A killed worker
never reports this, but its writers are fenced anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedFlow:
    """Result of stopping a flow."""

    connectors: list[str]
    """Connectors that are stopped."""
    running: list[str]
    """Tasks that have not reported that they ended."""


def stop_flow(context: FailoverContext, request: FailoverRequest) -> StoppedFlow:
    """Stop the flow durably, then wait up to `TASK_END_TIMEOUT_S` until its workers report that all
    tasks have ended."""
    stopped = list(context.stop_connectors())
    if not stopped and readiness.NO_CONNECTORS_CODE not in request.accepted:
        raise FatalError(
            readiness.explain_missing_connectors(context.clusters.flow.name, request.destination)
        )
    left: list[str] = []

    def have_tasks_ended() -> bool:
        left[:] = context.list_running_tasks()
        return not left

    if stopped:
        with contextlib.suppress(RetriableError):  # running writers are fenced anyway
            context.wait_for_condition(
                have_tasks_ended,
                lambda: f"running: {', '.join(left)}",
                max_wait_s=TASK_END_TIMEOUT_S,
            )
    return StoppedFlow(connectors=stopped, running=left)


def fence_flow(context: FailoverContext, request: FailoverRequest) -> list[FencingResult]:
    """Fence the flow's writers in all of its partitions. A partition is fenced again if a worker
    that has not yet read the stop record acquires it.

    Partitions that do not respond are left unfenced only if the operator has accepted this; all
    other partitions are always fenced. Raises `ConnectError` if a partition could not be fenced.
    """
    leaves = request.is_finding_accepted(plan_findings.MIRROR_UNKNOWN)
    turns = FencingRounds(context, leaves=leaves)
    try:
        context.wait_for_condition(turns.run_round, turns.explain_next_round)
    except RetriableError:
        if not (leaves and turns.unfinished):
            raise
        turns.record_unresponsive_partitions()
    found = turns.results
    return [found[each] for each in sorted(found)]


def fence_flow_again(
    context: FailoverContext, request: FailoverRequest, fenced: Collection[FencingResult]
) -> list[FencingResult]:
    """Fence all partitions of the flow again if a partition was acquired or created since they were
    last fenced. Return the fencing results; empty if fencing again was not necessary."""
    known = context.read_offset_map()
    fresh = writer_fencing.list_partitions_to_fence(context, known).keys() - {
        each.partition for each in fenced
    }
    if fresh or any(
        fencing_results.is_partition_acquired_after_fencing(known, each) for each in fenced
    ):
        return fence_flow(context, request)
    return []
