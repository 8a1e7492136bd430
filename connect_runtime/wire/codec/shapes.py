"""Whether a response body has the shape of its kio entity: checked before kio decodes it.

kio's native reader allocates whatever a length field claims, and a claim that is too large ends
the process with no exception. So every length is first checked against the bytes that are there.
The check only walks: runs of fixed-size fields are one step, arrays of them one multiplication.

Two more things that kio does not do: it raises KeyError for a tagged field that it does not know,
which brokers may add to any version (KIP-482), and it reads null where an array may not be null.
The walk finds both: unknown tagged fields are removed, null arrays are refused.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from connect_runtime.wire.codec import varints


class Edit(NamedTuple):
    """The bytes from `start` to `end` of a body are to be replaced with `data`."""

    start: int
    end: int
    data: bytes

    @property
    def shrinks_by(self) -> int:
        return self.end - self.start - len(self.data)


Walk: TypeAlias = Callable[[memoryview, int, list[Edit]], int]
"""Takes (body, position, edits), returns the position after the value; raises IndexError or
ValueError. Appends the edits that remove unknown tagged fields, in order of their positions."""

_FIXED_SIZES = {
    "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4,
    "uint32": 4, "timedelta_i32": 4, "int64": 8, "uint64": 8, "float64": 8, "timedelta_i64": 8,
    "datetime_i64": 8, "uuid": 16,
}  # fmt: skip
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


def readable(entity_type: Any, body: memoryview) -> memoryview:
    """The bytes of one entity that must fill `body`, as kio reads them: without unknown tagged
    fields. It is `body` itself if there are none. Raises IndexError or ValueError on a bad length.
    """
    data, end = readable_part(entity_type, body, 0)
    if end != len(body):
        raise ValueError(f"{len(body) - end} bytes left over")
    return data


def readable_part(entity_type: Any, body: memoryview, position: int) -> tuple[memoryview, int]:
    """(the bytes of the entity at `position`, as `readable` returns them; where it ends in `body`).
    Raises IndexError or ValueError on a bad length.
    """
    edits: list[Edit] = []
    end = _entity(entity_type)(body, position, edits)
    if not edits:
        return body[position:end], end
    data = bytearray()
    for edit in edits:
        data += body[position : edit.start]
        data += edit.data
        position = edit.end
    data += body[position:end]
    return memoryview(data).toreadonly(), end


def _advance(body: memoryview, position: int, size: int) -> int:
    end = position + size
    if end > len(body):
        raise IndexError(f"{size} bytes claimed at {position}, {len(body) - position} left")
    return end


def _fixed(size: int) -> Walk:
    return lambda body, position, edits: _advance(body, position, size)


def _compact_length(body: memoryview, position: int) -> tuple[int, int]:
    """(length, -1 for null; the position after it)."""
    claimed, position = varints.read(body, position)
    return claimed - 1, position


def _legacy_length(width: struct.Struct) -> Callable[[memoryview, int], tuple[int, int]]:
    def read(body: memoryview, position: int) -> tuple[int, int]:
        end = _advance(body, position, width.size)
        (claimed,) = width.unpack_from(body, position)
        return max(-1, claimed), end

    return read


def _sized(read_length: Callable[[memoryview, int], tuple[int, int]]) -> Walk:
    def walk(body: memoryview, position: int, edits: list[Edit]) -> int:
        size, position = read_length(body, position)
        return _advance(body, position, size) if size > 0 else position

    return walk


def _array(item: Walk, item_size: int | None, *, flexible: bool, nullable: bool) -> Walk:
    read_length = _compact_length if flexible else _legacy_length(_I32)

    def walk(body: memoryview, position: int, edits: list[Edit]) -> int:
        at = position
        count, position = read_length(body, position)
        if count < 0:
            if not nullable:
                raise ValueError(f"null at {at}, where an array must be")
            return position
        if item_size is not None:
            return _advance(body, position, count * item_size)
        _advance(body, position, count)  # no item is smaller than a byte
        for _ in range(count):
            position = item(body, position, edits)
        return position

    return walk


def _nullable_entity(walk_entity: Walk) -> Walk:
    def walk(body: memoryview, position: int, edits: list[Edit]) -> int:
        marker, position = body[position], position + 1
        return walk_entity(body, position, edits) if marker == 1 else position

    return walk


def _tags(known: dict[int, Walk]) -> Walk:
    def walk(body: memoryview, position: int, edits: list[Edit]) -> int:
        if body[position] == 0:
            return position + 1
        start, first_edit, removed = position, len(edits), 0
        count, position = varints.read_tag_count(body, position)
        after_count = position
        for _ in range(count):
            field_start = position
            tag, position = varints.read(body, position)
            size_start = position
            size, position = varints.read(body, position)
            end = _advance(body, position, size)
            if tag not in known:
                _remove(edits, first_edit, field_start, end)
                removed += 1
            else:
                inner_edit = len(edits)
                if known[tag](body[:end], position, edits) != end:
                    raise ValueError(f"tagged field {tag} at {position} is not {size} bytes long")
                if len(edits) > inner_edit:
                    shorter = size - sum(each.shrinks_by for each in edits[inner_edit:])
                    edits.insert(inner_edit, Edit(size_start, position, varints.encode(shorter)))
            position = end
        if removed == count:
            edits[first_edit:] = [Edit(start, position, b"\x00")]
        elif removed:
            edits.insert(first_edit, Edit(start, after_count, varints.encode(count - removed)))
        return position

    return walk


def _remove(edits: list[Edit], first_edit: int, start: int, end: int) -> None:
    """Append the removal of these bytes, as one edit with a removal that ends at `start`.
    Edits before `first_edit` are not changed: they belong to another section."""
    if len(edits) > first_edit and edits[-1].end == start and not edits[-1].data:
        start = edits.pop().start
    edits.append(Edit(start, end, b""))


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
        return _array(walk, size, flexible=flexible, nullable=optional), None
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

    def walk_all(body: memoryview, position: int, edits: list[Edit]) -> int:
        for step in steps:
            position = step(body, position, edits)
        return position

    return walk_all
