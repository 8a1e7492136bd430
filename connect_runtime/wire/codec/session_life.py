"""The life of an authenticated session that the broker bounds (KIP-368), and when to renew it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_RENEW_FROM, _RENEW_TO = 0.85, 0.95
"""Sessions are renewed in this part of their life, as Java's clients do."""
_PATIENCE_S = 0.25
_LAST_S = 0.2
"""Closer to its end a session is given up: a request that meets its end would be lost."""


@dataclass(slots=True)
class SessionLife:
    """Monotonic seconds; infinity: the session does not end."""

    renew_at_s: float = math.inf
    ends_s: float = math.inf

    def begun(self, life_s: float | None, now_s: float, rng: random.Random) -> None:
        """The broker gave it so long, None for ever."""
        self.renew_at_s = self.ends_s = math.inf
        if life_s is not None:
            self.ends_s = now_s + life_s
            self.renew_at_s = now_s + life_s * rng.uniform(_RENEW_FROM, _RENEW_TO)

    def renewing(self) -> None:
        """It is being renewed: `begun` follows, or the connection's end."""
        self.renew_at_s = math.inf

    def postpone(self, now_s: float) -> bool:
        """What it takes is not there yet: try again soon; False when there is no time left."""
        self.renew_at_s = min(now_s + _PATIENCE_S, max(now_s, self.ends_s - _LAST_S))
        return now_s < self.ends_s - _LAST_S
