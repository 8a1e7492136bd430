"""What the comparison of two logs found: values that print as a short table."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from connect_runtime.base import amounts, ids

_MB = 1_000_000
_DETAILED_MAX = 4
"""Partitions of a topic whose differences are printed."""


class Kind(enum.Enum):
    """What can be wrong with a mirror's record, or with one that it should have."""

    MISSING = "missing"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ALTERED = "altered"
    EXTRA = "extra"
    STALE = "not the last value of its key:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """All records of a partition with the same fault; the offsets are those of the first one.

    Of a record that one side lacks, the other side's offset is that of the record in its place,
    None at the log's end. `fields` says what was altered: key, value, headers, timestamp or
    timestamp type.
    """

    kind: Kind
    count: int
    source_offset: int | None
    target_offset: int | None
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f" ({', '.join(self.fields)})" if self.fields else ""
        return (
            f"{self.kind.value} {self.count:,}{what}, the first at source offset "
            f"{_shown(self.source_offset)}, target offset {_shown(self.target_offset)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionComparison:
    """One partition. `size` is bytes of keys and values at the source.

    `cut_short`: there was more that differed than is kept, and the rest was only counted as
    missing or extra.
    """

    source: ids.TopicPartition
    target: ids.TopicPartition
    source_records: int
    target_records: int
    size: int
    differences: tuple[Difference, ...] = ()
    cut_short: bool = False

    @property
    def equal(self) -> bool:
        return not self.differences

    def count(self, kind: Kind) -> int:
        """How many records have this fault."""
        return sum(each.count for each in self.differences if each.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Every partition that was compared; prints as a table with a line per topic."""

    partitions: tuple[PartitionComparison, ...]

    @property
    def equal(self) -> bool:
        return all(each.equal for each in self.partitions)

    @property
    def differing(self) -> tuple[PartitionComparison, ...]:
        return tuple(each for each in self.partitions if not each.equal)

    @property
    def records(self) -> int:
        """Records at the source."""
        return sum(each.source_records for each in self.partitions)

    @property
    def size(self) -> int:
        """Bytes of keys and values at the source."""
        return sum(each.size for each in self.partitions)

    def count(self, kind: Kind) -> int:
        """How many records of all partitions have this fault."""
        return sum(each.count(kind) for each in self.partitions)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(comparison: Comparison) -> Iterator[str]:
    topics = sorted({each.source.topic for each in comparison.partitions})
    width = max(len(topic) for topic in [*topics, "topic"])
    yield f"{'topic':<{width}}  partitions     records        MB  result"
    for topic in topics:
        parts = [each for each in comparison.partitions if each.source.topic == topic]
        yield (
            f"{topic:<{width}}  {len(parts):>10}  {sum(each.source_records for each in parts):>10,}"
            f"  {sum(each.size for each in parts) / _MB:>8,.1f}  {_verdict(parts)}"
        )
        yield from _details(parts)


def _verdict(parts: Sequence[PartitionComparison]) -> str:
    if not any(each.source_records or each.target_records for each in parts):
        return "empty on both sides"
    wrong = sum(1 for each in parts if not each.equal)
    return f"DIFFERENT in {wrong} of {len(parts)}" if wrong else "every record equal"


def _details(parts: Sequence[PartitionComparison]) -> Iterator[str]:
    wrong = [part for part in parts if not part.equal]
    for part in wrong[:_DETAILED_MAX]:
        for difference in part.differences:
            yield f"  {part.source}: {difference}"
        if part.cut_short:
            yield f"  {part.source}: and more that was counted, but not told apart"
    if len(wrong) > _DETAILED_MAX:
        yield f"  and {amounts.counted(len(wrong) - _DETAILED_MAX, 'more partition')}"


def _shown(offset: int | None) -> str:
    return "end" if offset is None else str(offset)
