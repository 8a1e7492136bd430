"""Turns source batches into the batches that are produced: passed through or re-encoded.

A batch is re-encoded if it cannot be passed through, if the target rejected it, or if small batches
are merged. Producer and sequence are stamped later, so both kinds are sent alike. Tail matching
decodes source batches here too, so both get the same records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from mm2.formats import compression, record_batch, records
from mm2.formats.compression import DecompressedTooLargeError, DecompressionError
from mm2.formats.records import BatchDecoder, BatchRecord, MalformedRecordsError, RecordFields
from mm2.replication.read_committed import SourceBatch


class RecordTransform(Protocol):
    """A transform that is applied to each record of a partition; must not depend on the time."""

    name: str
    """Identifies the transform and its settings: a different name begins a new era."""
    deterministic: bool
    """Whether the same record always gives the same result; otherwise tails of crashed owners
    cannot be matched, and restarts are at least once."""

    def __call__(self, fields: RecordFields, timestamp_ms: int) -> RecordFields | None:
        """Transform a record; None drops it."""


def keep_if_deterministic(transform: RecordTransform | None) -> RecordTransform | None:
    """The transform if it is deterministic, else None: tail matching cannot use others."""
    return transform if transform is not None and transform.deterministic else None


def hash_transform(transform: RecordTransform | None) -> int:
    """64-bit hash that identifies a transform; 0 for none (stored in `offset_map_records.Era`)."""
    if transform is None:
        return 0
    digest = hashlib.blake2b(transform.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


class BatchUnreadableError(Exception):
    """A batch with a valid checksum cannot be decoded; the text says why."""


class BatchTooLargeError(BatchUnreadableError):
    """A batch decompresses to more than the caller allows."""


class RecordTransformError(Exception):
    """The transform failed on a record; the text says which one and why."""


def decode_source_batch(
    entry: SourceBatch,
    transform: RecordTransform | None = None,
    *,
    max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
) -> list[BatchRecord]:
    """Decode the records of a source batch that the target must hold, in order; possibly none.

    Offsets are the source's. Raises `BatchUnreadableError`, its subclass `BatchTooLargeError` if
    they exceed `max_bytes`, and `RecordTransformError`.
    """
    header = entry.header
    if header.record_count == 1 and not header.attributes and entry.first == header.base_offset:
        only = records.decode_single_record(header, entry.batch)
        if only is not None:
            return [only] if transform is None else _transform_records([only], transform)
    try:
        found = records.decode_batch(header, entry.batch, max_bytes=max_bytes)
    except (MalformedRecordsError, DecompressionError) as error:
        raise _convert_decode_error(error) from error
    return _select_records(found, entry, transform)


def _convert_decode_error(error: Exception) -> BatchUnreadableError:
    too_large = isinstance(error, DecompressedTooLargeError)
    return BatchTooLargeError(str(error)) if too_large else BatchUnreadableError(str(error))


def _select_records(
    found: list[BatchRecord], entry: SourceBatch, transform: RecordTransform | None
) -> list[BatchRecord]:
    if entry.header.base_offset < entry.first:
        found = [each for each in found if each.offset >= entry.first]
    return found if transform is None else _transform_records(found, transform)


class SourceBatchDecoder:
    """Decodes a large source batch in parts, with the same result as `decode_source_batch`.

    Raises `BatchUnreadableError` and `RecordTransformError`.
    """

    def __init__(
        self,
        entry: SourceBatch,
        transform: RecordTransform | None = None,
        *,
        max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
    ) -> None:
        try:
            self._decoder = BatchDecoder(entry.header, entry.batch, max_bytes=max_bytes)
        except (MalformedRecordsError, DecompressionError) as error:
            raise _convert_decode_error(error) from error
        self._entry = entry
        self._transform = transform
        self.next_source = entry.first
        """First source offset that was not read; never before the entry's `first`."""

    @property
    def size(self) -> int:
        """Bytes held; decreases while reading."""
        return self._decoder.size

    @property
    def remaining(self) -> int:
        """Number of unread records, including those before the entry's `first`."""
        return self._decoder.remaining

    @property
    def is_done(self) -> bool:
        """Returns whether all records were read."""
        return not self._decoder.remaining

    def read(self, count: int, *, max_bytes: int) -> list[BatchRecord]:
        """Decode the next records within both limits, at least one; returns those that the target
        must hold."""
        try:
            found = self._decoder.read(count, max_bytes=max_bytes)
        except MalformedRecordsError as error:
            raise _convert_decode_error(error) from error
        behind = self._entry.header.last_offset if self.is_done else found[-1].offset
        transformed = _select_records(found, self._entry, self._transform)
        self.next_source = max(self.next_source, behind + 1)
        return transformed


def _transform_records(found: list[BatchRecord], transform: RecordTransform) -> list[BatchRecord]:
    kept = []
    for record in found:
        body = _transform_record(transform, record)
        if body is not None:
            kept.append(record._replace(body=body))
    return kept


def _transform_record(transform: RecordTransform, record: BatchRecord) -> bytes | None:
    try:
        transformed = transform(records.decode_body(record.body), record.timestamp)
        return None if transformed is None else records.encode_body(transformed)
    except MalformedRecordsError as error:
        raise BatchUnreadableError(f"the record at offset {record.offset}: {error}") from error
    except Exception as error:  # a user's code may raise anything: only this partition halts
        what = f"{type(error).__name__}: {error}"
        raise RecordTransformError(f"transform {transform.name} failed with {what}") from error


class OffsetSpan(NamedTuple):
    """Records from source offset `source` on are at index `index`, `index` + 1, … of a batch."""

    source: int
    place: int


class OutboundBatch(NamedTuple):
    """One batch for the target, which stands for source offsets [`source`, `next_source`)."""

    batch: memoryview
    attributes: int
    records: int
    source: int
    next_source: int
    offset_spans: tuple[OffsetSpan, ...]
    """Source offsets of the records; () if they are consecutive from `source` on."""
    oldest_timestamp: int
    max_timestamp: int
    source_epoch: int
    """Leader epoch of the source batches."""
    held_bytes: int
    """Bytes of the memory budget to release once the batch is acknowledged."""
    reencode_reason: str
    """Why the batch was re-encoded; "" if it was passed through."""
    is_decoded: bool = False
    """Whether `held_bytes` counts as decoded bytes of the memory budget."""


def pass_through(entry: SourceBatch) -> OutboundBatch:
    """The source batch unchanged."""
    header = entry.header
    return OutboundBatch(
        entry.batch,
        header.attributes,
        header.record_count,
        header.base_offset,
        header.base_offset + header.record_count,
        (),
        header.oldest_timestamp,
        header.max_timestamp,
        header.leader_epoch,
        header.length + record_batch.LENGTH_END,
        "",
    )


def encode_batches(
    entries: Sequence[SourceBatch],
    source_records: Sequence[BatchRecord],
    *,
    codec: int,
    batch_bytes: int,
    records_max: int,
    reason: str,
    opened: bool = False,
    next_source: int | None = None,
) -> list[OutboundBatch]:
    """Encode records of `entries`, which share a leader epoch, in order; returns no batch without
    records.

    A batch has at most `records_max` records and `batch_bytes` uncompressed bytes, but at least one
    record. `next_source` is where reading the source continues; None for after the last entry.
    """
    if not source_records:
        return []
    last = entries[-1].header
    behind = last.last_offset + 1 if next_source is None else next_source
    batches: list[OutboundBatch] = []
    starts = list(
        _iter_split_indexes(source_records, batch_bytes=batch_bytes, records_max=records_max)
    )
    for start, stop in zip(starts, [*starts[1:], len(source_records)], strict=True):
        part = source_records[start:stop]
        batch = memoryview(records.encode_batch(part, codec=codec))
        header = record_batch.read_header(batch)
        batches.append(
            OutboundBatch(
                batch,
                header.attributes,
                len(part),
                part[0].offset,
                source_records[stop].offset if stop < len(source_records) else behind,
                _compute_offset_spans(part),
                header.oldest_timestamp,
                header.max_timestamp,
                last.leader_epoch,
                len(batch),
                reason,
                opened,
            )
        )
    return batches


def _iter_split_indexes(
    opened: Sequence[BatchRecord], *, batch_bytes: int, records_max: int
) -> Iterator[int]:
    """Yield the index of the first record of each batch."""
    sizes = _estimate_record_sizes(opened)
    if len(opened) <= records_max and sum(sizes) <= batch_bytes:
        yield 0
        return
    filled = count = 0
    for index, size in enumerate(sizes):
        if index == 0 or count == records_max or filled + size > batch_bytes:
            yield index
            filled = count = 0
        filled += size
        count += 1


_RECORD_OVERHEAD_BYTES = 12
"""Generous estimate of the bytes before a record's body."""


def _estimate_record_sizes(opened: Sequence[BatchRecord]) -> list[int]:
    return [len(body) + _RECORD_OVERHEAD_BYTES for _, _, body in opened]


def count_uncompressed_bytes(opened: Sequence[BatchRecord]) -> int:
    """Uncompressed size of the records in a batch."""
    return sum(_estimate_record_sizes(opened))


def _compute_offset_spans(part: Sequence[BatchRecord]) -> tuple[OffsetSpan, ...]:
    first = part[0].offset
    if part[-1].offset - first == len(part) - 1:
        return ()
    found = []
    delta: int | None = None
    for place, record in enumerate(part):
        if record.offset - place != delta:
            delta = record.offset - place
            found.append(OffsetSpan(record.offset, place))
    return tuple(found)
