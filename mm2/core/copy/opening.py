"""Opened batches: the records that a batch brings to the target.

Whoever copies and whoever pairs gets them here, so that both mean the same.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from mm2.core.copy import source_batches
from mm2.formats import compression, records


class Transform(Protocol):
    """What is done to each record of a partition on its way; it must not look at the time.

    `name` says which transform with which settings it is: another name begins a new era.
    `deterministic`: the same record always becomes the same; else the tail that a dead owner left
    cannot be paired, and restarts are at least once.
    """

    name: str
    deterministic: bool

    def __call__(self, fields: records.Fields, timestamp_ms: int) -> records.Fields | None:
        """What becomes of it; None leaves it out."""


def repeatable(transform: Transform | None) -> Transform | None:
    """What makes the same of a record once more; what cannot is as good as none for pairing."""
    return transform if transform is not None and transform.deterministic else None


def filter_hash(transform: Transform | None) -> int:
    """64 bits that tell one transform from another; 0 for none (`map_record.Era`)."""
    if transform is None:
        return 0
    digest = hashlib.blake2b(transform.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


class UnreadableError(Exception):
    """A batch whose checksum is right cannot be opened; the text says why."""


class TooLargeError(UnreadableError):
    """A batch unpacks to more than the caller allows."""


class TransformError(Exception):
    """The transform could not do its work on a record; the text says which and why."""


def open_batch(
    entry: source_batches.Copyable,
    transform: Transform | None = None,
    *,
    max_bytes: int = compression.OPENED_BYTES_MAX,
) -> list[records.Record]:
    """The records of a copyable batch that are to stand on the target, in order; may be none.

    Offsets are the source's. Raises `UnreadableError` (`TooLargeError` if they are larger than
    `max_bytes`) and `TransformError`.
    """
    header = entry.header
    if header.record_count == 1 and not header.attributes and entry.first == header.base_offset:
        only = records.only_record(header, entry.batch)
        if only is not None:
            return [only] if transform is None else _transformed([only], transform)
    try:
        found = records.open_batch(header, entry.batch, max_bytes=max_bytes)
    except (records.MalformedRecordsError, compression.UnpackError) as error:
        raise _unreadable(error) from error
    return _to_stand(found, entry, transform)


def _unreadable(error: Exception) -> UnreadableError:
    too_large = isinstance(error, compression.TooLargeError)
    return TooLargeError(str(error)) if too_large else UnreadableError(str(error))


def _to_stand(
    found: list[records.Record], entry: source_batches.Copyable, transform: Transform | None
) -> list[records.Record]:
    if entry.header.base_offset < entry.first:
        found = [each for each in found if each.offset >= entry.first]
    return found if transform is None else _transformed(found, transform)


class DecodedBatch:
    """As `open_batch`, for batches that may unpack to many records or bytes: read in parts.

    `next_source`: the source offset from which on nothing was read; never before the entry's
    `first`. Raises `UnreadableError` and `TransformError`.
    """

    def __init__(
        self,
        entry: source_batches.Copyable,
        transform: Transform | None = None,
        *,
        max_bytes: int = compression.OPENED_BYTES_MAX,
    ) -> None:
        try:
            self._opened = records.DecodedBatch(entry.header, entry.batch, max_bytes=max_bytes)
        except (records.MalformedRecordsError, compression.UnpackError) as error:
            raise _unreadable(error) from error
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

    def read(self, count: int, *, max_bytes: int) -> list[records.Record]:
        """Those of the next records that are to stand on the target: as many as both allow, one at
        least; may be none."""
        try:
            found = self._opened.read(count, max_bytes=max_bytes)
        except records.MalformedRecordsError as error:
            raise _unreadable(error) from error
        behind = self._entry.header.last_offset if self.done else found[-1].offset
        became = _to_stand(found, self._entry, self._transform)
        self.next_source = max(self.next_source, behind + 1)
        return became


def _transformed(found: list[records.Record], transform: Transform) -> list[records.Record]:
    kept = []
    for record in found:
        body = _applied(transform, record)
        if body is not None:
            kept.append(record._replace(body=body))
    return kept


def _applied(transform: Transform, record: records.Record) -> bytes | None:
    try:
        became = transform(records.read_body(record.body), record.timestamp)
        return None if became is None else records.write_body(became)
    except records.MalformedRecordsError as error:
        raise UnreadableError(f"its record of offset {record.offset}: {error}") from error
    except Exception as error:  # a user's code may raise anything: it stops this partition alone
        what = f"{type(error).__name__}: {error}"
        raise TransformError(f"transform {transform.name} failed on it with {what}") from error
