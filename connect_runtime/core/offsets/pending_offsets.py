"""Offsets on their way into a store: newer ones gather while a flush is under way.

One flush at a time. What a flush that failed had taken comes back, under what has been given
since: nothing is lost and nothing old wins (Java: OffsetStorageWriter).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Flush:
    """One attempt; hand its `number` back with how it went.

    `records` are key and value as stored; value None deletes.
    """

    number: int
    records: Mapping[bytes, bytes | None] = field(repr=False)


@dataclass(slots=True)
class PendingOffsets:
    """Invariants: at most one flush is under way; what it took is in no other place."""

    connector: str
    """For messages."""
    _given: dict[bytes, bytes | None] = field(default_factory=dict)
    _taken: dict[bytes, bytes | None] | None = None
    _number: int = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        """This is how far a partition is, both as stored; None forgets it.

        Encode them first, with `OffsetLog.key_for` and `offset_records`: a task that gives what
        cannot be stored should hear of it then. (Java finds out at the flush, and flushes nothing
        from then on.)
        """
        self._given.pop(key, None)
        self._given[key] = value

    @property
    def flushing(self) -> bool:
        return self._taken is not None

    @property
    def empty(self) -> bool:
        """Nothing waits to be flushed."""
        return not self._given

    def begin(self) -> Flush | None:
        """Take everything that waits; None if nothing does. Not while a flush is under way."""
        assert self._taken is None, f"offsets of {self.connector} are being flushed already"
        if not self._given:
            return None
        self._taken, self._given = self._given, {}
        self._number += 1
        return Flush(self._number, dict(self._taken))

    def succeeded(self, number: int) -> bool:
        """It is stored. False if that flush was given up before: nobody waits for it any more."""
        if self._taken is None or number != self._number:
            return False
        self._taken = None
        return True

    def failed(self, number: int) -> bool:
        """It is not stored, or took too long; what it took waits again. False as above."""
        if self._taken is None or number != self._number:
            return False
        self._given = {**self._taken, **self._given}
        self._taken = None
        return True

    def check_invariants(self) -> None:
        assert self._taken is None or self._taken, self.connector
