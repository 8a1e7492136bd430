"""Parses and formats connector offsets in the form that REST requests use.

A sink offset consists of a partition, such as `{"kafka_topic": "t", "kafka_partition": 3}`, and an
offset, such as `{"kafka_offset": 1000}`. Source offsets are normalized: a connector's
`alter_offsets` receives the same values that its tasks will later read from the offset store. Java:
SinkUtils, OffsetUtils.validateFormat, Worker.normalizeSourceConnectorOffsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

from connect_runtime.api.errors import DataError
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage import java_hash_map_json
from connect_runtime.storage.offset_topic import OffsetPrimitive, SourceOffset, SourcePartition

TOPIC_FIELD = "kafka_topic"
PARTITION_FIELD = "kafka_partition"
OFFSET_FIELD = "kafka_offset"

_INTEGER_PATTERN = re.compile(r"[+-]?0*\d{1,19}")
_INT32_RANGE = range(-(2**31), 2**31)
_INT64_RANGE = range(java_hash_map_json.INT64_MIN, java_hash_map_json.INT64_MAX + 1)

SinkOffsetPair = tuple["Mapping[str, object] | None", "Mapping[str, object] | None"]


class InvalidSinkOffsetError(FatalError):
    """Raised if a sink partition or offset in a request is malformed. The message is the same as in
    Java."""


def parse_sink_offsets(given: Iterable[SinkOffsetPair]) -> dict[TopicPartition, int | None]:
    """Parse the sink offsets of a request into offsets by partition. An offset of None requests the
    deletion of the committed offset.

    Numbers may be strings. If a partition is repeated, the last entry is used. Negative offsets are
    accepted; see `find_negative_offset`. Raises `InvalidSinkOffsetError`.
    """
    return {_parse_partition(partition): _parse_offset(offset) for partition, offset in given}


def _parse_partition(given: Mapping[str, object] | None) -> TopicPartition:
    if given is None:
        raise InvalidSinkOffsetError(
            "The partition for a sink connector offset cannot be null or missing"
        )
    if TOPIC_FIELD not in given or PARTITION_FIELD not in given:
        raise InvalidSinkOffsetError(
            f"The partition for a sink connector offset must contain the keys '{TOPIC_FIELD}' and "
            f"'{PARTITION_FIELD}'"
        )
    if given[TOPIC_FIELD] is None:
        raise InvalidSinkOffsetError("Kafka topic names must be valid strings and may not be null")
    if given[PARTITION_FIELD] is None:
        raise InvalidSinkOffsetError("Kafka partitions must be valid numbers and may not be null")
    number = _parse_integer(given[PARTITION_FIELD], _INT32_RANGE)
    if number is None:
        raise InvalidSinkOffsetError(
            "Failed to parse the following Kafka partition value in the provided offsets: "
            f"'{_format_java_value(given[PARTITION_FIELD])}'. Partition values for sink "
            "connectors need to be "
            "integers."
        )
    return TopicPartition(_format_java_value(given[TOPIC_FIELD]), number)


def _parse_offset(given: Mapping[str, object] | None) -> int | None:
    if given is None:
        return None
    if OFFSET_FIELD not in given:
        raise InvalidSinkOffsetError(
            "The offset for a sink connector should either be null or contain the key "
            f"'{OFFSET_FIELD}'"
        )
    number = _parse_integer(given[OFFSET_FIELD], _INT64_RANGE)
    if number is None:
        raise InvalidSinkOffsetError(
            "Failed to parse the following Kafka offset value in the provided offsets: "
            f"'{_format_java_value(given[OFFSET_FIELD])}'. Offset values for sink connectors "
            "need to be integers."
        )
    return number


def _parse_integer(value: object, bounds: range) -> int | None:
    text = _format_java_value(value)
    if _INTEGER_PATTERN.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in bounds else None


def _format_java_value(value: object) -> str:
    """Format a JSON value as Java's `String.valueOf` does."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return java_hash_map_json.format_java_double(value).strip('"')
        case list() | tuple():
            return f"[{', '.join(map(_format_java_value, value))}]"
        case Mapping():
            pairs = (f"{name}={_format_java_value(each)}" for name, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        case _:
            return str(value)


def find_negative_offset(offsets: Mapping[TopicPartition, int | None]) -> TopicPartition | None:
    """Return the first partition whose offset is negative; None if no offset is negative."""
    return next(
        (each for each, offset in offsets.items() if offset is not None and offset < 0), None
    )


def format_sink_offsets(
    offsets: Mapping[TopicPartition, int],
) -> list[tuple[dict[str, object], dict[str, object]]]:
    """Format sink offsets as pairs of partition and offset fields, sorted by topic and
    partition."""
    return [
        ({TOPIC_FIELD: place.topic, PARTITION_FIELD: place.partition}, {OFFSET_FIELD: offset})
        for place, offset in sorted(offsets.items())
    ]


SourceOffsetPair = tuple["Mapping[str, object] | None", "Mapping[str, object] | None"]
NormalizedSourceOffset = tuple["SourcePartition | None", "SourceOffset | None"]


def normalize_source_offsets(given: Iterable[SourceOffsetPair]) -> list[NormalizedSourceOffset]:
    """Normalize source offsets by encoding and decoding them as JSON, with fields in the order of
    Java's HashMap.

    A partition may be None. An offset of None requests the deletion of the stored offset. Raises
    `DataError` for nested values.
    """
    return [
        (_normalize_fields(partition), _normalize_fields(offset)) for partition, offset in given
    ]


def _normalize_fields(value: Mapping[str, object] | None) -> dict[str, OffsetPrimitive] | None:
    if value is None:
        return None
    for name, each in value.items():
        invalid_type = _find_non_primitive_type(each)
        if invalid_type is not None:
            raise DataError(
                "Offsets may only contain primitive types as values, but field "
                f"{name} contains {invalid_type}"
            )
    ordered = java_hash_map_json.order_entries_like_java_hash_map(
        cast(Mapping[str, OffsetPrimitive], value)
    )
    return cast(
        dict[str, OffsetPrimitive],
        java_hash_map_json.decode_json(java_hash_map_json.encode_json(ordered)),
    )


def _find_non_primitive_type(value: object) -> str | None:
    """Return the value's Java type name if offsets must not contain values of this type; otherwise
    None."""
    match value:
        case int() if not java_hash_map_json.INT64_MIN <= value <= java_hash_map_json.INT64_MAX:
            return "class java.math.BigInteger"
        case None | bool() | int() | float() | str() | bytes():
            return None
        case Mapping():
            return "MAP"
        case list() | tuple():
            return "ARRAY"
        case _:
            return f"class {type(value).__qualname__}"
