"""Chooses between a source partition's leader and the follower in our own rack (KIP-392).

A leader that is told our rack may name a replica to read from. As in Java's consumers, that
replica is used until `metadata.max.age.ms` have passed, the leader moves, or the replica fails to
answer. A replica may lag behind, so its errors are not believed: the leader is asked. Unlike in
Java, such a partition then stays with its leader for a while, without naming our rack, which
would only return the same replica again.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

NO_REPLICA = -1
LEADER_ONLY_INITIAL_S = 2.0
"""How long a leader serves alone at first; doubled as long as its replica disappoints."""


class FetchBroker(NamedTuple):
    """`alone`: this leader is not told our rack, so that it serves instead of naming a replica."""

    node_id: int
    alone: bool


@dataclass(slots=True, kw_only=True)
class _ReplicaChoice:
    """Of one partition. Times are monotonic seconds; `alone_s` is the last wait, 0 for none."""

    leader: int
    replica: int = NO_REPLICA
    until_s: float = 0.0
    alone_until_s: float = 0.0
    alone_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class PreferredReadReplicas:
    """Invariant: without a rack nothing is kept and every partition is read from its leader."""

    rack: str = ""
    max_age_s: float = 300.0
    _choices: dict[Hashable, _ReplicaChoice] = field(default_factory=dict)

    def choose(
        self, key: Hashable, leader: int, *, brokers: Container[int], now_s: float
    ) -> FetchBroker:
        """Where to read a partition now; `brokers` are those that the metadata knows."""
        if not self.rack:
            return FetchBroker(leader, False)
        choice = self._choices.get(key)
        if choice is None or choice.leader != leader:
            choice = self._choices[key] = _ReplicaChoice(leader=leader)
        if choice.replica != NO_REPLICA and now_s < choice.until_s:
            if choice.replica in brokers:
                return FetchBroker(choice.replica, False)
            # The leader knows of a new broker before us, and would name it again at once.
            self.disappointed(key, now_s)
        choice.replica = NO_REPLICA
        return FetchBroker(leader, now_s < choice.alone_until_s)

    def named(self, key: Hashable, replica: int, now_s: float) -> None:
        """The leader says: read from this replica."""
        choice = self._choices.get(key)
        if choice is not None and replica != choice.leader:
            choice.replica, choice.until_s = replica, now_s + self.max_age_s

    def follows(self, key: Hashable, node_id: int) -> bool:
        """Is this broker read as a replica, not as the leader?"""
        choice = self._choices.get(key)
        return choice is not None and choice.replica == node_id

    def served(self, key: Hashable) -> None:
        """Its replica sent records."""
        choice = self._choices.get(key)
        if choice is not None and choice.replica != NO_REPLICA:
            choice.alone_s = 0.0

    def disappointed(self, key: Hashable, now_s: float) -> None:
        """Its replica answered with an error, or not at all, or is not to be found: the leader
        alone, for a while."""
        choice = self._choices.get(key)
        if choice is None or choice.replica == NO_REPLICA:
            return
        choice.replica = NO_REPLICA
        choice.alone_s = min(
            max(LEADER_ONLY_INITIAL_S, 2 * choice.alone_s),
            max(LEADER_ONLY_INITIAL_S, self.max_age_s),
        )
        choice.alone_until_s = now_s + choice.alone_s

    def check_invariants(self) -> None:
        assert self.rack or not self._choices
        for key, choice in self._choices.items():
            assert choice.replica != choice.leader, key
