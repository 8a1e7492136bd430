"""Compact representations of records and logs for comparison. Pure.

While two logs are equal, records are kept as the client returns them. After the first difference,
long keys and values are replaced by digests. `CondensedLog` stores a log in 37 bytes per record,
which is enough to compare the log with its state after log compaction. For speed, this module uses
tuples, parallel lists and arrays instead of dataclasses: millions of records are created and
compared.
"""

from __future__ import annotations

import array
import bisect
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

RawRecord = tuple[
    bytes | None, bytes | None, Sequence[tuple[str, bytes | None]] | None, tuple[int, int]
]
"""A record as (key, value, headers or None if empty, (librdkafka timestamp type, timestamp in
ms))."""

NO_TIMESTAMP_MS = -1
_DIGEST_MIN_BYTES = 64


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Consecutive records of a log; `size` is the total bytes of their keys and values."""

    offsets: list[int]
    contents: list[RawRecord]
    size: int


class BytesDigest(NamedTuple):
    """Length and hash that represent a long key or value."""

    length: int
    blake2b: bytes


class RecordContent(NamedTuple):
    """Record content that a mirror must preserve. Small and hashable because long parts are
    replaced by digests."""

    key: bytes | BytesDigest | None
    value: bytes | BytesDigest | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: int
    timestamp: int


class ComparedRecord(NamedTuple):
    """A record's offset and content."""

    offset: int
    content: RecordContent


def condense_record(raw: RawRecord) -> RecordContent:
    """Replace a record's long key and value by digests."""
    key, value, headers, (timestamp_type, timestamp) = raw
    return RecordContent(
        _digest_bytes(key), _digest_bytes(value), tuple(headers or ()), timestamp_type, timestamp
    )


def hash_record(raw: RawRecord) -> bytes:
    """Return a 16-byte hash of a record's content."""
    return hashlib.blake2b(repr(raw).encode(), digest_size=16).digest()


def drop_timestamp_types(chunk: RecordChunk) -> RecordChunk:
    """Return the records without timestamp types, and with -1 for missing timestamps.

    Record formats before v1 have no timestamps.
    """
    contents: list[RawRecord] = [
        (key, value, headers, (0, timestamp if kind else NO_TIMESTAMP_MS))
        for key, value, headers, (kind, timestamp) in chunk.contents
    ]
    return RecordChunk(chunk.offsets, contents, chunk.size)


def list_differing_fields(left: RecordContent, right: RecordContent) -> tuple[str, ...]:
    """Return the names of the record parts that differ, for use in messages."""
    names = (name.replace("_", " ") for name in RecordContent._fields)
    return tuple(name for name, one, other in zip(names, left, right, strict=True) if one != other)


def _digest_bytes(part: bytes | None) -> bytes | BytesDigest | None:
    if part is None or len(part) < _DIGEST_MIN_BYTES:
        return part
    return BytesDigest(len(part), hashlib.blake2b(part, digest_size=16).digest())


_KEY_BYTES = 12
_HASH_BYTES = 16
_CONDENSED_CHUNK_RECORDS = 4_096


@dataclass(slots=True)
class CondensedLog:
    """Records sorted by offset, each with hashes of its key and content and a tombstone flag.

    Invariant: all lists have the same length.
    """

    offsets: array.array[int] = field(default_factory=lambda: array.array("q"))
    size: int = 0
    _keys: bytearray = field(default_factory=bytearray)
    _sums: bytearray = field(default_factory=bytearray)
    _tombstones: bytearray = field(default_factory=bytearray)

    @classmethod
    def from_chunks(cls, chunks: Iterable[RecordChunk]) -> CondensedLog:
        """Build a condensed log from record chunks in offset order."""
        log = cls()
        for chunk in chunks:
            for offset, raw in zip(chunk.offsets, chunk.contents, strict=True):
                log._append_record(offset, _hash_key(raw[0]), hash_record(raw), raw[1] is None)
            log.size += chunk.size
        return log

    def __len__(self) -> int:
        return len(self.offsets)

    def get_key_hash(self, index: int) -> bytes:
        """Return a 12-byte hash of the record's key; empty for a null key."""
        found = bytes(self._keys[index * _KEY_BYTES : (index + 1) * _KEY_BYTES])
        return found if found.strip(b"\0") else b""

    def get_content_hash(self, index: int) -> bytes:
        """Return a 16-byte hash of the record's content."""
        return bytes(self._sums[index * _HASH_BYTES : (index + 1) * _HASH_BYTES])

    def is_tombstone(self, index: int) -> bool:
        return bool(self._tombstones[index])

    def find_index(self, offset: int) -> int | None:
        """Return the index of the record with this offset, or None if the log has no such
        record."""
        index = bisect.bisect_left(self.offsets, offset)
        found = index < len(self.offsets) and self.offsets[index] == offset
        return index if found else None

    def find_last_index_per_key(self) -> dict[bytes, int]:
        """Return the index of each key's last record. Null keys are omitted."""
        return {key: index for index in range(len(self)) if (key := self.get_key_hash(index))}

    def merge(self, other: CondensedLog) -> CondensedLog:
        """Merge two logs by offset. If both have a record at an offset, the record of `other` is
        used."""
        places = sorted(
            [(offset, 1, index) for index, offset in enumerate(other.offsets)]
            + [
                (offset, 0, index)
                for index, offset in enumerate(self.offsets)
                if other.find_index(offset) is None
            ]
        )
        both = CondensedLog(size=max(self.size, other.size))
        for _, which, index in places:
            both._append_record_of_other_log(other if which else self, index)
        return both

    def exclude_ranges(self, ranges: Iterable[tuple[int, int]]) -> CondensedLog:
        """Return a copy of the log without the records in the given offset ranges [from, to)."""
        spans = list(ranges)
        left = CondensedLog(size=self.size)
        for index, offset in enumerate(self.offsets):
            if not any(start <= offset < end for start, end in spans):
                left._append_record_of_other_log(self, index)
        return left

    def iterate_record_chunks(self) -> Iterator[RecordChunk]:
        """Yield the log as record chunks in which record contents are replaced by hashes and
        timestamps are omitted."""
        for start in range(0, len(self), _CONDENSED_CHUNK_RECORDS):
            some = range(start, min(start + _CONDENSED_CHUNK_RECORDS, len(self)))
            contents: list[RawRecord] = [
                (self.get_key_hash(index), self.get_content_hash(index), None, (0, 0))
                for index in some
            ]
            yield RecordChunk([self.offsets[index] for index in some], contents, 0)

    def _append_record_of_other_log(self, other: CondensedLog, index: int) -> None:
        key = bytes(other._keys[index * _KEY_BYTES : (index + 1) * _KEY_BYTES])
        self._append_record(
            other.offsets[index], key, other.get_content_hash(index), other.is_tombstone(index)
        )

    def _append_record(self, offset: int, key: bytes, content: bytes, tombstone: bool) -> None:
        self.offsets.append(offset)
        self._keys += key
        self._sums += content
        self._tombstones.append(tombstone)


def _hash_key(key: bytes | None) -> bytes:
    if key is None:
        return bytes(_KEY_BYTES)
    return hashlib.blake2b(key, digest_size=_KEY_BYTES).digest()
