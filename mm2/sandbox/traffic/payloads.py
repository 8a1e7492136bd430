"""Generates record contents of every form that clients can send, reproducible from a seed. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

Headers = tuple[tuple[str, bytes | None], ...]

LARGEST_VALUE_BYTES = 5_000_000
NO_TIMESTAMP_MS = -1
_DAY_MS = 86_400_000
_WORDS = (b"order", b"invoice", b"parcel", b"refund", b"customer", b"warehouse", b"carrier")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRecord:
    """A record to send. If `timestamp_ms` is not set, the sending time is used."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int = 0
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """Total bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Parameters of a batch: `count` records, numbered from `first`, whose timestamps are computed
    from `wall_ms`."""

    rng: Random
    count: int
    partitions: int
    wall_ms: int
    first: int = 0

    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


MakeRecords = Callable[[BatchSpec], Iterator[OutgoingRecord]]


def make_documents(batch: BatchSpec) -> Iterator[OutgoingRecord]:
    """Yield keyed JSON documents of 150 to 2,000 bytes, which compress like real documents."""
    rng = batch.rng
    filler = b" ".join(rng.choices(_WORDS, k=500))
    for number in batch.numbers():
        start = rng.randrange(1_000)
        note = filler[start : start + rng.randrange(50, 1_500)]
        amount, kind = rng.randrange(1_000_000), rng.choice(_WORDS)
        yield OutgoingRecord(
            key=b"customer-%d" % (amount % 1_000),
            value=b'{"id":%d,"amount":%d.0,"kind":"%b","note":"%b"}' % (number, amount, kind, note),
            partition=rng.randrange(batch.partitions),
        )


_HEADERS: tuple[Headers, ...] = (
    (),
    (("trace", b"00-4bf92f3577b34da6a3ce929d0e0e4736"),),
    (("empty", b""), ("null", None)),
    (("twice", b"1"), ("twice", b"2"), ("twice", b"1")),
    (("", b"a header without a name"), ("Größe", "groß".encode())),
    tuple((f"h{number}", bytes([number])) for number in range(40)),
)
_KEYS = (None, b"", b"\x00", b"key", "ключ".encode(), b"k" * 3_000)
_VALUES = (None, b"", b"\x00", b"value", bytes(range(256)), b"v" * 20_000)


def make_varied_shape_records(batch: BatchSpec) -> Iterator[OutgoingRecord]:
    """Yield records with null, empty, binary and long keys and values and various headers, in all
    combinations.

    Timestamps are within the last ten minutes and out of order.
    """
    combinations = list(itertools.product(_KEYS, _VALUES, _HEADERS))
    for number in batch.numbers():
        # 97 is coprime to the number of combinations, so that all of them occur, well mixed.
        key, value, headers = combinations[number * 97 % len(combinations)]
        yield OutgoingRecord(
            key=key,
            value=value,
            headers=headers,
            partition=number % batch.partitions,
            timestamp_ms=batch.wall_ms - batch.rng.randrange(600_000),
        )


_SIZES = (1, LARGEST_VALUE_BYTES, 10, 1_000_000, 100, 100_000, 1_000, 10_000)


def make_varied_size_records(batch: BatchSpec) -> Iterator[OutgoingRecord]:
    """Yield records with incompressible values of 1 byte to 5 MB, mixing small and large ones."""
    for number in batch.numbers():
        yield OutgoingRecord(
            value=batch.rng.randbytes(_SIZES[number % len(_SIZES)]),
            partition=number // len(_SIZES) % batch.partitions,
        )


def make_counter_records(batch: BatchSpec) -> Iterator[OutgoingRecord]:
    """Yield small records, round-robin over all partitions."""
    for number in batch.numbers():
        yield OutgoingRecord(
            key=b"%d" % number,
            value=b"counter %d %x" % (number, batch.rng.getrandbits(64)),
            partition=number % batch.partitions,
        )


def make_documents_with_past_timestamps(batch: BatchSpec) -> Iterator[OutgoingRecord]:
    """Yield documents with event timestamps from three days ago, as in a backfill."""
    for number, record in zip(batch.numbers(), make_documents(batch), strict=True):
        yield OutgoingRecord(
            key=record.key,
            value=record.value,
            partition=record.partition,
            timestamp_ms=batch.wall_ms - 3 * _DAY_MS + number,
        )


def make_records_without_timestamps(batch: BatchSpec) -> Iterator[OutgoingRecord]:
    """Yield records without a timestamp (-1), mixed with records from the year 1970.

    No client can send timestamp 0, because librdkafka replaces it with the current time.
    """
    for number in batch.numbers():
        yield OutgoingRecord(
            value=b"timeless %d %x" % (number, batch.rng.getrandbits(64)),
            partition=number % batch.partitions,
            timestamp_ms=NO_TIMESTAMP_MS if number % 2 else 1 + number,
        )
