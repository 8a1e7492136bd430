"""The checkpoints of one source, read from the cluster mirrored to."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import state_topics
from mm2.core import naming
from mm2.core.offsets import checkpoints
from mm2.formats import checkpoint, schema_fields

_LOG = logging.getLogger(__name__)


class WrittenTimes:
    """When the last checkpoint of each group and partition was written, to be told of each record
    read: UTC milliseconds. `newest_ms` is of all groups, None where there is none."""

    def __init__(self) -> None:
        self.newest_ms: int | None = None
        self._found: dict[str, dict[ids.TopicPartition, int]] = {}

    def note(self, record: state_topics.TopicRecord) -> None:
        if record.time_ms < 0 or record.key is None:
            return
        self.newest_ms = max(self.newest_ms or 0, record.time_ms)
        with contextlib.suppress(schema_fields.MalformedRecordError):
            about = checkpoint.decode_key(record.key)
            self._found.setdefault(about.group, {})[about.partition] = record.time_ms

    def of(self, group: str) -> Mapping[ids.TopicPartition, int]:
        """By the partition's name on the target."""
        return self._found.get(group, {})


def read(
    topics: state_topics.StateTopics,
    policy: naming.ReplicationPolicy,
    remote_alias: str,
    *,
    takes_group: checkpoints.TakesName,
    clock: base_clock.Clock,
    timeout_s: float,
    noted: Callable[[state_topics.TopicRecord], object] = lambda _: None,
) -> checkpoints.CheckpointTable:
    """All or nothing; `noted` is told of each record. Raises `TopicMissingError`, which names the
    topics there are, where there are no checkpoints of `remote_alias`; else `RetriableError` and
    `FatalError`."""
    end = deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    topic = policy.checkpoints_topic(remote_alias)
    listed = topics.list_topics(timeout_s)
    if topic not in listed:
        others = sorted(filter(policy.is_checkpoints_topic, listed))
        raise kafka_errors.TopicMissingError(
            f"translating offsets of {remote_alias}: there is no topic {topic} here; "
            f"checkpoints are in {', '.join(others) or 'no topic at all'}: see that this is "
            "the cluster mirrored to, that the alias and replication.policy.* are those of "
            "the flow, and that we may DESCRIBE the topic"
        )
    found = checkpoints.CheckpointTable(takes_group=takes_group)
    for record in topics.read_topic(topic, end.left_s(clock.now_s())):
        _apply(found, record)
        noted(record)
    return found


def _apply(table: checkpoints.CheckpointTable, record: state_topics.TopicRecord) -> None:
    """What is no checkpoint is passed over, as in Java; a checkpoint that we cannot read is not:
    what it replaces would be taken for the truth."""
    where = f"reading {record.topic}: the record at offset {record.offset}"
    if record.key is None:
        _LOG.warning("%s has no key, so it is no checkpoint; skipping it", where)
        return
    try:
        table.apply(record.key, record.value)
    except schema_fields.UnknownVersionError as error:
        raise errors.FatalError(
            f"{where} was written by a newer release ({error}); use its client"
        ) from None
    except schema_fields.MalformedRecordError as error:
        _LOG.warning("%s is no checkpoint (%s); skipping it", where, error)
