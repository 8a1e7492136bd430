"""Producing: batches of many partitions share requests, a partition keeps to one connection.

A request carries one batch of each ready partition of its lane; brokers take one request of a
connection at a time, so a slow one has several lanes; each has up to five requests in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import clock
from connect_runtime.wire.codec import by_topic, failures, produce, versions
from connect_runtime.wire.connection import cluster
from mm2.core.copy import instructions, pace, partition
from mm2.formats import map_record

IN_FLIGHT_MAX = 5
REQUEST_BYTES = 4 * 1024 * 1024
REQUEST_PARTITIONS = 200
ACK_TIMEOUT_MS = 30_000
REQUEST_TIMEOUT_S = 40.0
ALL_IN_SYNC = -1

_BY_NAME_HIGH = 12
"""Produce names topics by id from the next version on, which needs brokers that have ids."""

Carry = Callable[[partition.PartitionCopy, Sequence[instructions.Instruction]], None]
Key = tuple[str, int]


@dataclass(slots=True)
class _Lane:
    """`ready` are partitions that may have a batch to send, in the order in which they came."""

    node_id: int
    number: int
    ready: dict[int, partition.PartitionCopy] = field(default_factory=dict)
    in_flight: int = 0

    @property
    def name(self) -> str:
        return f"produce-{self.number}"


class TargetSide:
    """Hands batches to the leaders of the mirror partitions and their answers back."""

    def __init__(
        self,
        target: cluster.ClusterConnections,
        *,
        carry: Carry,
        now: clock.Clock,
        settled: Callable[[partition.PartitionCopy], None],
        may_send: Callable[[], bool],
    ) -> None:
        self._target = target
        self._clock = now
        self._carry = carry
        self._settled = settled
        self._may_send = may_send
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._lane_of: dict[int, _Lane] = {}
        self._numbers: dict[int, int] = {}
        self._paces: dict[int, pace.Pace] = {}

    def offer(self, copy: partition.PartitionCopy) -> None:
        """The partition may have something to send."""
        leader = self._target.view.leader(copy.where.remote_topic, copy.where.partition)
        if leader is None or not copy.outbox.queued:
            return
        lane = self._lane(copy, leader.node_id)
        if lane is not None:
            lane.ready[id(copy)] = copy

    def _lane(self, copy: partition.PartitionCopy, node_id: int) -> _Lane | None:
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
            lane = self._lanes[key] = _Lane(*key)
        self._lane_of[id(copy)] = lane
        return lane

    def _pace(self, node_id: int) -> pace.Pace:
        return self._paces.setdefault(node_id, pace.Pace())

    @property
    def slow_acks(self) -> bool:
        """Does a broker take long to acknowledge, be it far away or waiting for followers?"""
        return any(each.ack_s >= pace.FAST_ACK_S for each in self._paces.values())

    def pump(self, now_s: float) -> None:
        """Send what is ready, as far as what was acknowledged can still be written down."""
        if not self._may_send():
            return
        for lane in list(self._lanes.values()):
            while lane.ready and lane.in_flight < IN_FLIGHT_MAX:
                if not self._send(lane, now_s):
                    break

    def _send(self, lane: _Lane, now_s: float) -> bool:
        """One request with what is ready; False when nothing could go."""
        chosen: list[partition.PartitionCopy] = []
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
            if transactional or size >= REQUEST_BYTES or len(chosen) >= REQUEST_PARTITIONS:
                break
        return bool(chosen) and self._produce(lane, chosen, transactional, now_s=now_s)

    def _produce(
        self,
        lane: _Lane,
        chosen: list[partition.PartitionCopy],
        transactional: str | None,
        *,
        now_s: float,
    ) -> bool:
        low, high = versions.TRANSACTIONAL_PRODUCE if transactional else versions.PRODUCE
        if chosen[0].where.target_topic_id == map_record.NO_TOPIC_ID:
            high = min(high, _BY_NAME_HIGH)
        version = self._target.version_for(lane.node_id, versions.PRODUCE_KEY, low, high)
        if version is None:
            return False
        for copy in chosen:
            del lane.ready[id(copy)]
        chosen.sort(key=_topic)
        batches = [
            produce.ProduceBatch(
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
            acks=ALL_IN_SYNC,
            timeout_ms=ACK_TIMEOUT_MS,
            batches=batches,
        )
        lane.in_flight += 1
        under_way = lane.in_flight
        self._target.call_raw(
            lane.node_id,
            lane=lane.name,
            api_key=versions.PRODUCE_KEY,
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
        lane: _Lane,
        chosen: list[partition.PartitionCopy],
        reply: cluster.RawReply,
        *,
        under_way: int,
    ) -> None:
        now_s = self._clock.now_s()
        lane.in_flight -= 1
        response: produce.ProduceResponse | None = None
        reason = str(reply.failure) if reply.failure is not None else "no answer"
        if reply.body is not None:
            try:
                response = produce.decode_produce_response(reply.version, reply.body)
            except failures.TruncatedResponse as error:
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
        lane: _Lane,
        chosen: list[partition.PartitionCopy],
        response: produce.ProduceResponse,
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
                else (where.remote_topic, by_topic.NO_TOPIC_ID, where.partition)
            )
            answer = answers.get(key)
            if answer is None:
                found = copy.produce_unanswered("the response does not name it", now_s)
            elif answer.error_code:
                self._leader_moved(copy, answer)
                found = copy.produce_refused(answer.error_code, _message(answer), now_s)
            else:
                found = copy.acknowledged(answer.base_offset, answer.log_append_time_ms, now_s)
            if found:
                self._carry(copy, found)
            self._settled(copy)
            if copy.outbox.queued:
                self.offer(copy)

    def _leader_moved(
        self, copy: partition.PartitionCopy, answer: produce.ProducedPartition
    ) -> None:
        if answer.current_leader is not None:
            where = copy.where
            self._target.view.leader_seen(
                where.remote_topic, where.partition, *answer.current_leader
            )
        else:
            self._target.refresh_metadata()


def _topic(copy: partition.PartitionCopy) -> str:
    return copy.where.remote_topic


def _message(answer: produce.ProducedPartition) -> str:
    details = [text for _, text in answer.record_errors if text]
    return "; ".join([*([answer.error_message] if answer.error_message else []), *details[:1]])
