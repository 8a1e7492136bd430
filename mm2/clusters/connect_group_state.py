"""Reads the state of a flow's Connect group from its config and status topics on the target
cluster.

No worker needs to be running.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.storage import status_records
from connect_runtime.storage.cluster_config_state import ClusterConfigState
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.status_records import StatusSubject
from connect_runtime.storage.status_topic import StatusSnapshot, StatusTopicState
from mm2.clusters.flow_cluster_pair import FlowSide
from mm2.kafka.kafka_client_interfaces import RecordHandler, TopicRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupSnapshot:
    """State of a flow's Connect group."""

    config: ClusterConfigState
    statuses: StatusSnapshot
    hosts: tuple[str, ...] | None
    """Host of each group member. Empty if no worker is running the flow, even if stored statuses
    say otherwise. None if the cluster did not respond."""
    changed_ms: Mapping[str, int] = field(default_factory=dict)
    """Timestamp of the newest record of each key in the config and status topics."""


def read_connect_group(
    side: FlowSide, props: Mapping[str, str], *, clock: Clock, timeout_s: float
) -> ConnectGroupSnapshot:
    """Read the Connect group's state from its config and status topics. `props` are the worker's
    properties.

    Raises `RetriableError` or `FatalError` if a topic cannot be read.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())

    def compute_remaining_s() -> float:
        return end.remaining_s(clock.now_s())

    changed_ms: dict[str, int] = {}
    configs, statuses = ConfigTopicState(), StatusTopicState()
    topics = [props["config.storage.topic"], props["status.storage.topic"]]
    # Reading a topic that does not exist would wait for it.
    listed = side.topics.list_topics(compute_remaining_s()).intersection(topics)
    found = side.admin.describe_topics(listed, compute_remaining_s())
    if (failure := found.get_first_failure()) is not None:
        raise failure
    described = found.succeeded
    folds: list[ConfigTopicState | StatusTopicState] = [configs, statuses]
    for topic, fold in zip(topics, folds, strict=True):
        if topic not in described:
            continue
        side.topics.read_topic(
            topic,
            compute_remaining_s(),
            _create_record_handler(fold, changed_ms),
            partitions=described[topic].partition_count,
        )
    configs.finish_replay()
    group = props["group.id"]
    return ConnectGroupSnapshot(
        config=configs.snapshot(),
        statuses=statuses.snapshot(),
        hosts=side.groups.list_member_hosts([group], compute_remaining_s()).succeeded.get(group),
        changed_ms=changed_ms,
    )


def _create_record_handler(
    fold: ConfigTopicState | StatusTopicState, changed_ms: dict[str, int]
) -> RecordHandler:
    """Create a function that applies each record to the topic state `fold`, and stores the record's
    timestamp in `changed_ms` under the record's key."""

    def apply_record(record: TopicRecord) -> None:
        fold.apply_record(record.key, record.value, offset=record.offset)
        if record.key is not None:
            changed_ms[record.key.decode("utf-8", "replace")] = record.time_ms

    return apply_record


def build_status_key(subject: StatusSubject) -> str:
    """Build the key of a connector's or task's status in `ConnectGroupSnapshot.changed_ms`."""
    prefix = (
        status_records.CONNECTOR_KEY_PREFIX
        if isinstance(subject, str)
        else status_records.TASK_KEY_PREFIX
    )
    return f"{prefix}{subject}"
