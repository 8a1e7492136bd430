"""Counts consecutive occurrences of the same problem."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.replication.halts import HaltCause

RETRY_COUNTER_RESET_S = 60.0
"""A problem that stays away for this long starts a new series; acquiring a partition takes less."""


@dataclass(slots=True)
class RetryCounter:
    """Counts how often `cause` has occurred in a row."""

    cause: HaltCause | None = None
    times: int = 0
    until_s: float = 0.0
    """When the series ends (monotonic seconds)."""

    def goes_on(self, cause: HaltCause, now_s: float) -> bool:
        """Returns whether `cause` continues the current series."""
        return self.cause is cause and now_s <= self.until_s

    def came(self, cause: HaltCause, now_s: float) -> int:
        """Count an occurrence; returns how many came before it in the series."""
        before = self.times if self.goes_on(cause, now_s) else 0
        self.cause, self.times = cause, before + 1
        self.rest_until(now_s)
        return before

    def rest_until(self, wake_at_s: float) -> None:
        """Extend the series to the next attempt, because the problem cannot occur before."""
        self.until_s = wake_at_s + RETRY_COUNTER_RESET_S

    def end(self) -> None:
        """End the series."""
        self.cause = None
