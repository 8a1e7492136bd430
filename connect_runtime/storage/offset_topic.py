"""Records of the offsets topic, and their fold: how far source tasks have read each partition.

The key is the JSON array `["C",{partition}]`, the value the JSON object of the offset, or null to
delete it. A key is found by its bytes, so the order of the partition's fields matters: write them
as the connector gives them, or as Java's HashMap would (`java_json`).
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base.errors import FatalError
from connect_runtime.storage import java_json
from connect_runtime.storage.java_json import Json, MalformedJson, UnencodableValue
from connect_runtime.storage.shared_log import SkippedRecord

OffsetPrimitive: TypeAlias = "bool | int | float | str | bytes | None"
SourcePartition: TypeAlias = Mapping[str, OffsetPrimitive]
"""What a source reads from, in its own words; may be empty."""
SourceOffset: TypeAlias = Mapping[str, OffsetPrimitive]
"""How far it has read there, in its own words."""

_KEY_ARRAY_LENGTH = 2


class InvalidSourceOffset(FatalError):
    """A partition or an offset that cannot be stored, or a stored one that cannot be used."""


@dataclass(frozen=True, slots=True)
class SourceOffsetKey:
    """Whose partition it is; a connector may keep an offset for no partition at all (None)."""

    connector: str
    partition: SourcePartition | None


def encode_offset_key(connector: str, partition: SourcePartition | None) -> bytes:
    """Raises `InvalidSourceOffset` where the partition is not flat."""
    checked = None if partition is None else _check_flat(partition, f"a partition of '{connector}'")
    return _encode_bytes([connector, checked], f"a partition of '{connector}'")


def encode_offset_value(offset: SourceOffset | None, *, connector: str = "") -> bytes | None:
    """None deletes. Raises `InvalidSourceOffset` where the offset is not flat."""
    if offset is None:
        return None
    what = f"an offset of '{connector}'"
    return _encode_bytes(_check_flat(offset, what), what)


def _encode_bytes(value: Json, what: str) -> bytes:
    try:
        return java_json.encode_json(value)
    except UnencodableValue as error:
        raise InvalidSourceOffset(f"{what}: {error}") from error


def _check_flat(value: object, what: str) -> dict[str, OffsetPrimitive]:
    if not isinstance(value, Mapping):
        raise InvalidSourceOffset(f"{what} is {type(value).__name__}; it must be a map")
    for name, each in value.items():
        if not isinstance(name, str):
            raise InvalidSourceOffset(
                f"{what} has a field whose name is {type(name).__name__}, no string"
            )
        if not isinstance(each, bool | int | float | str | bytes | None):
            raise InvalidSourceOffset(
                f"{what}: the field '{name}' is {type(each).__name__}; it may be a boolean,"
                " a number, a string, bytes or nothing"
            )
    return dict(value)


def decode_offset_key(key: bytes | None) -> SourceOffsetKey:
    """Raises `InvalidSourceOffset` where it is no key of an offset."""
    if key is None:
        raise InvalidSourceOffset("an offset without key")
    try:
        parts = java_json.decode_json(key)
    except MalformedJson as error:
        raise InvalidSourceOffset(f"a key of an offset that is no JSON: {error}") from error
    if not isinstance(parts, list) or len(parts) != _KEY_ARRAY_LENGTH:
        raise InvalidSourceOffset("a key of an offset that is no pair of connector and partition")
    connector, partition = parts
    if not isinstance(connector, str):
        raise InvalidSourceOffset(
            f"a key of an offset whose connector is {java_json.name_json_type(connector)}"
        )
    if not isinstance(partition, Mapping | None):
        raise InvalidSourceOffset(
            f"a key of an offset of '{connector}' whose partition is "
            f"{java_json.name_json_type(partition)}"
        )
    if partition is None:
        return SourceOffsetKey(connector, None)
    return SourceOffsetKey(
        connector, _check_flat(partition, f"a stored partition of '{connector}'")
    )


def decode_offset_value(
    value: bytes | None, *, connector: str = ""
) -> dict[str, OffsetPrimitive] | None:
    """Raises `InvalidSourceOffset` where it is no offset."""
    try:
        offset = java_json.decode_json(value)
    except MalformedJson as error:
        raise InvalidSourceOffset(
            f"a stored offset of '{connector}' is no JSON: {error}"
        ) from error
    return None if offset is None else _check_flat(offset, f"a stored offset of '{connector}'")


def make_canonical_key(key: SourceOffsetKey) -> Hashable:
    """The same for keys that differ in nothing but the order of their fields.

    Bytes are what they are stored as. Raises `InvalidSourceOffset` where a field cannot be hashed,
    for then it cannot be stored either."""
    if key.partition is None:
        return key.connector, None
    fields = ((name, *_make_hashable(value)) for name, value in key.partition.items())
    try:
        return key.connector, frozenset(fields)
    except TypeError as error:
        raise InvalidSourceOffset(
            f"a partition of '{key.connector}' has a field that is no value"
        ) from error


def _make_hashable(value: OffsetPrimitive) -> tuple[type, OffsetPrimitive]:
    if isinstance(value, bytes):
        return str, base64.b64encode(value).decode()
    return type(value), value


@dataclass(frozen=True, slots=True)
class SourceOffsetChanged:
    """The offset of one partition was written, or deleted."""

    key: SourceOffsetKey


@dataclass(slots=True)
class _EquivalentKeys:
    """Keys of one partition that differ in the order of fields, the one written last at the end."""

    key: SourceOffsetKey
    written: dict[bytes, None] = field(default_factory=dict)


@dataclass(slots=True)
class OffsetTopicFold:
    """Invariants: every well-formed key of `_raw` is in exactly one `_same`, and no other is.

    Keys that are no offsets' are kept as they are: they are somebody's, and a store that writes
    its file anew must not lose them.
    """

    _raw: dict[bytes, bytes] = field(default_factory=dict)
    _same: dict[Hashable, _EquivalentKeys] = field(default_factory=dict)
    _connectors: dict[str, dict[Hashable, None]] = field(default_factory=dict)

    def apply(
        self, key: bytes | None, value: bytes | None, *, offset: int
    ) -> SourceOffsetChanged | SkippedRecord:
        """Take the record at `offset` of its partition; a key's records share one partition."""
        del offset  # folds are called alike
        if key is not None:
            self._store(key, value)
        try:
            parsed = decode_offset_key(key)
            canonical = make_canonical_key(parsed)
        except InvalidSourceOffset as error:
            return SkippedRecord(str(error))
        assert key is not None
        if value is None:
            self._forget(canonical, key, connector=parsed.connector)
        else:
            same = self._same.setdefault(canonical, _EquivalentKeys(parsed))
            same.written.pop(key, None)
            same.written[key] = None
            self._connectors.setdefault(parsed.connector, {})[canonical] = None
        return SourceOffsetChanged(parsed)

    def _store(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._raw.pop(key, None)
        else:
            self._raw[key] = value

    def _forget(self, canonical: Hashable, key: bytes, *, connector: str) -> None:
        same = self._same.get(canonical)
        if same is None:
            return
        same.written.pop(key, None)
        if same.written:
            return
        del self._same[canonical]
        known = self._connectors[connector]
        del known[canonical]
        if not known:
            del self._connectors[connector]

    def key_for(self, connector: str, partition: SourcePartition | None) -> bytes:
        """The key under which the offset of this partition is written, or is to be.

        As given, unless it is known in another order of fields alone: who looked it up in that
        order goes on doing so. Raises `BadOffset`.
        """
        given = encode_offset_key(connector, partition)
        if given in self._raw:
            return given
        same = self._same.get(make_canonical_key(SourceOffsetKey(connector, partition)))
        return given if same is None else next(reversed(same.written))

    def raw(self, key: bytes) -> bytes | None:
        """The value stored under this very key."""
        return self._raw.get(key)

    def get(
        self, connector: str, partition: SourcePartition | None
    ) -> dict[str, OffsetPrimitive] | None:
        """The offset of the partition, None without one.

        Raises `BadOffset` for what cannot be a partition, or is stored and no offset.
        """
        value = self._raw.get(self.key_for(connector, partition))
        return decode_offset_value(value, connector=connector)

    def partitions(self, connector: str) -> list[SourcePartition]:
        """Every partition of the connector that has an offset, in the order they came to have it.

        A partition written in several orders of its fields is there once.
        """
        found = (self._same[each].key.partition for each in self._connectors.get(connector, {}))
        return [each for each in found if each is not None]

    def aliases(self, connector: str, partition: SourcePartition | None) -> list[bytes]:
        """All keys under which this partition has an offset: who deletes it deletes them all."""
        same = self._same.get(make_canonical_key(SourceOffsetKey(connector, partition)))
        return [] if same is None else list(same.written)

    def snapshot(self) -> Mapping[bytes, bytes]:
        """Everything, as stored: what a file keeps."""
        return MappingProxyType(dict(self._raw))

    def check_invariants(self) -> None:
        indexed = [key for same in self._same.values() for key in same.written]
        assert len(set(indexed)) == len(indexed), indexed
        assert set(indexed) <= self._raw.keys()
        for known in self._connectors.values():
            assert known, self._connectors
            assert known.keys() <= self._same.keys()
