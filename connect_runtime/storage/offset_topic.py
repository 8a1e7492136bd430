"""Encodes and decodes records of the offsets topic, and applies them to a map from source partition
to source offset.

The key is the JSON array `["C",{partition}]`. The value is the offset as a JSON object, or null to
delete the offset. Keys are compared by their bytes, so the order of the partition's fields matters.
Write the fields as the connector provides them, or in the order of Java's HashMap
(`java_hash_map_json`).
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base.errors import FatalError
from connect_runtime.storage import java_hash_map_json
from connect_runtime.storage.internal_topic_log import SkippedRecord
from connect_runtime.storage.java_hash_map_json import Json, MalformedJson, UnencodableValue

OffsetPrimitive: TypeAlias = "bool | int | float | str | bytes | None"
SourcePartition: TypeAlias = Mapping[str, OffsetPrimitive]
"""Source partition: a map with fields that the connector defines. May be empty."""
SourceOffset: TypeAlias = Mapping[str, OffsetPrimitive]
"""Offset within a source partition: a map with fields that the connector defines."""

_KEY_ARRAY_LENGTH = 2


class InvalidSourceOffset(FatalError):
    """Raised if a source partition or offset cannot be stored, or if the stored data is invalid."""


@dataclass(frozen=True, slots=True)
class SourceOffsetKey:
    """Connector and source partition of a stored offset. The partition may be None."""

    connector: str
    partition: SourcePartition | None


def encode_offset_key(connector: str, partition: SourcePartition | None) -> bytes:
    """Encode the record key of a source offset. Raises `InvalidSourceOffset` if the partition is
    not a flat map."""
    checked = (
        None if partition is None else _check_flat_map(partition, f"a partition of '{connector}'")
    )
    return _encode_json_bytes([connector, checked], f"a partition of '{connector}'")


def encode_offset_value(offset: SourceOffset | None, *, connector: str = "") -> bytes | None:
    """Encode the record value of a source offset; None deletes the stored offset. Raises
    `InvalidSourceOffset` if the offset is not a flat map."""
    if offset is None:
        return None
    what = f"an offset of '{connector}'"
    return _encode_json_bytes(_check_flat_map(offset, what), what)


def _encode_json_bytes(value: Json, what: str) -> bytes:
    try:
        return java_hash_map_json.encode_json(value)
    except UnencodableValue as error:
        raise InvalidSourceOffset(f"{what}: {error}") from error


def _check_flat_map(value: object, what: str) -> dict[str, OffsetPrimitive]:
    if not isinstance(value, Mapping):
        raise InvalidSourceOffset(f"{what} is {type(value).__name__}; it must be a map")
    for name, each in value.items():
        if not isinstance(name, str):
            raise InvalidSourceOffset(
                f"{what} has a field name of type {type(name).__name__}; it must be a string"
            )
        if not isinstance(each, bool | int | float | str | bytes | None):
            raise InvalidSourceOffset(
                f"{what}: the field '{name}' is {type(each).__name__}; allowed: boolean, number,"
                " string, bytes or None"
            )
    return dict(value)


def decode_offset_key(key: bytes | None) -> SourceOffsetKey:
    """Decode the record key of a source offset. Raises `InvalidSourceOffset`."""
    if key is None:
        raise InvalidSourceOffset("an offset record has no key")
    try:
        parts = java_hash_map_json.decode_json(key)
    except MalformedJson as error:
        raise InvalidSourceOffset(f"an offset key is not JSON: {error}") from error
    if not isinstance(parts, list) or len(parts) != _KEY_ARRAY_LENGTH:
        raise InvalidSourceOffset("an offset key is not a pair of connector and partition")
    connector, partition = parts
    if not isinstance(connector, str):
        raise InvalidSourceOffset(
            "the connector in an offset key is "
            f"{java_hash_map_json.get_json_type_name(connector)}, "
            "not a string"
        )
    if not isinstance(partition, Mapping | None):
        raise InvalidSourceOffset(
            f"the partition in an offset key of '{connector}' is "
            f"{java_hash_map_json.get_json_type_name(partition)}, not an object"
        )
    if partition is None:
        return SourceOffsetKey(connector, None)
    return SourceOffsetKey(
        connector, _check_flat_map(partition, f"a stored partition of '{connector}'")
    )


def decode_offset_value(
    value: bytes | None, *, connector: str = ""
) -> dict[str, OffsetPrimitive] | None:
    """Decode the record value of a source offset. Raises `InvalidSourceOffset`."""
    try:
        offset = java_hash_map_json.decode_json(value)
    except MalformedJson as error:
        raise InvalidSourceOffset(
            f"a stored offset of '{connector}' is not JSON: {error}"
        ) from error
    return None if offset is None else _check_flat_map(offset, f"a stored offset of '{connector}'")


def build_canonical_key(key: SourceOffsetKey) -> Hashable:
    """Return a hashable value that is equal for keys that differ only in their field order.

    A field of type bytes equals its base64 string, because it is stored as such. Raises
    `InvalidSourceOffset` for nested values, which cannot be stored.
    """
    if key.partition is None:
        return key.connector, None
    fields = ((name, *_make_hashable(value)) for name, value in key.partition.items())
    try:
        return key.connector, frozenset(fields)
    except TypeError as error:
        raise InvalidSourceOffset(
            f"a partition of '{key.connector}' has a field with a nested value"
        ) from error


def _make_hashable(value: OffsetPrimitive) -> tuple[type, OffsetPrimitive]:
    if isinstance(value, bytes):
        return str, base64.b64encode(value).decode()
    return type(value), value


@dataclass(frozen=True, slots=True)
class SourceOffsetChanged:
    """Change: the offset of a source partition was written or deleted."""

    key: SourceOffsetKey


@dataclass(slots=True)
class _EquivalentOffsetKeys:
    """Record keys of one source partition that differ in their field order. The most recently
    written key is last."""

    key: SourceOffsetKey
    written: dict[bytes, None] = field(default_factory=dict)


@dataclass(slots=True)
class OffsetTopicState:
    """State of the offsets topic, built by applying its records in order.

    Records with malformed keys are kept too. Another application may have written them to the
    offset file, and they must not be lost when the file is replaced.

    Invariant: every well-formed key of `_raw` is in exactly one entry of `_same`, and `_same`
    contains no other keys.
    """

    _raw: dict[bytes, bytes] = field(default_factory=dict)
    _same: dict[Hashable, _EquivalentOffsetKeys] = field(default_factory=dict)
    _connectors: dict[str, dict[Hashable, None]] = field(default_factory=dict)

    def apply_record(
        self, key: bytes | None, value: bytes | None, *, offset: int
    ) -> SourceOffsetChanged | SkippedRecord:
        """Apply the record at `offset` of the offsets topic. All records of a key are in one topic
        partition."""
        del offset  # unused, for the common signature of folds
        if key is not None:
            self._store_offset_value(key, value)
        try:
            parsed = decode_offset_key(key)
            canonical = build_canonical_key(parsed)
        except InvalidSourceOffset as error:
            return SkippedRecord(str(error))
        assert key is not None
        if value is None:
            self._remove_offset_key(canonical, key, connector=parsed.connector)
        else:
            same = self._same.setdefault(canonical, _EquivalentOffsetKeys(parsed))
            same.written.pop(key, None)
            same.written[key] = None
            self._connectors.setdefault(parsed.connector, {})[canonical] = None
        return SourceOffsetChanged(parsed)

    def _store_offset_value(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._raw.pop(key, None)
        else:
            self._raw[key] = value

    def _remove_offset_key(self, canonical: Hashable, key: bytes, *, connector: str) -> None:
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

    def get_record_key(self, connector: str, partition: SourcePartition | None) -> bytes:
        """Return the record key for writing the offset of a source partition.

        If the partition is stored with another field order, the existing key is used, so that
        readers with that order still find the offset. Raises `InvalidSourceOffset`.
        """
        given = encode_offset_key(connector, partition)
        if given in self._raw:
            return given
        same = self._same.get(build_canonical_key(SourceOffsetKey(connector, partition)))
        return given if same is None else next(reversed(same.written))

    def get_raw_value(self, key: bytes) -> bytes | None:
        """Return the value stored under exactly this record key; None if the key does not exist."""
        return self._raw.get(key)

    def get_offset(
        self, connector: str, partition: SourcePartition | None
    ) -> dict[str, OffsetPrimitive] | None:
        """Return the offset of a source partition; None if it has no offset.

        Raises `InvalidSourceOffset` if the partition or the stored offset is invalid.
        """
        value = self._raw.get(self.get_record_key(connector, partition))
        return decode_offset_value(value, connector=connector)

    def list_partitions(self, connector: str) -> list[SourcePartition]:
        """Return all source partitions of the connector that have an offset, in the order of their
        first writes.

        A partition that was written with several field orders is listed once.
        """
        found = (self._same[each].key.partition for each in self._connectors.get(connector, {}))
        return [each for each in found if each is not None]

    def list_record_keys(self, connector: str, partition: SourcePartition | None) -> list[bytes]:
        """Return all record keys under which this source partition has an offset. A deletion must
        delete all of them."""
        same = self._same.get(build_canonical_key(SourceOffsetKey(connector, partition)))
        return [] if same is None else list(same.written)

    def snapshot(self) -> Mapping[bytes, bytes]:
        """Return all stored record keys and values, for the offset file."""
        return MappingProxyType(dict(self._raw))

    def check_invariants(self) -> None:
        indexed = [key for same in self._same.values() for key in same.written]
        assert len(set(indexed)) == len(indexed), indexed
        assert set(indexed) <= self._raw.keys()
        for known in self._connectors.values():
            assert known, self._connectors
            assert known.keys() <= self._same.keys()
