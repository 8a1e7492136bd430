"""Counts how often in a row the same problem has occurred."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.replication.halts import HaltCause

RETRY_COUNTER_RESET_S = 60.0
"""What stays away for so long has begun anew when it comes again: a take fits into it."""


@dataclass(slots=True)
class RetryCounter:
    """`cause` has come `times` times in a row; at `until_s` (monotonic) the row is over."""

    cause: HaltCause | None = None
    times: int = 0
    until_s: float = 0.0

    def goes_on(self, cause: HaltCause, now_s: float) -> bool:
        return self.cause is cause and now_s <= self.until_s

    def came(self, cause: HaltCause, now_s: float) -> int:
        """How often it had come before in this row."""
        before = self.times if self.goes_on(cause, now_s) else 0
        self.cause, self.times = cause, before + 1
        self.rest_until(now_s)
        return before

    def rest_until(self, wake_at_s: float) -> None:
        """Nothing is tried until then, so that it cannot come."""
        self.until_s = wake_at_s + RETRY_COUNTER_RESET_S

    def end(self) -> None:
        self.cause = None
