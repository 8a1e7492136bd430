"""Fetches source partitions in fetch sessions with each broker, bounded by the memory budget.

Each broker has two connections with one fetch session (KIP-227) each. Partitions at the end of
their log wait for new records on the *tail* connection, where the broker delays fetches (long
poll). Partitions with a backlog are read on the *backlog* connection. In this way, a large response
does not delay new records, and a delayed fetch does not block a backlog. `PreferredReadReplicas`
chooses the broker: the leader or a follower (KIP-392).

Topics are read by id, or by name if any topic has no id (`fetch.choose_fetch_versions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.network.cluster_connections import ClusterConnections, RawClientResponse
from connect_runtime.protocol import api_versions, fetch_requests
from connect_runtime.protocol.cluster_metadata import PartitionLeader
from connect_runtime.protocol.fetch_requests import (
    FetchRequestPartition,
    FetchResponse,
    FetchResponsePartition,
    FetchSession,
)
from connect_runtime.protocol.request_errors import MalformedResponseError
from mm2.copier.client_properties import FetchLimits
from mm2.replication.fetch_sizes import AdaptiveFetchSize
from mm2.replication.follower_fetching import PreferredReadReplicas
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.recovery_instructions import FetchedRecords, Instruction
from mm2.replication.throttle import ByteRateLimits

READ_COMMITTED = 1
BACKLOG_MAX_WAIT_MS = 20
REQUEST_TIMEOUT_S = 30.0
FETCH_RETRY_DELAY_S = 0.1
MAX_UNSENT_BYTES = 8 * 1024 * 1024
"""A partition is not fetched while it has this many unsent bytes. The limit is lower if an eighth
of the memory budget is less."""

BUFFER_OVERUSE_FACTOR = 1.5
"""Factor by which response buffers may exceed the memory budget before batches are copied out of
them. Without copying, one slow partition keeps the whole buffer of a response in memory."""

SESSION_ERRORS = frozenset({70, 71, 106})
"""Errors of the fetch session, after which only the session is restarted:
FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""

TAIL_CONNECTION = "fetch-tail"
BACKLOG_CONNECTION = "fetch-backlog"
NO_RACK_SUFFIX = "-alone"
"""Name suffix of connections whose fetches omit the rack, so that the leader serves the records."""

FetchInstructionHandler = Callable[[PartitionReplicator, Sequence[Instruction]], None]
PartitionKey = tuple[str, int]


@dataclass(slots=True)
class _FetchConnection:
    """One fetch session on one connection."""

    node_id: int
    name: str
    omits_rack: bool = False
    """True if fetches on this connection omit the client's rack, so that the leader serves the
    records."""
    session: FetchSession = field(default_factory=FetchSession)
    in_flight_bytes: int = 0
    """Maximum size in bytes of the response to the fetch in flight."""
    last_response_s: float = -inf
    """Time of the last response."""
    retry_at_s: float = 0.0


class Fetcher:
    """Fetches records for every partition that needs data, each in the fetch session of its leader
    or chosen follower."""

    def __init__(
        self,
        source: ClusterConnections,
        *,
        memory_budget: MemoryBudget,
        execute: FetchInstructionHandler,
        on_arrived: Callable[[PartitionReplicator], None],
        clock: Clock,
        throttles: ByteRateLimits,
        limits: FetchLimits,
        can_send: Callable[[PartitionReplicator], bool],
    ) -> None:
        self._throttles = throttles
        self._throttled: set[PartitionKey] = set()
        self.sizes = AdaptiveFetchSize(
            partition_bytes=limits.partition_bytes, min_bytes=limits.partition_bytes
        )
        self._limits = limits
        self._can_send = can_send
        self._queue_bytes = min(
            MAX_UNSENT_BYTES, max(limits.partition_bytes, memory_budget.limit_bytes // 8)
        )
        self._source = source
        self._clock = clock
        self._memory_budget = memory_budget
        self._execute = execute
        self._on_arrived = on_arrived
        self._copies: dict[PartitionKey, PartitionReplicator] = {}
        self._by_id: dict[tuple[bytes, int], PartitionKey] = {}
        self._versions = api_versions.FETCH_VERSIONS
        self._replicas = PreferredReadReplicas(rack=limits.rack, max_age_s=limits.replica_max_age_s)
        self._connections: dict[tuple[int, str, bool], _FetchConnection] = {}
        self._connection_of: dict[PartitionKey, _FetchConnection] = {}
        self._backlogs: Counter[str] = Counter()
        self._caught_up: set[PartitionKey] = set()
        self._retry_delays: dict[PartitionKey, tuple[float, PartitionLeader | None]] = {}

    def add_partition(self, copy: PartitionReplicator) -> None:
        """Add a partition to fetch. `update_partition` assigns it to a session."""
        key = (copy.setup.topic, copy.setup.partition)
        self._copies[key] = copy
        self._by_id[(copy.setup.source_topic_id, copy.setup.partition)] = key
        if not copy.setup.has_source_topic_id:
            self._versions = fetch_requests.TOPIC_NAME_VERSIONS

    def update_partition(self, copy: PartitionReplicator) -> None:
        """Assign a partition to a fetch session, or remove it from its session if it needs no data.
        Call this method whenever the partition's need for data may have changed."""
        key = (copy.setup.topic, copy.setup.partition)
        leader = self._source.view.get_leader(*key)
        connection = self._connection_of.get(key)
        room = copy.send_queue.queued_bytes < self._queue_bytes
        needs_data = (
            copy.accepts_fetched_records
            and room
            and self._can_send(copy)
            and self._is_within_throttle(key)
        )
        if leader is None or not needs_data or self._is_fetch_delayed(key):
            if connection is not None:
                connection.session.remove_partition(key)
                self._assign_connection(key, None)
            return
        broker = self._replicas.choose_broker(
            key, leader.node_id, brokers=self._source.view.brokers, now_s=self._clock.now_s()
        )
        if connection is None or (connection.node_id, connection.omits_rack) != broker:
            if connection is not None:
                connection.session.remove_partition(key)
            connection = self._get_connection(
                broker.node_id, BACKLOG_CONNECTION, alone=broker.leader_only
            )
            self._assign_connection(key, connection)
            self._caught_up.discard(key)
        self._add_partition_to_session(connection, key, copy)

    def reassign_idle_partition(self, copy: PartitionReplicator) -> None:
        """Assign a partition to a fetch session if it is in none and needs data again. Call after
        one of the partition's batches was acknowledged."""
        if (copy.setup.topic, copy.setup.partition) not in self._connection_of:
            self.update_partition(copy)

    def _add_partition_to_session(
        self, connection: _FetchConnection, key: PartitionKey, copy: PartitionReplicator
    ) -> None:
        leader = self._source.view.get_leader(*key)
        connection.session.set_partition(
            key,
            FetchRequestPartition(
                copy.setup.topic,
                copy.setup.source_topic_id,
                copy.setup.partition,
                leader.epoch if leader is not None else -1,
                copy.source.position,
                copy.source.epoch,
                self._throttles.limit_partition_bytes(
                    key[0], self.sizes.partition_bytes, partition_count=self._backlogs[key[0]]
                ),
            ),
        )

    def _assign_connection(self, key: PartitionKey, connection: _FetchConnection | None) -> None:
        """Assign a partition to a connection, or to none if `connection` is None. Keeps `_backlogs`
        up to date: the number of partitions on backlog connections, by topic."""
        if (
            previous := self._connection_of.pop(key, None)
        ) is not None and previous.name == BACKLOG_CONNECTION:
            self._backlogs[key[0]] -= 1
        if connection is not None:
            self._connection_of[key] = connection
            self._backlogs[key[0]] += connection.name == BACKLOG_CONNECTION

    def set_throttles(self, throttles: ByteRateLimits) -> None:
        """Replace the byte-rate limits of the flow and of its topics."""
        self._throttles = throttles

    def _is_within_throttle(self, key: PartitionKey) -> bool:
        """Return False while the topic's throttle is exhausted. The partition is retried later."""
        if self._throttles.may_fetch_topic(key[0], self._clock.now_s()):
            return True
        self._throttled.add(key)
        return False

    def _is_fetch_delayed(self, key: PartitionKey) -> bool:
        """Return True shortly after the current leader rejected a fetch, to avoid a busy retry
        loop."""
        until_s, refused_by = self._retry_delays.get(key, (0.0, None))
        if self._clock.now_s() < until_s and self._source.view.get_leader(*key) == refused_by:
            return True
        self._retry_delays.pop(key, None)
        return False

    def update_all_partitions(self) -> None:
        """Assign all partitions to fetch sessions again. Call when leaders of the source may have
        moved."""
        for copy in self._copies.values():
            self.update_partition(copy)

    def _get_connection(self, node_id: int, name: str, *, alone: bool) -> _FetchConnection:
        return self._connections.setdefault(
            (node_id, name, alone), _FetchConnection(node_id, name, alone)
        )

    # Requests

    def send_fetches(self, now_s: float) -> None:
        """Send a fetch on every idle connection that has partitions, within the memory budget."""
        keys, self._throttled = self._throttled, set()
        keys.update(key for key, (until_s, _) in self._retry_delays.items() if now_s >= until_s)
        for key in keys:
            self.update_partition(self._copies[key])
        for connection in list(self._connections.values()):
            if connection.session.is_in_flight() or now_s < connection.retry_at_s:
                continue
            if connection.name == TAIL_CONNECTION:
                self._move_caught_up_partitions_to_tail(connection)
            if (
                connection.session.count_partitions()
                and self._memory_budget.free_bytes
                and self._throttles.flow.may_fetch(now_s)
            ):
                self._send_fetch(connection)

    def _move_caught_up_partitions_to_tail(self, tail: _FetchConnection) -> None:
        """Move partitions that have reached the end of their log to the broker's tail connection,
        on which fetches wait for new records."""
        for key in list(self._caught_up):
            connection = self._connection_of.get(key)
            if connection is None or (connection.node_id, connection.omits_rack) != (
                tail.node_id,
                tail.omits_rack,
            ):
                continue
            if connection is not tail:
                connection.session.remove_partition(key)
                self._assign_connection(key, tail)
                self._add_partition_to_session(tail, key, self._copies[key])
            self._caught_up.discard(key)

    def _send_fetch(self, connection: _FetchConnection) -> None:
        version = self._source.choose_version(
            connection.node_id, api_versions.FETCH_KEY, *self._versions
        )
        if version is None:
            if self._source.get_connection_error(connection.node_id) is not None:
                self._abandon_follower(connection, self._clock.now_s())
            return
        request = connection.session.start_next_request()
        in_flight_bytes = sum(each.in_flight_bytes for each in self._connections.values())
        limit = max(
            1, min(self._limits.max_bytes, self._memory_budget.free_bytes - in_flight_bytes)
        )
        limit = self._throttles.limit_response_bytes(max(limit, 1024 * 1024))
        connection.in_flight_bytes = min(
            limit, self.sizes.partition_bytes * connection.session.count_partitions()
        )
        body = fetch_requests.encode_fetch_request(
            version,
            max_wait_ms=self._limits.max_wait_ms
            if connection.name == TAIL_CONNECTION
            else BACKLOG_MAX_WAIT_MS,
            min_bytes=self._limits.min_bytes,
            max_bytes=limit,
            isolation_level=READ_COMMITTED,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            partitions=request.partitions,
            forgotten=request.forgotten,
            rack_id="" if connection.omits_rack else self._replicas.rack,
        )
        self._source.call_with_encoded_body(
            connection.node_id,
            lane=connection.name + (NO_RACK_SUFFIX if connection.omits_rack else ""),
            api_key=api_versions.FETCH_KEY,
            version=version,
            chunks=[body],
            done=lambda reply: self._handle_response(connection, reply),
            timeout_s=REQUEST_TIMEOUT_S,
        )

    # Responses

    def find_oldest_response_time_s(self) -> float:
        """Return the earliest time at which a fetch connection last received a response (monotonic
        seconds); -inf if a partition is not being fetched."""
        heard_s = [
            connection.last_response_s
            for connection in self._connections.values()
            if connection.session.count_partitions()
        ]
        return min(heard_s, default=-inf) if len(self._connection_of) == len(self._copies) else -inf

    def _handle_response(self, connection: _FetchConnection, reply: RawClientResponse) -> None:
        now_s = self._clock.now_s()
        requested_bytes, connection.in_flight_bytes = connection.in_flight_bytes, 0
        if (response := self._decode_response(connection, reply, now_s)) is None:
            return
        connection.last_response_s = connection.last_response_s if response.error_code else now_s
        size = len(reply.body) if reply.body is not None else 0
        rtt_s = self._source.get_min_rtt_s(connection.node_id) or 0.0
        self.sizes.adapt_to_response(
            size, requested_bytes=requested_bytes, elapsed_s=reply.elapsed_s, rtt_s=rtt_s
        )
        self._throttles.flow.deduct_bytes(size)
        if response.throttle_ms:
            name = connection.name + (NO_RACK_SUFFIX if connection.omits_rack else "")
            self._source.apply_throttle_time(connection.node_id, name, response.throttle_ms)
        for found in response.partitions:
            self._handle_partition_response(connection, found, now_s)
        connection.session.on_response(response)
        if response.error_code and response.error_code not in SESSION_ERRORS:
            self._handle_response_error(connection, response.error_code, now_s)
        self.send_fetches(now_s)

    def _handle_response_error(self, connection: _FetchConnection, code: int, now_s: float) -> None:
        """Handle an error of the whole fetch response as an error of each partition in it."""
        connection.retry_at_s = now_s + FETCH_RETRY_DELAY_S
        for key in [key for key, place in self._connection_of.items() if place is connection]:
            copy = self._copies[key]
            self._execute(copy, copy.on_fetch_error(code, now_s))
            self.update_partition(copy)

    def _decode_response(
        self, connection: _FetchConnection, reply: RawClientResponse, now_s: float
    ) -> FetchResponse | None:
        if reply.body is not None:
            try:
                return fetch_requests.decode_fetch_response(
                    reply.version,
                    reply.body,
                    max_partitions=connection.session.count_requested_partitions(),
                )
            except MalformedResponseError:
                pass  # handled like a failed connection
        connection.session.on_request_failed()
        connection.retry_at_s = now_s + FETCH_RETRY_DELAY_S
        self._source.refresh_metadata()
        self._abandon_follower(connection, now_s)
        return None

    def _abandon_follower(self, connection: _FetchConnection, now_s: float) -> None:
        """Stop reading from a follower. Its partitions are read from their leaders again."""
        keys = [
            key
            for key, place in self._connection_of.items()
            if place is connection and self._replicas.is_preferred_replica(key, connection.node_id)
        ]
        for key in keys:
            self._replicas.mark_replica_unavailable(key, now_s)
            self.update_partition(self._copies[key])

    def _handle_partition_response(
        self, connection: _FetchConnection, partition: FetchResponsePartition, now_s: float
    ) -> None:
        key: PartitionKey | None = (partition.topic, partition.partition)
        if not partition.topic:
            key = self._by_id.get((partition.topic_id, partition.partition))
        copy = self._copies.get(key) if key is not None else None
        if copy is None or key is None or self._connection_of.get(key) is not connection:
            return
        spec = connection.session.get_requested_partition(key)
        if spec is None or spec.fetch_offset != copy.source.position:
            return  # the position changed since the request: accepting would leave a gap
        if not self._must_switch_replica(connection, key, partition, now_s=now_s):
            if partition.error_code:
                self._handle_partition_error(copy, partition, now_s)
            elif partition.diverging_end_offset >= 0:
                self._execute(copy, copy.on_source_diverged(partition.diverging_end_offset, now_s))
            else:
                self._queue_fetched_records(connection, key, partition, now_s=now_s)
        self.update_partition(copy)

    def _queue_fetched_records(
        self,
        connection: _FetchConnection,
        key: PartitionKey,
        partition: FetchResponsePartition,
        *,
        now_s: float,
    ) -> None:
        copy = self._copies[key]
        self._throttles.deduct_topic_bytes(key[0], len(partition.records))
        instructions = copy.on_records_fetched(self._extract_records(copy, partition), now_s)
        if instructions:
            self._execute(copy, instructions)
        self._on_arrived(copy)
        if copy.source.position >= partition.last_stable_offset:
            if connection.name == BACKLOG_CONNECTION:
                self._caught_up.add(key)
                self._get_connection(
                    connection.node_id, TAIL_CONNECTION, alone=connection.omits_rack
                )
        elif connection.name == TAIL_CONNECTION and len(partition.records):
            self._move_partition_to_backlog(connection, key)

    def _must_switch_replica(
        self,
        connection: _FetchConnection,
        key: PartitionKey,
        partition: FetchResponsePartition,
        *,
        now_s: float,
    ) -> bool:
        """Return True if the partition must be read from another broker.

        This is the case if the leader returned a preferred read replica, or if a follower returned
        an error. A follower may lag behind the leader, so a follower's error is not treated as an
        error of the partition.
        """
        is_follower = self._replicas.is_preferred_replica(key, connection.node_id)
        if is_follower and (partition.error_code or partition.diverging_end_offset >= 0):
            self._replicas.mark_replica_unavailable(key, now_s)
            self._source.refresh_metadata()
            return True
        if is_follower and len(partition.records):
            self._replicas.record_replica_success(key)
        elif partition.preferred_read_replica >= 0 and not partition.error_code:
            self._use_preferred_replica(key, partition.preferred_read_replica, now_s)
            return True
        return False

    def _use_preferred_replica(self, key: PartitionKey, replica: int, now_s: float) -> None:
        """Fetch the partition from the preferred read replica that the leader has returned.

        If the metadata does not list that broker yet, mark the replica as unavailable. The leader
        then serves the records. Otherwise it would keep returning the replica instead of records.
        """
        self._replicas.set_preferred_replica(key, replica, now_s)
        if replica not in self._source.view.brokers:
            self._replicas.mark_replica_unavailable(key, now_s)
            self._source.refresh_metadata()

    def _extract_records(
        self, copy: PartitionReplicator, partition: FetchResponsePartition
    ) -> FetchedRecords:
        """Return the fetched records. If too much memory is in use, the records are copied out of
        the response buffer.

        All partitions of a response share one buffer, which is only freed once the records of all
        of them have been processed.
        """
        records = partition.records
        if (
            copy.send_queue.queued_batches
            and self._source.lent_buffer_bytes
            > BUFFER_OVERUSE_FACTOR * self._memory_budget.limit_bytes
        ):
            records = memoryview(bytearray(records))
        return FetchedRecords(
            records=records,
            log_start=partition.log_start_offset,
            end=partition.last_stable_offset,
            aborted=tuple(partition.aborted),
        )

    def _move_partition_to_backlog(self, connection: _FetchConnection, key: PartitionKey) -> None:
        connection.session.remove_partition(key)
        self._assign_connection(
            key,
            self._get_connection(
                connection.node_id, BACKLOG_CONNECTION, alone=connection.omits_rack
            ),
        )

    def _handle_partition_error(
        self, copy: PartitionReplicator, partition: FetchResponsePartition, now_s: float
    ) -> None:
        key = (copy.setup.topic, copy.setup.partition)
        leader = self._source.view.get_leader(*key)
        if partition.current_leader is not None:
            self._source.view.update_leader(*key, *partition.current_leader)
        else:
            self._source.refresh_metadata()
        self._execute(copy, copy.on_fetch_error(partition.error_code, now_s))
        if copy.accepts_fetched_records:
            self._retry_delays[key] = (now_s + FETCH_RETRY_DELAY_S, leader)
