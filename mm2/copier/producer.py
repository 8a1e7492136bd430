"""Produces batches to the target, with batches of many partitions in one request.

A request contains one batch of each ready partition of its connection. A partition always uses the
same connection, which preserves order. A broker processes one request of a connection at a time, so
a slow broker has several connections with up to five requests in flight each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import terminal_escape
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.network.cluster_connections import ClusterConnections, RawClientResponse
from connect_runtime.protocol import api_versions, produce_requests, varints
from connect_runtime.protocol.produce_requests import (
    ProduceBatch,
    ProduceResponse,
    ProduceResponsePartition,
)
from connect_runtime.protocol.request_errors import MalformedResponseError
from mm2.formats import offset_map_records
from mm2.replication import produce_concurrency
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.produce_concurrency import ProduceConcurrency
from mm2.replication.recovery_instructions import Instruction

MAX_IN_FLIGHT_REQUESTS = 5
MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_REQUEST_PARTITIONS = 200
ACK_TIMEOUT_MS = 30_000
REQUEST_TIMEOUT_S = 40.0
ACKS_ALL = -1

_MAX_TOPIC_NAME_VERSION = 12
"""Highest Produce version that identifies topics by name. Later versions use topic ids, which older
brokers do not support."""

ProduceInstructionHandler = Callable[[PartitionReplicator, Sequence[Instruction]], None]
PartitionKey = tuple[str, int]


@dataclass(slots=True)
class _ProduceConnection:
    """One connection to a broker."""

    node_id: int
    number: int
    ready: dict[int, PartitionReplicator] = field(default_factory=dict)
    """Partitions that may have a batch to send, in the order in which they became ready."""
    in_flight: int = 0

    @property
    def name(self) -> str:
        return f"produce-{self.number}"


class BatchProducer:
    """Sends batches to the leaders of the mirror partitions and passes the results to the state
    machines."""

    def __init__(
        self,
        target: ClusterConnections,
        *,
        execute: ProduceInstructionHandler,
        clock: Clock,
        on_result: Callable[[PartitionReplicator], None],
        can_record: Callable[[], bool],
    ) -> None:
        self._target = target
        self._clock = clock
        self._execute = execute
        self._on_result = on_result
        self._can_record = can_record
        self._connections: dict[tuple[int, int], _ProduceConnection] = {}
        self._connection_by_copy: dict[int, _ProduceConnection] = {}
        self._numbers: dict[int, int] = {}
        self._concurrency_by_node: dict[int, ProduceConcurrency] = {}

    def mark_partition_ready(self, copy: PartitionReplicator) -> None:
        """Mark a partition as ready to send. Call when the partition may have a queued batch."""
        leader = self._target.view.get_leader(copy.setup.remote_topic, copy.setup.partition)
        if leader is None or not copy.send_queue.queued_batches:
            return
        connection = self._get_connection(copy, leader.node_id)
        if connection is not None:
            connection.ready[id(copy)] = copy

    def _get_connection(self, copy: PartitionReplicator, node_id: int) -> _ProduceConnection | None:
        """Return the connection for the partition's batches; None while earlier batches are in
        flight on another connection, to preserve their order."""
        number = self._numbers.setdefault(id(copy), len(self._numbers))
        key = (node_id, number % self._get_node_concurrency(node_id).connections)
        previous = self._connection_by_copy.get(id(copy))
        if previous is not None:
            if (previous.node_id, previous.number) == key:
                return previous
            previous.ready.pop(id(copy), None)
            if copy.in_flight.batch_count:
                return None
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = _ProduceConnection(*key)
        self._connection_by_copy[id(copy)] = connection
        return connection

    def _get_node_concurrency(self, node_id: int) -> ProduceConcurrency:
        return self._concurrency_by_node.setdefault(node_id, ProduceConcurrency())

    @property
    def has_slow_acks(self) -> bool:
        """True if a broker acknowledges slowly because of network distance or replication."""
        return any(
            each.average_ack_s >= produce_concurrency.FAST_ACK_S
            for each in self._concurrency_by_node.values()
        )

    def send_ready_batches(self, now_s: float) -> None:
        """Send ready batches, unless too many acknowledged batches are waiting for their resume
        points to be stored."""
        if not self._can_record():
            return
        for connection in list(self._connections.values()):
            while connection.ready and connection.in_flight < MAX_IN_FLIGHT_REQUESTS:
                if not self._send_batches(connection, now_s):
                    break

    def _send_batches(self, connection: _ProduceConnection, now_s: float) -> bool:
        """Send one Produce request. Return False if no batch could be sent."""
        copies: list[PartitionReplicator] = []
        size = 0
        transactional_id: str | None = None
        for number, copy in list(connection.ready.items()):
            if not copy.prepare_next_batch(now_s):
                del connection.ready[
                    number
                ]  # marked as ready again by its next acknowledgement or fetch
                continue
            if copy.transaction_mode.is_active:
                if copies:
                    continue
                transactional_id = copy.setup.transactional_id
            copies.append(copy)
            size += copy.send_queue.staged_batch_size
            if (
                transactional_id
                or size >= MAX_REQUEST_BYTES
                or len(copies) >= MAX_REQUEST_PARTITIONS
            ):
                break
        return bool(copies) and self._send_produce_request(
            connection, copies, transactional_id, now_s=now_s
        )

    def _send_produce_request(
        self,
        connection: _ProduceConnection,
        copies: list[PartitionReplicator],
        transactional_id: str | None,
        *,
        now_s: float,
    ) -> bool:
        low, high = (
            api_versions.TRANSACTIONAL_PRODUCE_VERSIONS
            if transactional_id
            else api_versions.PRODUCE_VERSIONS
        )
        if copies[0].setup.target_topic_id == offset_map_records.NO_TOPIC_ID:
            high = min(high, _MAX_TOPIC_NAME_VERSION)
        version = self._target.choose_version(
            connection.node_id, api_versions.PRODUCE_KEY, low, high
        )
        if version is None:
            return False
        for copy in copies:
            del connection.ready[id(copy)]
        copies.sort(key=_get_remote_topic)
        batches = [
            ProduceBatch(
                copy.setup.remote_topic,
                copy.setup.target_topic_id,
                copy.setup.partition,
                copy.pop_next_batch(now_s),
            )
            for copy in copies
        ]
        chunks = produce_requests.encode_produce_request(
            version,
            transactional_id=transactional_id,
            acks=ACKS_ALL,
            timeout_ms=ACK_TIMEOUT_MS,
            batches=batches,
        )
        connection.in_flight += 1
        in_flight = connection.in_flight
        self._target.call_with_encoded_body(
            connection.node_id,
            lane=connection.name,
            api_key=api_versions.PRODUCE_KEY,
            version=version,
            chunks=chunks,
            done=lambda reply: self._handle_response(
                connection, copies, reply, in_flight=in_flight
            ),
            timeout_s=REQUEST_TIMEOUT_S,
        )
        for copy in copies:
            if copy.send_queue.queued_batches:
                connection.ready[id(copy)] = copy
        return True

    def _handle_response(
        self,
        connection: _ProduceConnection,
        copies: list[PartitionReplicator],
        reply: RawClientResponse,
        *,
        in_flight: int,
    ) -> None:
        now_s = self._clock.now_s()
        connection.in_flight -= 1
        response: ProduceResponse | None = None
        reason = str(reply.failure) if reply.failure is not None else "no response"
        if reply.body is not None:
            try:
                response = produce_requests.decode_produce_response(reply.version, reply.body)
            except MalformedResponseError as error:
                reason = str(error)
        if response is None:
            for copy in copies:
                self._execute(copy, copy.on_produce_response_lost(reason, now_s))
                self._on_result(copy)
            return
        if response.throttle_ms:
            self._target.apply_throttle_time(
                connection.node_id, connection.name, response.throttle_ms
            )
        else:
            self._get_node_concurrency(connection.node_id).record_response(
                reply.elapsed_s, in_flight=in_flight
            )
        self._handle_partition_results(connection, copies, response, now_s=now_s)
        self.send_ready_batches(now_s)

    def _handle_partition_results(
        self,
        connection: _ProduceConnection,
        copies: list[PartitionReplicator],
        response: ProduceResponse,
        *,
        now_s: float,
    ) -> None:
        results = {
            (each.topic, each.topic_id, each.partition): each for each in response.partitions
        }
        by_id = bool(response.partitions) and not response.partitions[0].topic
        for copy in copies:
            where = copy.setup
            key = (
                ("", where.target_topic_id, where.partition)
                if by_id
                else (where.remote_topic, varints.NO_TOPIC_ID, where.partition)
            )
            result = results.get(key)
            if result is None:
                instructions = copy.on_produce_response_lost(
                    "the response does not contain the partition", now_s
                )
            elif result.error_code:
                self._update_leader(copy, result)
                instructions = copy.on_produce_error(
                    result.error_code, _describe_error(result), now_s
                )
            else:
                instructions = copy.on_produce_acknowledged(
                    result.base_offset, result.log_append_time_ms, now_s
                )
            if instructions:
                self._execute(copy, instructions)
            self._on_result(copy)
            if copy.send_queue.queued_batches:
                self.mark_partition_ready(copy)

    def _update_leader(self, copy: PartitionReplicator, result: ProduceResponsePartition) -> None:
        if result.current_leader is not None:
            where = copy.setup
            self._target.view.update_leader(
                where.remote_topic, where.partition, *result.current_leader
            )
        else:
            self._target.refresh_metadata()


def _get_remote_topic(copy: PartitionReplicator) -> str:
    return copy.setup.remote_topic


def _describe_error(result: ProduceResponsePartition) -> str:
    details = [text for _, text in result.record_errors if text]
    texts = [*([result.error_message] if result.error_message else []), *details[:1]]
    return terminal_escape.replace_remedy_labels("; ".join(texts))
