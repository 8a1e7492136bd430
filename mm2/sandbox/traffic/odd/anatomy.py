"""What record sets are made of, seen from outside: formats, codecs, gaps. Pure.

Written from the specification, not with the product's own reader: it says whether the product was
given what it should be given. Layouts: `DefaultRecordBatch` (v2) and `LegacyRecord` (v0, v1):

    0 offset i64 | 8 size i32 (of what follows) | 12 leader epoch i32 (v2), CRC u32 (v0, v1)
    16 magic i8 | v0, v1: 17 attributes i8 | v2: 21 attributes i16, 23 last offset delta i32,
    27 base timestamp i64, 35 max timestamp i64, 43 producer id i64, 57 record count i32
"""

from __future__ import annotations

import enum
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_HEAD = struct.Struct(">qiib")
_V2 = struct.Struct(">hiqqq")
_COUNT = struct.Struct(">i")
_V2_AT, _COUNT_AT, _OLD_ATTRIBUTES_AT = 21, 57, 17
_SIZE_BEFORE = 12
_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _HORIZON = 0x08, 0x10, 0x20, 0x40


class Oddity(enum.Enum):
    """What makes a batch another thing than a stamp on bytes."""

    GAPS = "fewer records than offsets inside a batch"
    HOLES = "offsets between batches that no batch has"
    EMPTY = "a batch without a record"
    APPEND_TIME = "LogAppendTime"
    HORIZON = "a delete horizon"
    SINGLE = "a batch of one record"
    LARGE = "a batch of more than 1 MiB with several records"
    HUGE_RECORD = "a batch of more than 1 MiB with one record"
    V0 = "format v0"
    V1 = "format v1"
    TRANSACTIONAL = "a transaction's records"
    MARKER = "a transaction's end"
    NO_TIME = "no timestamp (-1)"


class BatchSeen(NamedTuple):
    """One batch; of formats before v2 one entry: a record, or a wrapper around several.

    `records` is -1 where it cannot be seen from outside, `last_offset` included.
    """

    magic: int
    codec: str
    base_offset: int
    last_offset: int
    records: int
    size: int
    attributes: int
    max_timestamp: int | None


def batches(records: memoryview) -> Iterator[BatchSeen]:
    """All whole batches of a record set."""
    at = 0
    while at + _HEAD.size <= len(records):
        offset, size, _, magic = _HEAD.unpack_from(records, at)
        end = at + _SIZE_BEFORE + size
        if end > len(records):
            return
        yield _seen(records[at:end], offset, magic)
        at = end


def next_offset(records: memoryview) -> int | None:
    """Where to read on, None without a whole batch."""
    last = None
    for last in batches(records):  # noqa: B007 - the last one counts
        pass
    return None if last is None else last.last_offset + 1


def _seen(batch: memoryview, offset: int, magic: int) -> BatchSeen:
    if magic < 2:
        attributes = batch[_OLD_ATTRIBUTES_AT]
        codec = attributes & 7
        return BatchSeen(
            magic=magic,
            codec=CODECS[codec],
            base_offset=offset,
            last_offset=offset,
            records=-1 if codec else 1,
            size=len(batch),
            attributes=attributes,
            max_timestamp=None,
        )
    attributes, last, _, newest, _ = _V2.unpack_from(batch, _V2_AT)
    (count,) = _COUNT.unpack_from(batch, _COUNT_AT)
    return BatchSeen(
        magic=magic,
        codec=CODECS[attributes & 7],
        base_offset=offset,
        last_offset=offset + last,
        records=count,
        size=len(batch),
        attributes=attributes,
        max_timestamp=newest,
    )


@dataclass(slots=True)
class Anatomy:
    """Batches of one log, counted: by codec (control batches left out) and by oddity."""

    batches: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    oddities: Counter[Oddity] = field(default_factory=Counter)
    _expected: int | None = None

    def begin_log(self) -> None:
        """What is added from now on is another partition's."""
        self._expected = None

    def add(self, sets: Iterable[memoryview]) -> Anatomy:
        """Look at record sets that follow each other."""
        for records in sets:
            for seen in batches(records):
                self._note(seen)
        return self

    def _note(self, seen: BatchSeen) -> None:
        self.batches += 1
        for oddity in _oddities(seen):
            self.oddities[oddity] += 1
        if not seen.attributes & _CONTROL:
            self.codecs[seen.codec] += 1
        # The offset of an old wrapper is that of its last record: what it follows is unknown.
        follows = self._expected in {None, seen.base_offset} or seen.magic < 2
        if not follows:
            self.oddities[Oddity.HOLES] += 1
        self._expected = seen.last_offset + 1


def _oddities(seen: BatchSeen) -> Iterator[Oddity]:
    if seen.magic < 2:
        yield Oddity.V0 if seen.magic == 0 else Oddity.V1
    if seen.attributes & _APPEND_TIME:
        yield Oddity.APPEND_TIME
    if seen.magic == 2:
        yield from _oddities_of_new(seen)


def _oddities_of_new(seen: BatchSeen) -> Iterator[Oddity]:
    if seen.attributes & _CONTROL:
        yield Oddity.MARKER
        return
    span = seen.last_offset - seen.base_offset + 1
    large = seen.size > 1 << 20
    facts = {
        Oddity.TRANSACTIONAL: bool(seen.attributes & _TRANSACTIONAL),
        Oddity.HORIZON: bool(seen.attributes & _HORIZON),
        Oddity.EMPTY: seen.records == 0,
        Oddity.GAPS: 0 < seen.records < span,
        Oddity.SINGLE: seen.records == 1 and span == 1,
        Oddity.LARGE: large and seen.records > 1,
        Oddity.HUGE_RECORD: large and seen.records == 1,
        Oddity.NO_TIME: seen.max_timestamp == -1,
    }
    yield from (oddity for oddity, holds in facts.items() if holds)
