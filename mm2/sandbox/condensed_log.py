"""A partition's log as 37 bytes a record: enough to compare it later, when it has changed.

Kept in arrays, since a cleaned log has to be compared with what it was. Pure.
"""

from __future__ import annotations

import array
import bisect
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mm2.sandbox import record

_KEY_BYTES = 12
_SUM_BYTES = 16
_CHUNK_RECORDS = 4_096


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
    def of(cls, chunks: Iterable[record.Chunk]) -> CondensedLog:
        """Take all of them in."""
        log = cls()
        for chunk in chunks:
            for offset, raw in zip(chunk.offsets, chunk.contents, strict=True):
                log._append(offset, _key(raw[0]), record.fingerprint(raw), raw[1] is None)
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
        return bytes(self._sums[index * _SUM_BYTES : (index + 1) * _SUM_BYTES])

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

    def chunks(self) -> Iterator[record.Chunk]:
        """As a log to walk along: contents are hashes, and carry no time."""
        for start in range(0, len(self), _CHUNK_RECORDS):
            some = range(start, min(start + _CHUNK_RECORDS, len(self)))
            contents: list[record.Raw] = [
                (self.key(index), self.sum(index), None, (0, 0)) for index in some
            ]
            yield record.Chunk([self.offsets[index] for index in some], contents, 0)

    def _take(self, other: CondensedLog, index: int) -> None:
        key = bytes(other._keys[index * _KEY_BYTES : (index + 1) * _KEY_BYTES])
        self._append(other.offsets[index], key, other.sum(index), other.is_tombstone(index))

    def _append(self, offset: int, key: bytes, content: bytes, tombstone: bool) -> None:
        self.offsets.append(offset)
        self._keys += key
        self._sums += content
        self._tombstones.append(tombstone)


def _key(key: bytes | None) -> bytes:
    if key is None:
        return bytes(_KEY_BYTES)
    return hashlib.blake2b(key, digest_size=_KEY_BYTES).digest()
