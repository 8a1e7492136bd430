"""Converts source batches to the batches that are produced. A batch is passed through or
re-encoded.

A batch is re-encoded if it cannot be passed through, if the target rejected it, or if small batches
are merged. Producer id and sequence are stamped later, so that passed-through and re-encoded
batches are sent the same way. Tail matching also decodes source batches here, so that it compares
the same records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from mm2.formats import compression, record_batch, record_codec
from mm2.formats.compression import DecompressedTooLargeError, DecompressionError
from mm2.formats.record_codec import BatchDecoder, BatchRecord, MalformedRecordsError, RecordFields
from mm2.replication.read_committed_batch_filter import SourceBatch


class RecordTransform(Protocol):
    """Function that transforms each record of a partition. The result must not depend on the
    current time."""

    name: str
    """Name of the transform and its settings. A different name begins a new era (generation of the
    mirror)."""
    deterministic: bool
    """True if the same record always yields the same result. Otherwise tail matching is impossible,
    and records may be replicated twice after a crash (at least once)."""

    def __call__(self, fields: RecordFields, timestamp_ms: int) -> RecordFields | None:
        """Transform a record. Return None to drop it."""


def keep_transform_if_deterministic(transform: RecordTransform | None) -> RecordTransform | None:
    """Return the transform if it is deterministic, else None. Tail matching can apply only
    deterministic transforms."""
    return transform if transform is not None and transform.deterministic else None


def hash_transform(transform: RecordTransform | None) -> int:
    """Compute the 64-bit hash that identifies a transform; 0 for None (stored in
    `offset_map_records.Era`)."""
    if transform is None:
        return 0
    digest = hashlib.blake2b(transform.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


class BatchUnreadableError(Exception):
    """A batch with a valid checksum cannot be decoded. The message states the reason."""


class BatchTooLargeError(BatchUnreadableError):
    """A batch decompresses to more bytes than the caller allows."""


class RecordTransformError(Exception):
    """The transform failed on a record. The message names the transform and the error that it
    raised."""


def decode_source_batch(
    entry: SourceBatch,
    transform: RecordTransform | None = None,
    *,
    max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
) -> list[BatchRecord]:
    """Decode a source batch. Return, in order, the records that must be stored on the target; the
    list may be empty.

    Offsets are source offsets. Raises `BatchUnreadableError`, its subclass `BatchTooLargeError` if
    the records exceed `max_bytes`, and `RecordTransformError`.
    """
    header = entry.header
    if header.record_count == 1 and not header.attributes and entry.first == header.base_offset:
        only = record_codec.decode_single_record(header, entry.batch)
        if only is not None:
            return [only] if transform is None else _transform_records([only], transform)
    try:
        found = record_codec.decode_batch(header, entry.batch, max_bytes=max_bytes)
    except (MalformedRecordsError, DecompressionError) as error:
        raise _convert_decode_error(error) from error
    return _select_records_to_store(found, entry, transform)


def _convert_decode_error(error: Exception) -> BatchUnreadableError:
    too_large = isinstance(error, DecompressedTooLargeError)
    return BatchTooLargeError(str(error)) if too_large else BatchUnreadableError(str(error))


def _select_records_to_store(
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
        """First source offset that has not been read; at least the batch's first offset to
        replicate (`first`)."""

    @property
    def size(self) -> int:
        """Number of bytes of memory that the decoder uses. It decreases as records are read."""
        return self._decoder.size

    @property
    def remaining_records(self) -> int:
        """Number of records that have not been decoded yet, including records before `first`, the
        batch's first offset to replicate."""
        return self._decoder.remaining

    @property
    def is_done(self) -> bool:
        """Return True if all records were read."""
        return not self._decoder.remaining

    def decode_next_records(self, count: int, *, max_bytes: int) -> list[BatchRecord]:
        """Decode up to `count` records or `max_bytes` bytes, but at least one record. Return the
        records that must be stored on the target."""
        try:
            found = self._decoder.decode_next_records(count, max_bytes=max_bytes)
        except MalformedRecordsError as error:
            raise _convert_decode_error(error) from error
        behind = self._entry.header.last_offset if self.is_done else found[-1].offset
        transformed = _select_records_to_store(found, self._entry, self._transform)
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
        transformed = transform(record_codec.decode_record_body(record.body), record.timestamp)
        return None if transformed is None else record_codec.encode_record_body(transformed)
    except MalformedRecordsError as error:
        raise BatchUnreadableError(
            f"the record at offset {record.offset} cannot be decoded: {error}"
        ) from error
    except Exception as error:  # a user's code may raise anything: only this partition halts
        what = f"{type(error).__name__}: {error}"
        raise RecordTransformError(f"transform {transform.name} failed with {what}") from error


class OffsetSpan(NamedTuple):
    """Range of consecutive source offsets whose records are also consecutive in a batch. The record
    at source offset `source` has index `place` in the batch."""

    source: int
    place: int


class OutboundBatch(NamedTuple):
    """One batch to send to the target. It covers source offsets [`source`, `next_source`)."""

    batch: memoryview
    attributes: int
    records: int
    source: int
    next_source: int
    offset_spans: tuple[OffsetSpan, ...]
    """Source offsets of the records; () if they are consecutive and start at `source`."""
    oldest_timestamp: int
    max_timestamp: int
    source_epoch: int
    """Leader epoch of the source batches from which this batch was created."""
    held_bytes: int
    """Bytes of the memory budget to release once the batch is acknowledged."""
    reencode_reason: str
    """Reason why the batch was re-encoded; "" if it was passed through."""
    is_decoded: bool = False
    """True if `held_bytes` counts as decoded bytes of the memory budget."""


def create_pass_through_batch(entry: SourceBatch) -> OutboundBatch:
    """Create an outbound batch from an unchanged source batch."""
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
    """Encode the records of `entries`, which share a leader epoch, in order. Return an empty list
    if there are no records.

    A batch has at most `records_max` records and `batch_bytes` uncompressed bytes, but at least one
    record. `next_source` is the offset at which reading the source continues; None means after the
    last entry.
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
        batch = memoryview(record_codec.encode_batch(part, codec=codec))
        header = record_batch.read_batch_header(batch)
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
"""Upper estimate of the number of bytes that precede a record's body."""


def _estimate_record_sizes(opened: Sequence[BatchRecord]) -> list[int]:
    return [len(body) + _RECORD_OVERHEAD_BYTES for _, _, body in opened]


def count_uncompressed_bytes(opened: Sequence[BatchRecord]) -> int:
    """Count the uncompressed bytes of the records in a batch."""
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
