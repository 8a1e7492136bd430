"""Turns source batches into the batches that are produced: passed through or re-encoded.

A batch is re-encoded where it cannot be passed through, where the target rejected it as it was,
and where small batches are merged. Producer and sequence are stamped later, so both kinds are sent
alike. Tail matching decodes source batches here too, so both get the same records.
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
    """What is done to each record of a partition on its way; it must not look at the time.

    `name` says which transform with which settings it is: another name begins a new era.
    `deterministic`: the same record always becomes the same; else the tail that a dead owner left
    cannot be paired, and restarts are at least once.
    """

    name: str
    deterministic: bool

    def __call__(self, fields: RecordFields, timestamp_ms: int) -> RecordFields | None:
        """What becomes of it; None leaves it out."""


def keep_if_deterministic(transform: RecordTransform | None) -> RecordTransform | None:
    """What makes the same of a record once more; what cannot is as good as none for pairing."""
    return transform if transform is not None and transform.deterministic else None


def hash_transform(transform: RecordTransform | None) -> int:
    """64 bits that tell one transform from another; 0 for none (`map_record.Era`)."""
    if transform is None:
        return 0
    digest = hashlib.blake2b(transform.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


class BatchUnreadableError(Exception):
    """A batch whose checksum is right cannot be opened; the text says why."""


class BatchTooLargeError(BatchUnreadableError):
    """A batch unpacks to more than the caller allows."""


class RecordTransformError(Exception):
    """The transform could not do its work on a record; the text says which and why."""


def decode_source_batch(
    entry: SourceBatch,
    transform: RecordTransform | None = None,
    *,
    max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
) -> list[BatchRecord]:
    """The records of a copyable batch that are to stand on the target, in order; may be none.

    Offsets are the source's. Raises `BatchUnreadableError` (`BatchTooLargeError` if they are larger
    than `max_bytes`) and `RecordTransformError`."""
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
    """As `decode_source_batch`, for batches that may unpack to many records or bytes: read in
    parts.

    `next_source`: the source offset from which on nothing was read; never before the entry's
    `first`. Raises `BatchUnreadableError` and `RecordTransformError`.
    """

    def __init__(
        self,
        entry: SourceBatch,
        transform: RecordTransform | None = None,
        *,
        max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
    ) -> None:
        try:
            self._opened = BatchDecoder(entry.header, entry.batch, max_bytes=max_bytes)
        except (MalformedRecordsError, DecompressionError) as error:
            raise _convert_decode_error(error) from error
        self._entry = entry
        self._transform = transform
        self.next_source = entry.first

    @property
    def size(self) -> int:
        """Bytes that it holds; fewer as more is read."""
        return self._opened.size

    @property
    def left(self) -> int:
        """Records that are not read yet, also those before the entry's `first`."""
        return self._opened.left

    @property
    def done(self) -> bool:
        return not self._opened.left

    def read(self, count: int, *, max_bytes: int) -> list[BatchRecord]:
        """Those of the next records that are to stand on the target: as many as both allow, one at
        least; may be none."""
        try:
            found = self._opened.read(count, max_bytes=max_bytes)
        except MalformedRecordsError as error:
            raise _convert_decode_error(error) from error
        behind = self._entry.header.last_offset if self.done else found[-1].offset
        became = _select_records(found, self._entry, self._transform)
        self.next_source = max(self.next_source, behind + 1)
        return became


def _transform_records(found: list[BatchRecord], transform: RecordTransform) -> list[BatchRecord]:
    kept = []
    for record in found:
        body = _transform_record(transform, record)
        if body is not None:
            kept.append(record._replace(body=body))
    return kept


def _transform_record(transform: RecordTransform, record: BatchRecord) -> bytes | None:
    try:
        became = transform(records.decode_body(record.body), record.timestamp)
        return None if became is None else records.encode_body(became)
    except MalformedRecordsError as error:
        raise BatchUnreadableError(f"its record of offset {record.offset}: {error}") from error
    except Exception as error:  # a user's code may raise anything: it stops this partition alone
        what = f"{type(error).__name__}: {error}"
        raise RecordTransformError(
            f"transform {transform.name} failed on it with {what}"
        ) from error


class OffsetSpan(NamedTuple):
    """From source offset `source` on, records stand at `place`, `place` + 1, … of a batch."""

    source: int
    place: int


class OutboundBatch(NamedTuple):
    """One batch of so many `records` for the target; it stands for source [`source`,
    `next_source`).

    `pieces` tell the source offset of each record; () when they follow each other from `source` on.
    `held` bytes of the budget are free once it is acknowledged, as `opened` bytes if so
    (`budget.Budget`). `source_epoch` is the leader epoch of the source's batches. `why` it was
    made; "" for one passed through.
    """

    batch: memoryview
    attributes: int
    records: int
    source: int
    next_source: int
    pieces: tuple[OffsetSpan, ...]
    oldest_timestamp: int
    max_timestamp: int
    source_epoch: int
    held: int
    why: str
    opened: bool = False


def pass_through(entry: SourceBatch) -> OutboundBatch:
    """The batch as it is."""
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
    found: Sequence[BatchRecord],
    *,
    codec: int,
    batch_bytes: int,
    records_max: int,
    why: str,
    opened: bool = False,
    next_source: int | None = None,
) -> list[OutboundBatch]:
    """Batches of these records of `entries`, of one leader epoch, in order; none for none.

    Each holds at most `records_max` records and `batch_bytes` of them (uncompressed), but one at
    least. `next_source`: where the source is read on; None: behind the last entry.
    """
    if not found:
        return []
    last = entries[-1].header
    behind = last.last_offset + 1 if next_source is None else next_source
    batches: list[OutboundBatch] = []
    starts = list(_split_positions(found, batch_bytes=batch_bytes, records_max=records_max))
    for start, stop in zip(starts, [*starts[1:], len(found)], strict=True):
        part = found[start:stop]
        batch = memoryview(records.encode_batch(part, codec=codec))
        header = record_batch.read_header(batch)
        batches.append(
            OutboundBatch(
                batch,
                header.attributes,
                len(part),
                part[0].offset,
                found[stop].offset if stop < len(found) else behind,
                _offset_spans(part),
                header.oldest_timestamp,
                header.max_timestamp,
                last.leader_epoch,
                len(batch),
                why,
                opened,
            )
        )
    return batches


def _split_positions(
    opened: Sequence[BatchRecord], *, batch_bytes: int, records_max: int
) -> Iterator[int]:
    """Where each batch begins among the records."""
    sizes = _record_sizes(opened)
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
"""What stands before a record's body, generously."""


def _record_sizes(opened: Sequence[BatchRecord]) -> list[int]:
    return [len(body) + _RECORD_OVERHEAD_BYTES for _, _, body in opened]


def count_plain_bytes(opened: Sequence[BatchRecord]) -> int:
    """What they come to in a batch, uncompressed."""
    return sum(_record_sizes(opened))


def _offset_spans(part: Sequence[BatchRecord]) -> tuple[OffsetSpan, ...]:
    first = part[0].offset
    if part[-1].offset - first == len(part) - 1:
        return ()
    found = []
    ahead: int | None = None
    for place, record in enumerate(part):
        if record.offset - place != ahead:
            ahead = record.offset - place
            found.append(OffsetSpan(record.offset, place))
    return tuple(found)
