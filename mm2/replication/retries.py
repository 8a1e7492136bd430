"""Retries of a partition: delays between attempts, and how often one problem occurred in a row."""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.base.backoff import Backoff
from mm2.replication.halts import HaltCause

BACKOFF_INITIAL_S = 0.1
BACKOFF_MAX_S = 10.0
HALT_RETRY_MAX_S = 600.0
"""Cap for retries of a halted partition: each one costs a producer epoch and a marker on the
mirror."""
TRANSIENT_RETRIES = 5
"""Number of backed-off retries (a few seconds in total) before a transient error counts as lasting.
"""
RETRY_COUNTER_RESET_S = 60.0
"""A problem that stays away for this long starts a new series; acquiring a partition takes less."""


def create_backoff() -> Backoff:
    """Delay between attempts to acquire a partition; grows until a batch is stored."""
    return Backoff(initial_s=BACKOFF_INITIAL_S, max_s=BACKOFF_MAX_S)


@dataclass(slots=True)
class RetryCounter:
    """Counts how often `cause` has occurred in a row."""

    cause: HaltCause | None = None
    count: int = 0
    until_s: float = 0.0
    """When the series ends (monotonic seconds)."""

    def continues_series(self, cause: HaltCause, now_s: float) -> bool:
        """Returns whether `cause` continues the current series."""
        return self.cause is cause and now_s <= self.until_s

    def record(self, cause: HaltCause, now_s: float) -> int:
        """Count an occurrence; returns how many came before it in the series."""
        before = self.count if self.continues_series(cause, now_s) else 0
        self.cause, self.count = cause, before + 1
        self.extend_until(now_s)
        return before

    def extend_until(self, wake_at_s: float) -> None:
        """Extend the series to the next attempt, because the problem cannot occur before."""
        self.until_s = wake_at_s + RETRY_COUNTER_RESET_S

    def reset(self) -> None:
        """End the series."""
        self.cause = None
