"""Cached cluster metadata: brokers, topics, leaders and coordinators, and the refresh schedule.

The state machine's inputs are Metadata responses and the leaders that other responses report. A
newer leader epoch replaces an older one, no matter which response reported it (KIP-320). A lagging
broker therefore cannot restore an old leader. Brokers before 2.8 have no topic ids: a topic that
was deleted and recreated starts at epoch 0 and cannot be distinguished from the old topic. For
topics without an id, an older epoch is accepted only after all refreshes for `OLDER_EPOCH_GRACE_S`
seconds have returned an older epoch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect_runtime.base.backoff import Backoff
from connect_runtime.protocol import varints
from connect_runtime.protocol.request_builders import CoordinatorKey

NO_NODE = -1
OLDER_EPOCH_GRACE_S = 10.0
_REFRESH_BACKOFF_RESET_S = 10.0
"""Time without a refresh after which the refresh backoff restarts at its initial delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """A broker with its advertised host and port."""

    node_id: int
    host: str
    port: int


class PartitionLeader(NamedTuple):
    """The leader of a partition and its epoch (-1 if unknown)."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """Metadata of a topic, from the last Metadata response."""

    name: str
    topic_id: bytes
    """Topic id (16 bytes); all zeros if the brokers do not support topic ids (before 2.8)."""
    error_code: int
    """0, or the error code that explains why the topic has no metadata, for example 3 for
    UNKNOWN_TOPIC_OR_PARTITION."""
    leaders: Mapping[int, PartitionLeader]
    """Leader of each partition; its node id is -1 if the partition has no leader."""


class ClusterMetadata:
    """Cache of cluster metadata. Any code may read it. Only the owning `ClusterConnections` may
    change it, except through `update_leader`."""

    def __init__(self, rng: random.Random, *, retry: Backoff, max_age_s: float) -> None:
        self.change_count = 0
        """Number of metadata changes so far. To detect changes, compare it with an earlier
        value."""
        self.controller_id = NO_NODE
        self.brokers: Mapping[int, BrokerAddress] = {}
        self._rng = rng
        self._retry = retry
        self._max_age_s = max_age_s
        self._topics: dict[str, TopicMetadata] = {}
        self._older_since_s: dict[tuple[str, int], float] = {}
        """Time since which every refresh has returned an older leader epoch, by (topic, partition).
        Only for partitions without a topic id."""
        self._wanted: dict[str, None] = {}
        self._in_flight: tuple[str, ...] | None = None
        self._last_s = -math.inf
        self._not_before_s = -math.inf
        self._due_s = -math.inf

    # reading

    def get_topic(self, name: str) -> TopicMetadata | None:
        """Return a topic's metadata; None if it was not requested or has not been received yet."""
        return self._topics.get(name)

    def get_leader(self, topic: str, partition: int) -> PartitionLeader | None:
        """Return the partition's leader; None if the partition has no leader or its leader is
        unknown."""
        view = self._topics.get(topic)
        found = view.leaders.get(partition) if view is not None else None
        return found if found is not None and found.node_id in self.brokers else None

    def list_requested_topics(self) -> tuple[str, ...]:
        """Return the names of the topics whose metadata is requested."""
        return tuple(self._wanted)

    # requested topics

    def set_metadata_topics(self, names: Iterable[str]) -> None:
        """Request the metadata of exactly these topics and drop the metadata of all other
        topics."""
        self._wanted = dict.fromkeys(names)
        for name in [name for name in self._topics if name not in self._wanted]:
            del self._topics[name]
        self._older_since_s = {
            of: since_s for of, since_s in self._older_since_s.items() if of[0] in self._wanted
        }
        if any(name not in self._topics for name in self._wanted):
            self.request_refresh()

    def request_refresh(self) -> None:
        """Schedule a metadata refresh as soon as the backoff allows, because the cached metadata is
        stale."""
        self._due_s = min(self._due_s, self._not_before_s)

    def update_leader(self, topic: str, partition: int, node_id: int, epoch: int) -> None:
        """Apply the partition leader that another response reported, if its leader epoch is newer
        than the cached epoch."""
        view = self._topics.get(topic)
        known = view.leaders.get(partition) if view is not None else None
        if view is None or known is None or epoch <= known.epoch:
            return
        leaders = {**view.leaders, partition: PartitionLeader(node_id, epoch)}
        self._topics[topic] = TopicMetadata(
            name=topic, topic_id=view.topic_id, error_code=view.error_code, leaders=leaders
        )
        self.change_count += 1
        if node_id not in self.brokers:
            self.request_refresh()

    # refreshing

    def get_next_refresh_time_s(self) -> float:
        """Return the monotonic time of the next Metadata request; infinity while a request is in
        flight."""
        return math.inf if self._in_flight is not None else max(self._due_s, self._not_before_s)

    def start_refresh(self) -> tuple[str, ...]:
        """Mark a metadata refresh as in flight, and return the topics to request. The caller sends
        the request, and then calls `apply_response` or `on_refresh_failed`."""
        assert self._in_flight is None, "only one metadata refresh may be in flight"
        self._in_flight = tuple(self._wanted)
        self._due_s = math.inf
        return self._in_flight

    def on_refresh_failed(self, now_s: float) -> None:
        """Schedule another refresh after a backoff, because the Metadata request failed."""
        self._in_flight = None
        self._start_backoff(now_s)
        self._due_s = self._not_before_s

    def apply_response(self, response: Any, now_s: float) -> None:
        """Apply a decoded Metadata response (a kio entity of version 7 or later) to the cache."""
        requested, self._in_flight = self._in_flight, None
        assert requested is not None, "response without a request"
        again_s = self._due_s  # inf, unless a refresh was requested in the meantime
        self._start_backoff(now_s)
        before = (self.brokers, self.controller_id, dict(self._topics))
        self.controller_id = int(response.controller_id)
        self.brokers = {
            int(b.node_id): BrokerAddress(node_id=int(b.node_id), host=b.host, port=int(b.port))
            for b in response.brokers
        }
        for topic in response.topics:
            if topic.name in self._wanted:
                self._apply_topic_metadata(topic, now_s)
        if before != (self.brokers, self.controller_id, self._topics):
            self.change_count += 1
        is_complete = again_s == math.inf and self._is_metadata_complete()
        self._due_s = now_s + self._max_age_s if is_complete else self._not_before_s

    def _start_backoff(self, now_s: float) -> None:
        if now_s - self._last_s > _REFRESH_BACKOFF_RESET_S:
            self._retry.reset()
        self._last_s = now_s
        self._not_before_s = now_s + self._retry.next_delay_s(self._rng)

    def _is_metadata_complete(self) -> bool:
        """Return True if every requested topic exists and every partition has a leader."""
        if not self.brokers or self._older_since_s:
            return False
        topics = [self._topics.get(name) for name in self._wanted]
        return all(
            topic is not None
            and topic.error_code == 0
            and all(leader.node_id in self.brokers for leader in topic.leaders.values())
            for topic in topics
        )

    def _apply_topic_metadata(self, topic: Any, now_s: float) -> None:
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
                is_older = not self._is_older_epoch_accepted((name, index), now_s)
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

    def _is_older_epoch_accepted(self, of: tuple[str, int], now_s: float) -> bool:
        """Return True if a partition without a topic id may change to an older leader epoch. Such
        an epoch is accepted only after a grace period."""
        since_s = self._older_since_s.setdefault(of, now_s)
        if now_s - since_s < OLDER_EPOCH_GRACE_S:
            return False
        del self._older_since_s[of]
        return True


def format_address(host: str, port: int) -> str:
    """Format an address as host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """Parse an entry of bootstrap.servers into (host, port). Raises ValueError if the entry is
    malformed."""
    host, colon, port = text.strip().rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    in_brackets = host.startswith("[") and host.endswith("]")
    if not colon or not bare or (":" in bare and not in_brackets):
        raise ValueError(f"{text!r} is not host:port")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return bare, int(port)


RETRIABLE_LOOKUP_ERRORS = frozenset({-1, 5, 7, 14, 15, 16})
"""Error codes after which a coordinator lookup is retried: UNKNOWN_SERVER_ERROR (-1),
LEADER_NOT_AVAILABLE (5), REQUEST_TIMED_OUT (7), COORDINATOR_LOAD_IN_PROGRESS (14),
COORDINATOR_NOT_AVAILABLE (15) and NOT_COORDINATOR (16)."""
MAX_LOOKUP_BATCH = 500
_LOOKUP_BACKOFF_RESET_S = 10.0
"""Time without a failed lookup after which the lookup backoff restarts at its initial delay."""


@dataclass(slots=True, kw_only=True)
class CoordinatorCache:
    """Cache of the coordinators of groups and transactional ids, which also schedules the lookups
    of uncached coordinators.

    Invariant: each group or transactional id is in at most one of three states: cached, waiting for
    a lookup, or part of a lookup in flight.
    """

    rng: random.Random
    retry: Backoff
    _nodes: dict[CoordinatorKey, int] = field(default_factory=dict)
    _waiting: dict[CoordinatorKey, None] = field(default_factory=dict)
    _in_flight: set[CoordinatorKey] = field(default_factory=set)
    _not_before_s: float = -math.inf
    _failed_s: float = -math.inf

    def get_coordinator_node_id(self, coordinator: CoordinatorKey) -> int | None:
        """Return the node id of the broker that is the coordinator; None if it is not cached."""
        return self._nodes.get(coordinator)

    def request_lookup(self, coordinator: CoordinatorKey) -> None:
        """Schedule a coordinator lookup, unless the coordinator is cached or its lookup is in
        flight."""
        if coordinator not in self._nodes and coordinator not in self._in_flight:
            self._waiting[coordinator] = None

    def forget_coordinator(self, coordinator: CoordinatorKey) -> None:
        """Drop a coordinator from the cache, because it is unreachable or returned NOT_COORDINATOR
        (16)."""
        self._nodes.pop(coordinator, None)

    def forget_node(self, node_id: int) -> None:
        """Drop all coordinators on an unreachable broker from the cache, because they may have
        moved."""
        for coordinator in [c for c, node in self._nodes.items() if node == node_id]:
            del self._nodes[coordinator]

    def get_next_lookup_time_s(self) -> float:
        """Return the monotonic time of the next coordinator lookup; infinity if no lookup is
        waiting."""
        return self._not_before_s if self._waiting else math.inf

    def start_lookup_batch(self, now_s: float) -> tuple[CoordinatorKey, ...]:
        """Select coordinators to look up with one request, all for groups or all for transactional
        ids, and mark their lookups as in flight. Returns () if no lookup is due. The caller sends
        the request, and then calls `store_lookup_result`, `retry_lookups` or `drop_lookup` for each
        coordinator."""
        if now_s < self.get_next_lookup_time_s():
            return ()
        kind = next(iter(self._waiting)).kind
        batch = tuple(c for c in self._waiting if c.kind == kind)[:MAX_LOOKUP_BATCH]
        for coordinator in batch:
            del self._waiting[coordinator]
        self._in_flight.update(batch)
        return batch

    def store_lookup_result(self, coordinator: CoordinatorKey, node_id: int) -> None:
        """Cache the node id that a coordinator lookup returned."""
        self._in_flight.discard(coordinator)
        self._waiting.pop(coordinator, None)
        self._nodes[coordinator] = node_id

    def retry_lookups(self, coordinators: Iterable[CoordinatorKey], now_s: float) -> None:
        """Schedule failed coordinator lookups again after a backoff. Use for lookups without a
        response or with a retriable error."""
        if now_s - self._failed_s > _LOOKUP_BACKOFF_RESET_S:
            self.retry.reset()
        self._failed_s = now_s
        self._not_before_s = now_s + self.retry.next_delay_s(self.rng)
        for coordinator in coordinators:
            self._in_flight.discard(coordinator)
            self._waiting[coordinator] = None

    def drop_lookup(self, coordinator: CoordinatorKey) -> None:
        """Drop a coordinator lookup that failed with a fatal error. The caller fails the requests
        that wait for the coordinator."""
        self._in_flight.discard(coordinator)
        self._waiting.pop(coordinator, None)

    def check_invariants(self) -> None:
        cached, waiting = set(self._nodes), set(self._waiting)
        assert not cached & waiting, cached & waiting
        assert not cached & self._in_flight, cached & self._in_flight
        assert not waiting & self._in_flight, waiting & self._in_flight
