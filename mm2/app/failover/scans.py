"""Reads a stretch of a real log, as far as time and bytes reach, to see whose its records are."""

from __future__ import annotations

from connect_runtime.base import clock as base_clock
from mm2.core.failover import whose
from mm2.formats import record_batch
from mm2.pipeline import fenced_partition

SCAN_S = 30.0
BYTES_MAX = 256 << 20


def scan(
    place: fenced_partition.FencedPartition, found: whose.Whose, *, clock: base_clock.Clock
) -> bool:
    """Is it read to its end? Batches are taken from `found.start` on, or from where the log begins
    by now. Raises `ConnectError` where the cluster does not answer."""
    end_s = clock.now_s() + SCAN_S
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
