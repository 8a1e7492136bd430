"""Offsets of a sink connector as users see and give them; in truth those of its consumer group.

`{"kafka_topic": "t", "kafka_partition": 3}` and `{"kafka_offset": 1000}`. Java: SinkUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from connect_runtime.base import errors, ids
from connect_runtime.core.state import json_bytes

TOPIC = "kafka_topic"
PARTITION = "kafka_partition"
OFFSET = "kafka_offset"

_INTEGER = re.compile(r"[+-]?0*\d{1,19}")
_INT32 = range(-(2**31), 2**31)
_INT64 = range(json_bytes.INT64_MIN, json_bytes.INT64_MAX + 1)

Given = tuple["Mapping[str, object] | None", "Mapping[str, object] | None"]


class InvalidOffset(errors.FatalError):
    """A sink's partition or offset is not of the form that it must have; in Java's words."""


def parse(given: Iterable[Given]) -> dict[ids.TopicPartition, int | None]:
    """By partition, the offset that it is to get; None: it is to have none any more.

    Numbers may come as text. Of a partition that is named twice the last counts. An offset may be
    below 0 here: `first_negative` says so. Raises `InvalidOffset`.
    """
    return {_partition(partition): _offset(offset) for partition, offset in given}


def _partition(given: Mapping[str, object] | None) -> ids.TopicPartition:
    if given is None:
        raise InvalidOffset("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in given or PARTITION not in given:
        raise InvalidOffset(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and "
            f"'{PARTITION}'"
        )
    if given[TOPIC] is None:
        raise InvalidOffset("Kafka topic names must be valid strings and may not be null")
    if given[PARTITION] is None:
        raise InvalidOffset("Kafka partitions must be valid numbers and may not be null")
    number = _number(given[PARTITION], _INT32)
    if number is None:
        raise InvalidOffset(
            "Failed to parse the following Kafka partition value in the provided offsets: "
            f"'{_shown(given[PARTITION])}'. Partition values for sink connectors need to be "
            "integers."
        )
    return ids.TopicPartition(_shown(given[TOPIC]), number)


def _offset(given: Mapping[str, object] | None) -> int | None:
    if given is None:
        return None
    if OFFSET not in given:
        raise InvalidOffset(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
        )
    number = _number(given[OFFSET], _INT64)
    if number is None:
        raise InvalidOffset(
            "Failed to parse the following Kafka offset value in the provided offsets: "
            f"'{_shown(given[OFFSET])}'. Offset values for sink connectors need to be integers."
        )
    return number


def _number(value: object, bounds: range) -> int | None:
    text = _shown(value)
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in bounds else None


def _shown(value: object) -> str:
    """`String.valueOf` of what JSON can hold."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return json_bytes.java_double(value).strip('"')
        case list() | tuple():
            return f"[{', '.join(map(_shown, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{name}={_shown(each)}' for name, each in value.items())}}}"
        case _:
            return str(value)


def first_negative(offsets: Mapping[ids.TopicPartition, int | None]) -> ids.TopicPartition | None:
    """A partition that cannot get the offset which it is to get."""
    return next(
        (each for each, offset in offsets.items() if offset is not None and offset < 0), None
    )


def shown(
    offsets: Mapping[ids.TopicPartition, int],
) -> list[tuple[dict[str, object], dict[str, object]]]:
    """As pairs of partition and offset in a user's form, in the order of topics and partitions."""
    return [
        ({TOPIC: place.topic, PARTITION: place.partition}, {OFFSET: offset})
        for place, offset in sorted(offsets.items())
    ]
