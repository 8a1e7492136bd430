"""Whether a response body has the shape of its kio entity: checked before kio decodes it.

kio's native reader allocates whatever a length field claims, and a claim that is too large ends
the process with no exception. So every length is first held against the bytes that are there.
The check only walks: runs of fixed-size fields are one step, arrays of them one multiplication.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import types
import typing
from collections.abc import Callable
from typing import Any, TypeAlias

from connect_runtime.wire.codec import varints

Walk: TypeAlias = Callable[[memoryview, int], int]
"""Takes (body, position), returns the position after the value; raises IndexError or ValueError."""

_FIXED_SIZES = {
    "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4,
    "uint32": 4, "timedelta_i32": 4, "int64": 8, "uint64": 8, "float64": 8, "timedelta_i64": 8,
    "datetime_i64": 8, "uuid": 16,
}  # fmt: skip
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


def check(entity_type: Any, body: memoryview) -> None:
    """Walk one entity that must fill `body`; raises IndexError or ValueError on a bad length."""
    end = _entity(entity_type)(body, 0)
    if end != len(body):
        raise ValueError(f"{len(body) - end} bytes left over")


def skip(entity_type: Any, body: memoryview, position: int) -> int:
    """Walk one entity of several; returns where it ends. Raises IndexError or ValueError."""
    return _entity(entity_type)(body, position)


def _advance(body: memoryview, position: int, size: int) -> int:
    end = position + size
    if end > len(body):
        raise IndexError(f"{size} bytes claimed at {position}, {len(body) - position} left")
    return end


def _fixed(size: int) -> Walk:
    return lambda body, position: _advance(body, position, size)


def _compact_length(body: memoryview, position: int) -> tuple[int, int]:
    claimed, position = varints.read(body, position)
    return max(0, claimed - 1), position


def _legacy_length(width: struct.Struct) -> Callable[[memoryview, int], tuple[int, int]]:
    def read(body: memoryview, position: int) -> tuple[int, int]:
        end = _advance(body, position, width.size)
        (claimed,) = width.unpack_from(body, position)
        return max(0, claimed), end

    return read


def _sized(read_length: Callable[[memoryview, int], tuple[int, int]]) -> Walk:
    def walk(body: memoryview, position: int) -> int:
        size, position = read_length(body, position)
        return _advance(body, position, size)

    return walk


def _array(item: Walk, item_size: int | None, *, flexible: bool) -> Walk:
    read_length = _compact_length if flexible else _legacy_length(_I32)

    def walk(body: memoryview, position: int) -> int:
        count, position = read_length(body, position)
        if item_size is not None:
            return _advance(body, position, count * item_size)
        _advance(body, position, count)  # no item is smaller than a byte
        for _ in range(count):
            position = item(body, position)
        return position

    return walk


def _nullable_entity(walk_entity: Walk) -> Walk:
    def walk(body: memoryview, position: int) -> int:
        marker, position = body[position], position + 1
        return walk_entity(body, position) if marker == 1 else position

    return walk


def _tags(known: dict[int, Walk]) -> Walk:
    def walk(body: memoryview, position: int) -> int:
        count, position = varints.read(body, position)
        for _ in range(count):
            tag, position = varints.read(body, position)
            size, position = varints.read(body, position)
            end = _advance(body, position, size)
            if tag in known and known[tag](body[:end], position) != end:
                raise ValueError(f"tagged field {tag} at {position} is not {size} bytes long")
            position = end
        return position

    return walk


def _primitive(kafka_type: str, *, flexible: bool) -> tuple[Walk, int | None]:
    """(walk, size if fixed)."""
    if kafka_type in _FIXED_SIZES:
        return _fixed(_FIXED_SIZES[kafka_type]), _FIXED_SIZES[kafka_type]
    assert kafka_type in {"string", "bytes", "records"}, kafka_type
    if flexible:
        return _sized(_compact_length), None
    return _sized(_legacy_length(_I16 if kafka_type == "string" else _I32)), None


def _field(hint: Any, kafka_type: str | None, *, flexible: bool) -> tuple[Walk, int | None]:
    """The walk of one field, from its annotation and the Kafka type in its metadata."""
    optional = typing.get_origin(hint) in {types.UnionType, typing.Union}
    if optional:
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    is_array = typing.get_origin(hint) is tuple
    if is_array:
        hint = typing.get_args(hint)[0]
    if kafka_type is not None:
        walk, size = _primitive(kafka_type, flexible=flexible)
    else:
        walk, size = _entity(hint), None
    if is_array:
        return _array(walk, size, flexible=flexible), None
    if kafka_type is None and optional:
        return _nullable_entity(walk), None
    return walk, size


@functools.cache
def _entity(entity_type: Any) -> Walk:
    hints = typing.get_type_hints(entity_type)
    flexible: bool = entity_type.__flexible__
    steps: list[Walk] = []
    tagged: dict[int, Walk] = {}
    run = 0
    for field in dataclasses.fields(entity_type):
        kafka_type = field.metadata.get("kafka_type")
        walk, size = _field(hints[field.name], kafka_type, flexible=flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = walk
        elif size is not None:
            run += size
        else:
            steps += [_fixed(run), walk] if run else [walk]
            run = 0
    if run:
        steps.append(_fixed(run))
    if flexible:
        steps.append(_tags(tagged))

    def walk_all(body: memoryview, position: int) -> int:
        for step in steps:
            position = step(body, position)
        return position

    return walk_all
