"""Exponential retry delays with an upper bound and jitter (the formula of KIP-580)."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Exponential retry delays. The delay starts at initial_s and is multiplied by `multiplier`
    after each attempt, up to max_s.

    Each delay is randomized by +-`jitter` (a fraction), but never exceeds max_s.
    """

    initial_s: float
    max_s: float
    multiplier: float = 2.0
    jitter: float = 0.2
    attempts: int = 0

    def __post_init__(self) -> None:
        assert 0.0 < self.initial_s <= self.max_s, (self.initial_s, self.max_s)
        assert self.multiplier >= 1.0, self.multiplier
        assert 0.0 <= self.jitter < 1.0, self.jitter

    def next_delay_s(self, rng: random.Random) -> float:
        """Return the delay before the next attempt in seconds, and count the attempt."""
        exponent = min(self.attempts, 63)  # larger exponents overflow a float; max_s applies anyway
        self.attempts += 1
        delay_s = min(self.initial_s * self.multiplier**exponent, self.max_s)
        return min(delay_s * rng.uniform(1.0 - self.jitter, 1.0 + self.jitter), self.max_s)

    def reset(self) -> None:
        """Restart with the initial delay. Call after a success."""
        self.attempts = 0
