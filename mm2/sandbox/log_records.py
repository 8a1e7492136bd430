"""Records and whole logs in the compact forms that the comparison of logs works on. Pure.

While two logs are equal, records stay as the client returns them; after the first difference,
long keys and values are replaced by digests. `CondensedLog` keeps a partition's log as 37 bytes
per record, enough to compare it later, when its cleaner has changed it. Tuples, parallel lists
and arrays, not dataclasses: millions are made and compared, at C speed.
"""

from __future__ import annotations

import array
import bisect
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

RawRecord = tuple[
    bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, tuple[int, int]
]
"""Key, value, headers (None without any), (librdkafka's timestamp type, timestamp in ms)."""

NO_TIMESTAMP_MS = -1
_DIGEST_MIN_BYTES = 64


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Consecutive records of a log; `size` is the bytes of their keys and values."""

    offsets: list[int]
    contents: list[RawRecord]
    size: int


class BytesDigest(NamedTuple):
    """Stands for a long key or value: its length and a hash of its bytes."""

    length: int
    blake2b: bytes


class RecordContent(NamedTuple):
    """What a mirror must keep of a record, small and hashable: long parts are digests."""

    key: bytes | BytesDigest | None
    value: bytes | BytesDigest | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: int
    timestamp: int


class ComparedRecord(NamedTuple):
    """Where a log has which content."""

    offset: int
    content: RecordContent


def condense_record(raw: RawRecord) -> RecordContent:
    """The same content with long keys and values replaced by their digests."""
    key, value, headers, (timestamp_type, timestamp) = raw
    return RecordContent(
        _digest_bytes(key), _digest_bytes(value), tuple(headers or ()), timestamp_type, timestamp
    )


def hash_record(raw: RawRecord) -> bytes:
    """16 bytes that stand for all of a record's content."""
    return hashlib.blake2b(repr(raw).encode(), digest_size=16).digest()


def drop_timestamp_types(chunk: RecordChunk) -> RecordChunk:
    """The same records without their timestamp types; where there is no timestamp it is -1.

    Formats before v1 have none, and no type either.
    """
    contents: list[RawRecord] = [
        (key, value, headers, (0, timestamp if kind else NO_TIMESTAMP_MS))
        for key, value, headers, (kind, timestamp) in chunk.contents
    ]
    return RecordChunk(chunk.offsets, contents, chunk.size)


def list_differing_fields(left: RecordContent, right: RecordContent) -> tuple[str, ...]:
    """For people: which parts of two contents are not the same."""
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
    """Records in the order of their offsets; by index: offset, key's hash, hash of all, tombstone.

    Invariant: all four are of one length, and offsets increase.
    """

    offsets: array.array[int] = field(default_factory=lambda: array.array("q"))
    size: int = 0
    _keys: bytearray = field(default_factory=bytearray)
    _sums: bytearray = field(default_factory=bytearray)
    _tombstones: bytearray = field(default_factory=bytearray)

    @classmethod
    def of(cls, chunks: Iterable[RecordChunk]) -> CondensedLog:
        """Take all of them in."""
        log = cls()
        for chunk in chunks:
            for offset, raw in zip(chunk.offsets, chunk.contents, strict=True):
                log._append(offset, _hash_key(raw[0]), hash_record(raw), raw[1] is None)
            log.size += chunk.size
        return log

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, index: int) -> bytes:
        """12 bytes that stand for its key; none of a null one."""
        found = bytes(self._keys[index * _KEY_BYTES : (index + 1) * _KEY_BYTES])
        return found if found.strip(b"\0") else b""

    def sum(self, index: int) -> bytes:
        """16 bytes that stand for all of its content."""
        return bytes(self._sums[index * _HASH_BYTES : (index + 1) * _HASH_BYTES])

    def is_tombstone(self, index: int) -> bool:
        return bool(self._tombstones[index])

    def index_of(self, offset: int) -> int | None:
        """Where the record of this offset is, None if there is none."""
        index = bisect.bisect_left(self.offsets, offset)
        found = index < len(self.offsets) and self.offsets[index] == offset
        return index if found else None

    def last_indices(self) -> dict[bytes, int]:
        """By key: the index of its last record. Records without a key have none."""
        return {key: index for index in range(len(self)) if (key := self.key(index))}

    def joined(self, other: CondensedLog) -> CondensedLog:
        """Both, by offset; a record that both have comes once, as `other` has it."""
        places = sorted(
            [(offset, 1, index) for index, offset in enumerate(other.offsets)]
            + [
                (offset, 0, index)
                for index, offset in enumerate(self.offsets)
                if other.index_of(offset) is None
            ]
        )
        both = CondensedLog(size=max(self.size, other.size))
        for _, which, index in places:
            both._take(other if which else self, index)
        return both

    def without(self, ranges: Iterable[tuple[int, int]]) -> CondensedLog:
        """Without the offsets in any of these ranges [from, to)."""
        spans = list(ranges)
        left = CondensedLog(size=self.size)
        for index, offset in enumerate(self.offsets):
            if not any(start <= offset < end for start, end in spans):
                left._take(self, index)
        return left

    def chunks(self) -> Iterator[RecordChunk]:
        """As a log to walk along: contents are hashes, and carry no time."""
        for start in range(0, len(self), _CONDENSED_CHUNK_RECORDS):
            some = range(start, min(start + _CONDENSED_CHUNK_RECORDS, len(self)))
            contents: list[RawRecord] = [
                (self.key(index), self.sum(index), None, (0, 0)) for index in some
            ]
            yield RecordChunk([self.offsets[index] for index in some], contents, 0)

    def _take(self, other: CondensedLog, index: int) -> None:
        key = bytes(other._keys[index * _KEY_BYTES : (index + 1) * _KEY_BYTES])
        self._append(other.offsets[index], key, other.sum(index), other.is_tombstone(index))

    def _append(self, offset: int, key: bytes, content: bytes, tombstone: bool) -> None:
        self.offsets.append(offset)
        self._keys += key
        self._sums += content
        self._tombstones.append(tombstone)


def _hash_key(key: bytes | None) -> bytes:
    if key is None:
        return bytes(_KEY_BYTES)
    return hashlib.blake2b(key, digest_size=_KEY_BYTES).digest()
