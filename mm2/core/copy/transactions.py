"""When a partition copies in transactions, when one is committed, and when the fence must be
renewed.

Brokers forget a producer by the *timestamps* of its records, so records older than half of that
time are copied in transactions, whose markers carry the time of now.
"""

from __future__ import annotations

from dataclasses import dataclass

COMMIT_EVERY_S = 0.2
COMMIT_BYTES = 16 * 1024 * 1024
STAY_S = 2.0
"""Fresh batches among old ones still go in transactions, so that the mode does not flap."""


@dataclass(slots=True, kw_only=True)
class TransactionMode:
    """`open`: the partition was added to a transaction that is not committed yet.

    Invariant: `open` only while `active`, or while the mode is about to end with a commit.
    """

    always: bool
    renew_after_s: float
    marked_at_s: float
    active: bool = False
    open: bool = False
    open_bytes: int = 0
    plain_since_marker: bool = False
    _opened_at_s: float = 0.0
    _old_seen_at_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.active = self.always

    def sent(self, size: int, *, old: bool, now_s: float) -> None:
        if not self.active:
            self.plain_since_marker = True
            return
        if not self.open_bytes:
            self._opened_at_s = now_s
        self.open_bytes += size
        if old:
            self._old_seen_at_s = now_s

    def begin(self, now_s: float) -> None:
        """An old batch is next: from here on in transactions."""
        self.active = True
        self._old_seen_at_s = now_s

    def opened(self) -> None:
        self.open = True
        self.open_bytes = 0

    def marked(self, now_s: float) -> None:
        """A marker of ours was read back."""
        self.open = False
        self.open_bytes = 0
        self.marked_at_s = now_s
        self.plain_since_marker = False

    def commit_due(self, now_s: float) -> bool:
        return self.open_bytes >= COMMIT_BYTES or (
            self.open_bytes > 0 and now_s - self._opened_at_s >= COMMIT_EVERY_S
        )

    def may_end(self, now_s: float) -> bool:
        """No batch has been old for a while."""
        return not self.always and now_s - self._old_seen_at_s >= STAY_S

    def renewal_due(self, now_s: float) -> bool:
        return now_s - self.marked_at_s >= self.renew_after_s
