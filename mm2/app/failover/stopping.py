"""Stops a flow from outside, durably: its connectors are written down as STOPPED.

Into the config topic of the flow's Connect group, as a leader writes it when an operator stops a
connector over REST: nodes that run, ours or Java's from 3.5 on, give the flow up as soon as they
read it, and nodes that are started later start nothing. `mm2 resume FLOW` is the way back.
"""

from __future__ import annotations

from collections.abc import Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.core.state import (
    cluster_config,
    config_log,
    config_records,
    status_log,
    status_records,
)
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides
from mm2.cluster import record_writer

_RUNS = frozenset({status_records.State.RUNNING, status_records.State.PAUSED})
_STOPPED = cluster_config.TargetState.STOPPED
_TURN_S = 0.1


def stop(
    side: sides.Side,
    config_topic: str,
    connectors: Sequence[str],
    *,
    clock: base_clock.Clock,
    timeout_s: float,
) -> list[str]:
    """Returns the connectors that are stopped now, for good; empty where none was ever configured.

    Raises `RetriableError` and `FatalError`; what was written then may stand all the same. Doing it
    again does no harm.
    """
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    before = _read(side, config_topic, end.left_s(clock.now_s()))
    present = [name for name in connectors if before.config(name) is not None]
    wanted = [name for name in present if not _stopped(before, name)]
    if wanted:
        writer = side.writer(config_topic)
        try:
            _write(writer, wanted, end=end, clock=clock)
        finally:
            writer.close(end.left_s(clock.now_s()))
    after = _read(side, config_topic, end.left_s(clock.now_s()))
    going = [name for name in present if not _stopped(after, name)]
    if going:
        raise errors.RetriableError(
            f"{', '.join(going)}: written down as stopped in {config_topic}, and read back as "
            "going on; does somebody resume the flow at the same time?"
        )
    return present


def running(
    side: sides.OneSide, status_topic: str, connectors: Sequence[str], *, timeout_s: float
) -> list[str]:
    """The tasks of these connectors of which somebody says that they still run: a worker says
    otherwise once its producer is closed, one that was killed never. Raises `RetriableError` and
    `FatalError`."""
    found = side.admin.describe_topics([status_topic], timeout_s).done.get(status_topic)
    if found is None:
        return []
    fold = status_log.StatusLog()
    read = side.topics.read_topic(status_topic, timeout_s, partitions=found.partitions)
    for record in read:
        fold.apply(record.key, record.value, offset=record.offset)
    return [
        f"{task.connector}-{task.task} on {status.worker_id}"
        for name in connectors
        for task, status in fold.snapshot().tasks(name).items()
        if status.state in _RUNS
    ]


def _read(side: sides.Side, topic: str, timeout_s: float) -> cluster_config.ClusterConfig:
    fold = config_log.ConfigLog()
    try:
        for record in side.topics.read_topic(topic, timeout_s):
            fold.apply(record.key, record.value, offset=record.offset)
    except kafka_errors.TopicMissingError:
        pass  # nobody ever ran the flow as a Connect group
    fold.finish_replay()
    return fold.snapshot()


def _stopped(found: cluster_config.ClusterConfig, name: str) -> bool:
    return found.target_state(name) is _STOPPED and not found.tasks(name)


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
