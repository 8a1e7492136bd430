"""How large a batch may be, and how many records of a small one are worth joining with the next.

The target says what it does not take; nothing else is known of its limits, since a topic's may
change at any time. Joining costs us a little per record and saves the target a batch: it pays for
batches of few records, and for larger ones where acknowledgements are slow and time is to spare.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MADE_BYTES = 1_000_000
"""Batches that are made stay below the usual `max.message.bytes` (1 MB)."""
TINY_RECORDS = 16
"""A batch of so few records costs more to pass through than to join."""
TINY_BYTES = 16 * 1024
ANY = 1 << 31


@dataclass(slots=True)
class Joining:
    """Shared by all partitions of a task: which batches are small enough to be joined.

    `records` and `bytes` are the most that one of them may have.
    """

    records: int = TINY_RECORDS
    bytes: int = TINY_BYTES

    def spare_time(self, *, spare: bool) -> None:
        """Is there time to join more than what is cheaper joined than passed through?"""
        self.records = ANY if spare else TINY_RECORDS
        self.bytes = MADE_BYTES // 2 if spare else TINY_BYTES


@dataclass(slots=True)
class Limits:
    """Of one partition. What is as large as `refused_bytes` is opened; made batches hold
    `made_bytes` of records at most, and `records` while copying source offsets below `until`."""

    joining: Joining = field(default_factory=Joining)
    refused_bytes: int = ANY
    made_bytes: int = MADE_BYTES
    records: int = ANY
    until: int = -1

    def too_large(self, *, size: int, count: int) -> bool:
        """The target refused a batch of `size` bytes: can a smaller one be made of it?"""
        if count == 1:
            return False
        self.refused_bytes = min(self.refused_bytes, size)
        self.made_bytes = min(self.made_bytes, size) // 2
        return True

    def isolate(self, *, count: int, until: int) -> bool:
        """The target refused one of `count` records before source offset `until`: is it unknown
        which?"""
        if count == 1:
            return False
        self.records = (min(self.records, count) + 1) // 2
        self.until = max(self.until, until)
        return True

    def records_at(self, source: int) -> int:
        """The most records that a batch from this source offset on may hold."""
        if source >= self.until:
            self.records = ANY
        return self.records

    def forget(self) -> None:
        """Somebody may have changed what the target takes."""
        self.refused_bytes, self.made_bytes = ANY, MADE_BYTES
        self.records, self.until = ANY, -1
