"""When a round of checkpoints counts: once the target has acknowledged all that came before its
end.

Records are acknowledged in any order, and later than the next round may begin.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple


class Round(NamedTuple):
    """One that went through all groups: when it did (monotonic clock), and how many of them have a
    checkpoint."""

    at_s: float
    groups: int


@dataclass(slots=True)
class AcknowledgedRounds:
    """One thread's.

    Invariants: no more records are acknowledged than were sent; of the rounds that wait each ended
    after more records than the one before it.
    """

    sent: int = 0
    acknowledged: int = 0
    _waiting: deque[tuple[int, Round]] = field(default_factory=deque)

    def send(self, records: int) -> None:
        self.sent += records

    def acknowledge(self, records: int) -> None:
        """Stored on the target, or filtered on the way."""
        self.acknowledged += records

    def end(self, found: Round) -> None:
        """A round is through; all its records were sent."""
        if self._waiting and self._waiting[-1][0] == self.sent:
            self._waiting.pop()
        self._waiting.append((self.sent, found))

    def take(self) -> Round | None:
        """The latest of those that count since the last call, None for none."""
        found = None
        while self._waiting and self._waiting[0][0] <= self.acknowledged:
            _, found = self._waiting.popleft()
        return found

    def check_invariants(self) -> None:
        assert 0 <= self.acknowledged <= self.sent
        after = [sent for sent, _ in self._waiting]
        assert after == sorted(set(after))
