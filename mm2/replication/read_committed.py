"""Sorts the batches of a fetch: visible to read_committed readers, skipped, or to be re-encoded.

The rule for aborted transactions is that of `CompletedFetch` in the Java consumer: the list that
comes with a fetch holds (producer id, first offset) of the transactions aborted in it; a
producer's batches from its first offset on are dropped until its ABORT marker.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from connect_runtime.base import plurals
from mm2.formats import compression, record_batch, record_sets
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_sets import DamagedBatchError
from mm2.replication import reverse_flow_filter


class SourceBatch(NamedTuple):
    """One batch to copy; `header` as the source wrote it.

    Its records from source offset `first` on count. `opening` says why it cannot be passed through
    as it is, "" when it can.
    """

    header: BatchHeader
    batch: memoryview
    first: int
    opening: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableBatch:
    """The batch at `offset` can be neither copied nor skipped: it is damaged, cannot be opened
    although it is `sound` (as it was written) or because it is `too_large`, or the transform does
    not take it. `behind` is the source offset behind it, -1 where that cannot be known.
    """

    offset: int
    why: str
    behind: int = -1
    sound: bool = False
    by_transform: bool = False
    too_large: bool = False


@dataclass(slots=True, kw_only=True)
class SourceScan:
    """What a record set holds from `position` on; `position` is behind everything dealt with.

    `leader_epoch` is that of the batch before it, -1 when there was none; `size` counts the bytes
    of `batches`. When there is an obstacle, `position` is its offset and nothing behind it was
    looked at. `strangers`: of the batch at `position` nobody knows whose it is; ids to ask about.
    """

    position: int
    leader_epoch: int = -1
    batches: list[SourceBatch] = field(default_factory=list)
    size: int = 0
    obstacle: UnreadableBatch | None = None
    strangers: tuple[int, ...] = ()


_FLAG_BITS = ~record_batch.CODEC_MASK
_CONTROL_BIT = record_batch.CONTROL
_new = tuple.__new__
"""Past the named tuple's own constructor: this is done for every batch that is copied."""


def scan_batches(
    records: memoryview,
    *,
    position: int,
    aborted: Sequence[tuple[int, int]],
    target_codec: int | None = None,
    opposite: Mapping[int, bool] | None = None,
) -> SourceScan:
    """Sort the batches of one fetch response (read_committed) for one partition.

    `position` is the offset that was fetched from. A last batch that is cut off is left for the
    next fetch. `opposite`: as `opposite.Known.by_id`; None where no flow leads back.
    """
    found = SourceScan(position=position)
    pending = sorted(aborted, key=_aborted_first_offset, reverse=True) if aborted else []
    dead: set[int] = set()
    batches = record_sets.iter_batches(records)
    try:
        for header, batch in batches:
            base, length, epoch, _, crc, flags, last_delta, _, _, producer, _, _, count = header
            last = base + last_delta
            damaged = crc32c(batch[record_batch.CRC_START :]) != crc or last_delta < 0
            if last < position and not damaged:
                continue
            while pending and pending[-1][1] <= last:
                dead.add(pending.pop()[0])
            if damaged:
                found.obstacle = _describe_damage(header, batches, position)
                break
            theirs = opposite is not None and not flags & _CONTROL_BIT and opposite.get(producer)
            if theirs is None:
                assert opposite is not None
                found.strangers = _find_unresolved_producers(producer, batches, opposite)
                break
            first = base if base > position else position
            position, found.leader_epoch = last + 1, epoch
            if flags & _FLAG_BITS and _is_skipped(header, batch, dead):
                continue
            if count and not theirs:  # else what compaction leaves of a producer's last batch
                plain = flags == target_codec or (target_codec is None and not flags & _FLAG_BITS)
                if plain and count == last_delta + 1 and first == base:
                    why = ""
                else:
                    why = _decode_reason(header, first, target_codec)
                found.batches.append(_new(SourceBatch, (header, batch, first, why)))
                found.size += length + record_batch.LENGTH_END
    except DamagedBatchError as error:
        found.obstacle = UnreadableBatch(offset=position, why=str(error))
    found.position = position
    return found


def _describe_damage(
    header: BatchHeader,
    behind: Iterator[tuple[BatchHeader, memoryview]],
    position: int,
) -> UnreadableBatch:
    why = f"the checksum of its {header.size} bytes does not match"
    if header.last_offset_delta < 0:
        offsets = plurals.format_count(-header.last_offset_delta, "offset")
        why = f"it claims to end {offsets} before it begins"
    base = header.base_offset
    return UnreadableBatch(
        offset=max(base, position), why=why, behind=_find_next_valid(behind, base)
    )


def _find_unresolved_producers(
    first: int,
    behind: Iterator[tuple[BatchHeader, memoryview]],
    opposite: Mapping[int, bool],
) -> tuple[int, ...]:
    """Ids of whom nobody knows yet whose they are: that one, and those that follow it.

    Of data alone: a marker stands there before its id is stored, when a partition is taken.
    """
    found = {first: None}
    with contextlib.suppress(DamagedBatchError):
        for header, _ in itertools.islice(behind, reverse_flow_filter.PRODUCERS_PER_QUERY_MAX - 1):
            if not header.is_control and header.producer_id not in opposite:
                found[header.producer_id] = None
    return tuple(found)


def _find_next_valid(batches: Iterator[tuple[BatchHeader, memoryview]], damaged: int) -> int:
    """Where the first undamaged batch behind that at source offset `damaged` begins, -1 for not
    seen.

    Nothing in the damaged one can be believed, its last offset least of all.
    """
    try:
        for header, batch in batches:
            sound = crc32c(batch[record_batch.CRC_START :]) == header.crc
            if sound and header.base_offset > damaged:
                return header.base_offset
    except DamagedBatchError:
        pass
    return -1


def _aborted_first_offset(entry: tuple[int, int]) -> int:
    return entry[1]


def _is_skipped(header: BatchHeader, batch: memoryview, dead: set[int]) -> bool:
    if header.attributes & _CONTROL_BIT:
        if record_batch.read_control_type(batch) == record_batch.ABORT_MARKER:
            dead.discard(header.producer_id)
        return True
    return bool(header.attributes & record_batch.TRANSACTIONAL) and header.producer_id in dead


def _decode_reason(header: BatchHeader, first: int, target_codec: int | None) -> str:
    count, codec = header.record_count, header.attributes & record_batch.CODEC_MASK
    if header.base_offset < first:
        return "the copy starts inside the batch"
    if header.attributes & record_batch.LOG_APPEND_TIME:
        return "its timestamps are the append time's"
    if count != header.last_offset_delta + 1:
        return "compaction left gaps in it"
    if target_codec is not None and codec != target_codec:
        return f"the mirror topic forces {compression.CODEC_NAMES[target_codec]}"
    return ""
