"""Fetches from the source: fetch sessions with its brokers, bounded by the memory budget.

Every broker has two connections with one session (KIP-227) each. Partitions at the end of their
log wait for new records on the *tail* connection, whose fetches the broker holds; those with a
backlog are read on the *backlog* connection. So a large response does not delay fresh records,
and a held fetch does not delay a backlog. `follower_fetching` decides which broker that is, the
leader or a replica (KIP-392).

Topics are read by id, or by name where one of them has no id: brokers of Kafka 3.1 to 3.9 on
ZooKeeper speak versions of Fetch that know topics by id only, and give topics no ids while
inter.broker.protocol.version is below 2.8. Java's consumer does the same (`AbstractFetch`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from connect_runtime.base.timing import Clock
from connect_runtime.network.cluster_connections import ClusterConnections, RawClientResponse
from connect_runtime.protocol import api_versions, fetch, varints
from connect_runtime.protocol.cluster_metadata import PartitionLeader
from connect_runtime.protocol.fetch import (
    FetchRequestPartition,
    FetchResponse,
    FetchResponsePartition,
    FetchSession,
)
from connect_runtime.protocol.request_errors import TruncatedResponse
from mm2.copier.client_properties import FetchLimits
from mm2.replication.fetch_sizes import AdaptiveFetchSize
from mm2.replication.follower_fetching import PreferredReadReplicas
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.recovery_instructions import FetchedRecords, Instruction
from mm2.replication.throttle import ByteRateLimits

TOPIC_NAME_VERSIONS = (12, 12)


def choose_fetch_versions(topic_ids: Iterable[bytes]) -> tuple[int, int]:
    """The lowest and the highest version for one request that reads these topics."""
    return TOPIC_NAME_VERSIONS if varints.NO_TOPIC_ID in topic_ids else api_versions.FETCH_VERSIONS


READ_COMMITTED = 1
BACKLOG_MAX_WAIT_MS = 20
REQUEST_TIMEOUT_S = 30.0
FETCH_RETRY_DELAY_S = 0.1
MAX_UNSENT_BYTES = 8 * 1024 * 1024
"""A partition that holds this much unsent (or an eighth of the budget) is not fetched meanwhile."""

BUFFER_OVERUSE_FACTOR = 1.5
"""Buffers of this many times the budget are in use: slow partitions keep those of fast ones."""

SESSION_ERRORS = frozenset({70, 71, 106})
"""Of the fetch session alone, which begins anew: FETCH_SESSION_ID_NOT_FOUND,
INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""

TAIL_CONNECTION = "fetch-tail"
BACKLOG_CONNECTION = "fetch-backlog"
NO_RACK_SUFFIX = "-alone"
"""Ends the names of connections on which a leader is not told our rack."""

FetchInstructionHandler = Callable[[PartitionReplicator, Sequence[Instruction]], None]
PartitionKey = tuple[str, int]


@dataclass(slots=True)
class _FetchConnection:
    """One session on one connection; `asked_bytes` is what the request under way may bring.
    `heard_s`: when the broker answered last."""

    node_id: int
    name: str
    alone: bool = False
    session: FetchSession = field(default_factory=FetchSession)
    asked_bytes: int = 0
    heard_s: float = -inf
    retry_at_s: float = 0.0


class Fetcher:
    """Keeps every partition that wants data in the right session of its leader."""

    def __init__(
        self,
        source: ClusterConnections,
        *,
        held: MemoryBudget,
        carry: FetchInstructionHandler,
        arrived: Callable[[PartitionReplicator], None],
        now: Clock,
        throttles: ByteRateLimits,
        limits: FetchLimits,
        can_send: Callable[[PartitionReplicator], bool],
    ) -> None:
        self._throttles = throttles
        self._throttled: set[PartitionKey] = set()
        self.sizes = AdaptiveFetchSize(
            partition_bytes=limits.partition_bytes, least_bytes=limits.partition_bytes
        )
        self._limits = limits
        self._can_send = can_send
        self._queue_bytes = min(
            MAX_UNSENT_BYTES, max(limits.partition_bytes, held.limit_bytes // 8)
        )
        self._source = source
        self._clock = now
        self._held = held
        self._carry = carry
        self._arrived = arrived
        self._copies: dict[PartitionKey, PartitionReplicator] = {}
        self._by_id: dict[tuple[bytes, int], PartitionKey] = {}
        self._versions = api_versions.FETCH_VERSIONS
        self._replicas = PreferredReadReplicas(rack=limits.rack, max_age_s=limits.replica_max_age_s)
        self._lanes: dict[tuple[int, str, bool], _FetchConnection] = {}
        self._place: dict[PartitionKey, _FetchConnection] = {}
        self._backlogs: Counter[str] = Counter()
        self._caught_up: set[PartitionKey] = set()
        self._paced: dict[PartitionKey, tuple[float, PartitionLeader | None]] = {}

    def add(self, copy: PartitionReplicator) -> None:
        key = (copy.where.topic, copy.where.partition)
        self._copies[key] = copy
        self._by_id[(copy.where.source_topic_id, copy.where.partition)] = key
        if not copy.where.source_is_known:
            self._versions = TOPIC_NAME_VERSIONS

    def place(self, copy: PartitionReplicator) -> None:
        """Call when what a partition wants may have changed."""
        key = (copy.where.topic, copy.where.partition)
        leader = self._source.view.leader(*key)
        lane = self._place.get(key)
        room = copy.outbox.queued_bytes < self._queue_bytes
        hungry = copy.wants_data and room and self._can_send(copy) and self._affords(key)
        if leader is None or not hungry or self._is_paced(key):
            if lane is not None:
                lane.session.drop(key)
                self._settle(key, None)
            return
        place = self._replicas.choose(
            key, leader.node_id, brokers=self._source.view.brokers, now_s=self._clock.now_s()
        )
        if lane is None or (lane.node_id, lane.alone) != place:
            if lane is not None:
                lane.session.drop(key)
            lane = self._lane(place.node_id, BACKLOG_CONNECTION, alone=place.alone)
            self._settle(key, lane)
            self._caught_up.discard(key)
        self._want(lane, key, copy)

    def room(self, copy: PartitionReplicator) -> None:
        """Something of the partition was acknowledged: it may want data again."""
        if (copy.where.topic, copy.where.partition) not in self._place:
            self.place(copy)

    def _want(self, lane: _FetchConnection, key: PartitionKey, copy: PartitionReplicator) -> None:
        leader = self._source.view.leader(*key)
        lane.session.want(
            key,
            FetchRequestPartition(
                copy.where.topic,
                copy.where.source_topic_id,
                copy.where.partition,
                leader.epoch if leader is not None else -1,
                copy.source.position,
                copy.source.epoch,
                self._throttles.most_bytes(
                    key[0], self.sizes.partition_bytes, sharers=self._backlogs[key[0]]
                ),
            ),
        )

    def _settle(self, key: PartitionKey, lane: _FetchConnection | None) -> None:
        """Invariant: `_backlogs` counts the partitions of each topic that have a backlog."""
        if (before := self._place.pop(key, None)) is not None and before.name == BACKLOG_CONNECTION:
            self._backlogs[key[0]] -= 1
        if lane is not None:
            self._place[key] = lane
            self._backlogs[key[0]] += lane.name == BACKLOG_CONNECTION

    def throttle(self, throttles: ByteRateLimits) -> None:
        """From now on these budgets hold."""
        self._throttles = throttles

    def _affords(self, key: PartitionKey) -> bool:
        """Partitions of a topic whose budget is spent are placed again when it has earned some."""
        if self._throttles.open_for(key[0], self._clock.now_s()):
            return True
        self._throttled.add(key)
        return False

    def _is_paced(self, key: PartitionKey) -> bool:
        """Who refused us just now would so again, as fast as we ask: until another one leads."""
        until_s, refused_by = self._paced.get(key, (0.0, None))
        if self._clock.now_s() < until_s and self._source.view.leader(*key) == refused_by:
            return True
        self._paced.pop(key, None)
        return False

    def place_all(self) -> None:
        """The source's leaders may have moved."""
        for copy in self._copies.values():
            self.place(copy)

    def _lane(self, node_id: int, name: str, *, alone: bool) -> _FetchConnection:
        return self._lanes.setdefault(
            (node_id, name, alone), _FetchConnection(node_id, name, alone)
        )

    # Asking

    def pump(self, now_s: float) -> None:
        """Send a fetch on every lane that is free and has partitions, as far as the budget goes."""
        waiting, self._throttled = self._throttled, set()
        waiting.update(key for key, (until_s, _) in self._paced.items() if now_s >= until_s)
        for key in waiting:
            self.place(self._copies[key])
        for lane in list(self._lanes.values()):
            if lane.session.in_flight() or now_s < lane.retry_at_s:
                continue
            if lane.name == TAIL_CONNECTION:
                self._move_caught_up(lane)
            if lane.session.wanted() and self._held.free_bytes and self._throttles.flow.open(now_s):
                self._fetch(lane)

    def _move_caught_up(self, tail: _FetchConnection) -> None:
        """Partitions that reached the end of their log join the tail's next request."""
        for key in list(self._caught_up):
            lane = self._place.get(key)
            if lane is None or (lane.node_id, lane.alone) != (tail.node_id, tail.alone):
                continue
            if lane is not tail:
                lane.session.drop(key)
                self._settle(key, tail)
                self._want(tail, key, self._copies[key])
            self._caught_up.discard(key)

    def _fetch(self, lane: _FetchConnection) -> None:
        version = self._source.version_for(lane.node_id, api_versions.FETCH_KEY, *self._versions)
        if version is None:
            if self._source.trouble(lane.node_id) is not None:
                self._leave_replica(lane, self._clock.now_s())
            return
        request = lane.session.next_request()
        under_way = sum(each.asked_bytes for each in self._lanes.values())
        limit = max(1, min(self._limits.max_bytes, self._held.free_bytes - under_way))
        limit = self._throttles.most_at_once(max(limit, 1024 * 1024))
        lane.asked_bytes = min(limit, self.sizes.partition_bytes * lane.session.wanted())
        body = fetch.encode_fetch_request(
            version,
            max_wait_ms=self._limits.max_wait_ms
            if lane.name == TAIL_CONNECTION
            else BACKLOG_MAX_WAIT_MS,
            min_bytes=self._limits.min_bytes,
            max_bytes=limit,
            isolation_level=READ_COMMITTED,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            partitions=request.partitions,
            forgotten=request.forgotten,
            rack_id="" if lane.alone else self._replicas.rack,
        )
        self._source.call_raw(
            lane.node_id,
            lane=lane.name + (NO_RACK_SUFFIX if lane.alone else ""),
            api_key=api_versions.FETCH_KEY,
            version=version,
            chunks=[body],
            done=lambda reply: self._answered(lane, reply),
            timeout_s=REQUEST_TIMEOUT_S,
        )

    # Being answered

    def heard_s(self) -> float:
        """When the one answered that was silent longest; -inf: some partitions are not read."""
        heard_s = [lane.heard_s for lane in self._lanes.values() if lane.session.wanted()]
        return min(heard_s, default=-inf) if len(self._place) == len(self._copies) else -inf

    def _answered(self, lane: _FetchConnection, reply: RawClientResponse) -> None:
        now_s = self._clock.now_s()
        asked, lane.asked_bytes = lane.asked_bytes, 0
        if (response := self._decode(lane, reply, now_s)) is None:
            return
        lane.heard_s = lane.heard_s if response.error_code else now_s
        size = len(reply.body) if reply.body is not None else 0
        rtt_s = self._source.rtt_s(lane.node_id) or 0.0
        self.sizes.answered(size, asked=asked, elapsed_s=reply.elapsed_s, rtt_s=rtt_s)
        self._throttles.flow.spent(size)
        if response.throttle_ms:
            name = lane.name + (NO_RACK_SUFFIX if lane.alone else "")
            self._source.throttle(lane.node_id, name, response.throttle_ms)
        for found in response.partitions:
            self._take_in(lane, found, now_s)
        lane.session.answered(response)
        if response.error_code and response.error_code not in SESSION_ERRORS:
            self._refused_as_a_whole(lane, response.error_code, now_s)
        self.pump(now_s)

    def _refused_as_a_whole(self, lane: _FetchConnection, code: int, now_s: float) -> None:
        """What the broker says to the request, it says of each partition in it."""
        lane.retry_at_s = now_s + FETCH_RETRY_DELAY_S
        for key in [key for key, place in self._place.items() if place is lane]:
            copy = self._copies[key]
            self._carry(copy, copy.source_refused(code, now_s))
            self.place(copy)

    def _decode(
        self, lane: _FetchConnection, reply: RawClientResponse, now_s: float
    ) -> FetchResponse | None:
        if reply.body is not None:
            try:
                return fetch.decode_fetch_response(reply.version, reply.body)
            except TruncatedResponse:
                pass  # the connection carried nonsense: as good as broken
        lane.session.failed()
        lane.retry_at_s = now_s + FETCH_RETRY_DELAY_S
        self._source.refresh_metadata()
        self._leave_replica(lane, now_s)
        return None

    def _leave_replica(self, lane: _FetchConnection, now_s: float) -> None:
        """Those that are read from this broker as a replica go back to their leaders."""
        left = [
            key
            for key, place in self._place.items()
            if place is lane and self._replicas.follows(key, lane.node_id)
        ]
        for key in left:
            self._replicas.disappointed(key, now_s)
            self.place(self._copies[key])

    def _take_in(self, lane: _FetchConnection, found: FetchResponsePartition, now_s: float) -> None:
        key: PartitionKey | None = (found.topic, found.partition)
        if not found.topic:
            key = self._by_id.get((found.topic_id, found.partition))
        copy = self._copies.get(key) if key is not None else None
        if copy is None or key is None or self._place.get(key) is not lane:
            return
        spec = lane.session.asked(key)
        if spec is None or spec.fetch_offset != copy.source.position:
            return  # taken again since it was asked: to accept it would leave a gap
        if not self._sent_elsewhere(lane, key, found, now_s=now_s):
            if found.error_code:
                self._refused(copy, found, now_s)
            elif found.diverging_end_offset >= 0:
                self._carry(copy, copy.source_diverged(found.diverging_end_offset, now_s))
            else:
                self._offer(lane, key, found, now_s=now_s)
        self.place(copy)

    def _offer(
        self,
        lane: _FetchConnection,
        key: PartitionKey,
        found: FetchResponsePartition,
        *,
        now_s: float,
    ) -> None:
        copy = self._copies[key]
        self._throttles.spent_on(key[0], len(found.records))
        asked = copy.offer(self._records(copy, found), now_s)
        if asked:
            self._carry(copy, asked)
        self._arrived(copy)
        if copy.source.position >= found.last_stable_offset:
            if lane.name == BACKLOG_CONNECTION:
                self._caught_up.add(key)
                self._lane(lane.node_id, TAIL_CONNECTION, alone=lane.alone)
        elif lane.name == TAIL_CONNECTION and len(found.records):
            self._to_backlog(lane, key)

    def _sent_elsewhere(
        self,
        lane: _FetchConnection,
        key: PartitionKey,
        found: FetchResponsePartition,
        *,
        now_s: float,
    ) -> bool:
        """Is the partition to be read from another broker: the leader said so, or a replica erred?

        A replica may lag behind: what it says against us is for the leader to say.
        """
        followed = self._replicas.follows(key, lane.node_id)
        if followed and (found.error_code or found.diverging_end_offset >= 0):
            self._replicas.disappointed(key, now_s)
            self._source.refresh_metadata()
            return True
        if followed and len(found.records):
            self._replicas.served(key)
        elif found.preferred_read_replica >= 0 and not found.error_code:
            self._follow(key, found.preferred_read_replica, now_s)
            return True
        return False

    def _follow(self, key: PartitionKey, replica: int, now_s: float) -> None:
        """Of a replica that we do not know yet, the leader would tell with every fetch, and serve
        nothing."""
        self._replicas.named(key, replica, now_s)
        if replica not in self._source.view.brokers:
            self._replicas.disappointed(key, now_s)
            self._source.refresh_metadata()

    def _records(self, copy: PartitionReplicator, found: FetchResponsePartition) -> FetchedRecords:
        """What is to be copied, where it arrived; what would have to wait there for long moves out.

        All partitions of a response share its buffer, which the slowest of them keeps.
        """
        records = found.records
        if (
            copy.outbox.queued
            and self._source.lent_bytes > BUFFER_OVERUSE_FACTOR * self._held.limit_bytes
        ):
            records = memoryview(bytearray(records))
        return FetchedRecords(
            records=records,
            log_start=found.log_start_offset,
            end=found.last_stable_offset,
            aborted=tuple(found.aborted),
        )

    def _to_backlog(self, lane: _FetchConnection, key: PartitionKey) -> None:
        lane.session.drop(key)
        self._settle(key, self._lane(lane.node_id, BACKLOG_CONNECTION, alone=lane.alone))

    def _refused(
        self, copy: PartitionReplicator, found: FetchResponsePartition, now_s: float
    ) -> None:
        key = (copy.where.topic, copy.where.partition)
        asked = self._source.view.leader(*key)
        if found.current_leader is not None:
            self._source.view.leader_seen(*key, *found.current_leader)
        else:
            self._source.refresh_metadata()
        self._carry(copy, copy.source_refused(found.error_code, now_s))
        if copy.wants_data:
            self._paced[key] = (now_s + FETCH_RETRY_DELAY_S, asked)
