"""Format and REST validation of the Connect source offsets of the three mirror connectors.

Keys of an offsets topic are compared byte by byte, so maps are serialized in the order of Java's
hash maps. Alterations are validated as in Java's `MirrorUtils`. Removing an offset is always
allowed, so that invalid entries can be cleaned up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.records import SourceOffset
from connect_runtime.base.ids import TopicPartition
from mm2.connectors import heartbeat_schedule
from mm2.formats import offset_map_records

CLUSTER_KEY, TOPIC_KEY, PARTITION_KEY, GROUP_KEY = "cluster", "topic", "partition", "group"
OFFSET_KEY = "offset"
_INT_MAX = 2**31 - 1


def build_source_partition(cluster: str, partition: TopicPartition) -> dict[str, Any]:
    """Build a source partition of MirrorSourceConnector from the source alias and the topic name on
    the source."""
    return {CLUSTER_KEY: cluster, PARTITION_KEY: partition.partition, TOPIC_KEY: partition.topic}


def build_checkpoint_partition(group: str, partition: TopicPartition) -> dict[str, Any]:
    """Build a source partition of MirrorCheckpointConnector. `partition` contains the topic name on
    the target."""
    return {PARTITION_KEY: partition.partition, TOPIC_KEY: partition.topic, GROUP_KEY: group}


def read_next_offset(stored: Mapping[str, Any] | None) -> int | None:
    """Return the next source offset to replicate, or None if nothing has been replicated.

    As in Java, the stored offset is the last one that the target acknowledged.
    """
    offset = None if stored is None else stored.get(OFFSET_KEY)
    return offset + 1 if isinstance(offset, int) and offset >= 0 else None


def build_source_offset(position: int) -> dict[str, int]:
    """Build the Connect source offset that Java stores when `position` (greater than 0) is the next
    offset to replicate."""
    assert position > 0, position
    return {OFFSET_KEY: position - 1}


def find_start_positions(
    offsets: Sequence[SourceOffset], *, cluster: str, start: str
) -> dict[TopicPartition, str]:
    """Convert altered source offsets to start positions of new eras (generations of the mirror,
    `NewEraRequest`).

    Partitions whose offsets are removed start at the flow's `start` position. Entries of other
    clusters and invalid entries are omitted; `check_source_offsets` rejects invalid entries.
    """
    positions: dict[TopicPartition, str] = {}
    for each in offsets:
        partition = each.partition or {}
        topic, number = partition.get(TOPIC_KEY), partition.get(PARTITION_KEY)
        if (
            partition.get(CLUSTER_KEY) == cluster
            and isinstance(topic, str)
            and isinstance(number, int)
        ):
            after = read_next_offset(each.offset)
            position = (
                start if after is None else f"{offset_map_records.OFFSET_POSITION_PREFIX}{after}"
            )
            positions[TopicPartition(topic, number)] = position
    return positions


def check_source_offsets(offsets: Sequence[SourceOffset]) -> None:
    """Validate altered offsets of MirrorSourceConnector (`alter_offsets`). Raises `ConnectError`
    with Java's messages."""
    for each in offsets:
        if each.offset is not None:
            partition = _require_source_partition(each)
            _check_string_key(partition, CLUSTER_KEY)
            _check_string_key(partition, TOPIC_KEY)
            _check_partition_number(partition)
            _check_altered_offset(each, only_zero=False)


def check_checkpoint_offsets(offsets: Sequence[SourceOffset]) -> None:
    """Validate altered offsets of MirrorCheckpointConnector, which must be 0. Raises `ConnectError`
    with Java's messages."""
    for each in offsets:
        if each.offset is not None:
            partition = _require_source_partition(each)
            _check_string_key(partition, GROUP_KEY)
            _check_string_key(partition, TOPIC_KEY)
            _check_partition_number(partition)
            _check_altered_offset(each, only_zero=True)


def check_heartbeat_offsets(offsets: Sequence[SourceOffset]) -> None:
    """Validate altered offsets of MirrorHeartbeatConnector, which must be 0. Raises `ConnectError`
    with Java's messages."""
    for each in offsets:
        if each.offset is not None:
            partition = _require_source_partition(each)
            _check_string_key(partition, heartbeat_schedule.SOURCE_ALIAS_KEY)
            _check_string_key(partition, heartbeat_schedule.TARGET_ALIAS_KEY)
            _check_altered_offset(each, only_zero=True)


def _require_source_partition(each: SourceOffset) -> Mapping[str, Any]:
    if each.partition is None:
        raise ConnectError("Source partitions may not be null")
    return each.partition


def _check_string_key(partition: Mapping[str, Any], key: str) -> None:
    value = _require_partition_key(partition, key)
    if not isinstance(value, str):
        raise _build_invalid_key_error(partition, key, value, requirement="must be a string")


def _check_partition_number(partition: Mapping[str, Any]) -> None:
    value = _require_partition_key(partition, PARTITION_KEY)
    if not _is_integer(value) or value > _INT_MAX:
        raise _build_invalid_key_error(
            partition, PARTITION_KEY, value, requirement="must be an integer"
        )
    if value < 0:
        raise _build_invalid_key_error(
            partition, PARTITION_KEY, value, requirement="cannot be negative"
        )


def _require_partition_key(partition: Mapping[str, Any], key: str) -> Any:
    if key not in partition:
        raise ConnectError(
            f"Source partition {_format_java_map(partition)} is missing the '{key}' key, which "
            "is required"
        )
    return partition[key]


def _build_invalid_key_error(
    partition: Mapping[str, Any], key: str, value: object, *, requirement: str
) -> ConnectError:
    return ConnectError(
        f"Source partition {_format_java_map(partition)} has an invalid value "
        f"{_format_java_value(value)} for the "
        f"'{key}' key, which {requirement}"
    )


def _check_altered_offset(each: SourceOffset, *, only_zero: bool) -> None:
    assert each.offset is not None
    assert each.partition is not None
    partition = _format_java_map(each.partition)
    subject = f"Source offset {_format_java_map(each.offset)} for source partition {partition}"
    if OFFSET_KEY not in each.offset:
        raise ConnectError(f"{subject} is missing the '{OFFSET_KEY}' key, which is required")
    value = each.offset[OFFSET_KEY]
    message = (
        f"{subject} has an invalid value {_format_java_value(value)} for the '{OFFSET_KEY}' key"
    )
    if not _is_integer(value):
        raise ConnectError(f"{message}, which must be an integer")
    if only_zero and value != 0:
        raise ConnectError(f"{message}; the only accepted value is 0")
    if value < 0:
        raise ConnectError(f"{message}, which cannot be negative")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _format_java_map(value: Mapping[str, Any]) -> str:
    """Format a map like Java's `Map.toString`."""
    return "{" + ", ".join(f"{key}={_format_java_value(each)}" for key, each in value.items()) + "}"


def _format_java_value(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
