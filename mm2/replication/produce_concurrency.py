"""Decides how many connections and requests a copy process uses to produce to one broker."""

from __future__ import annotations

from dataclasses import dataclass

PRODUCE_CONNECTIONS_MAX = 4
SLOW_ACK_S = 0.008
"""A broker gets the maximum number of connections if the average time per request is at least this
number of seconds."""
FAST_ACK_S = 0.004
"""A broker gets a single connection again if the average time per request is below this number of
seconds."""
_SMOOTHING_REQUESTS = 16


@dataclass(slots=True)
class ProduceConcurrency:
    """Chooses the number of produce connections to a broker from its smoothed time per request.

    The average starts at 0, so that the slow first responses of a broker do not add connections at
    once.
    """

    average_ack_s: float = 0.0
    connections: int = 1

    def record_response(self, elapsed_s: float, *, in_flight: int) -> None:
        """Record a response that arrived `elapsed_s` after its request, while `in_flight` requests
        shared the connection."""
        self.average_ack_s += (elapsed_s / in_flight - self.average_ack_s) / _SMOOTHING_REQUESTS
        if self.average_ack_s >= SLOW_ACK_S:
            self.connections = PRODUCE_CONNECTIONS_MAX
        elif self.average_ack_s < FAST_ACK_S:
            self.connections = 1
