"""Connect source offsets of the three mirror connectors: format, and validation of REST changes.

Keys of an offset topic are compared byte by byte, so maps keep the order in which Java's hash
maps write them. Alterations are validated like Java's `MirrorUtils`; removing an offset is
always allowed, so invalid entries can be cleaned up.
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
    """Of MirrorSourceConnector: `cluster` is the source's alias, the topic is named as there."""
    return {CLUSTER_KEY: cluster, PARTITION_KEY: partition.partition, TOPIC_KEY: partition.topic}


def build_checkpoint_partition(group: str, partition: TopicPartition) -> dict[str, Any]:
    """Of MirrorCheckpointConnector: the topic is named as on the target."""
    return {PARTITION_KEY: partition.partition, TOPIC_KEY: partition.topic, GROUP_KEY: group}


def read_next_offset(stored: Mapping[str, Any] | None) -> int | None:
    """Where to go on: behind the last mirrored record. None: it was never mirrored.

    Java stores the last offset that the target has acknowledged.
    """
    found = None if stored is None else stored.get(OFFSET_KEY)
    return found + 1 if isinstance(found, int) and found >= 0 else None


def build_source_offset(position: int) -> dict[str, int]:
    """What Java stores when `position` is the next record to mirror; it has to be above 0."""
    assert position > 0, position
    return {OFFSET_KEY: position - 1}


def find_start_positions(
    offsets: Sequence[SourceOffset], *, cluster: str, start: str
) -> dict[TopicPartition, str]:
    """Where partitions of `cluster` begin anew when their source offsets are altered to these: the
    positions of an operator's request (`NewEraRequest`). `start` is for those that are removed, the
    flow's own. What is no partition's is left out; for others see `check_source_offsets`."""
    found: dict[TopicPartition, str] = {}
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
            found[TopicPartition(topic, number)] = position
    return found


def check_source_offsets(offsets: Sequence[SourceOffset]) -> None:
    """For `alter_offsets`. Raises `ConnectError`, which has Java's words."""
    for each in offsets:
        if each.offset is not None:
            partition = _require_partition(each)
            _check_string_key(partition, CLUSTER_KEY)
            _check_string_key(partition, TOPIC_KEY)
            _check_partition_number(partition)
            _check_offset(each, only_zero=False)


def check_checkpoint_offsets(offsets: Sequence[SourceOffset]) -> None:
    """As `check_source_offsets`; the offset, which nobody reads, has to be 0."""
    for each in offsets:
        if each.offset is not None:
            partition = _require_partition(each)
            _check_string_key(partition, GROUP_KEY)
            _check_string_key(partition, TOPIC_KEY)
            _check_partition_number(partition)
            _check_offset(each, only_zero=True)


def check_heartbeat_offsets(offsets: Sequence[SourceOffset]) -> None:
    """As `check_checkpoint_offsets`."""
    for each in offsets:
        if each.offset is not None:
            partition = _require_partition(each)
            _check_string_key(partition, heartbeat_schedule.SOURCE_ALIAS_KEY)
            _check_string_key(partition, heartbeat_schedule.TARGET_ALIAS_KEY)
            _check_offset(each, only_zero=True)


def _require_partition(each: SourceOffset) -> Mapping[str, Any]:
    if each.partition is None:
        raise ConnectError("Source partitions may not be null")
    return each.partition


def _check_string_key(partition: Mapping[str, Any], key: str) -> None:
    value = _require_key(partition, key)
    if not isinstance(value, str):
        raise _invalid_key_error(partition, key, value, why="must be a string")


def _check_partition_number(partition: Mapping[str, Any]) -> None:
    value = _require_key(partition, PARTITION_KEY)
    if not _is_integer(value) or value > _INT_MAX:
        raise _invalid_key_error(partition, PARTITION_KEY, value, why="must be an integer")
    if value < 0:
        raise _invalid_key_error(partition, PARTITION_KEY, value, why="cannot be negative")


def _require_key(partition: Mapping[str, Any], key: str) -> Any:
    if key not in partition:
        raise ConnectError(
            f"Source partition {_format_java_map(partition)} is missing the '{key}' key, which "
            "is required"
        )
    return partition[key]


def _invalid_key_error(
    partition: Mapping[str, Any], key: str, value: object, *, why: str
) -> ConnectError:
    return ConnectError(
        f"Source partition {_format_java_map(partition)} has an invalid value "
        f"{_format_java_value(value)} for the "
        f"'{key}' key, which {why}"
    )


def _check_offset(each: SourceOffset, *, only_zero: bool) -> None:
    assert each.offset is not None
    assert each.partition is not None
    told = f"Source offset {_format_java_map(each.offset)} for source partition {_format_java_map(each.partition)}"
    if OFFSET_KEY not in each.offset:
        raise ConnectError(f"{told} is missing the '{OFFSET_KEY}' key, which is required")
    value = each.offset[OFFSET_KEY]
    wrong = f"{told} has an invalid value {_format_java_value(value)} for the '{OFFSET_KEY}' key"
    if not _is_integer(value):
        raise ConnectError(f"{wrong}, which must be an integer")
    if only_zero and value != 0:
        raise ConnectError(f"{wrong}; the only accepted value is 0")
    if value < 0:
        raise ConnectError(f"{wrong}, which cannot be negative")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _format_java_map(value: Mapping[str, Any]) -> str:
    """As Java prints a map."""
    return "{" + ", ".join(f"{key}={_format_java_value(each)}" for key, each in value.items()) + "}"


def _format_java_value(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
