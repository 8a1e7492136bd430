"""The Connect group of a flow as its topics on the target tell of it: nobody need be running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.core.state import cluster_config, config_log, status_log, status_records
from mm2.app.looks import sides


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
    topics = [props["config.storage.topic"], props["status.storage.topic"]]
    # Whoever reads a topic waits for it: those that are not there are not read.
    listed = side.topics.list_topics(left_s()).intersection(topics)
    found = side.admin.describe_topics(listed, left_s())
    if (failure := found.first_failure()) is not None:
        raise failure
    described = found.done
    folds: list[config_log.ConfigLog | status_log.StatusLog] = [configs, statuses]
    for topic, fold in zip(topics, folds, strict=True):
        if topic not in described:
            continue
        partitions = described[topic].partitions
        for record in side.topics.read_topic(topic, left_s(), partitions=partitions):
            fold.apply(record.key, record.value, offset=record.offset)
            if record.key is not None:
                changed_ms[record.key.decode("utf-8", "replace")] = record.time_ms
    configs.finish_replay()
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
