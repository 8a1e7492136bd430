"""Batches as they go to the target: a source batch as it is, or made of what was opened.

A batch is made where one cannot be passed through, where the target refused it as it was, and
where small ones are joined. Which producer writes it and with what sequence is stamped on later,
so that it does not matter which way a batch went.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mm2.core.copy import source_batches
from mm2.formats import record_batch, records


class Piece(NamedTuple):
    """From source offset `source` on, records stand at `place`, `place` + 1, … of a batch."""

    source: int
    place: int


class Outgoing(NamedTuple):
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
    pieces: tuple[Piece, ...]
    oldest_timestamp: int
    max_timestamp: int
    source_epoch: int
    held: int
    why: str
    opened: bool = False


def passed(entry: source_batches.Copyable) -> Outgoing:
    """The batch as it is."""
    header = entry.header
    return Outgoing(
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


def made(
    entries: Sequence[source_batches.Copyable],
    found: Sequence[records.Record],
    *,
    codec: int,
    batch_bytes: int,
    records_max: int,
    why: str,
    opened: bool = False,
    next_source: int | None = None,
) -> list[Outgoing]:
    """Batches of these records of `entries`, of one leader epoch, in order; none for none.

    Each holds at most `records_max` records and `batch_bytes` of them (uncompressed), but one at
    least. `next_source`: where the source is read on; None: behind the last entry.
    """
    if not found:
        return []
    last = entries[-1].header
    behind = last.last_offset + 1 if next_source is None else next_source
    batches: list[Outgoing] = []
    starts = list(_starts(found, batch_bytes=batch_bytes, records_max=records_max))
    for start, stop in zip(starts, [*starts[1:], len(found)], strict=True):
        part = found[start:stop]
        batch = memoryview(records.build(part, codec=codec))
        header = record_batch.read_header(batch)
        batches.append(
            Outgoing(
                batch,
                header.attributes,
                len(part),
                part[0].offset,
                found[stop].offset if stop < len(found) else behind,
                _pieces(part),
                header.oldest_timestamp,
                header.max_timestamp,
                last.leader_epoch,
                len(batch),
                why,
                opened,
            )
        )
    return batches


def _starts(
    opened: Sequence[records.Record], *, batch_bytes: int, records_max: int
) -> Iterator[int]:
    """Where each batch begins among the records."""
    sizes = _sizes(opened)
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


_RECORD_BYTES = 12
"""What stands before a record's body, generously."""


def _sizes(opened: Sequence[records.Record]) -> list[int]:
    return [len(body) + _RECORD_BYTES for _, _, body in opened]


def plain_bytes(opened: Sequence[records.Record]) -> int:
    """What they come to in a batch, uncompressed."""
    return sum(_sizes(opened))


def _pieces(part: Sequence[records.Record]) -> tuple[Piece, ...]:
    first = part[0].offset
    if part[-1].offset - first == len(part) - 1:
        return ()
    found = []
    ahead: int | None = None
    for place, record in enumerate(part):
        if record.offset - place != ahead:
            ahead = record.offset - place
            found.append(Piece(record.offset, place))
    return tuple(found)
