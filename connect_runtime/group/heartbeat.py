"""Heartbeat timing: when to send one, and when the coordinator or the worker is overdue."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from connect_runtime.base.backoff import Backoff
from connect_runtime.group.member_state import GroupRebalanceConfig

_MIN_HEARTBEAT_SPACING_S = 0.1
"""However often one is wanted at once, heartbeats are no closer together."""


@dataclass(slots=True, kw_only=True)
class HeartbeatTimer:
    """Deadlines in monotonic seconds, inf for none.

    beats: the group counts this member in. While the coordinator is unknown there is nobody to
    send heartbeats to, and only the worker can be overdue. confirmed_s: when the newest heartbeat
    was sent that was answered without error, -inf before the first; heard_s: when the group last
    counted this member in. An answer may have waited while the process stood still: what counts is
    when its question was asked.

    Invariants: nothing is due while it does not beat; a heartbeat that is in flight is not due;
    none is confirmed that was not sent.
    """

    settings: GroupRebalanceConfig
    rng: random.Random
    retry: Backoff = field(init=False)
    beats: bool = False
    in_flight: bool = False
    beat_s: float = math.inf
    session_end_s: float = math.inf
    tick_end_s: float = math.inf
    sent_s: float = -math.inf
    confirmed_s: float = -math.inf
    heard_s: float = -math.inf
    _hurried: bool = False

    def __post_init__(self) -> None:
        self.retry = Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def start(self, now_s: float) -> None:
        """A round has begun with this member in it."""
        self.beats = True
        self.retry.reset()
        self.ticked(now_s)
        self.answered(now_s)
        self.heard_s = now_s

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

    def hurry(self, now_s: float) -> None:
        """Somebody waits for a heartbeat that is sent from now on."""
        if self.in_flight:
            self._hurried = True
        elif self.beat_s < math.inf:
            self.beat_s = min(self.beat_s, max(now_s, self.sent_s + _MIN_HEARTBEAT_SPACING_S))

    def sent(self, now_s: float) -> None:
        self.in_flight = True
        self.beat_s = math.inf
        self.sent_s = now_s

    def answered(self, now_s: float) -> None:
        """It came in time: the session is as long as ever again."""
        self.in_flight = False
        self.heard_s = self.sent_s
        self.retry.reset()
        self.beat_s = now_s + self.settings.heartbeat_interval_s
        self.session_end_s = now_s + self.settings.session_timeout_s
        if self._hurried:
            self._hurried = False
            self.hurry(now_s)

    def confirmed(self, now_s: float) -> None:
        """It came, and said that this is a member, and that no rebalance is under way."""
        self.confirmed_s = self.sent_s
        self.answered(now_s)

    def failed(self, now_s: float) -> None:
        """The coordinator cannot say; the session goes on to its end."""
        self.in_flight = False
        self.beat_s = now_s + self.retry.next_delay_s(self.rng)

    def ticked(self, now_s: float) -> None:
        """The worker is alive."""
        if self.beats:
            self.tick_end_s = now_s + self.settings.rebalance_timeout_s

    def lapse_s(self, *, led: bool) -> float:
        """From then on others may have been given this member's work, if it is heard no more: its
        session is over, and so is the time for which a leader waits for a lost worker. What a lost
        leader ran nobody remembers: others run it at once."""
        delay_s = 0.0 if led else self.settings.rebalance_delay_s
        return self.heard_s + self.settings.session_timeout_s + delay_s

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
        assert self.confirmed_s <= self.sent_s, self
