"""What is written to odd topics of today's format, topic by topic."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from mm2.sandbox.traffic import payloads, transactions
from mm2.sandbox.traffic.odd import anatomy, batch_writer
from mm2.sandbox.traffic.odd import desk as desks

CODECS = anatomy.CODECS
LARGE_RECORD_BYTES = 10_000_000
LARGE_MESSAGE_BYTES = 10_600_000
BIG_BATCH_BYTES = 4_000_000
BIG_BATCH_LIMIT_BYTES = 8_000_000

_DAY_MS = 86_400_000
_YEAR_MS = 365 * _DAY_MS
_YEAR_2001_MS = 978_307_200_000
_YEAR_9999_MS = 253_402_300_799_000
_DELETE_HORIZON = 0x40


def codecs(desk: desks.Desk) -> None:
    """All codecs in one partition, batch after batch."""
    for _ in range(desk.much(quick=3, full=100)):
        for codec in CODECS:
            desk.send(desk.documents(desk.rng.randrange(2, 60)), codec=codec)


def shapes(desk: desks.Desk) -> None:
    """Tombstones, null and empty keys, headers without values or with the same name."""
    for codec, count in (("none", 432), ("zstd", 432)):
        batch = payloads.Batch(
            rng=desk.rng,
            count=desk.much(quick=count, full=20 * count),
            partitions=desk.partitions,
            wall_ms=desk.now_ms,
        )
        desk.send(payloads.shapes(batch), codec=codec)


def committed_and_aborted(desk: desks.Desk) -> None:
    """Interleaved transactions, some of them aborted."""
    run = transactions.Transactions(desk.clients, topic=desk.name, prefix=desk.name, now=desk.clock)
    try:
        run.run(
            payloads.Batch(
                rng=desk.rng,
                count=desk.much(quick=500, full=20_000),
                partitions=desk.partitions,
                wall_ms=desk.now_ms,
            )
        )
    finally:
        run.close()
    desk.written += run.totals.committed


def large(desk: desks.Desk) -> None:
    """Records of 10 MB between small ones; one that shrinks to almost nothing."""

    def records(count: int) -> Iterator[payloads.Outgoing]:
        for number in range(count):
            yield from desk.documents(5)
            yield payloads.Outgoing(
                key=b"large-%d" % number,
                value=desk.rng.randbytes(LARGE_RECORD_BYTES),
                timestamp_ms=desk.now_ms,
            )

    count = desk.much(quick=2, full=10)
    desk.send(records(count), message_max_bytes=LARGE_MESSAGE_BYTES)
    shrinking = payloads.Outgoing(
        key=b"shrinks", value=b"ten million bytes" * 588_235, timestamp_ms=desk.now_ms
    )
    desk.send([shrinking], codec="gzip", message_max_bytes=LARGE_MESSAGE_BYTES)


def append_time(desk: desks.Desk) -> None:
    """The broker dates these; batches of many and of one."""
    for codec in CODECS:
        desk.send(desk.documents(desk.much(quick=40, full=2_000)), codec=codec)
        desk.send(desk.documents(5), codec=codec, batch_num_messages=1)


def past(desk: desks.Desk) -> None:
    """Without a timestamp, of 1970, of 2001, of last week: mixed in a batch, and batch by batch."""
    ages = (-1, 1, _YEAR_2001_MS, desk.now_ms - 3 * _YEAR_MS, desk.now_ms - 7 * _DAY_MS)
    _dated(desk, ages)


def future(desk: desks.Desk) -> None:
    """In an hour, a year, and in the year 9999."""
    ages = (desk.now_ms + 2 * 3_600_000, desk.now_ms + _YEAR_MS, _YEAR_9999_MS)
    _dated(desk, ages)


def _dated(desk: desks.Desk, stamps: tuple[int, ...]) -> None:
    count = desk.much(quick=30, full=2_000)
    for codec in CODECS:
        mixed = [
            dataclasses.replace(each, timestamp_ms=stamps[number % len(stamps)])
            for number, each in enumerate(desk.documents(count))
        ]
        desk.send(mixed, codec=codec)
        for stamp in stamps:
            alike = [
                dataclasses.replace(each, timestamp_ms=stamp) for each in desk.documents(count)
            ]
            desk.send(alike, codec=codec)


def single(desk: desks.Desk) -> None:
    """Batches of one record, plain and compressed."""
    for codec in CODECS:
        count = desk.much(quick=40, full=4_000)
        desk.send(_repetitive(desk, count), codec=codec, batch_num_messages=1, linger_ms=0)


def _repetitive(desk: desks.Desk, count: int) -> Iterator[payloads.Outgoing]:
    """A client sends uncompressed what compression does not make smaller: this gets smaller."""
    for each in desk.documents(count):
        yield dataclasses.replace(each, value=(each.key or b"") * desk.rng.randrange(30, 60))


def tiny(desk: desks.Desk) -> None:
    """A huge number of batches of one to three records."""
    for most in (1, 2, 3):
        records = (
            dataclasses.replace(each, value=(each.value or b"")[:40])
            for each in desk.documents(desk.much(quick=1_000, full=40_000))
        )
        desk.send(records, batch_num_messages=most, linger_ms=0)


def big_batches(desk: desks.Desk) -> None:
    """Batches of 4 MB with many records each; what they are made of shrinks by half at most."""
    for codec in ("none", "lz4", "zstd"):
        for _ in range(desk.much(quick=1, full=8)):
            desk.send(
                _half_random(desk, 1_000),
                codec=codec,
                message_max_bytes=BIG_BATCH_LIMIT_BYTES,
                batch_size=BIG_BATCH_BYTES,
                batch_num_messages=100_000,
                linger_ms=3_000,
            )


def _half_random(desk: desks.Desk, count: int) -> Iterator[payloads.Outgoing]:
    for each in desk.documents(count):
        yield dataclasses.replace(each, value=desk.rng.randbytes(2_000) + b"." * 2_000)


def by_hand(desk: desks.Desk) -> None:
    """Legal batches that no client writes: time 0, time running backwards, odd base timestamps."""
    now = desk.now_ms
    for _ in range(desk.much(quick=3, full=300)):
        for compressed in (False, True):
            desk.append(_stamped(desk, [0, 0, 0]), compressed=compressed)
            desk.append(_stamped(desk, [now]), compressed=compressed)
            desk.append(_stamped(desk, [now, 0, now - 5, -1, now]), compressed=compressed)
            desk.append(
                _stamped(desk, [now + 1, now]), compressed=compressed, base_timestamp_ms=now + 9_000
            )
            desk.append(_stamped(desk, [now] * 40), compressed=compressed, base_timestamp_ms=0)
            grave = payloads.Outgoing(key=b"gone", value=None)
            desk.append(
                [batch_writer.Stamped(record=grave, timestamp_ms=now)],
                compressed=compressed,
                attributes=_DELETE_HORIZON,
            )


_HEADERS: payloads.Headers = (("", b""), ("twice", None), ("twice", b"2"), ("twice", None))


def _stamped(desk: desks.Desk, stamps: list[int]) -> list[batch_writer.Stamped]:
    records = desk.documents(len(stamps))
    return [
        batch_writer.Stamped(
            record=dataclasses.replace(each, headers=_HEADERS if number % 2 else ()),
            timestamp_ms=stamp,
        )
        for number, (each, stamp) in enumerate(zip(records, stamps, strict=True))
    ]
