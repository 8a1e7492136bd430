"""What a group's offsets have been, one after the other: its coordinator's own log, read."""

from __future__ import annotations

import itertools
import struct

from connect_runtime.base.ids import TopicPartition
from tests.support import kafka
from tests.support.kafka import Properties

_TOPIC = "__consumer_offsets"
_OFFSET_COMMIT = (0, 1)
_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_VALUE = struct.Struct(">hq")


def of(client: Properties, group: str, place: TopicPartition) -> list[int | None]:
    """None: they were taken away."""
    number = _java_hash(group) % kafka.partition_count(client, _TOPIC)
    return [
        None if each.value is None else int(_VALUE.unpack_from(each.value)[1])
        for each in kafka.read_partition(client, _TOPIC, number, isolation="read_committed")
        if each.key is not None and _about(each.key) == (group, place)
    ]


def set_back(history: list[int | None]) -> list[tuple[int, int]]:
    """Each step that goes back."""
    told = [each for each in history if each is not None]
    return [pair for pair in itertools.pairwise(told) if pair[1] < pair[0]]


def _about(key: bytes) -> tuple[str, TopicPartition] | None:
    if _SHORT.unpack_from(key)[0] not in _OFFSET_COMMIT:
        return None
    group, at = _text(key, _SHORT.size)
    topic, at = _text(key, at)
    return group, TopicPartition(topic, int(_INT.unpack_from(key, at)[0]))


def _text(data: bytes, at: int) -> tuple[str, int]:
    at, size = at + _SHORT.size, int(_SHORT.unpack_from(data, at)[0])
    return data[at : at + size].decode(), at + size


def _java_hash(text: str) -> int:
    """`Utils.abs(text.hashCode())`."""
    found = 0
    for unit in struct.unpack(f">{len(text)}H", text.encode("utf-16-be")):
        found = (31 * found + unit) & 0xFFFF_FFFF
    return abs(found - (1 << 32) if found >> 31 else found)
