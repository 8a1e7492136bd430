"""Reads a stretch of a real log, as far as time and bytes reach, to see whose its records are."""

from __future__ import annotations

import threading
from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from mm2.core.failover import whose
from mm2.formats import record_batch

SCAN_S = 30.0
BYTES_MAX = 256 << 20


STRETCHES_MAX = 400_000
"""So many may be held by all scans together: 100 MB."""


class Room:
    """For the stretches that scans hold; several threads share it."""

    def __init__(self, most: int = STRETCHES_MAX) -> None:
        self._left = most
        self._lock = threading.Lock()

    def takes(self, more: int) -> bool:
        """Is there room for so many more? It is taken then; fewer than none are given back."""
        with self._lock:
            if more > self._left:
                return False
            self._left -= more
            return True


class Readable(Protocol):
    """A partition's log: a `fenced_partition.FencedPartition`."""

    def start(self) -> int: ...

    def batches(self, offset: int) -> list[tuple[record_batch.BatchHeader, memoryview]]: ...


def scan(
    place: Readable,
    found: whose.Whose,
    *,
    clock: base_clock.Clock,
    end: base_deadline.Deadline,
    room: Room | None = None,
) -> bool:
    """Is it read to its end? Batches are taken from `found.start` on, or from where the log begins
    by now, for `SCAN_S` at most and up to `end`, as long as there is `room` for what is kept of
    them; what is read to its end keeps it. Raises `ConnectError` where the cluster does not
    answer."""
    room, held = room or Room(), 0
    end_s = clock.now_s() + min(SCAN_S, end.left_s(clock.now_s()))
    at, read = found.start, 0
    if at < found.end:
        at = max(at, place.start())
    while at < found.end:
        if clock.now_s() >= end_s or read >= BYTES_MAX:
            room.takes(-held)
            return False
        for header, batch in place.batches(at):
            control = record_batch.control_type(batch) if header.is_control else None
            found.take(header, control)
            at = max(at, header.last_offset + 1)
            read += header.size
        if not room.takes(found.held - held):
            room.takes(-held)
            return False
        held = found.held
    return True
