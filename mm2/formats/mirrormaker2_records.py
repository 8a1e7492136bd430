r"""MirrorMaker 2's own records: offset syncs, checkpoints and heartbeats.

Their bytes are exactly those that Java's classes `OffsetSync`, `Checkpoint` and `Heartbeat` read
and write. All three topics are compacted and have one partition.

- `mm2-offset-syncs.<alias>.internal`, on the source or the target as configured: the target
  offset of a source offset. The record has no version.

      key    topic STRING (its name on the source), partition INT32
      value  upstream offset INT64, downstream offset INT64

- `<source alias>.checkpoints.internal`, on the target: a source consumer group's committed
  position as a target offset.

      key    group STRING, topic STRING (its name on the target), partition INT32
      value  version INT16 (0), upstream offset INT64, downstream offset INT64,
             metadata STRING

- `heartbeats`, on the target and replicated from there: at this time, which is also the record's
  timestamp, the flow could write to its target.

      key    source alias STRING, target alias STRING
      value  version INT16 (0), timestamp INT64 (ms)
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition
from mm2.formats import primitive_types
from mm2.formats.primitive_types import FieldReader, MalformedRecordError

MAX_RECORD_OFFSET = 2**63 - 2
"""Highest offset that a record can have: the next offset to consume must fit into an INT64, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """Offset pair: the record at `upstream` of the source's `partition` is at `downstream` on the
    target."""

    partition: TopicPartition
    upstream: int
    downstream: int


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Encode an offset sync to key and value."""
    key = primitive_types.encode_string(sync.partition.topic) + primitive_types.encode_int32(
        sync.partition.partition
    )
    return key, primitive_types.encode_int64(sync.upstream) + primitive_types.encode_int64(
        sync.downstream
    )


def decode_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """Decode an offset sync. Raises `MalformedRecordError`, also for offsets that no record can
    have."""
    fields = FieldReader(value)
    sync = OffsetSync(
        partition=decode_offset_sync_key(key),
        upstream=fields.read_int64(),
        downstream=fields.read_int64(),
    )
    if not (0 <= sync.upstream <= MAX_RECORD_OFFSET and 0 <= sync.downstream <= MAX_RECORD_OFFSET):
        raise MalformedRecordError(
            f"offsets {sync.upstream} and {sync.downstream} are not in 0 to {MAX_RECORD_OFFSET}"
        )
    return sync


def decode_offset_sync_key(key: bytes) -> TopicPartition:
    """Decode the source partition from the key of an offset sync. Raises `MalformedRecordError`."""
    fields = FieldReader(key)
    return TopicPartition(fields.read_string(), fields.read_int32())


CHECKPOINT_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointKey:
    """Key of a checkpoint: group and target partition."""

    group: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A group's translated offset: a group that committed source offset `upstream` continues at
    target offset `downstream`."""

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""
    """Metadata that the group committed with its offset; "" if there is none."""

    @property
    def key(self) -> CheckpointKey:
        return CheckpointKey(group=self.group, partition=self.partition)


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Encode a checkpoint to key and value. Raises `StringTooLongError`."""
    key = (
        primitive_types.encode_string(checkpoint.group)
        + primitive_types.encode_string(checkpoint.partition.topic)
        + primitive_types.encode_int32(checkpoint.partition.partition)
    )
    value = (
        primitive_types.encode_int16(CHECKPOINT_VERSION)
        + primitive_types.encode_int64(checkpoint.upstream)
        + primitive_types.encode_int64(checkpoint.downstream)
        + primitive_types.encode_string(checkpoint.metadata)
    )
    return key, value


def decode_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Decode a checkpoint. Raises `MalformedRecordError` and its subclass
    `UnknownRecordVersionError`."""
    fields = FieldReader(value)
    fields.check_version(CHECKPOINT_VERSION)
    about = decode_checkpoint_key(key)
    return Checkpoint(
        group=about.group,
        partition=about.partition,
        upstream=fields.read_int64(),
        downstream=fields.read_int64(),
        metadata=fields.read_string(),
    )


def decode_checkpoint_key(key: bytes) -> CheckpointKey:
    """Decode the key of a checkpoint. Raises `MalformedRecordError`."""
    fields = FieldReader(key)
    group = fields.read_string()
    return CheckpointKey(
        group=group, partition=TopicPartition(fields.read_string(), fields.read_int32())
    )


HEARTBEAT_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A heartbeat of the flow from one cluster alias to another. `at_ms` is the wall-clock time
    when it was written."""

    source: str
    target: str
    at_ms: int


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """Encode a heartbeat to key and value. Raises `StringTooLongError`."""
    key = primitive_types.encode_string(heartbeat.source) + primitive_types.encode_string(
        heartbeat.target
    )
    return key, primitive_types.encode_int16(HEARTBEAT_VERSION) + primitive_types.encode_int64(
        heartbeat.at_ms
    )


def decode_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    """Decode a heartbeat. Raises `MalformedRecordError` and its subclass
    `UnknownRecordVersionError`."""
    fields = FieldReader(value)
    fields.check_version(HEARTBEAT_VERSION)
    at_ms = fields.read_int64()
    names = FieldReader(key)
    return Heartbeat(source=names.read_string(), target=names.read_string(), at_ms=at_ms)
