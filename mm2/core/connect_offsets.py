"""The Connect source offsets of the three mirror connectors: their maps, and what users may change.

Keys of an offset topic are compared by their bytes, so the maps are in the order in which Java's
hash maps write them. What may be altered over REST is checked as Java's `MirrorUtils` checks it; a
removal is always allowed, so that rubbish can be cleaned up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import errors, records
from connect_runtime.base import ids
from mm2.core import heartbeats
from mm2.formats import map_record

CLUSTER, TOPIC, PARTITION, GROUP = "cluster", "topic", "partition", "group"
OFFSET = "offset"
_INT_MAX = 2**31 - 1


def source_partition(cluster: str, partition: ids.TopicPartition) -> dict[str, Any]:
    """Of MirrorSourceConnector: `cluster` is the source's alias, the topic is named as there."""
    return {CLUSTER: cluster, PARTITION: partition.partition, TOPIC: partition.topic}


def checkpoint_partition(group: str, partition: ids.TopicPartition) -> dict[str, Any]:
    """Of MirrorCheckpointConnector: the topic is named as on the target."""
    return {PARTITION: partition.partition, TOPIC: partition.topic, GROUP: group}


def next_offset(stored: Mapping[str, Any] | None) -> int | None:
    """Where to go on: behind the last mirrored record. None: it was never mirrored.

    Java stores the last offset that the target has acknowledged.
    """
    found = None if stored is None else stored.get(OFFSET)
    return found + 1 if isinstance(found, int) and found >= 0 else None


def last_offset(position: int) -> dict[str, int]:
    """What Java stores when `position` is the next record to mirror; it has to be above 0."""
    assert position > 0, position
    return {OFFSET: position - 1}


def beginnings(
    offsets: Sequence[records.SourceOffset], *, cluster: str, start: str
) -> dict[ids.TopicPartition, str]:
    """Where partitions of `cluster` begin anew when their source offsets are altered to these: the
    positions of an operator's request (`map_record.Request`). `start` is for those that are
    removed, the flow's own. What is no partition's is left out; for others see `check_source`."""
    found: dict[ids.TopicPartition, str] = {}
    for each in offsets:
        partition = each.partition or {}
        topic, number = partition.get(TOPIC), partition.get(PARTITION)
        if partition.get(CLUSTER) == cluster and isinstance(topic, str) and isinstance(number, int):
            after = next_offset(each.offset)
            position = start if after is None else f"{map_record.AT_OFFSET}{after}"
            found[ids.TopicPartition(topic, number)] = position
    return found


def check_source(offsets: Sequence[records.SourceOffset]) -> None:
    """For `alter_offsets`. Raises `ConnectError`, which has Java's words."""
    for each in offsets:
        if each.offset is not None:
            partition = _partition_of(each)
            _check_text(partition, CLUSTER)
            _check_text(partition, TOPIC)
            _check_number(partition)
            _check_offset(each, only_zero=False)


def check_checkpoints(offsets: Sequence[records.SourceOffset]) -> None:
    """As `check_source`; the offset, which nobody reads, has to be 0."""
    for each in offsets:
        if each.offset is not None:
            partition = _partition_of(each)
            _check_text(partition, GROUP)
            _check_text(partition, TOPIC)
            _check_number(partition)
            _check_offset(each, only_zero=True)


def check_heartbeats(offsets: Sequence[records.SourceOffset]) -> None:
    """As `check_checkpoints`."""
    for each in offsets:
        if each.offset is not None:
            partition = _partition_of(each)
            _check_text(partition, heartbeats.SOURCE_KEY)
            _check_text(partition, heartbeats.TARGET_KEY)
            _check_offset(each, only_zero=True)


def _partition_of(each: records.SourceOffset) -> Mapping[str, Any]:
    if each.partition is None:
        raise errors.ConnectError("Source partitions may not be null")
    return each.partition


def _check_text(partition: Mapping[str, Any], key: str) -> None:
    value = _found(partition, key)
    if not isinstance(value, str):
        raise _invalid(partition, key, value, why="must be a string")


def _check_number(partition: Mapping[str, Any]) -> None:
    value = _found(partition, PARTITION)
    if not _is_whole(value) or value > _INT_MAX:
        raise _invalid(partition, PARTITION, value, why="must be an integer")
    if value < 0:
        raise _invalid(partition, PARTITION, value, why="cannot be negative")


def _found(partition: Mapping[str, Any], key: str) -> Any:
    if key not in partition:
        raise errors.ConnectError(
            f"Source partition {_shown(partition)} is missing the '{key}' key, which is required"
        )
    return partition[key]


def _invalid(
    partition: Mapping[str, Any], key: str, value: object, *, why: str
) -> errors.ConnectError:
    return errors.ConnectError(
        f"Source partition {_shown(partition)} has an invalid value {_text(value)} for the "
        f"'{key}' key, which {why}"
    )


def _check_offset(each: records.SourceOffset, *, only_zero: bool) -> None:
    assert each.offset is not None
    assert each.partition is not None
    told = f"Source offset {_shown(each.offset)} for source partition {_shown(each.partition)}"
    if OFFSET not in each.offset:
        raise errors.ConnectError(f"{told} is missing the '{OFFSET}' key, which is required")
    value = each.offset[OFFSET]
    wrong = f"{told} has an invalid value {_text(value)} for the '{OFFSET}' key"
    if not _is_whole(value):
        raise errors.ConnectError(f"{wrong}, which must be an integer")
    if only_zero and value != 0:
        raise errors.ConnectError(f"{wrong}; the only accepted value is 0")
    if value < 0:
        raise errors.ConnectError(f"{wrong}, which cannot be negative")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Mapping[str, Any]) -> str:
    """As Java prints a map."""
    return "{" + ", ".join(f"{key}={_text(each)}" for key, each in value.items()) + "}"


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
