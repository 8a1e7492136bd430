"""Reads a stretch of a real log, as far as time and bytes reach, to see whose its records are."""

from __future__ import annotations

from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from mm2.core.failover import whose
from mm2.formats import record_batch

SCAN_S = 30.0
BYTES_MAX = 256 << 20


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
) -> bool:
    """Is it read to its end? Batches are taken from `found.start` on, or from where the log begins
    by now, for `SCAN_S` at most and up to `end`. Raises `ConnectError` where the cluster does not
    answer."""
    end_s = clock.now_s() + min(SCAN_S, end.left_s(clock.now_s()))
    at, read = found.start, 0
    if at < found.end:
        at = max(at, place.start())
    while at < found.end:
        if clock.now_s() >= end_s or read >= BYTES_MAX:
            return False
        for header, batch in place.batches(at):
            control = record_batch.control_type(batch) if header.is_control else None
            found.take(header, control)
            at = max(at, header.last_offset + 1)
            read += header.size
    return True
