"""A record as the proof sees it.

Named tuples, not dataclasses: millions are made and compared, and tuples are quick.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

_DIGEST_FROM_BYTES = 64


class Digest(NamedTuple):
    """Stands for a long key or value: its length and a hash of its bytes."""

    length: int
    blake2b: bytes


class Content(NamedTuple):
    """What a mirror must keep of a record. `timestamp` in ms, its type as librdkafka has it."""

    key: bytes | Digest | None
    value: bytes | Digest | None
    headers: Headers
    timestamp_type: int
    timestamp: int


class Record(NamedTuple):
    """Where a log has which content."""

    offset: int
    content: Content

    @property
    def size(self) -> int:
        """Bytes of key and value; not for condensed records."""
        key, value = self.content.key, self.content.value
        return (len(key) if key else 0) + (len(value) if value else 0)


def condensed(record: Record) -> Record:
    """The same record with long keys and values replaced by their digests."""
    key, value = _digest(record.content.key), _digest(record.content.value)
    return Record(record.offset, record.content._replace(key=key, value=value))


def differing_fields(left: Content, right: Content) -> tuple[str, ...]:
    """For people: which parts of two contents are not the same."""
    names = (name.replace("_", " ") for name in Content._fields)
    return tuple(name for name, one, other in zip(names, left, right, strict=True) if one != other)


def _digest(part: bytes | Digest | None) -> bytes | Digest | None:
    if not isinstance(part, bytes) or len(part) < _DIGEST_FROM_BYTES:
        return part
    return Digest(len(part), hashlib.blake2b(part, digest_size=16).digest())
