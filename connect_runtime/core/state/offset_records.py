"""Records of the offsets topic: how far source tasks have read each of their partitions.

The key is the JSON array `["C",{partition}]`, the value the JSON object of the offset, or nothing:
forgotten. A key is found by its bytes, so the order of the partition's fields matters: write them
as the connector gives them, or as Java's HashMap would (`java_map_order`).
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import errors
from connect_runtime.core.state import json_bytes

Primitive: TypeAlias = "bool | int | float | str | bytes | None"
Partition: TypeAlias = Mapping[str, Primitive]
"""What a source reads from, in its own words; may be empty."""
Offset: TypeAlias = Mapping[str, Primitive]
"""How far it has read there, in its own words."""

_KEY_PARTS = 2


class BadOffset(errors.FatalError):
    """A partition or an offset that cannot be stored, or a stored one that cannot be used."""


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Whose partition it is; a connector may keep an offset for no partition at all (None)."""

    connector: str
    partition: Partition | None


def encode_key(connector: str, partition: Partition | None) -> bytes:
    """Raises `BadOffset` where the partition is not flat."""
    checked = None if partition is None else _flat(partition, f"a partition of '{connector}'")
    return _encoded([connector, checked], f"a partition of '{connector}'")


def encode_value(offset: Offset | None, *, connector: str = "") -> bytes | None:
    """None deletes. Raises `BadOffset` where the offset is not flat."""
    if offset is None:
        return None
    what = f"an offset of '{connector}'"
    return _encoded(_flat(offset, what), what)


def _encoded(value: json_bytes.Json, what: str) -> bytes:
    try:
        return json_bytes.encode(value)
    except json_bytes.Unencodable as error:
        raise BadOffset(f"{what}: {error}") from error


def _flat(value: object, what: str) -> dict[str, Primitive]:
    if not isinstance(value, Mapping):
        raise BadOffset(f"{what} is {type(value).__name__}; it must be a map")
    for name, each in value.items():
        if not isinstance(name, str):
            raise BadOffset(f"{what} has a field whose name is {type(name).__name__}, no string")
        if not isinstance(each, bool | int | float | str | bytes | None):
            raise BadOffset(
                f"{what}: the field '{name}' is {type(each).__name__}; it may be a boolean,"
                " a number, a string, bytes or nothing"
            )
    return dict(value)


def decode_key(key: bytes | None) -> OffsetKey:
    """Raises `BadOffset` where it is no key of an offset."""
    if key is None:
        raise BadOffset("an offset without key")
    try:
        parts = json_bytes.decode(key)
    except json_bytes.Malformed as error:
        raise BadOffset(f"a key of an offset that is no JSON: {error}") from error
    if not isinstance(parts, list) or len(parts) != _KEY_PARTS:
        raise BadOffset("a key of an offset that is no pair of connector and partition")
    connector, partition = parts
    if not isinstance(connector, str):
        raise BadOffset(f"a key of an offset whose connector is {json_bytes.kind(connector)}")
    if not isinstance(partition, Mapping | None):
        raise BadOffset(
            f"a key of an offset of '{connector}' whose partition is {json_bytes.kind(partition)}"
        )
    if partition is None:
        return OffsetKey(connector, None)
    return OffsetKey(connector, _flat(partition, f"a stored partition of '{connector}'"))


def decode_value(value: bytes | None, *, connector: str = "") -> dict[str, Primitive] | None:
    """Raises `BadOffset` where it is no offset."""
    try:
        offset = json_bytes.decode(value)
    except json_bytes.Malformed as error:
        raise BadOffset(f"a stored offset of '{connector}' is no JSON: {error}") from error
    return None if offset is None else _flat(offset, f"a stored offset of '{connector}'")


def canonical(key: OffsetKey) -> Hashable:
    """The same for keys that differ in nothing but the order of their fields.

    Bytes are what they are stored as. Raises `BadOffset` where a field cannot be hashed, for then
    it cannot be stored either.
    """
    if key.partition is None:
        return key.connector, None
    fields = ((name, *_stored(value)) for name, value in key.partition.items())
    try:
        return key.connector, frozenset(fields)
    except TypeError as error:
        raise BadOffset(f"a partition of '{key.connector}' has a field that is no value") from error


def _stored(value: Primitive) -> tuple[type, Primitive]:
    if isinstance(value, bytes):
        return str, base64.b64encode(value).decode()
    return type(value), value
