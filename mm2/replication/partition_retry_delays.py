"""Tracks a partition's retries: the delay between attempts, and the number of consecutive
occurrences of a problem."""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.base.backoff import Backoff
from mm2.replication.partition_halt_messages import HaltCause

BACKOFF_INITIAL_S = 0.1
BACKOFF_MAX_S = 10.0
HALT_RETRY_MAX_S = 600.0
"""Maximum delay between retries of a halted partition. Each retry costs a producer epoch and a
marker on the mirror."""
TRANSIENT_RETRIES = 5
"""Number of retries with backoff (a few seconds in total) before a transient error counts as
persistent."""
RETRY_COUNTER_RESET_S = 60.0
"""Time in seconds after which a problem that did not recur starts a new series. Acquiring a
partition takes less time."""


def create_backoff() -> Backoff:
    """Create the delay between attempts to acquire a partition. The delay increases until a batch
    is stored."""
    return Backoff(initial_s=BACKOFF_INITIAL_S, max_s=BACKOFF_MAX_S)


@dataclass(slots=True)
class RetryCounter:
    """Counts consecutive occurrences of the same problem, which is identified by `cause`."""

    cause: HaltCause | None = None
    count: int = 0
    until_s: float = 0.0
    """Time at which the series of consecutive occurrences ends (monotonic seconds)."""

    def is_problem_repeated(self, cause: HaltCause, now_s: float) -> bool:
        """Return True if a problem with this cause at `now_s` counts as a repetition of the
        previous one."""
        return self.cause is cause and now_s <= self.until_s

    def count_problem_occurrence(self, cause: HaltCause, now_s: float) -> int:
        """Count an occurrence of the problem `cause`. Return the number of earlier occurrences in
        the series."""
        before = self.count if self.is_problem_repeated(cause, now_s) else 0
        self.cause, self.count = cause, before + 1
        self.keep_count_past_next_attempt(now_s)
        return before

    def keep_count_past_next_attempt(self, wake_at_s: float) -> None:
        """Keep the count until after the next attempt, at `wake_at_s`, because the problem cannot
        recur before then."""
        self.until_s = wake_at_s + RETRY_COUNTER_RESET_S

    def reset_problem_count(self) -> None:
        """End the current series of occurrences."""
        self.cause = None
