"""Records as the proof sees them: as the client gives them while logs are equal, condensed after.

Tuples and parallel lists, not dataclasses: millions are made and compared, and lists of tuples are
compared at C speed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

Raw = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, tuple[int, int]]
"""Key, value, headers (None without any), (librdkafka's timestamp type, timestamp in ms)."""

NO_TIMESTAMP_MS = -1
_DIGEST_FROM_BYTES = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of a log; `size` is the bytes of their keys and values."""

    offsets: list[int]
    contents: list[Raw]
    size: int


class Digest(NamedTuple):
    """Stands for a long key or value: its length and a hash of its bytes."""

    length: int
    blake2b: bytes


class Content(NamedTuple):
    """What a mirror must keep of a record, small and hashable: long parts are digests."""

    key: bytes | Digest | None
    value: bytes | Digest | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: int
    timestamp: int


class Record(NamedTuple):
    """Where a log has which content."""

    offset: int
    content: Content


def condensed(raw: Raw) -> Content:
    """The same content with long keys and values replaced by their digests."""
    key, value, headers, (timestamp_type, timestamp) = raw
    return Content(_digest(key), _digest(value), tuple(headers or ()), timestamp_type, timestamp)


def fingerprint(raw: Raw) -> bytes:
    """16 bytes that stand for all of a record's content."""
    return hashlib.blake2b(repr(raw).encode(), digest_size=16).digest()


def with_time_alone(chunk: Chunk) -> Chunk:
    """The same records without their timestamp types; where there is no timestamp it is -1.

    Formats before v1 have none, and no type either.
    """
    contents: list[Raw] = [
        (key, value, headers, (0, timestamp if kind else NO_TIMESTAMP_MS))
        for key, value, headers, (kind, timestamp) in chunk.contents
    ]
    return Chunk(chunk.offsets, contents, chunk.size)


def differing_fields(left: Content, right: Content) -> tuple[str, ...]:
    """For people: which parts of two contents are not the same."""
    names = (name.replace("_", " ") for name in Content._fields)
    return tuple(name for name, one, other in zip(names, left, right, strict=True) if one != other)


def _digest(part: bytes | None) -> bytes | Digest | None:
    if part is None or len(part) < _DIGEST_FROM_BYTES:
        return part
    return Digest(len(part), hashlib.blake2b(part, digest_size=16).digest())
