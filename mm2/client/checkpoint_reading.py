"""The checkpoints of one source, read from the cluster mirrored to."""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import state_topics
from mm2.core import naming
from mm2.core.offsets import checkpoints
from mm2.formats import schema_fields

_LOG = logging.getLogger(__name__)


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
