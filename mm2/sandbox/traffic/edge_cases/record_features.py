"""Parses record sets independently of mm2's own code: formats, codecs, gaps and other features.
Pure.

Written from the specification, not with mm2's own batch code, because this module verifies that the
test data contain the intended features. Layouts: `DefaultRecordBatch` (v2) and `LegacyRecord` (v0,
v1):

    0 offset i64 | 8 size i32 (bytes from 12 on) | 12 leader epoch i32 (v2), CRC u32 (v0, v1)
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

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_BATCH_HEAD = struct.Struct(">qiib")
_V2_FIELDS = struct.Struct(">hiqqq")
_RECORD_COUNT = struct.Struct(">i")
_V2_FIELDS_OFFSET, _RECORD_COUNT_OFFSET, _LEGACY_ATTRIBUTES_OFFSET = 21, 57, 17
_BYTES_BEFORE_SIZE_COUNTS = 12
_APPEND_TIME_FLAG, _TRANSACTIONAL_FLAG, _CONTROL_FLAG, _DELETE_HORIZON_FLAG = 0x08, 0x10, 0x20, 0x40


class RecordFeature(enum.Enum):
    """Features of a batch that need special handling during replication."""

    GAPS = "a batch with fewer records than offsets"
    HOLES = "offsets that are missing between two batches"
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


class ParsedBatch(NamedTuple):
    """Parsed header of a batch. In formats before v2, a batch is a single record or a wrapper
    around several records.

    `records` is -1 if the record count cannot be determined without decompression.
    """

    magic: int
    codec: str
    base_offset: int
    last_offset: int
    records: int
    size: int
    attributes: int
    max_timestamp: int | None


def parse_batches(records: memoryview) -> Iterator[ParsedBatch]:
    """Yield all complete batches of a record set."""
    at = 0
    while at + _BATCH_HEAD.size <= len(records):
        offset, size, _, magic = _BATCH_HEAD.unpack_from(records, at)
        end = at + _BYTES_BEFORE_SIZE_COUNTS + size
        if end > len(records):
            return
        yield _parse_batch(records[at:end], offset, magic)
        at = end


def find_next_offset(records: memoryview) -> int | None:
    """Return the offset after the last complete batch, or None if the record set contains no
    complete batch."""
    last = None
    for last in parse_batches(records):  # noqa: B007 - the last one counts
        pass
    return None if last is None else last.last_offset + 1


def _parse_batch(batch: memoryview, offset: int, magic: int) -> ParsedBatch:
    if magic < 2:
        attributes = batch[_LEGACY_ATTRIBUTES_OFFSET]
        codec = attributes & 7
        return ParsedBatch(
            magic=magic,
            codec=ALL_CODECS[codec],
            base_offset=offset,
            last_offset=offset,
            records=-1 if codec else 1,
            size=len(batch),
            attributes=attributes,
            max_timestamp=None,
        )
    attributes, last, _, newest, _ = _V2_FIELDS.unpack_from(batch, _V2_FIELDS_OFFSET)
    (count,) = _RECORD_COUNT.unpack_from(batch, _RECORD_COUNT_OFFSET)
    return ParsedBatch(
        magic=magic,
        codec=ALL_CODECS[attributes & 7],
        base_offset=offset,
        last_offset=offset + last,
        records=count,
        size=len(batch),
        attributes=attributes,
        max_timestamp=newest,
    )


@dataclass(slots=True)
class RecordFeatureCounts:
    """Batch counts of a log, by codec (without control batches) and by feature."""

    batches: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    features: Counter[RecordFeature] = field(default_factory=Counter)
    _expected: int | None = None

    def start_counting_next_partition(self) -> None:
        """Start counting another partition, so that no gap between the partitions is counted."""
        self._expected = None

    def count_batches(self, sets: Iterable[memoryview]) -> RecordFeatureCounts:
        """Count the batches of consecutive record sets, and return this object."""
        for records in sets:
            for seen in parse_batches(records):
                self._count_batch_features(seen)
        return self

    def _count_batch_features(self, seen: ParsedBatch) -> None:
        self.batches += 1
        for oddity in _find_features(seen):
            self.features[oddity] += 1
        if not seen.attributes & _CONTROL_FLAG:
            self.codecs[seen.codec] += 1
        # The offset of a v0 or v1 wrapper is that of its last record: a hole cannot be detected.
        follows = self._expected in {None, seen.base_offset} or seen.magic < 2
        if not follows:
            self.features[RecordFeature.HOLES] += 1
        self._expected = seen.last_offset + 1


def _find_features(seen: ParsedBatch) -> Iterator[RecordFeature]:
    if seen.magic < 2:
        yield RecordFeature.V0 if seen.magic == 0 else RecordFeature.V1
    if seen.attributes & _APPEND_TIME_FLAG:
        yield RecordFeature.APPEND_TIME
    if seen.magic == 2:
        yield from _find_v2_features(seen)


def _find_v2_features(seen: ParsedBatch) -> Iterator[RecordFeature]:
    if seen.attributes & _CONTROL_FLAG:
        yield RecordFeature.MARKER
        return
    span = seen.last_offset - seen.base_offset + 1
    large = seen.size > 1 << 20
    facts = {
        RecordFeature.TRANSACTIONAL: bool(seen.attributes & _TRANSACTIONAL_FLAG),
        RecordFeature.HORIZON: bool(seen.attributes & _DELETE_HORIZON_FLAG),
        RecordFeature.EMPTY: seen.records == 0,
        RecordFeature.GAPS: 0 < seen.records < span,
        RecordFeature.SINGLE: seen.records == 1 and span == 1,
        RecordFeature.LARGE: large and seen.records > 1,
        RecordFeature.HUGE_RECORD: large and seen.records == 1,
        RecordFeature.NO_TIME: seen.max_timestamp == -1,
    }
    yield from (oddity for oddity, holds in facts.items() if holds)
