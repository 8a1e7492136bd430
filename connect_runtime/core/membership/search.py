"""Who coordinates the group, and for how long nobody has answered as such."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from connect_runtime.base import backoff
from connect_runtime.core.membership import settings as membership
from connect_runtime.wire.codec import messages, targets


@dataclass(slots=True, kw_only=True)
class Search:
    """`node`: the coordinator's broker id, None while it is unknown. `asked`: the token of the
    question in flight.

    A coordinator that is named again and again without ever answering is not found: `silent_s`,
    when the last one was lost, stands until one answers.
    """

    settings: membership.Settings
    rng: random.Random
    node: int | None = None
    silent_s: float | None = None
    asked: int | None = None
    retry: backoff.Backoff = field(init=False)
    _not_before_s: float = -math.inf
    _one_by_one: bool = False

    def __post_init__(self) -> None:
        self.retry = backoff.Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def message(self) -> messages.Message:
        group_id = self.settings.group_id
        if self._one_by_one:
            return messages.find_coordinator(targets.GROUP, group_id)
        return messages.find_coordinators(targets.GROUP, [group_id])

    @property
    def silence_end_s(self) -> float:
        """When somebody who runs work may wait no longer; inf while the coordinator is there."""
        if self.silent_s is None:
            return math.inf
        return self.silent_s + self.settings.heartbeat_interval_s

    def due_s(self) -> float:
        """When to ask, inf when there is nothing to ask."""
        known = self.node is not None or self.asked is not None
        return math.inf if known else self._not_before_s

    def old_broker(self) -> None:
        """It knows only the question for one group (before 3.0, KIP-699)."""
        self.asked = None
        self._one_by_one = True

    @property
    def asks_old_way(self) -> bool:
        return self._one_by_one

    def found(self, node: int) -> None:
        self.asked = None
        self.node = node

    def failed(self, now_s: float) -> None:
        self.asked = None
        self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def heard(self) -> None:
        """The coordinator answered, and as such."""
        self.silent_s = None
        self.retry.reset()

    def lost(self, now_s: float) -> None:
        """It said that it is not the one, or nothing. At first ask at once for another."""
        self.node = None
        if self.silent_s is None:
            self.silent_s = now_s
            self._not_before_s = now_s
        else:
            self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def check_invariants(self) -> None:
        assert self.node is None or self.asked is None, self
