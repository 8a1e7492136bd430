"""Counts what stands in a partition by its batch headers, straight from a sandbox broker's files.

An ordinary consumer would take longer to count a copy than the copy took. Nothing of the copiers
is trusted: the broker's own log is read, and markers of transactions are not counted as records.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mm2.formats import record_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """`size`: bytes of the batches with records in them, headers included."""

    records: int = 0
    batches: int = 0
    size: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            records=self.records + other.records,
            batches=self.batches + other.batches,
            size=self.size + other.size,
        )


def topic(data: Path, name: str, *, partitions: int) -> dict[int, Counts]:
    """By partition; `data` is the broker's log directory."""
    return {number: partition(data / f"{name}-{number}") for number in range(partitions)}


def partition(folder: Path) -> Counts:
    """All segments of one partition; none at all when the folder is not there."""
    total = Counts()
    for segment in sorted(folder.glob("*.log")):
        total += _segment(segment)
    return total


def _segment(path: Path) -> Counts:
    records = batches = size = 0
    with path.open("rb") as stream:
        end = os.fstat(stream.fileno()).st_size
        at = 0
        while at + record_batch.HEADER_BYTES <= end:
            read = os.pread(stream.fileno(), record_batch.HEADER_BYTES, at)
            header = record_batch.read_batch_header(memoryview(read))
            if header.length <= 0:
                break  # preallocated, or just being written
            if not header.is_control:
                records += header.record_count
                batches += 1
                size += header.size
            at += header.size
    return Counts(records=records, batches=batches, size=size)


def verdict(source: Mapping[int, int], target: Mapping[int, int]) -> str:
    """What a copy got wrong, "" when it has as many records as its source in each partition."""
    faults = []
    for number, expected in sorted(source.items()):
        there = target.get(number, 0)
        if there < expected:
            faults.append(f"partition {number} lost {expected - there:,}")
        elif there > expected:
            faults.append(f"partition {number} has {there - expected:,} too many")
    return ", ".join(faults)
