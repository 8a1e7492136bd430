"""The Connect group of a flow as its topics on the target tell of it: nobody need be running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.core.state import cluster_config, config_log, status_log, status_records
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides
from mm2.cluster import state_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """`hosts` has one for each member of the group: none, and nobody runs the flow, whatever the
    statuses say; None: the cluster does not tell. `changed_ms`: when a connector's or task's status
    was written, or its target state, by the record's key."""

    config: cluster_config.ClusterConfig
    statuses: status_log.Statuses
    hosts: tuple[str, ...] | None
    changed_ms: Mapping[str, int] = field(default_factory=dict)


def look(
    side: sides.OneSide, props: Mapping[str, str], *, clock: base_clock.Clock, timeout_s: float
) -> Workers:
    """`props` are the worker's. Raises `RetriableError` and `FatalError`."""
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())

    def left_s() -> float:
        return end.left_s(clock.now_s())

    changed_ms: dict[str, int] = {}
    configs, statuses = config_log.ConfigLog(), status_log.StatusLog()
    for record in _read(side, props["config.storage.topic"], left_s()):
        configs.apply(record.key, record.value, offset=record.offset)
        if record.key is not None:
            changed_ms[record.key.decode("utf-8", "replace")] = record.time_ms
    configs.finish_replay()
    topic = props["status.storage.topic"]
    described = side.admin.describe_topics([topic], left_s()).done
    if topic in described:
        for record in _read(side, topic, left_s(), partitions=described[topic].partitions):
            statuses.apply(record.key, record.value, offset=record.offset)
            if record.key is not None:
                changed_ms[record.key.decode("utf-8", "replace")] = record.time_ms
    group = props["group.id"]
    return Workers(
        config=configs.snapshot(),
        statuses=statuses.snapshot(),
        hosts=side.groups.members([group], left_s()).done.get(group),
        changed_ms=changed_ms,
    )


def status_key(subject: status_records.Subject) -> str:
    """Of a connector's or task's status in `Workers.changed_ms`."""
    prefix = status_records.CONNECTOR if isinstance(subject, str) else status_records.TASK
    return f"{prefix}{subject}"


def _read(
    side: sides.OneSide, topic: str, timeout_s: float, *, partitions: int = 1
) -> list[state_topics.TopicRecord]:
    try:
        return side.topics.read_topic(topic, timeout_s, partitions=partitions)
    except kafka_errors.TopicMissingError:
        return []
