"""How a member behaves in its group; the names are those of the worker's configuration."""

from __future__ import annotations

from dataclasses import dataclass

_JOIN_LAPSE_S = 5.0
"""As Java: a broker may answer a join a little after the rebalance timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
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
        return max(self.request_timeout_s, self.rebalance_timeout_s + _JOIN_LAPSE_S)
