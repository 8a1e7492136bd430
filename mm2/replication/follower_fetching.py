"""Chooses whether to fetch a source partition from its leader or from a follower in the rack of
this client (`client.rack`, KIP-392).

A leader that knows the client's rack may return a preferred read replica. As in Java's consumers,
that replica is used until `metadata.max.age.ms` have passed, the leader moves, or the replica
fails. A replica may lag, so its errors are verified at the leader. Unlike in Java, the partition is
then read from the leader for a while without sending the client's rack, because the leader would
otherwise return the same replica again.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

NO_REPLICA = -1
LEADER_ONLY_INITIAL_S = 2.0
"""Initial duration of leader-only fetching after a replica failed; doubled after each further
failure."""


class FetchBroker(NamedTuple):
    """Broker to fetch from. With `leader_only`, the rack is not sent, so that the leader serves the
    fetch."""

    node_id: int
    leader_only: bool


@dataclass(slots=True, kw_only=True)
class _ReplicaChoice:
    """Read replica chosen for one partition, and when to choose again. Times are in monotonic
    seconds."""

    leader: int
    replica: int = NO_REPLICA
    until_s: float = 0.0
    """Time at which the read replica must be chosen again."""
    leader_only_until_s: float = 0.0
    """Time until which only the leader is used."""
    leader_only_s: float = 0.0
    """Duration of the last leader-only period in seconds; 0 if there was none."""


@dataclass(slots=True, kw_only=True)
class PreferredReadReplicas:
    """Stores the preferred read replica of each partition.

    Invariant: if this client has no rack (`rack` is ""), no replica is stored and every partition
    is read from its leader.
    """

    rack: str = ""
    max_age_s: float = 300.0
    _choices: dict[Hashable, _ReplicaChoice] = field(default_factory=dict)

    def choose_broker(
        self, key: Hashable, leader: int, *, brokers: Container[int], now_s: float
    ) -> FetchBroker:
        """Choose the broker to fetch a partition from. `brokers` are the broker ids in the
        metadata."""
        if not self.rack:
            return FetchBroker(leader, False)
        choice = self._choices.get(key)
        if choice is None or choice.leader != leader:
            choice = self._choices[key] = _ReplicaChoice(leader=leader)
        if choice.replica != NO_REPLICA and now_s < choice.until_s:
            if choice.replica in brokers:
                return FetchBroker(choice.replica, False)
            # The leader knows a new broker before this client's metadata does, and would return
            # the broker again at once.
            self.mark_replica_unavailable(key, now_s)
        choice.replica = NO_REPLICA
        return FetchBroker(leader, now_s < choice.leader_only_until_s)

    def set_preferred_replica(self, key: Hashable, replica: int, now_s: float) -> None:
        """Store the preferred read replica that the leader returned."""
        choice = self._choices.get(key)
        if choice is not None and replica != choice.leader:
            choice.replica, choice.until_s = replica, now_s + self.max_age_s

    def is_preferred_replica(self, key: Hashable, node_id: int) -> bool:
        """Return True if this broker is used as the partition's read replica, not as its leader."""
        choice = self._choices.get(key)
        return choice is not None and choice.replica == node_id

    def record_replica_success(self, key: Hashable) -> None:
        """Reset the failure backoff after the replica returned records."""
        choice = self._choices.get(key)
        if choice is not None and choice.replica != NO_REPLICA:
            choice.leader_only_s = 0.0

    def mark_replica_unavailable(self, key: Hashable, now_s: float) -> None:
        """Use only the leader for a while, because the replica failed, timed out, or is missing
        from the metadata."""
        choice = self._choices.get(key)
        if choice is None or choice.replica == NO_REPLICA:
            return
        choice.replica = NO_REPLICA
        choice.leader_only_s = min(
            max(LEADER_ONLY_INITIAL_S, 2 * choice.leader_only_s),
            max(LEADER_ONLY_INITIAL_S, self.max_age_s),
        )
        choice.leader_only_until_s = now_s + choice.leader_only_s

    def check_invariants(self) -> None:
        assert self.rack or not self._choices
        for key, choice in self._choices.items():
            assert choice.replica != choice.leader, key
