"""Which batches of a fetched record set are copied, which are skipped, and which stop the
partition.

Copyable: data that a read_committed reader of the source would see. The rule for aborted
transactions is Kafka's (`CompletedFetch` of the Java consumer): the list that comes with a fetch
holds (producer id, first offset) of the transactions aborted in it; a producer's batches from its
first offset on are dropped until its ABORT marker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.formats import record_batch


class Copyable(NamedTuple):
    """One batch to copy; `header` as the source wrote it."""

    header: record_batch.BatchHeader
    batch: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The batch at `offset` can be neither copied unopened nor skipped. `corrupt`: it is
    damaged."""

    offset: int
    why: str
    corrupt: bool = False


@dataclass(slots=True, kw_only=True)
class Scan:
    """What a record set holds from `position` on; `position` is behind everything dealt with.

    `leader_epoch` is that of the batch before it, -1 when there was none.
    When there is an obstacle, `position` is its offset and nothing behind it was looked at.
    """

    position: int
    leader_epoch: int = -1
    batches: list[Copyable] = field(default_factory=list)
    obstacle: Obstacle | None = None


def scan(
    records: memoryview,
    *,
    position: int,
    aborted: tuple[tuple[int, int], ...] | list[tuple[int, int]],
    target_codec: int | None = None,
) -> Scan:
    """Sort the batches of one fetch response (read_committed) for one partition.

    `position` is the offset that was fetched from. A last batch that is cut off is left for the
    next fetch.
    """
    found = Scan(position=position)
    pending = sorted(aborted, key=_first_offset, reverse=True) if aborted else []
    dead: set[int] = set()
    try:
        for header, batch in record_batch.split_batches(records):
            last = header.base_offset + header.last_offset_delta
            if last < found.position:
                continue
            while pending and pending[-1][1] <= last:
                dead.add(pending.pop()[0])
            obstacle = _sort_batch(header, batch, found=found, dead=dead, codec=target_codec)
            if obstacle is not None:
                found.obstacle = obstacle
                return found
            found.position = last + 1
            found.leader_epoch = header.leader_epoch
    except record_batch.OldFormatError as error:
        found.obstacle = Obstacle(offset=error.base_offset, why=str(error))
    except record_batch.DamagedBatchError as error:
        found.obstacle = Obstacle(offset=found.position, why=str(error), corrupt=True)
    return found


def _first_offset(entry: tuple[int, int]) -> int:
    return entry[1]


def _sort_batch(
    header: record_batch.BatchHeader,
    batch: memoryview,
    *,
    found: Scan,
    dead: set[int],
    codec: int | None,
) -> Obstacle | None:
    if not record_batch.crc_matches(batch, header):
        why = f"the checksum of its {header.size} bytes does not match"
        return Obstacle(offset=header.base_offset, why=why, corrupt=True)
    attributes = header.attributes
    if attributes & record_batch.CONTROL:
        if record_batch.control_type(batch) == record_batch.ABORT_MARKER:
            dead.discard(header.producer_id)
        return None
    if attributes & record_batch.TRANSACTIONAL and header.producer_id in dead:
        return None
    if header.record_count == 0:
        return None  # what compaction leaves of a producer's last batch: no record is in it
    if header.base_offset < found.position:
        why = f"the copy starts inside the batch of {header.base_offset}..{header.last_offset}"
        return Obstacle(offset=found.position, why=why)
    if attributes & record_batch.LOG_APPEND_TIME:
        return Obstacle(offset=header.base_offset, why="its timestamps are the append time's")
    if header.record_count != header.last_offset_delta + 1:
        why = f"compaction left {header.record_count} of {header.last_offset_delta + 1} records"
        return Obstacle(offset=header.base_offset, why=why)
    if codec is not None and attributes & record_batch.CODEC_MASK != codec:
        was = record_batch.CODECS.get(attributes & record_batch.CODEC_MASK, "an unknown codec")
        forced = record_batch.CODECS[codec]
        why = f"it is compressed with {was} and the mirror topic forces {forced}"
        return Obstacle(offset=header.base_offset, why=why)
    found.batches.append(Copyable(header, batch))
    return None
