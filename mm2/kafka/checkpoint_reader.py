"""Reads MirrorMaker 2's checkpoints topic of one source cluster from the target cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.formats import mirrormaker2_records
from mm2.formats.primitive_types import MalformedRecordError, UnknownRecordVersionError
from mm2.kafka.kafka_client_interfaces import RecordHandler, StateTopics, TopicRecord
from mm2.kafka.state_topic_reader import RecordApplier
from mm2.offsets.checkpoint_rules import CheckpointTable, NamePredicate
from mm2.topics.replication_policy import ReplicationPolicy


class CheckpointWriteTimes:
    """Write time of the last checkpoint of each group and partition (UTC milliseconds)."""

    def __init__(self) -> None:
        self.newest_ms: int | None = None
        """Time of the newest checkpoint of all groups; None if no checkpoint exists."""
        self._found: dict[str, dict[TopicPartition, int]] = {}

    def record_checkpoint(self, record: TopicRecord) -> None:
        """Store the timestamp of a checkpoint record as the write time of its group and
        partition."""
        if record.time_ms < 0 or record.key is None:
            return
        self.newest_ms = max(self.newest_ms or 0, record.time_ms)
        with contextlib.suppress(MalformedRecordError):
            about = mirrormaker2_records.decode_checkpoint_key(record.key)
            self._found.setdefault(about.group, {})[about.partition] = record.time_ms

    def get_checkpoint_write_times(self, group: str) -> Mapping[TopicPartition, int]:
        """Return the write times of one group's checkpoints, by target partition."""
        return self._found.get(group, {})


def read_checkpoints(
    topics: StateTopics,
    policy: ReplicationPolicy,
    remote_alias: str,
    *,
    group_filter: NamePredicate,
    clock: Clock,
    timeout_s: float,
    on_record: RecordHandler = lambda _: None,
) -> CheckpointTable:
    """Read the checkpoints of the groups that `group_filter` accepts. Each record read is also
    passed to `on_record`. `CheckpointTable.explain_unreadable_checkpoint` reports groups whose
    checkpoints cannot be read.

    Raises `TopicMissingError` with the existing checkpoints topics if no checkpoints topic exists
    for `remote_alias`. Also raises `RetriableError` and `FatalError`.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    topic = policy.checkpoints_topic(remote_alias)
    listed = topics.list_topics(timeout_s)
    if topic not in listed:
        others = sorted(filter(policy.is_checkpoints_topic, listed))
        raise TopicMissingError(
            f"translating offsets of {remote_alias}: topic {topic} does not exist on this cluster; "
            f"existing checkpoints topics: {', '.join(others) or 'none'}. Check that this is "
            "the target cluster, that the alias and replication.policy.* are those of "
            "the flow, and that DESCRIBE on the topic is authorized"
        )
    found = CheckpointTable(group_filter=group_filter)
    handler = _CheckpointHandler(found, on_record)
    topics.read_topic(topic, end.remaining_s(clock.now_s()), handler.apply_record)
    return found


def check_group_readable(table: CheckpointTable, group: str) -> None:
    """Raise `FatalError` if a current checkpoint of the group cannot be read."""
    reason = table.explain_unreadable_checkpoint(group)
    if reason:
        raise FatalError(f"group {group}: {reason}")


class _CheckpointHandler:
    """Applies the records of a checkpoints topic to a table, and passes them to `on_record`.

    Records that are not checkpoints are skipped, as in Java. A checkpoint of an unknown version
    makes its group unreadable, because the checkpoint that it replaces is outdated.
    """

    def __init__(self, table: CheckpointTable, on_record: RecordHandler) -> None:
        self._table = table
        self._on_record = on_record
        self._applier = RecordApplier(self._apply_checkpoint)
        self._where = ""

    def apply_record(self, record: TopicRecord) -> None:
        """Apply one record, or skip it."""
        self._where = f"reading {record.topic}: the record at offset {record.offset}"
        self._applier.apply_record(record)
        self._on_record(record)

    def _apply_checkpoint(self, key: bytes, value: bytes | None) -> None:
        try:
            self._table.apply_record(key, value)
        except UnknownRecordVersionError as error:
            self._table.mark_checkpoint_unreadable(
                key,
                f"{self._where} was written by a newer release ({error}): use that release's "
                "client, or wait until the flow has replaced the checkpoint",
            )
