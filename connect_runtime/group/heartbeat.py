"""Heartbeat schedule, session timeout, and detection of a stuck worker loop."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from connect_runtime.base.backoff import Backoff
from connect_runtime.group.member_state import GroupRebalanceConfig

_MIN_HEARTBEAT_SPACING_S = 0.1
"""Minimum time between a heartbeat and the additional heartbeat that `request_heartbeat_now`
schedules."""


@dataclass(slots=True, kw_only=True)
class HeartbeatTimer:
    """Deadlines of heartbeats, session and worker loop, in monotonic seconds; inf if there is no
    deadline.

    While the coordinator is unknown, no heartbeats are due, and only the worker loop can time out.
    The last contact with the group is the time when a confirmed heartbeat was sent, not when its
    response was read, because the process may have been suspended in between.

    Invariants: there are no deadlines while `is_active` is False; no other heartbeat is due while
    one is in flight; only sent heartbeats are confirmed.
    """

    settings: GroupRebalanceConfig
    rng: random.Random
    retry: Backoff = field(init=False)
    is_active: bool = False
    """True while the group considers this worker a member."""
    in_flight: bool = False
    next_heartbeat_s: float = math.inf
    """Time at which to send the next heartbeat."""
    session_deadline_s: float = math.inf
    loop_deadline_s: float = math.inf
    """Time after which the worker loop is considered stuck."""
    last_sent_s: float = -math.inf
    last_confirmed_s: float = -math.inf
    """Send time of the last heartbeat that succeeded; -inf before the first success."""
    last_contact_s: float = -math.inf
    """Send time of the last request to which the coordinator responded that this worker is a
    member."""
    _hurried: bool = False

    def __post_init__(self) -> None:
        self.retry = Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def start(self, now_s: float) -> None:
        """Start heartbeats after joining the group in a new generation."""
        self.is_active = True
        self.retry.reset()
        self.on_loop_tick(now_s)
        self.on_heartbeat_response(now_s)
        self.last_contact_s = now_s

    def stop(self) -> None:
        """Stop heartbeats, because the worker is no longer a member."""
        self.is_active = False
        self.loop_deadline_s = math.inf
        self.pause()

    def pause(self) -> None:
        """Pause heartbeats while the coordinator is unknown."""
        self.in_flight = False
        self.next_heartbeat_s = self.session_deadline_s = math.inf

    def resume(self, now_s: float) -> None:
        """Schedule an immediate heartbeat to a new coordinator, and restart the session timeout."""
        if self.is_active:
            self.next_heartbeat_s = now_s
            self.session_deadline_s = now_s + self.settings.session_timeout_s

    def request_heartbeat_now(self, now_s: float) -> None:
        """Schedule the next heartbeat as early as possible. If a heartbeat is already in flight,
        another one is sent after its response."""
        if self.in_flight:
            self._hurried = True
        elif self.next_heartbeat_s < math.inf:
            self.next_heartbeat_s = min(
                self.next_heartbeat_s, max(now_s, self.last_sent_s + _MIN_HEARTBEAT_SPACING_S)
            )

    def on_heartbeat_sent(self, now_s: float) -> None:
        """Record that a heartbeat was sent."""
        self.in_flight = True
        self.next_heartbeat_s = math.inf
        self.last_sent_s = now_s

    def on_heartbeat_response(self, now_s: float) -> None:
        """Record a heartbeat response that arrived in time, and restart the session timeout."""
        self.in_flight = False
        self.last_contact_s = self.last_sent_s
        self.retry.reset()
        self.next_heartbeat_s = now_s + self.settings.heartbeat_interval_s
        self.session_deadline_s = now_s + self.settings.session_timeout_s
        if self._hurried:
            self._hurried = False
            self.request_heartbeat_now(now_s)

    def on_membership_confirmed(self, now_s: float) -> None:
        """Record a heartbeat response without an error: this worker is a member, and no rebalance
        is in progress."""
        self.last_confirmed_s = self.last_sent_s
        self.on_heartbeat_response(now_s)

    def on_heartbeat_failed(self, now_s: float) -> None:
        """Schedule a heartbeat retry after a transient coordinator error. The session timeout is
        not restarted."""
        self.in_flight = False
        self.next_heartbeat_s = now_s + self.retry.next_delay_s(self.rng)

    def on_loop_tick(self, now_s: float) -> None:
        """Record that the worker loop is alive."""
        if self.is_active:
            self.loop_deadline_s = now_s + self.settings.rebalance_timeout_s

    def compute_reassignment_time_s(self, *, was_leader: bool) -> float:
        """Return the time at which this member's work may be reassigned if it loses contact with
        the group.

        This is the end of the session plus the delay for which a leader keeps lost work unassigned.
        The delay does not apply to the work of a lost leader, which is reassigned immediately.
        """
        delay_s = 0.0 if was_leader else self.settings.rebalance_delay_s
        return self.last_contact_s + self.settings.session_timeout_s + delay_s

    def get_earliest_deadline_s(self) -> float:
        """Return the earliest deadline of heartbeat, session and worker loop."""
        return min(self.next_heartbeat_s, self.session_deadline_s, self.loop_deadline_s)

    def check_invariants(self) -> None:
        if not self.is_active:
            assert self.get_earliest_deadline_s() == math.inf, self
            assert not self.in_flight, self
        else:
            assert self.loop_deadline_s < math.inf, self
        if self.in_flight:
            assert self.next_heartbeat_s == math.inf, self
            assert self.session_deadline_s < math.inf, self
        assert self.last_confirmed_s <= self.last_sent_s, self
