"""The offsets topic as a fold: bytes by bytes, and which partitions every connector has."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from connect_runtime.core.state import offset_records, skipped


@dataclass(frozen=True, slots=True)
class OffsetChanged:
    """The offset of one partition was written, or deleted."""

    key: offset_records.OffsetKey


@dataclass(slots=True)
class _Same:
    """Keys of one partition that differ in the order of fields, the one written last at the end."""

    key: offset_records.OffsetKey
    written: dict[bytes, None] = field(default_factory=dict)


@dataclass(slots=True)
class OffsetLog:
    """Invariants: every well-formed key of `_raw` is in exactly one `_same`, and no other is.

    Keys that are no offsets' are kept as they are: they are somebody's, and a store that writes
    its file anew must not lose them.
    """

    _raw: dict[bytes, bytes] = field(default_factory=dict)
    _same: dict[Hashable, _Same] = field(default_factory=dict)
    _connectors: dict[str, dict[Hashable, None]] = field(default_factory=dict)

    def apply(
        self, key: bytes | None, value: bytes | None, *, offset: int
    ) -> OffsetChanged | skipped.Skipped:
        """Take the record at `offset` of its partition; a key's records share one partition."""
        del offset  # folds are called alike
        if key is not None:
            self._store(key, value)
        try:
            parsed = offset_records.decode_key(key)
            canonical = offset_records.canonical(parsed)
        except offset_records.BadOffset as error:
            return skipped.Skipped(str(error))
        assert key is not None
        if value is None:
            self._forget(canonical, key, connector=parsed.connector)
        else:
            same = self._same.setdefault(canonical, _Same(parsed))
            same.written.pop(key, None)
            same.written[key] = None
            self._connectors.setdefault(parsed.connector, {})[canonical] = None
        return OffsetChanged(parsed)

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

    def key_for(self, connector: str, partition: offset_records.Partition | None) -> bytes:
        """The key under which the offset of this partition is written, or is to be.

        As given, unless it is known in another order of fields alone: who looked it up in that
        order goes on doing so. Raises `BadOffset`.
        """
        given = offset_records.encode_key(connector, partition)
        if given in self._raw:
            return given
        same = self._same.get(
            offset_records.canonical(offset_records.OffsetKey(connector, partition))
        )
        return given if same is None else next(reversed(same.written))

    def raw(self, key: bytes) -> bytes | None:
        """The value stored under this very key."""
        return self._raw.get(key)

    def get(
        self, connector: str, partition: offset_records.Partition | None
    ) -> dict[str, offset_records.Primitive] | None:
        """The offset of the partition, None without one.

        Raises `BadOffset` for what cannot be a partition, or is stored and no offset.
        """
        value = self._raw.get(self.key_for(connector, partition))
        return offset_records.decode_value(value, connector=connector)

    def partitions(self, connector: str) -> list[offset_records.Partition]:
        """Every partition of the connector that has an offset, in the order they came to have it.

        A partition written in several orders of its fields is there once.
        """
        found = (self._same[each].key.partition for each in self._connectors.get(connector, {}))
        return [each for each in found if each is not None]

    def aliases(self, connector: str, partition: offset_records.Partition | None) -> list[bytes]:
        """All keys under which this partition has an offset: who deletes it deletes them all."""
        same = self._same.get(
            offset_records.canonical(offset_records.OffsetKey(connector, partition))
        )
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
