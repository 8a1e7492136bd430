"""Chooses the broker, or the bootstrap address, that a client uses or connects to next."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


class NodeConnectionState(NamedTuple):
    """Connection state of one broker or bootstrap entry, as input to `pick_broker`. Bootstrap
    entries have negative node ids."""

    node_id: int
    connected: bool
    connecting_since_s: float | None
    in_flight: int
    retry_at_s: float
    last_attempt_s: float


_PARALLEL_CONNECT_DELAY_S = 1.0
"""Time after which a connection attempt is considered slow, so that the next address is tried in
parallel."""


def pick_broker(nodes: Iterable[NodeConnectionState], now_s: float) -> tuple[int | None, float]:
    """Pick the broker to use or to connect to. Returns (node id, now), or (None, monotonic time of
    the next attempt).

    Prefers the connected broker with the fewest requests in flight. Otherwise picks the broker with
    the oldest connection attempt among those that are not backing off, so that unreachable entries
    are tried in turn. If attempts are equally old, brokers precede bootstrap entries.
    """
    states = list(nodes)
    connected = [state for state in states if state.connected]
    if connected:
        best = min(connected, key=lambda s: (s.node_id < 0, s.in_flight, s.node_id))
        return best.node_id, now_s
    recent = [
        state.connecting_since_s + _PARALLEL_CONNECT_DELAY_S
        for state in states
        if state.connecting_since_s is not None
        and now_s < state.connecting_since_s + _PARALLEL_CONNECT_DELAY_S
    ]
    if recent:
        return None, min(recent)
    idle = [state for state in states if state.connecting_since_s is None]
    ready = [state for state in idle if state.retry_at_s <= now_s]
    if ready:
        return min(ready, key=lambda s: (s.last_attempt_s, s.node_id < 0)).node_id, now_s
    return None, min((state.retry_at_s for state in idle), default=math.inf)
