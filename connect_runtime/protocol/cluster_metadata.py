"""Cached cluster metadata: brokers, topics, leaders and coordinators, and when to refresh it.

A state machine: metadata responses and leaders mentioned by other responses go in; answers and due
times come out. A newer leader epoch wins over an older one wherever it comes from (KIP-320), so a
lagging broker cannot bring back an old leader. Brokers before 2.8 have no topic ids, and a topic
that was deleted and created again starts at epoch 0 and looks like the old one: there an older
epoch is accepted once every refresh for `OLDER_EPOCH_GRACE_S` has returned one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect_runtime.base.backoff import Backoff
from connect_runtime.protocol import varints
from connect_runtime.protocol.request_builders import CoordinatorTarget

NO_NODE = -1
OLDER_EPOCH_GRACE_S = 10.0
_REFRESH_BACKOFF_RESET_S = 10.0
"""After this long without a refresh the next trouble starts with a short wait again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """A broker as it advertises itself to this listener."""

    node_id: int
    host: str
    port: int


class PartitionLeader(NamedTuple):
    """Who leads a partition, since which epoch (-1: unknown)."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic at the last refresh. `error_code` 3: it does not exist.

    topic_id: 16 bytes, zero where brokers know none (before 2.8).
    leaders: by partition; a partition without a leader has node id -1.
    """

    name: str
    topic_id: bytes
    error_code: int
    leaders: Mapping[int, PartitionLeader]


class ClusterMetadata:
    """Read it freely; only its ClusterConnections changes it, but for `leader_seen`."""

    def __init__(self, rng: random.Random, *, retry: Backoff, max_age_s: float) -> None:
        self.generation = 0
        """Counts changes: compare it to find out whether anything has to be looked at again."""
        self.controller_id = NO_NODE
        self.brokers: Mapping[int, BrokerAddress] = {}
        self._rng = rng
        self._retry = retry
        self._max_age_s = max_age_s
        self._topics: dict[str, TopicMetadata] = {}
        self._older_since_s: dict[tuple[str, int], float] = {}
        """Since when each refresh has shown an older epoch of a partition without a topic id."""
        self._wanted: dict[str, None] = {}
        self._asked: tuple[str, ...] | None = None
        self._last_s = -math.inf
        self._not_before_s = -math.inf
        self._due_s = -math.inf

    # reading

    def topic(self, name: str) -> TopicMetadata | None:
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
        self._topics[topic] = TopicMetadata(
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
            int(b.node_id): BrokerAddress(node_id=int(b.node_id), host=b.host, port=int(b.port))
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
        if now_s - self._last_s > _REFRESH_BACKOFF_RESET_S:
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
        topic_id = varints.NO_TOPIC_ID if found_id is None else found_id.bytes
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
            if is_older and topic_id == varints.NO_TOPIC_ID:
                is_older = not self._counts_all_the_same((name, index), now_s)
            else:
                self._older_since_s.pop((name, index), None)
            leaders[index] = seen if seen is not None and is_older else leader
        self._older_since_s = {
            (of, index): since_s
            for (of, index), since_s in self._older_since_s.items()
            if of != name or index in leaders
        }
        self._topics[name] = TopicMetadata(
            name=name, topic_id=topic_id, error_code=int(topic.error_code), leaders=leaders
        )

    def _counts_all_the_same(self, of: tuple[str, int], now_s: float) -> bool:
        """An older epoch of a partition without a topic id."""
        since_s = self._older_since_s.setdefault(of, now_s)
        if now_s - since_s < OLDER_EPOCH_GRACE_S:
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


class NodeConnectionState(NamedTuple):
    """How one known address stands, for `pick_node`. Bootstrap entries have negative ids."""

    node_id: int
    connected: bool
    connecting_since_s: float | None
    in_flight: int
    retry_at_s: float
    tried_s: float


_PARALLEL_CONNECT_DELAY_S = 1.0
"""A connection attempt that takes longer gets company: the next address is tried beside it."""


def pick_node(nodes: Iterable[NodeConnectionState], now_s: float) -> tuple[int | None, float]:
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
        state.connecting_since_s + _PARALLEL_CONNECT_DELAY_S
        for state in states
        if state.connecting_since_s is not None
        and now_s < state.connecting_since_s + _PARALLEL_CONNECT_DELAY_S
    ]
    if recent:
        return None, min(recent)
    idle = [state for state in states if state.connecting_since_s is None]
    ready = [state for state in idle if state.retry_at_s <= now_s]
    if ready:
        return min(ready, key=lambda s: (s.tried_s, s.node_id < 0)).node_id, now_s
    return None, min((state.retry_at_s for state in idle), default=math.inf)


RETRIABLE_LOOKUP_ERRORS = frozenset({-1, 5, 7, 14, 15, 16})
"""Unknown error, no leader, timed out, coordinator loading, not available, moved."""
MAX_LOOKUP_BATCH = 500
_LOOKUP_BACKOFF_RESET_S = 10.0
"""After this long without trouble the next one starts with a short wait again."""


@dataclass(slots=True, kw_only=True)
class CoordinatorCache:
    """Invariant: an id is cached, or being looked up, or unknown; never two of them."""

    rng: random.Random
    retry: Backoff
    _nodes: dict[CoordinatorTarget, int] = field(default_factory=dict)
    _waiting: dict[CoordinatorTarget, None] = field(default_factory=dict)
    _asked: set[CoordinatorTarget] = field(default_factory=set)
    _not_before_s: float = -math.inf
    _failed_s: float = -math.inf

    def node(self, coordinator: CoordinatorTarget) -> int | None:
        return self._nodes.get(coordinator)

    def look_up(self, coordinator: CoordinatorTarget) -> None:
        """Somebody waits for it; nothing happens if it is known or being asked for."""
        if coordinator not in self._nodes and coordinator not in self._asked:
            self._waiting[coordinator] = None

    def forget(self, coordinator: CoordinatorTarget) -> None:
        """It answered that it is not the coordinator (16), or cannot be reached."""
        self._nodes.pop(coordinator, None)

    def forget_node(self, node_id: int) -> None:
        """A broker cannot be reached: what it coordinated may have moved."""
        for coordinator in [c for c, node in self._nodes.items() if node == node_id]:
            del self._nodes[coordinator]

    def due_s(self) -> float:
        """When to ask next; inf when nobody waits."""
        return self._not_before_s if self._waiting else math.inf

    def next_batch(self, now_s: float) -> tuple[CoordinatorTarget, ...]:
        """Ids of one kind to ask for now; each must come back in an answer or in `failed`."""
        if now_s < self.due_s():
            return ()
        kind = next(iter(self._waiting)).kind
        batch = tuple(c for c in self._waiting if c.kind == kind)[:MAX_LOOKUP_BATCH]
        for coordinator in batch:
            del self._waiting[coordinator]
        self._asked.update(batch)
        return batch

    def found(self, coordinator: CoordinatorTarget, node_id: int) -> None:
        self._asked.discard(coordinator)
        self._waiting.pop(coordinator, None)
        self._nodes[coordinator] = node_id

    def failed(self, coordinators: Iterable[CoordinatorTarget], now_s: float) -> None:
        """No answer, or a retriable error: ask again later."""
        if now_s - self._failed_s > _LOOKUP_BACKOFF_RESET_S:
            self.retry.reset()
        self._failed_s = now_s
        self._not_before_s = now_s + self.retry.next_delay_s(self.rng)
        for coordinator in coordinators:
            self._asked.discard(coordinator)
            self._waiting[coordinator] = None

    def refused(self, coordinator: CoordinatorTarget) -> None:
        """A fatal error: nobody waits for it any more (whoever did is told by the shell)."""
        self._asked.discard(coordinator)
        self._waiting.pop(coordinator, None)

    def check_invariants(self) -> None:
        cached, waiting = set(self._nodes), set(self._waiting)
        assert not cached & waiting, cached & waiting
        assert not cached & self._asked, cached & self._asked
        assert not waiting & self._asked, waiting & self._asked
