"""Which broker coordinates which group or transactional id: a cache and its lookups.

A machine: ids that somebody waits for go in, batches to ask for come out (KIP-699 allows many ids
in one request), answers go in. A coordinator that is not available yet is asked for again after a
backoff; one that the principal may not know is a refusal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from connect_runtime.base import backoff
from connect_runtime.wire.codec import targets

RETRIABLE = frozenset({-1, 5, 7, 14, 15, 16})
"""Unknown error, no leader, timed out, coordinator loading, not available, moved."""
BATCH_MAX = 500
_QUIET_S = 10.0
"""After this long without trouble the next one starts with a short wait again."""


@dataclass(slots=True, kw_only=True)
class Coordinators:
    """Invariant: an id is cached, or being looked up, or unknown; never two of them."""

    rng: random.Random
    retry: backoff.Backoff
    _nodes: dict[targets.Coordinator, int] = field(default_factory=dict)
    _waiting: dict[targets.Coordinator, None] = field(default_factory=dict)
    _asked: set[targets.Coordinator] = field(default_factory=set)
    _not_before_s: float = -math.inf
    _failed_s: float = -math.inf

    def node(self, coordinator: targets.Coordinator) -> int | None:
        return self._nodes.get(coordinator)

    def look_up(self, coordinator: targets.Coordinator) -> None:
        """Somebody waits for it; nothing happens if it is known or being asked for."""
        if coordinator not in self._nodes and coordinator not in self._asked:
            self._waiting[coordinator] = None

    def forget(self, coordinator: targets.Coordinator) -> None:
        """It answered that it is not the coordinator (16), or cannot be reached."""
        self._nodes.pop(coordinator, None)

    def forget_node(self, node_id: int) -> None:
        """A broker cannot be reached: what it coordinated may have moved."""
        for coordinator in [c for c, node in self._nodes.items() if node == node_id]:
            del self._nodes[coordinator]

    def due_s(self) -> float:
        """When to ask next; inf when nobody waits."""
        return self._not_before_s if self._waiting else math.inf

    def next_batch(self, now_s: float) -> tuple[targets.Coordinator, ...]:
        """Ids of one kind to ask for now; each must come back in an answer or in `failed`."""
        if now_s < self.due_s():
            return ()
        kind = next(iter(self._waiting)).kind
        batch = tuple(c for c in self._waiting if c.kind == kind)[:BATCH_MAX]
        for coordinator in batch:
            del self._waiting[coordinator]
        self._asked.update(batch)
        return batch

    def found(self, coordinator: targets.Coordinator, node_id: int) -> None:
        self._asked.discard(coordinator)
        self._waiting.pop(coordinator, None)
        self._nodes[coordinator] = node_id

    def failed(self, coordinators: Iterable[targets.Coordinator], now_s: float) -> None:
        """No answer, or a retriable error: ask again later."""
        if now_s - self._failed_s > _QUIET_S:
            self.retry.reset()
        self._failed_s = now_s
        self._not_before_s = now_s + self.retry.next_delay_s(self.rng)
        for coordinator in coordinators:
            self._asked.discard(coordinator)
            self._waiting[coordinator] = None

    def refused(self, coordinator: targets.Coordinator) -> None:
        """A fatal error: nobody waits for it any more (whoever did is told by the shell)."""
        self._asked.discard(coordinator)
        self._waiting.pop(coordinator, None)

    def check_invariants(self) -> None:
        cached, waiting = set(self._nodes), set(self._waiting)
        assert not cached & waiting, cached & waiting
        assert not cached & self._asked, cached & self._asked
        assert not waiting & self._asked, waiting & self._asked
