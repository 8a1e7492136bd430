"""What is known of a cluster: brokers, topics, leaders; and when it has to be asked again.

A machine: metadata responses and leaders that other responses mention go in, answers and due times
come out. Newer leader epochs win over older ones wherever they come from (KIP-320), so a lagging
broker's metadata cannot take a leader back. Where topics have no ids (before 2.8), a topic that was
deleted and created again begins with epoch 0 and looks like the old one: there an older epoch
counts once every refresh for `OLDER_EPOCH_AFTER_S` has shown one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from connect_runtime.base import backoff
from connect_runtime.wire.codec import by_topic

NO_NODE = -1
OLDER_EPOCH_AFTER_S = 10.0
_QUIET_S = 10.0
"""After this long without a refresh the next trouble starts with a short wait again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker as it advertises itself to this listener."""

    node_id: int
    host: str
    port: int


class PartitionLeader(NamedTuple):
    """Who leads a partition, since which epoch (-1: unknown)."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic at the last refresh. `error_code` 3: it does not exist.

    topic_id: 16 bytes, zero where brokers know none (before 2.8).
    leaders: by partition; a partition without a leader has node id -1.
    """

    name: str
    topic_id: bytes
    error_code: int
    leaders: Mapping[int, PartitionLeader]


class ClusterView:
    """Read it freely; only its ClusterConnections changes it, but for `leader_seen`."""

    def __init__(self, rng: random.Random, *, retry: backoff.Backoff, max_age_s: float) -> None:
        self.generation = 0
        """Counts changes: compare it to find out whether anything has to be looked at again."""
        self.controller_id = NO_NODE
        self.brokers: Mapping[int, Broker] = {}
        self._rng = rng
        self._retry = retry
        self._max_age_s = max_age_s
        self._topics: dict[str, TopicView] = {}
        self._older_since_s: dict[tuple[str, int], float] = {}
        """Since when each refresh has shown an older epoch of a partition without a topic id."""
        self._wanted: dict[str, None] = {}
        self._asked: tuple[str, ...] | None = None
        self._last_s = -math.inf
        self._not_before_s = -math.inf
        self._due_s = -math.inf

    # reading

    def topic(self, name: str) -> TopicView | None:
        """None: not wanted, or not yet answered."""
        return self._topics.get(name)

    def leader(self, topic: str, partition: int) -> PartitionLeader | None:
        """The partition's leader, None while there is none or nobody knows."""
        view = self._topics.get(topic)
        found = view.leaders.get(partition) if view is not None else None
        return found if found is not None and found.node_id in self.brokers else None

    def wanted(self) -> tuple[str, ...]:
        return tuple(self._wanted)

    # what is wanted

    def want_topics(self, names: Iterable[str]) -> None:
        """From now on these topics, and only these."""
        self._wanted = dict.fromkeys(names)
        for name in [name for name in self._topics if name not in self._wanted]:
            del self._topics[name]
        self._older_since_s = {
            of: since_s for of, since_s in self._older_since_s.items() if of[0] in self._wanted
        }
        if any(name not in self._topics for name in self._wanted):
            self.request_refresh()

    def request_refresh(self) -> None:
        """Something did not fit: ask as soon as the backoff allows."""
        self._due_s = min(self._due_s, self._not_before_s)

    def leader_seen(self, topic: str, partition: int, node_id: int, epoch: int) -> None:
        """A response named a partition's leader; of use if it is newer than what is known."""
        view = self._topics.get(topic)
        known = view.leaders.get(partition) if view is not None else None
        if view is None or known is None or epoch <= known.epoch:
            return
        leaders = {**view.leaders, partition: PartitionLeader(node_id, epoch)}
        self._topics[topic] = TopicView(
            name=topic, topic_id=view.topic_id, error_code=view.error_code, leaders=leaders
        )
        self.generation += 1
        if node_id not in self.brokers:
            self.request_refresh()

    # refreshing

    def refresh_due_s(self) -> float:
        """When to send the next Metadata request (monotonic); inf while one is under way."""
        return math.inf if self._asked is not None else max(self._due_s, self._not_before_s)

    def refresh_started(self) -> tuple[str, ...]:
        """The topics to ask for; `refreshed` or `refresh_failed` must follow."""
        assert self._asked is None, "one refresh at a time"
        self._asked = tuple(self._wanted)
        self._due_s = math.inf
        return self._asked

    def refresh_failed(self, now_s: float) -> None:
        self._asked = None
        self._wait(now_s)
        self._due_s = self._not_before_s

    def refreshed(self, response: Any, now_s: float) -> None:
        """Take in a kio MetadataResponse (version 7 and up)."""
        asked, self._asked = self._asked, None
        assert asked is not None, "an answer without a request"
        again_s = self._due_s  # inf, unless somebody asked meanwhile
        self._wait(now_s)
        before = (self.brokers, self.controller_id, dict(self._topics))
        self.controller_id = int(response.controller_id)
        self.brokers = {
            int(b.node_id): Broker(node_id=int(b.node_id), host=b.host, port=int(b.port))
            for b in response.brokers
        }
        for topic in response.topics:
            if topic.name in self._wanted:
                self._take_topic(topic, now_s)
        if before != (self.brokers, self.controller_id, self._topics):
            self.generation += 1
        settled = again_s == math.inf and self._settled()
        self._due_s = now_s + self._max_age_s if settled else self._not_before_s

    def _wait(self, now_s: float) -> None:
        if now_s - self._last_s > _QUIET_S:
            self._retry.reset()
        self._last_s = now_s
        self._not_before_s = now_s + self._retry.next_delay_s(self._rng)

    def _settled(self) -> bool:
        """Whether every wanted topic is there and every partition has a leader."""
        if not self.brokers or self._older_since_s:
            return False
        topics = [self._topics.get(name) for name in self._wanted]
        return all(
            topic is not None
            and topic.error_code == 0
            and all(leader.node_id in self.brokers for leader in topic.leaders.values())
            for topic in topics
        )

    def _take_topic(self, topic: Any, now_s: float) -> None:
        name = str(topic.name)
        found_id = getattr(topic, "topic_id", None)
        topic_id = by_topic.NO_TOPIC_ID if found_id is None else found_id.bytes
        known = self._topics.get(name)
        older: Mapping[int, PartitionLeader] = {}
        if known is not None and known.topic_id == topic_id:
            older = known.leaders
        leaders: dict[int, PartitionLeader] = {}
        for part in topic.partitions:
            index = int(part.partition_index)
            leader = PartitionLeader(int(part.leader_id), int(part.leader_epoch))
            seen = older.get(index)
            is_older = seen is not None and seen.epoch > leader.epoch
            if is_older and topic_id == by_topic.NO_TOPIC_ID:
                is_older = not self._counts_all_the_same((name, index), now_s)
            else:
                self._older_since_s.pop((name, index), None)
            leaders[index] = seen if seen is not None and is_older else leader
        self._older_since_s = {
            (of, index): since_s
            for (of, index), since_s in self._older_since_s.items()
            if of != name or index in leaders
        }
        self._topics[name] = TopicView(
            name=name, topic_id=topic_id, error_code=int(topic.error_code), leaders=leaders
        )

    def _counts_all_the_same(self, of: tuple[str, int], now_s: float) -> bool:
        """An older epoch of a partition without a topic id."""
        since_s = self._older_since_s.setdefault(of, now_s)
        if now_s - since_s < OLDER_EPOCH_AFTER_S:
            return False
        del self._older_since_s[of]
        return True


def format_address(host: str, port: int) -> str:
    """host:port; IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """The (host, port) of one entry of bootstrap.servers; raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    in_brackets = host.startswith("[") and host.endswith("]")
    if not colon or not bare or (":" in bare and not in_brackets):
        raise ValueError(f"{text!r} is not host:port")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return bare, int(port)


class NodeState(NamedTuple):
    """How one known address stands, for `pick_node`. Bootstrap entries have negative ids."""

    node_id: int
    connected: bool
    connecting_since_s: float | None
    in_flight: int
    retry_at_s: float
    tried_s: float


_PATIENCE_S = 1.0
"""A connection attempt that takes longer gets company: the next address is tried beside it."""


def pick_node(nodes: Iterable[NodeState], now_s: float) -> tuple[int | None, float]:
    """(node to use or to connect to, when to ask again if None).

    Connected ones first, the least busy; otherwise the one tried longest ago that is not backing
    off, real brokers before bootstrap entries: so dead entries are gone round.
    """
    states = list(nodes)
    connected = [state for state in states if state.connected]
    if connected:
        best = min(connected, key=lambda s: (s.node_id < 0, s.in_flight, s.node_id))
        return best.node_id, now_s
    recent = [
        state.connecting_since_s + _PATIENCE_S
        for state in states
        if state.connecting_since_s is not None and now_s < state.connecting_since_s + _PATIENCE_S
    ]
    if recent:
        return None, min(recent)
    idle = [state for state in states if state.connecting_since_s is None]
    ready = [state for state in idle if state.retry_at_s <= now_s]
    if ready:
        return min(ready, key=lambda s: (s.tried_s, s.node_id < 0)).node_id, now_s
    return None, min((state.retry_at_s for state in idle), default=math.inf)
