"""What is written to compacted topics, and how to wait until their cleaner has done its work.

Rounds of records, each a good while after the one before by their timestamps: with the next round
a segment is full, and only full segments are cleaned. Each round has a producer of its own, whose
last batch the cleaner keeps even when it has emptied it.
"""

from __future__ import annotations

from collections.abc import Iterator

from connect_runtime.system import polling
from mm2.sandbox.traffic import payloads
from mm2.sandbox.traffic.odd import desk as desks
from mm2.sandbox.traffic.odd import writers

SEGMENT_MS = 100
CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.01",
}

_STEP_MS = 1_000
_TOMBSTONE_CHANCE = 0.1
_CLOSING = 3
_BATCH_RECORDS = 20


def plain(desk: desks.Desk) -> None:
    """Every codec, tombstones, idempotent producers that are gone."""
    for number in range(desk.much(quick=6, full=40)):
        desk.send(
            _round(desk, number),
            codec=writers.CODECS[number % len(writers.CODECS)],
            enable_idempotence=True,
            batch_num_messages=_BATCH_RECORDS,
        )
    _close(desk)


def transactional(desk: desks.Desk) -> None:
    """One producer's transactions, of which every third is aborted."""
    rounds = (
        (_round(desk, number), number % 3 != 2) for number in range(desk.much(quick=6, full=30))
    )
    desk.send_transactions(rounds, transactional_id=desk.name)
    _close(desk)


def old_format(desk: desks.Desk) -> None:
    """For formats before v2: no idempotence, no headers, no zstd."""
    codecs = ("none", "gzip", "snappy", "lz4")
    for number in range(desk.much(quick=6, full=32)):
        desk.send(_round(desk, number), codec=codecs[number % len(codecs)])
    # v0 has no timestamps: its segments are as old as their files.
    polling.until(lambda: False, timeout_s=2 * SEGMENT_MS / 1_000)
    _close(desk)


def _round(desk: desks.Desk, number: int) -> Iterator[payloads.Outgoing]:
    """Most of the keys, the later ones more often: batches are thinned out, and some emptied."""
    keys = desk.much(quick=120, full=5_000)
    at_ms = _time_of(desk, number)
    for key in range(keys):
        for partition in range(desk.partitions):
            if desk.rng.random() < 0.4 + 0.3 * key / keys:
                gone = desk.rng.random() < _TOMBSTONE_CHANCE
                value = b"round %d %x" % (number, desk.rng.getrandbits(200))
                yield payloads.Outgoing(
                    key=b"key-%d" % key,
                    value=None if gone else value,
                    partition=partition,
                    timestamp_ms=at_ms + key % SEGMENT_MS,
                )


def _time_of(desk: desks.Desk, number: int) -> int:
    """Up to now, not beyond: fresh records are what is meant."""
    return desk.now_ms - 60 * _STEP_MS + number * _STEP_MS


def _close(desk: desks.Desk) -> None:
    """Keys that nobody else has: every round before them can be cleaned, and these stay.

    Later than everything, markers of transactions included, which carry the broker's time.
    """
    after_ms = desk.clock.wall_ms() + _STEP_MS
    for number in range(_CLOSING):
        desk.send(
            payloads.Outgoing(
                key=b"closing-%d" % number,
                value=b"closing",
                partition=partition,
                timestamp_ms=after_ms + number * _STEP_MS,
            )
            for partition in range(desk.partitions)
        )
