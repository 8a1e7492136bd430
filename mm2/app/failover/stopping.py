"""Stops a flow from outside, durably: its connectors are written down as STOPPED.

Into the config topic of the flow's Connect group, as a leader writes it when an operator stops a
connector over REST: nodes that run, ours or Java's from 3.5 on, give the flow up as soon as they
read it, and nodes that are started later start nothing. `mm2 resume FLOW` is the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.core.state import cluster_config, config_records, status_records
from mm2.app.looks import sides, workers
from mm2.cluster import record_writer
from mm2.core.configs import dedicated

STOPPED = tuple(name for name in dedicated.CONNECTORS if "Heartbeat" not in name)
"""What a move stops: copying, and checkpoints, which would set groups by what they do on the
cluster that was left. Heartbeats lose nothing."""
_RUNS = frozenset({status_records.State.RUNNING, status_records.State.PAUSED})
_STOPPED = cluster_config.TargetState.STOPPED
_TURN_S = 0.1


class WritableSide(sides.OneSide, Protocol):
    """The cluster that the flow's Connect group keeps its state on."""

    def writer(self, topic: str) -> record_writer.RecordWriter: ...


def present(found: workers.Workers) -> list[str]:
    """Those of the flow's connectors that were ever configured."""
    return [name for name in STOPPED if found.config.config(name) is not None]


def going(found: workers.Workers) -> list[str]:
    """Those that go on, or begin again, as soon as somebody runs the group."""
    config = found.config
    return [
        name
        for name in present(found)
        if config.target_state(name) is not _STOPPED or config.tasks(name)
    ]


def running(found: workers.Workers) -> list[str]:
    """The tasks of which somebody says that they still run: a worker says otherwise once its
    producer is closed, one that was killed never; a group without members has none."""
    if found.hosts == ():
        return []
    return [
        f"{task.connector}-{task.task} on {status.worker_id}"
        for name in STOPPED
        for task, status in found.statuses.tasks(name).items()
        if status.state in _RUNS
    ]


def stop(
    side: WritableSide,
    props: Mapping[str, str],
    *,
    clock: base_clock.Clock,
    timeout_s: float,
) -> list[str]:
    """Returns the connectors that are stopped now, for good; empty where none was ever configured.
    `props` are the worker's.

    Raises `RetriableError` and `FatalError`; what was written then may stand all the same. Doing it
    again does no harm.
    """
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    topic = props["config.storage.topic"]
    before = workers.look(side, props, clock=clock, timeout_s=timeout_s)
    wanted = going(before)
    if not wanted:
        return present(before)
    writer = side.writer(topic)
    try:
        _write(writer, wanted, end=end, clock=clock)
    finally:
        writer.close(end.left_s(clock.now_s()))
    after = workers.look(side, props, clock=clock, timeout_s=end.left_s(clock.now_s()))
    if left := going(after):
        raise errors.RetriableError(
            f"{', '.join(left)}: written down as stopped in {topic}, and read back as "
            "going on; does somebody resume the flow at the same time?"
        )
    return present(after)


def _write(
    writer: record_writer.RecordWriter,
    names: Sequence[str],
    *,
    end: base_deadline.Deadline,
    clock: base_clock.Clock,
) -> None:
    """First it has no tasks, then it is stopped: in the order of Java's leaders."""
    records = [
        record
        for name in names
        for record in (config_records.commit(name, 0), config_records.target_state(name, _STOPPED))
    ]
    told: list[errors.ConnectError | None] = []
    for record in records:
        assert record.value is not None
        writer.write(record.key, record.value, on_written=told.append)
    while len(told) < len(records):
        if end.passed(clock.now_s()):
            raise errors.RetriableError("stopping the flow: the cluster did not answer in time")
        writer.poll(_TURN_S)
    failure = next((each for each in told if each is not None), None)
    if failure is not None:
        raise failure
