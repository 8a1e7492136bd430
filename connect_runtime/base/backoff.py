"""Retry delays: exponential, bounded, with jitter (the formula of KIP-580)."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Delays initial_s, x multiplier, x multiplier^2 … up to max_s, each times 1 +- jitter.

    Invariant: max_s is never exceeded, jitter included: it can be promised in documentation.
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
        """The wait before the next try; counts that try."""
        exponent = min(self.attempts, 63)  # beyond it only the bound speaks, and floats overflow
        self.attempts += 1
        delay_s = min(self.initial_s * self.multiplier**exponent, self.max_s)
        return min(delay_s * rng.uniform(1.0 - self.jitter, 1.0 + self.jitter), self.max_s)

    def reset(self) -> None:
        """It worked: the next failure starts small again."""
        self.attempts = 0
