"""Produces to the target: batches of many partitions share requests.

A request carries one batch of each ready partition of its connection. A partition keeps to one
connection, which preserves order. A broker handles one request of a connection at a time, so a
slow broker gets several connections; each has up to five requests in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.timing import Clock
from connect_runtime.network.cluster_connections import ClusterConnections, RawClientResponse
from connect_runtime.protocol import api_versions, produce, varints
from connect_runtime.protocol.produce import ProduceBatch, ProduceResponse, ProduceResponsePartition
from connect_runtime.protocol.request_errors import TruncatedResponse
from mm2.formats import offset_map_records
from mm2.replication import in_flight
from mm2.replication.in_flight import ProduceConcurrency
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.recovery_instructions import Instruction

MAX_IN_FLIGHT_REQUESTS = 5
MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_REQUEST_PARTITIONS = 200
ACK_TIMEOUT_MS = 30_000
REQUEST_TIMEOUT_S = 40.0
ACKS_ALL = -1

_MAX_TOPIC_NAME_VERSION = 12
"""Produce names topics by id from the next version on, which needs brokers that have ids."""

ProduceInstructionHandler = Callable[[PartitionReplicator, Sequence[Instruction]], None]
PartitionKey = tuple[str, int]


@dataclass(slots=True)
class _ProduceConnection:
    """`ready` are partitions that may have a batch to send, in the order in which they came."""

    node_id: int
    number: int
    ready: dict[int, PartitionReplicator] = field(default_factory=dict)
    in_flight: int = 0

    @property
    def name(self) -> str:
        return f"produce-{self.number}"


class BatchProducer:
    """Hands batches to the leaders of the mirror partitions and their answers back."""

    def __init__(
        self,
        target: ClusterConnections,
        *,
        carry: ProduceInstructionHandler,
        now: Clock,
        settled: Callable[[PartitionReplicator], None],
        may_send: Callable[[], bool],
    ) -> None:
        self._target = target
        self._clock = now
        self._carry = carry
        self._settled = settled
        self._may_send = may_send
        self._lanes: dict[tuple[int, int], _ProduceConnection] = {}
        self._lane_of: dict[int, _ProduceConnection] = {}
        self._numbers: dict[int, int] = {}
        self._paces: dict[int, ProduceConcurrency] = {}

    def offer(self, copy: PartitionReplicator) -> None:
        """The partition may have something to send."""
        leader = self._target.view.leader(copy.where.remote_topic, copy.where.partition)
        if leader is None or not copy.outbox.queued:
            return
        lane = self._lane(copy, leader.node_id)
        if lane is not None:
            lane.ready[id(copy)] = copy

    def _lane(self, copy: PartitionReplicator, node_id: int) -> _ProduceConnection | None:
        """The partition's lane; None while batches on another are awaited, to keep their order."""
        number = self._numbers.setdefault(id(copy), len(self._numbers))
        key = (node_id, number % self._pace(node_id).lanes)
        before = self._lane_of.get(id(copy))
        if before is not None:
            if (before.node_id, before.number) == key:
                return before
            before.ready.pop(id(copy), None)
            if copy.window.in_flight:
                return None
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _ProduceConnection(*key)
        self._lane_of[id(copy)] = lane
        return lane

    def _pace(self, node_id: int) -> ProduceConcurrency:
        return self._paces.setdefault(node_id, ProduceConcurrency())

    @property
    def slow_acks(self) -> bool:
        """Does a broker take long to acknowledge, be it far away or waiting for followers?"""
        return any(each.ack_s >= in_flight.FAST_ACK_S for each in self._paces.values())

    def pump(self, now_s: float) -> None:
        """Send what is ready, as far as what was acknowledged can still be written down."""
        if not self._may_send():
            return
        for lane in list(self._lanes.values()):
            while lane.ready and lane.in_flight < MAX_IN_FLIGHT_REQUESTS:
                if not self._send(lane, now_s):
                    break

    def _send(self, lane: _ProduceConnection, now_s: float) -> bool:
        """One request with what is ready; False when nothing could go."""
        chosen: list[PartitionReplicator] = []
        size = 0
        transactional: str | None = None
        for number, copy in list(lane.ready.items()):
            if not copy.ready(now_s):
                del lane.ready[number]  # it comes back with its next acknowledgement or fetch
                continue
            if copy.mode.active:
                if chosen:
                    continue
                transactional = copy.where.transactional_id
            chosen.append(copy)
            size += copy.outbox.next_size
            if transactional or size >= MAX_REQUEST_BYTES or len(chosen) >= MAX_REQUEST_PARTITIONS:
                break
        return bool(chosen) and self._produce(lane, chosen, transactional, now_s=now_s)

    def _produce(
        self,
        lane: _ProduceConnection,
        chosen: list[PartitionReplicator],
        transactional: str | None,
        *,
        now_s: float,
    ) -> bool:
        low, high = (
            api_versions.TRANSACTIONAL_PRODUCE_VERSIONS
            if transactional
            else api_versions.PRODUCE_VERSIONS
        )
        if chosen[0].where.target_topic_id == offset_map_records.NO_TOPIC_ID:
            high = min(high, _MAX_TOPIC_NAME_VERSION)
        version = self._target.version_for(lane.node_id, api_versions.PRODUCE_KEY, low, high)
        if version is None:
            return False
        for copy in chosen:
            del lane.ready[id(copy)]
        chosen.sort(key=_get_remote_topic)
        batches = [
            ProduceBatch(
                copy.where.remote_topic,
                copy.where.target_topic_id,
                copy.where.partition,
                copy.send(now_s),
            )
            for copy in chosen
        ]
        chunks = produce.encode_produce_request(
            version,
            transactional_id=transactional,
            acks=ACKS_ALL,
            timeout_ms=ACK_TIMEOUT_MS,
            batches=batches,
        )
        lane.in_flight += 1
        under_way = lane.in_flight
        self._target.call_raw(
            lane.node_id,
            lane=lane.name,
            api_key=api_versions.PRODUCE_KEY,
            version=version,
            chunks=chunks,
            done=lambda reply: self._answered(lane, chosen, reply, under_way=under_way),
            timeout_s=REQUEST_TIMEOUT_S,
        )
        for copy in chosen:
            if copy.outbox.queued:
                lane.ready[id(copy)] = copy
        return True

    def _answered(
        self,
        lane: _ProduceConnection,
        chosen: list[PartitionReplicator],
        reply: RawClientResponse,
        *,
        under_way: int,
    ) -> None:
        now_s = self._clock.now_s()
        lane.in_flight -= 1
        response: ProduceResponse | None = None
        reason = str(reply.failure) if reply.failure is not None else "no answer"
        if reply.body is not None:
            try:
                response = produce.decode_produce_response(reply.version, reply.body)
            except TruncatedResponse as error:
                reason = str(error)
        if response is None:
            for copy in chosen:
                self._carry(copy, copy.produce_unanswered(reason, now_s))
                self._settled(copy)
            return
        if response.throttle_ms:
            self._target.throttle(lane.node_id, lane.name, response.throttle_ms)
        else:
            self._pace(lane.node_id).note(reply.elapsed_s, under_way=under_way)
        self._settle(lane, chosen, response, now_s=now_s)
        self.pump(now_s)

    def _settle(
        self,
        lane: _ProduceConnection,
        chosen: list[PartitionReplicator],
        response: ProduceResponse,
        *,
        now_s: float,
    ) -> None:
        answers = {
            (each.topic, each.topic_id, each.partition): each for each in response.partitions
        }
        by_id = bool(response.partitions) and not response.partitions[0].topic
        for copy in chosen:
            where = copy.where
            key = (
                ("", where.target_topic_id, where.partition)
                if by_id
                else (where.remote_topic, varints.NO_TOPIC_ID, where.partition)
            )
            answer = answers.get(key)
            if answer is None:
                found = copy.produce_unanswered("the response does not name it", now_s)
            elif answer.error_code:
                self._leader_moved(copy, answer)
                found = copy.produce_refused(answer.error_code, _describe_error(answer), now_s)
            else:
                found = copy.acknowledged(answer.base_offset, answer.log_append_time_ms, now_s)
            if found:
                self._carry(copy, found)
            self._settled(copy)
            if copy.outbox.queued:
                self.offer(copy)

    def _leader_moved(self, copy: PartitionReplicator, answer: ProduceResponsePartition) -> None:
        if answer.current_leader is not None:
            where = copy.where
            self._target.view.leader_seen(
                where.remote_topic, where.partition, *answer.current_leader
            )
        else:
            self._target.refresh_metadata()


def _get_remote_topic(copy: PartitionReplicator) -> str:
    return copy.where.remote_topic


def _describe_error(answer: ProduceResponsePartition) -> str:
    details = [text for _, text in answer.record_errors if text]
    return "; ".join([*([answer.error_message] if answer.error_message else []), *details[:1]])
