"""When a partition copies in transactions, when one is committed, and when the fence must be
renewed.

Brokers forget a producer by the *timestamps* of its records, so records older than half of that
time are copied in transactions, whose markers carry the time of now.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.core.copy import setup

COMMIT_EVERY_S = 0.2
COMMIT_BYTES = 16 * 1024 * 1024
STAY_S = 2.0
"""Fresh batches among old ones still go in transactions, so that the mode does not flap."""


class Step(enum.Enum):
    """What a partition with nothing in flight does before it goes on."""

    OPEN = "open a transaction"
    COMMIT = "commit the open one"
    RENEW = "write a marker of the fence"


@dataclass(slots=True, kw_only=True)
class TransactionMode:
    """`open`: the partition was added to a transaction that is not committed yet, and that holds
    what stands from source offset `open_from` on.

    Not `possible`: there is no transactional id to use.

    Invariant: `open` only while `active`, or while the mode is about to end with a commit.
    """

    always: bool
    renew_after_s: float
    possible: bool = True
    marked_at_s: float
    active: bool = False
    open: bool = False
    open_from: int = -1
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

    def opened(self, source: int) -> None:
        """Everything before source offset `source` is committed."""
        self.open = True
        self.open_from = source
        self.open_bytes = 0

    def marked(self, now_s: float) -> None:
        """A marker of ours was read back."""
        self.open = False
        self.open_bytes = 0
        self.marked_at_s = now_s
        self.plain_since_marker = False

    def admits(self, *, old: bool, now_s: float) -> bool:
        """May a batch of this age be sent now, or must something be crossed first?"""
        old = old and self.possible
        if not self.active:
            # The fence is renewed at a drained boundary, which steady traffic would never bring.
            return not old and not self.renewal_due(now_s)
        return self.open and not self.commit_due(now_s) and (old or not self.may_end(now_s))

    def commit_due(self, now_s: float) -> bool:
        return self.open_bytes >= COMMIT_BYTES or (
            self.open_bytes > 0 and now_s - self._opened_at_s >= COMMIT_EVERY_S
        )

    def may_end(self, now_s: float) -> bool:
        """No batch has been old for a while."""
        return not self.always and now_s - self._old_seen_at_s >= STAY_S

    def next_step(self, *, next_is_old: bool | None, paused: bool, now_s: float) -> Step | None:
        """What is due; the mode itself begins and ends here.

        `next_is_old` is of the batch that is sent next, None for none that is ready: none is left,
        or it has to wait. An open transaction never waits for it, since no anchor is written then.
        """
        if self.open:
            idle = next_is_old is None
            # Left open over a pause, the coordinator would abort it and fence us out.
            due = idle or paused or self.commit_due(now_s) or self._ends(next_is_old, now_s)
            return Step.COMMIT if due else None
        if self._ends(next_is_old, now_s):
            self.active = False
        if not self.active and next_is_old and self.possible:
            self.begin(now_s)
            if self.plain_since_marker:
                return Step.RENEW
        if self.active and next_is_old is not None and not paused:
            return Step.OPEN
        return Step.RENEW if self.renewal_due(now_s) else None

    def _ends(self, next_is_old: bool | None, now_s: float) -> bool:
        return self.active and next_is_old is False and self.may_end(now_s)

    def renewal_due(self, now_s: float) -> bool:
        return self.possible and now_s - self.marked_at_s >= self.renew_after_s


def begun(where: setup.PartitionSetup, now_s: float, *, fenced: bool = True) -> TransactionMode:
    """Right after the marker of a take; without one there are no transactions."""
    return TransactionMode(
        always=fenced and where.delivery is setup.Delivery.TRANSACTIONAL,
        possible=fenced,
        renew_after_s=where.renew_after_s,
        marked_at_s=now_s,
    )
