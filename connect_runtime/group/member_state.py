"""States of a group member, its generation, and its settings.

    state     activity                                         transition
    UNJOINED  find the coordinator; emit PrepareJoin           JoinPrepared -> JOINING
    JOINING   JoinGroup waits until all members have joined    response -> SYNCING
    SYNCING   the leader assigns work; SyncGroup; heartbeats   response -> STABLE
    STABLE    heartbeats; after RejoinRequested, PrepareJoin   JoinPrepared -> JOINING
    LEFT      outside the group until a rejoin is requested    RejoinRequested -> UNJOINED
    FAILED    no activity until the membership is closed       CloseRequested -> CLOSING
    CLOSING   LeaveGroup is in flight                          response or none -> CLOSED
    CLOSED    no activity                                      none

An error or a missing response in JOINING, SYNCING or STABLE changes the state to UNJOINED.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class MemberState(enum.Enum):
    """State of a group member; see the table in the module docstring."""

    UNJOINED = enum.auto()
    JOINING = enum.auto()
    SYNCING = enum.auto()
    STABLE = enum.auto()
    LEFT = enum.auto()
    FAILED = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


IN_GROUP_STATES = frozenset({MemberState.SYNCING, MemberState.STABLE})
REBALANCING_STATES = frozenset({MemberState.JOINING, MemberState.SYNCING})
ACTIVE_STATES = frozenset(
    {MemberState.UNJOINED, MemberState.JOINING, MemberState.SYNCING, MemberState.STABLE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGeneration:
    """Generation number, member id and protocol of a member in one generation."""

    number: int = -1
    """Generation number; -1 before the first generation."""
    member_id: str = ""
    """Member id; empty for a new member."""
    protocol: str = ""
    """Group protocol; empty before the first generation."""


_JOIN_GRACE_S = 5.0
"""Extra time for JoinGroup responses, as in Java. A broker may respond slightly after the rebalance
timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanceConfig:
    """Group settings of a worker, in seconds."""

    group_id: str
    protocol_type: str = "connect"
    session_timeout_s: float = 10.0
    rebalance_timeout_s: float = 60.0
    """Rebalance timeout, after which the worker loop is also considered stuck."""
    heartbeat_interval_s: float = 3.0
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    request_timeout_s: float = 40.0
    rebalance_delay_s: float = 300.0
    """Time for which the work of a lost worker remains unassigned
    (scheduled.rebalance.max.delay.ms)."""

    def __post_init__(self) -> None:
        if self.heartbeat_interval_s >= self.session_timeout_s:
            raise ValueError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_s * 1000:g}) must be less than "
                f"session.timeout.ms ({self.session_timeout_s * 1000:g})"
            )

    @property
    def join_timeout_s(self) -> float:
        """Timeout of JoinGroup and SyncGroup requests, which wait for the other members."""
        return max(self.request_timeout_s, self.rebalance_timeout_s + _JOIN_GRACE_S)
