"""Heartbeat timing: when to send one, and when the coordinator or the worker is overdue."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from connect_runtime.base.backoff import Backoff
from connect_runtime.group.member_state import GroupRebalanceConfig

_MIN_HEARTBEAT_SPACING_S = 0.1
"""Minimum interval between heartbeats that are requested out of schedule."""


@dataclass(slots=True, kw_only=True)
class HeartbeatTimer:
    """Deadlines of heartbeats, session and worker loop, in monotonic seconds; inf for none.

    While the coordinator is unknown no heartbeats are due, and only the worker loop can time out.
    A confirmation counts from when its heartbeat was sent, because the response may have waited
    while the process was suspended.

    Invariants: nothing is due while `beats` is False; a heartbeat in flight is not due; only sent
    heartbeats are confirmed.
    """

    settings: GroupRebalanceConfig
    rng: random.Random
    retry: Backoff = field(init=False)
    beats: bool = False
    """The group counts this member in."""
    in_flight: bool = False
    beat_s: float = math.inf
    """When to send the next heartbeat."""
    session_end_s: float = math.inf
    tick_end_s: float = math.inf
    """When the worker loop counts as stuck."""
    sent_s: float = -math.inf
    confirmed_s: float = -math.inf
    """When the last heartbeat was sent that was answered without error; -inf before the first."""
    heard_s: float = -math.inf
    """When the last request was sent that proves the membership."""
    _hurried: bool = False

    def __post_init__(self) -> None:
        self.retry = Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def start(self, now_s: float) -> None:
        """Start heartbeats after joining a generation."""
        self.beats = True
        self.retry.reset()
        self.ticked(now_s)
        self.answered(now_s)
        self.heard_s = now_s

    def stop(self) -> None:
        """Stop heartbeats, because this is not a member any more."""
        self.beats = False
        self.tick_end_s = math.inf
        self.pause()

    def pause(self) -> None:
        """Pause heartbeats while the coordinator is unknown."""
        self.in_flight = False
        self.beat_s = self.session_end_s = math.inf

    def resume(self, now_s: float) -> None:
        """Send a heartbeat at once to a new coordinator, and restart the session timeout."""
        if self.beats:
            self.beat_s = now_s
            self.session_end_s = now_s + self.settings.session_timeout_s

    def hurry(self, now_s: float) -> None:
        """Send a heartbeat as soon as possible; it must be sent later than this call."""
        if self.in_flight:
            self._hurried = True
        elif self.beat_s < math.inf:
            self.beat_s = min(self.beat_s, max(now_s, self.sent_s + _MIN_HEARTBEAT_SPACING_S))

    def sent(self, now_s: float) -> None:
        """Record that a heartbeat was sent."""
        self.in_flight = True
        self.beat_s = math.inf
        self.sent_s = now_s

    def answered(self, now_s: float) -> None:
        """Record a timely response: the session timeout restarts."""
        self.in_flight = False
        self.heard_s = self.sent_s
        self.retry.reset()
        self.beat_s = now_s + self.settings.heartbeat_interval_s
        self.session_end_s = now_s + self.settings.session_timeout_s
        if self._hurried:
            self._hurried = False
            self.hurry(now_s)

    def confirmed(self, now_s: float) -> None:
        """Record a response that confirms the membership without a rebalance in progress."""
        self.confirmed_s = self.sent_s
        self.answered(now_s)

    def failed(self, now_s: float) -> None:
        """Retry after a temporary error of the coordinator; the session timeout continues."""
        self.in_flight = False
        self.beat_s = now_s + self.retry.next_delay_s(self.rng)

    def ticked(self, now_s: float) -> None:
        """Record that the worker loop is alive."""
        if self.beats:
            self.tick_end_s = now_s + self.settings.rebalance_timeout_s

    def lapse_s(self, *, led: bool) -> float:
        """Return when others may have been assigned this member's work, without further contact.

        That is the end of the session plus the delay for which a leader keeps lost work unassigned.
        The delay does not apply to work of a lost leader, which is reassigned at once.
        """
        delay_s = 0.0 if led else self.settings.rebalance_delay_s
        return self.heard_s + self.settings.session_timeout_s + delay_s

    def due_s(self) -> float:
        """Earliest of the deadlines."""
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
        assert self.confirmed_s <= self.sent_s, self
