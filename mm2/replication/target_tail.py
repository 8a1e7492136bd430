"""The tail of a target partition: batches that older owners wrote after the mapped part.

`TargetTail` folds the target's batches between the end of the map and our own fence marker, in
order and as read_committed readers will see them.
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
    """Equal for batches that hold the same records with the same timestamps and codec.

    The digest covers the bytes behind the header, so that a long tail need not be kept in memory.
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
    """One batch of ours, of `count` records, that begins at target offset `offset`."""

    offset: int
    count: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignBatch:
    """A batch on the target that none of our producer ids wrote."""

    offset: int
    producer_id: int


@dataclass(slots=True, kw_only=True)
class TargetTail:
    """Our batches on the target from `start` to our own fence marker at `marker`, read in order.

    A transactional batch of ours counts only when the commit marker of its transaction follows;
    that may be our own, where an unclean election took the one that was meant for it.
    With `last_crc`, reading begins one offset earlier: the batch that ends before `start` must have
    that CRC. `lost` says why the stretch cannot be what the map speaks of; "" while it can.
    `writers` are the producer ids of ours in it. `ours` None: everybody's batches count as ours.
    """

    ours: frozenset[int] | None
    start: int
    marker: int
    last_crc: int | None = None
    lost: str = ""
    at: int = field(init=False)
    foreign: ForeignBatch | None = None
    writers: set[int] = field(default_factory=set)
    _batches: list[TailBatch] = field(default_factory=list)
    _open: dict[int, list[TailBatch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = self.start if self.last_crc is None else self.start - 1

    @property
    def complete(self) -> bool:
        return self.at > self.marker or bool(self.lost)

    @property
    def hanging(self) -> OpenTransaction | None:
        """The first transaction that nothing ends: its producer id has expired, or is denied to
        us."""
        first = [
            OpenTransaction(producer_id=producer_id, start=each[0].offset)
            for producer_id, each in self._open.items()
        ]
        return min(first, key=lambda each: each.start, default=None)

    @property
    def committed(self) -> list[TailBatch]:
        """In offset order, as readers see them."""
        return sorted(self._batches, key=lambda each: each.offset)

    def deleted_before(self, log_start: int) -> None:
        """The target no longer has `at`: its log starts at `log_start`."""
        if self.at < log_start <= self.start:
            self.at = self.start  # retention took the anchor's batch: there is nothing to compare
        else:
            self.lost = f"the target no longer has offset {self.at}"

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """The next batch as the target holds it."""
        if header.last_offset < self.at or self.complete:
            return
        self.at = header.last_offset + 1
        if header.base_offset < self.start and not self._holds_start(header):
            self._check_anchor(header)
        else:
            self._sort(header, batch)

    def _holds_start(self, header: BatchHeader) -> bool:
        """Others may have begun a batch before it: an era may begin inside one of Java's."""
        theirs = self.ours is None or header.producer_id not in self.ours
        return theirs and self.last_crc is None

    def _check_anchor(self, header: BatchHeader) -> None:
        ends_there = header.last_offset == self.start - 1
        if not ends_there or header.crc != self.last_crc:
            self.lost = f"the batch before target offset {self.start} is not the one recorded"

    def _sort(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            ended = self._open.pop(header.producer_id, [])
            if record_batch.read_control_type(batch) == record_batch.COMMIT_MARKER:
                self._batches.extend(ended)
            return
        if header.record_count == 0:
            return  # what compaction leaves of a producer's last batch
        if self.ours is not None and header.producer_id not in self.ours:
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
