"""How many connections a target broker gets: as many as its acknowledgements are slow.

A broker takes one request of a connection at a time. While it answers fast, one connection is best:
its requests carry a batch of every partition. Where an answer waits for followers, more connections
wait side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

LANES_MAX = 4
SLOW_ACK_S = 0.008
"""From this time per request on a broker gets all lanes."""
FAST_ACK_S = 0.004
"""Below this one it is back at a single lane."""
_SMOOTH = 16


@dataclass(slots=True)
class Pace:
    """A smoothed time per request; it begins at 0, for a broker that starts is slow at first."""

    ack_s: float = 0.0
    lanes: int = 1

    def note(self, elapsed_s: float, *, under_way: int) -> None:
        """A request was answered; with it so many were on their way on the same connection."""
        self.ack_s += (elapsed_s / under_way - self.ack_s) / _SMOOTH
        if self.ack_s >= SLOW_ACK_S:
            self.lanes = LANES_MAX
        elif self.ack_s < FAST_ACK_S:
            self.lanes = 1
