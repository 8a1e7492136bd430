"""What is mirrored: how many records of what shape, and what was expected of us with them. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

PARTITIONS = 4
LATENCY_RECORD_BYTES = 100


class Measure(enum.Enum):
    """What is compared; of `CPU` less is better."""

    BYTES = "MB/s"
    RECORDS = "records/s"
    CPU = "CPU-s per GB, steady"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """At least so many times better than each rival."""

    factor: float
    measure: Measure


class Shape(enum.Enum):
    """How the records lie in the source's log."""

    BATCHES = "batches of many"
    SINGLE = "one record per batch"
    GAPS = "cleaned: every batch has gaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`records` of `record_bytes` (values), in batches of `batch_bytes`, compressed by `codec`.

    Of `GAPS` one record in ten is gone when it is measured: `records` are those that are written.
    `floor`: a bare relay of its bytes is measured, too. `one_core`: its mirrors have one core.
    """

    topic: str
    title: str
    records: int
    record_bytes: int
    batch_bytes: int
    partitions: int = PARTITIONS
    codec: str = "none"
    shape: Shape = Shape.BATCHES
    goals: tuple[Goal, ...] = ()
    floor: bool = False
    one_core: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A workload that stands on the source: records by partition, and how its batches came out."""

    workload: Workload
    records: dict[int, int]
    batch_bytes_mean: int

    @property
    def count(self) -> int:
        """Records of all partitions."""
        return sum(self.records.values())

    @property
    def size(self) -> int:
        """Bytes of their values."""
        return self.count * self.workload.record_bytes
