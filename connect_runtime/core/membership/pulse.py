"""When to send a heartbeat, and when one is overdue: from the coordinator, or from the worker."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from connect_runtime.base import backoff
from connect_runtime.core.membership import settings as membership


@dataclass(slots=True, kw_only=True)
class Pulse:
    """Deadlines in monotonic seconds, inf for none.

    beats: the group counts this member in. While the coordinator is unknown there is nobody to
    send heartbeats to, and only the worker can be overdue.

    Invariants: nothing is due while it does not beat; a heartbeat that is in flight is not due.
    """

    settings: membership.Settings
    rng: random.Random
    retry: backoff.Backoff = field(init=False)
    beats: bool = False
    in_flight: bool = False
    beat_s: float = math.inf
    session_end_s: float = math.inf
    tick_end_s: float = math.inf

    def __post_init__(self) -> None:
        self.retry = backoff.Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def start(self, now_s: float) -> None:
        """A round has begun with this member in it."""
        self.beats = True
        self.retry.reset()
        self.ticked(now_s)
        self.answered(now_s)

    def stop(self) -> None:
        self.beats = False
        self.tick_end_s = math.inf
        self.pause()

    def pause(self) -> None:
        """The coordinator is unknown."""
        self.in_flight = False
        self.beat_s = self.session_end_s = math.inf

    def resume(self, now_s: float) -> None:
        """A coordinator was found: see at once whether it answers; it has a session to do so."""
        if self.beats:
            self.beat_s = now_s
            self.session_end_s = now_s + self.settings.session_timeout_s

    def sent(self) -> None:
        self.in_flight = True
        self.beat_s = math.inf

    def answered(self, now_s: float) -> None:
        """It came in time: the session is as long as ever again."""
        self.in_flight = False
        self.retry.reset()
        self.beat_s = now_s + self.settings.heartbeat_interval_s
        self.session_end_s = now_s + self.settings.session_timeout_s

    def failed(self, now_s: float) -> None:
        """The coordinator cannot say; the session goes on to its end."""
        self.in_flight = False
        self.beat_s = now_s + self.retry.next_delay_s(self.rng)

    def ticked(self, now_s: float) -> None:
        """The worker is alive."""
        if self.beats:
            self.tick_end_s = now_s + self.settings.rebalance_timeout_s

    def due_s(self) -> float:
        return min(self.beat_s, self.session_end_s, self.tick_end_s)

    def check_invariants(self) -> None:
        if not self.beats:
            assert self.due_s() == math.inf, self
            assert not self.in_flight, self
        else:
            assert self.tick_end_s < math.inf, self
        if self.in_flight:
            assert self.beat_s == math.inf, self
            assert self.session_end_s < math.inf, self
