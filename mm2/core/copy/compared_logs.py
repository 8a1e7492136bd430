"""What was fetched of a log, as items that can be found on the other side: see `matching`.

Both sides are read as readers of committed records see them. What was aborted on the source is
kept apart: Java's mirror may hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import errors
from mm2.core.copy import opening, source_batches, walk
from mm2.core.offsets import log_items
from mm2.formats import record_batch, record_sets


class TooLargeError(errors.FatalError):
    """A log has more records than can be compared."""


@dataclass(slots=True, kw_only=True)
class ComparedLog:
    """One log from offset `start` on up to, not including, `upto`, fed in order.

    `optional_aborted`: what was aborted counts as optional, else as nothing. What the producers of
    `opposite` wrote is nobody's to copy. `transform` is what the copies did to the records. Of more
    than `records_max` none is kept.
    """

    start: int
    upto: int
    records_max: int
    optional_aborted: bool = False
    opposite: frozenset[int] = frozenset()
    transform: opening.Transform | None = None
    items: log_items.Items = field(init=False)

    def __post_init__(self) -> None:
        self.items = log_items.Items(start=self.start)

    @property
    def at(self) -> int:
        """Where to read on."""
        return self.items.end

    @property
    def complete(self) -> bool:
        return self.at >= self.upto

    def add(self, held: memoryview, aborted: Sequence[tuple[int, int]]) -> None:
        """One fetch from `at` on. Raises `DamagedBatchError`, `UnreadableError`, `TransformError`
        and `TooLargeError`: what cannot be read or held cannot be compared."""
        found = source_batches.scan(held, position=self.at, aborted=aborted)
        kept = {each.header.base_offset for each in found.batches}
        for header, batch in walk.sound(held, start=self.at):
            if header.base_offset >= self.upto:
                self.items.skip_to(self.upto)
                return
            if header.last_offset < self.at:
                continue
            self.items.skip_to(header.base_offset, hole=True)
            self._add(header, batch, committed=header.base_offset in kept)
            if len(self.items) > self.records_max:
                raise TooLargeError(
                    f"more than {self.records_max:,} records, which is all that the memory for "
                    "comparing one partition holds (--memory-gb)"
                )

    def _add(self, header: record_batch.BatchHeader, batch: memoryview, *, committed: bool) -> None:
        behind = min(header.last_offset + 1, self.upto)
        skipped = header.is_control or header.producer_id in self.opposite
        if skipped or not (committed or self.optional_aborted):
            self.items.skip_to(behind)
            return
        entry = source_batches.Copyable(header, batch, max(header.base_offset, self.at), "")
        for offset, digest in self._digests(entry):
            if offset >= self.upto:
                break
            if digest is None:
                self.items.skip_to(offset, hole=True)
                self.items.skip_to(offset + 1)
            else:
                self.items.add(offset, digest, optional=not committed, writer=header.producer_id)
        self.items.skip_to(behind, hole=header.record_count <= header.last_offset_delta)

    def _digests(self, entry: source_batches.Copyable) -> list[tuple[int, int | None]]:
        """By offset; None for what the transform leaves out."""
        opened = opening.open_batch(entry)
        if self.transform is None:
            return [(each.offset, hash(each[1:])) for each in opened]
        became: Mapping[int, int] = {
            each.offset: hash(each[1:]) for each in opening.open_batch(entry, self.transform)
        }
        return [(each.offset, became.get(each.offset)) for each in opened]


Unreadable = (
    record_sets.DamagedBatchError,
    opening.UnreadableError,
    opening.TransformError,
    TooLargeError,
)
"""What `ComparedLog.add` raises."""
