"""The tail of a target partition: batches that older owners wrote after the part that the offset
map covers.

`TargetTail` collects the target's batches between the end of the map and this owner's transaction
marker, in the order in which read_committed consumers will see them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader
from mm2.replication.recovery_instructions import OpenTransaction

_COMPARED_ATTRIBUTES = record_batch.CODEC_MASK | record_batch.LOG_APPEND_TIME
_DIGEST_BYTES = 16


def fingerprint_batch(header: BatchHeader, batch: memoryview) -> bytes:
    """Compute a fingerprint that is equal for batches with the same records, timestamps and codec.

    The fingerprint is a hash of the bytes after the header, so that a long tail need not be kept in
    memory.
    """
    digest = hashlib.blake2b(batch[record_batch.HEADER_BYTES :], digest_size=_DIGEST_BYTES)
    kept = (
        header.attributes & _COMPARED_ATTRIBUTES,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.record_count,
    )
    digest.update(repr(kept).encode())
    return digest.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TailBatch:
    """One batch of `count` records at target offset `offset`."""

    offset: int
    count: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignBatch:
    """A batch on the target that no producer id of this flow wrote."""

    offset: int
    producer_id: int


@dataclass(slots=True, kw_only=True)
class TargetTail:
    """This flow's batches on the target from `start` to the current owner's transaction marker at
    `marker`, read in order.

    A transactional batch is included once its transaction's commit marker was read. If an unclean
    election lost that marker, the current owner's marker takes its place.
    """

    own_producers: frozenset[int] | None
    """Producer ids of this flow; None if batches of all producers are to be included."""
    start: int
    marker: int
    last_crc: int | None = None
    """Expected CRC of the batch before `start`. If set, reading begins at offset `start` - 1, so
    that this batch is included."""
    lost: str = ""
    """Reason why the tail is known not to match the offset map; "" if no reason is known."""
    next_offset: int = field(init=False)
    """Next target offset to read."""
    foreign: ForeignBatch | None = None
    """The first foreign batch, if any."""
    writers: set[int] = field(default_factory=set)
    """Producer ids of this flow that wrote batches of the tail."""
    _batches: list[TailBatch] = field(default_factory=list)
    _open: dict[int, list[TailBatch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.next_offset = self.start if self.last_crc is None else self.start - 1

    @property
    def is_complete(self) -> bool:
        """Return True if the current owner's marker was reached, or the tail is known not to match
        the offset map."""
        return self.next_offset > self.marker or bool(self.lost)

    @property
    def hanging_transaction(self) -> OpenTransaction | None:
        """The first transaction of this flow that has neither a commit nor an abort marker; None if
        there is none. Its producer id has expired, or the flow is not authorized to use it."""
        first = [
            OpenTransaction(producer_id=producer_id, start=each[0].offset)
            for producer_id, each in self._open.items()
        ]
        return min(first, key=lambda each: each.start, default=None)

    @property
    def committed_batches(self) -> list[TailBatch]:
        """Committed batches in offset order, as read_committed consumers see them."""
        return sorted(self._batches, key=lambda each: each.offset)

    def handle_deleted_batches(self, log_start: int) -> None:
        """Handle the deletion of batches before offset `log_start`, where the target's log now
        starts.

        If no batch at or after `start` was deleted, skip the batch before the resume point.
        Otherwise, record in `lost` that the tail cannot be matched.
        """
        if self.next_offset < log_start <= self.start:
            self.next_offset = self.start  # retention deleted the resume point's batch
        else:
            self.lost = f"the target's log no longer has offset {self.next_offset}"

    def add_batch(self, header: BatchHeader, batch: memoryview) -> None:
        """Add the next batch of the target to the tail."""
        if header.last_offset < self.next_offset or self.is_complete:
            return
        self.next_offset = header.last_offset + 1
        if header.base_offset < self.start and not self._is_overlapping_foreign_batch(header):
            self._check_resume_point(header)
        else:
            self._add_batch_to_tail(header, batch)

    def _is_overlapping_foreign_batch(self, header: BatchHeader) -> bool:
        """Return True if a foreign batch begins before `start`. An era (generation of the mirror)
        may begin inside a batch of MirrorMaker 2."""
        theirs = self.own_producers is None or header.producer_id not in self.own_producers
        return theirs and self.last_crc is None

    def _check_resume_point(self, header: BatchHeader) -> None:
        ends_there = header.last_offset == self.start - 1
        if not ends_there or header.crc != self.last_crc:
            self.lost = (
                f"the batch before target offset {self.start} is not the one recorded in the "
                "offset map"
            )

    def _add_batch_to_tail(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            ended = self._open.pop(header.producer_id, [])
            if record_batch.read_control_type(batch) == record_batch.COMMIT_MARKER:
                self._batches.extend(ended)
            return
        if header.record_count == 0:
            return  # compaction keeps a producer's last batch empty
        if self.own_producers is not None and header.producer_id not in self.own_producers:
            if self.foreign is None:
                self.foreign = ForeignBatch(
                    offset=header.base_offset, producer_id=header.producer_id
                )
            return
        self.writers.add(header.producer_id)
        mine = TailBatch(
            offset=header.base_offset,
            count=header.record_count,
            fingerprint=fingerprint_batch(header, batch),
        )
        if header.is_transactional:
            self._open.setdefault(header.producer_id, []).append(mine)
        else:
            self._batches.append(mine)
