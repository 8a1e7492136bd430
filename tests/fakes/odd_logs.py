"""Source logs as odd as real ones, made from a seed, with what a reader sees of them.

Of random size, codec, flags, age and epoch, with gaps within and between batches, transactions
that end either way, append times, what compaction leaves, and messages of older formats.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from mm2.formats import record_batch, record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from tests.fakes import batches, messages
from tests.fakes.batches import Record, Stamp

NOW_MS = 1_790_000_000_000
OLD_BEFORE_MS = NOW_MS - 3_600_000
PRODUCERS = (11, 12)


@dataclass(slots=True, kw_only=True)
class OddLog:
    """`held` are its batches in order, `seen` what a read_committed reader gets, `aborted` the
    producer, first offset and marker of what was aborted; `end` is behind the last batch."""

    held: list[bytes] = field(default_factory=list)
    seen: list[BatchRecord] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    codecs: tuple[int, ...] = (0,)
    _open: dict[int, tuple[int, list[BatchRecord]]] = field(default_factory=dict)
    epoch: int = 3

    def fetch(self, position: int, most: int) -> bytes:
        """At most so many batches, from that which holds the position on."""
        first = next((at for at, each in enumerate(self.held) if last(each) >= position), 0)
        return b"".join(self.held[first : first + most]) if position < self.end else b""

    def aborted_from(self, position: int) -> list[tuple[int, int]]:
        """As a fetch from there tells."""
        return [(each, first) for each, first, marker in self.aborted if marker >= position]


def last(held: bytes) -> int:
    """Of a batch, or of a message of an older format."""
    if held[16] < record_batch.MAGIC_V2:
        return int.from_bytes(held[:8])
    return record_batch.read_batch_header(memoryview(held)).last_offset


def made(rng: random.Random, *, batches_most: int = 12) -> OddLog:
    codecs = rng.choice([(0,), (0,), (rng.randint(1, 4),), (0, 0, 1, 2, 3, 4)])
    log = OddLog(end=rng.choice([0, 0, 7, 1 << 40]), codecs=codecs)
    for _ in range(rng.randint(1, batches_most)):
        if rng.random() < 0.15:
            log.end += rng.choice([1, 3, 900])
        if rng.random() < 0.1:
            log.epoch += 1
        _append(log, rng)
    for producer in list(log._open):
        _end(log, producer, commit=rng.random() < 0.5)
    log.seen.sort()
    return log


def _append(log: OddLog, rng: random.Random) -> None:
    kind = rng.random()
    if log._open and kind < 0.15:
        _end(log, rng.choice(list(log._open)), commit=rng.random() < 0.5)
    elif kind < 0.25:
        _append_old(log, rng)
    elif kind < 0.3:
        _append_emptied(log, rng)
    else:
        _append_data(log, rng)


def _append_data(log: OddLog, rng: random.Random) -> None:
    found, behind = _records(log.end, rng)
    base = log.end
    flags = rng.choice([0, 0, 0, 0, record_batch.DELETE_HORIZON, record_batch.LOG_APPEND_TIME])
    producer = rng.choice([-1, -1, *PRODUCERS])
    transactional = producer in log._open or (producer >= 0 and rng.random() < 0.7)
    if transactional:
        flags |= record_batch.TRANSACTIONAL
    codec = rng.choice(log.codecs)
    stamp = Stamp(base_offset=base, leader_epoch=log.epoch, producer_id=producer, attributes=flags)
    said = [record_codec.decode_record_body(each.body) for each in found]
    held = [
        Record(
            key=one.key,
            value=one.value,
            headers=one.headers,
            timestamp=each.timestamp,
            offset_delta=each.offset - base,
        )
        for one, each in zip(said, found, strict=True)
    ]
    log.end = found[-1].offset + 1 + behind
    log.held.append(batches.data(held, stamp, last_offset_delta=log.end - 1 - base, codec=codec))
    if flags & record_batch.LOG_APPEND_TIME:
        newest = max(each.timestamp for each in found)
        found = [each._replace(timestamp=newest) for each in found]
    if transactional:
        log._open.setdefault(producer, (base, []))[1].extend(found)
    else:
        log.seen.extend(found)


def _records(base: int, rng: random.Random) -> tuple[list[BatchRecord], int]:
    """With how many offsets behind the last of them are empty."""
    gapped = rng.random() < 0.25
    count = rng.choice([1, 1, 1, 2, 3, 8, 40])
    around = rng.choice([NOW_MS, NOW_MS, OLD_BEFORE_MS, 0])
    at = base + (rng.choice([0, 1, 4]) if gapped else 0)
    found = []
    for _ in range(count):
        value = rng.choice([None, b"", rng.randbytes(rng.choice([3, 30, 300]))])
        key = rng.choice([None, b"k", rng.randbytes(9)])
        headers = ((b"h", rng.choice([None, b"x"])),) * rng.choice([0, 0, 0, 2])
        body = record_codec.encode_record_body(RecordFields(key, value, headers))
        found.append(BatchRecord(at, around + rng.choice([0, 0, 1, -1, 9000, 40_000]), body))
        at += rng.choice([1, 1, 2, 7]) if gapped else 1
    return found, rng.choice([0, 0, 5]) if gapped else 0


def _append_emptied(log: OddLog, rng: random.Random) -> None:
    stamp = Stamp(base_offset=log.end, leader_epoch=log.epoch, producer_id=rng.choice(PRODUCERS))
    size = rng.randint(1, 9)
    log.held.append(batches.data([], stamp, last_offset_delta=size - 1))
    log.end += size


def _append_old(log: OddLog, rng: random.Random) -> None:
    magic, codec, count = rng.choice([0, 1]), rng.choice([0, 1, 2, 3]), rng.randint(1, 5)
    if codec == 0:
        count = 1
    values = [rng.randbytes(9) for _ in range(count)]
    first = log.end
    held = [
        messages.message(
            at + (0 if magic == 1 and codec else first), value, magic=magic, timestamp=NOW_MS + at
        )
        for at, value in enumerate(values)
    ]
    log.end += count
    if codec:
        held = [
            messages.wrapper(log.end - 1, held, magic=magic, codec=codec, timestamp=NOW_MS + count)
        ]
    log.held.extend(held)
    log.seen.extend(
        BatchRecord(
            first + at,
            NOW_MS + at if magic else -1,
            record_codec.encode_record_body(RecordFields(None, value)),
        )
        for at, value in enumerate(values)
    )
    log.epoch = -1 if log.epoch < 0 else log.epoch


def _end(log: OddLog, producer: int, *, commit: bool) -> None:
    first, found = log._open.pop(producer)
    stamp = Stamp(
        base_offset=log.end, leader_epoch=log.epoch, producer_id=producer, producer_epoch=0
    )
    log.held.append(batches.marker(stamp, commit=commit, timestamp=NOW_MS))
    log.end += 1
    if commit:
        log.seen.extend(found)
    else:
        log.aborted.append((producer, first, log.end - 1))
