"""States of a group member, its generation, and its settings.

    state     what happens in it                                    what ends it
    UNJOINED  find the coordinator, ask to prepare, send JoinGroup  JoinPrepared -> JOINING
    JOINING   JoinGroup waits until all members have joined         response -> SYNCING
    SYNCING   the leader plans; SyncGroup; heartbeats               response -> STABLE
    STABLE    heartbeats; a rejoin request asks to prepare          JoinPrepared -> JOINING
    OUT       left, until a rejoin is requested                     RejoinRequested -> UNJOINED
    FAILED    until it is closed                                    CloseRequested -> CLOSING
    CLOSING   LeaveGroup is in flight                               response or none -> CLOSED
    CLOSED    final                                                 nothing

An error or a missing response leads from JOINING, SYNCING and STABLE to UNJOINED.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class MemberState(enum.Enum):
    UNJOINED = enum.auto()
    JOINING = enum.auto()
    SYNCING = enum.auto()
    STABLE = enum.auto()
    OUT = enum.auto()
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
    """`number` -1 and `protocol` "" before the first round; `member_id` "" for a new member."""

    number: int = -1
    member_id: str = ""
    protocol: str = ""


_JOIN_GRACE_S = 5.0
"""As Java: a broker may answer a join a little after the rebalance timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanceConfig:
    """group_id, session.timeout.ms, rebalance.timeout.ms (also how long the worker's loop may be
    stuck), heartbeat.interval.ms, retry.backoff.ms, retry.backoff.max.ms, request.timeout.ms,
    scheduled.rebalance.max.delay.ms: how long the work of a lost worker is kept for it."""

    group_id: str
    protocol_type: str = "connect"
    session_timeout_s: float = 10.0
    rebalance_timeout_s: float = 60.0
    heartbeat_interval_s: float = 3.0
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    request_timeout_s: float = 40.0
    rebalance_delay_s: float = 300.0

    def __post_init__(self) -> None:
        if self.heartbeat_interval_s >= self.session_timeout_s:
            raise ValueError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_s * 1000:g}) must be less than "
                f"session.timeout.ms ({self.session_timeout_s * 1000:g})"
            )

    @property
    def join_timeout_s(self) -> float:
        """JoinGroup and SyncGroup are held back until the other members have come."""
        return max(self.request_timeout_s, self.rebalance_timeout_s + _JOIN_GRACE_S)
