"""Classifies the batches of a fetch response: to be passed through, to be re-encoded, or skipped
because read_committed consumers do not see them.

The rule for aborted transactions is the same as in Java's `CompletedFetch`: the fetch response
lists (producer id, first offset) of aborted transactions. A producer's batches
from that first offset up to its ABORT marker are dropped.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from connect_runtime.base import plurals
from mm2.formats import compression, record_batch, record_set_splitter
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import reverse_flow_filter

OFFSET_MAX = (1 << 63) - 1
"""The highest offset that Kafka's protocol can represent."""


class SourceBatch(NamedTuple):
    """A source batch to replicate. `header` is its unchanged batch header."""

    header: BatchHeader
    batch: memoryview
    first: int
    """First source offset to replicate; records before it are skipped."""
    reencode_reason: str
    """Reason why the batch must be re-encoded; "" if it can be passed through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableBatch:
    """A source batch that can be neither replicated nor skipped."""

    offset: int
    reason: str
    """Description of the problem for the operator."""
    next_offset: int = -1
    """Source offset after the batch; -1 if unknown."""
    has_valid_checksum: bool = False
    """True if the checksum is valid, which means that the producer itself wrote the faulty batch
    and it was not damaged later."""
    by_transform: bool = False
    """True if the transform failed on the batch."""
    too_large: bool = False
    """True if the batch decompresses to more than the limit."""


@dataclass(slots=True, kw_only=True)
class SourceScan:
    """Result of classifying the batches of a fetch response."""

    position: int
    """Source offset after the scanned batches, or the offset of the unreadable batch if one was
    found."""
    leader_epoch: int = -1
    """Leader epoch of the batch before `position`; -1 if no batch was scanned."""
    batches: list[SourceBatch] = field(default_factory=list)
    size: int = 0
    """Total size of `batches` in bytes."""
    obstacle: UnreadableBatch | None = None
    unresolved_producers: tuple[int, ...] = ()
    """Producer ids of the batch at `position` and of later batches that must be looked up, because
    they may belong to the reverse flow."""


_FLAG_BITS = ~record_batch.CODEC_MASK
_CONTROL_BIT = record_batch.CONTROL
_new = tuple.__new__
"""Creates a `SourceBatch` without the named tuple's constructor, which is too slow to be called for
every replicated batch."""


def scan_batches(
    records: memoryview,
    *,
    position: int,
    aborted: Sequence[tuple[int, int]],
    end: int = OFFSET_MAX,
    target_codec: int | None = None,
    reverse_producers: Mapping[int, bool] | None = None,
    max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
) -> SourceScan:
    """Classify the batches of one partition in a fetch response (read_committed).

    `position` is the fetched offset, `end` the last stable offset in the response (-1 if unknown).
    Batches that `record_set_splitter.iter_batches` omits are left for the next fetch. A message in
    an old format may decompress to `max_bytes`. `reverse_producers` maps each known producer id to
    True if the id belongs to the reverse flow; None without a reverse flow.
    """
    found = SourceScan(position=position)
    end = end if end >= 0 else OFFSET_MAX
    pending = sorted(aborted, key=_get_first_offset, reverse=True) if aborted else []
    dead: set[int] = set()
    batches = record_set_splitter.iter_batches(records, position=position, max_bytes=max_bytes)
    try:
        for header, batch in batches:
            base, length, epoch, _, crc, flags, last_delta, _, _, producer, _, _, count = header
            last = base + last_delta
            damaged = crc32c(batch[record_batch.CRC_START :]) != crc or last_delta < 0 or base < 0
            if last < position and not damaged:
                continue
            # No checksum covers the base offset. Without a gap before the batch it is certain, and
            # the batch may be newer than the end that the broker noted before it read.
            damaged = damaged or last >= (end if base > position else OFFSET_MAX)
            while pending and pending[-1][1] <= last:
                dead.add(pending.pop()[0])
            if damaged:
                found.obstacle = _describe_damage(header, batch, batches, position, end=end)
                break
            theirs = (
                reverse_producers is not None
                and not flags & _CONTROL_BIT
                and reverse_producers.get(producer)
            )
            if theirs is None:
                assert reverse_producers is not None
                found.unresolved_producers = _find_unclassified_producer_ids(
                    producer, batches, reverse_producers
                )
                break
            first = base if base > position else position
            position, found.leader_epoch = last + 1, epoch
            if flags & _FLAG_BITS and _is_skipped_batch(header, batch, dead):
                continue
            if count and not theirs:  # empty batches are what compaction leaves
                plain = flags == target_codec or (target_codec is None and not flags & _FLAG_BITS)
                if plain and count == last_delta + 1 and first == base:
                    why = ""
                else:
                    why = _get_reencode_reason(header, first, target_codec)
                found.batches.append(_new(SourceBatch, (header, batch, first, why)))
                found.size += length + record_batch.LENGTH_END
    except DamagedBatchError as error:
        is_configured = error.too_large and max_bytes < compression.DECOMPRESSED_BYTES_MAX
        limit = ", the limit set by buffer.memory" if is_configured else ""
        found.obstacle = UnreadableBatch(
            offset=position,
            reason=f"{error}{limit}",
            next_offset=error.next_offset,
            has_valid_checksum=error.too_large,
            too_large=is_configured,
        )
    found.position = position
    return found


def _describe_damage(
    header: BatchHeader,
    batch: memoryview,
    behind: Iterator[tuple[BatchHeader, memoryview]],
    position: int,
    *,
    end: int,
) -> UnreadableBatch:
    base = after = header.base_offset
    at = max(base, position)
    if header.last_offset_delta < 0:
        offsets = plurals.format_count(-header.last_offset_delta, "offset")
        why = f"the batch header is invalid: its last offset is {offsets} before the first"
    elif not record_batch.has_valid_crc(batch, header):
        why = f"the checksum of the batch ({header.size} bytes) does not match"
    else:
        at = after = position
        why = f"the batch header is invalid: it has offsets {base} to {header.last_offset}, but "
        why += f"the last stable offset is {end}" if base >= 0 else "offsets begin at 0"
    return UnreadableBatch(
        offset=at, reason=why, next_offset=_find_next_valid_batch(behind, after=after, end=end)
    )


def _find_unclassified_producer_ids(
    first: int,
    behind: Iterator[tuple[BatchHeader, memoryview]],
    opposite: Mapping[int, bool],
) -> tuple[int, ...]:
    """Collect the producer ids of the current batch and of later batches for which it is unknown
    whether they belong to the reverse flow. `first` is the producer id of the current batch.

    Control batches are ignored, because an acquisition writes the marker before it stores the
    producer id.
    """
    found = {first: None}
    with contextlib.suppress(DamagedBatchError):
        for header, _ in itertools.islice(behind, reverse_flow_filter.PRODUCERS_PER_QUERY_MAX - 1):
            if not header.is_control and header.producer_id not in opposite:
                found[header.producer_id] = None
    return tuple(found)


def _find_next_valid_batch(
    batches: Iterator[tuple[BatchHeader, memoryview]], *, after: int, end: int
) -> int:
    """Return the offset of the first valid batch after the damaged batch at offset `after`; -1 if
    the fetch response contains none.

    No field of the damaged batch can be trusted, in particular not its last offset.
    """
    try:
        for header, batch in batches:
            is_possible = after < header.base_offset <= header.last_offset < end
            if is_possible and record_batch.has_valid_crc(batch, header):
                return header.base_offset
    except DamagedBatchError:
        pass
    return -1


def _get_first_offset(entry: tuple[int, int]) -> int:
    return entry[1]


def _is_skipped_batch(header: BatchHeader, batch: memoryview, dead: set[int]) -> bool:
    if header.attributes & _CONTROL_BIT:
        if record_batch.read_control_type(batch) == record_batch.ABORT_MARKER:
            dead.discard(header.producer_id)
        return True
    return bool(header.attributes & record_batch.TRANSACTIONAL) and header.producer_id in dead


def _get_reencode_reason(header: BatchHeader, first: int, target_codec: int | None) -> str:
    count, codec = header.record_count, header.attributes & record_batch.CODEC_MASK
    if header.base_offset < first:
        return "replication starts inside the batch"
    if header.attributes & record_batch.LOG_APPEND_TIME:
        return "the source uses LogAppendTime"
    if count != header.last_offset_delta + 1:
        return "compaction left gaps in the batch"
    if target_codec is not None and codec != target_codec:
        return f"the mirror topic enforces {compression.CODEC_NAMES[target_codec]}"
    return ""
