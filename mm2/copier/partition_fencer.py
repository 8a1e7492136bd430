"""Fences the earlier producers of one target partition with a transactional id. Used by tools that
work on one partition at a time and wait for each response.

As in `mm2.replication.producer_fencing`, the fence consists of a new producer epoch and an empty
transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from connect_runtime.protocol import consumer_group_requests, request_builders, request_errors
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    NodeTarget,
    OffsetQuery,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import CoordinatorLookupRefused
from mm2.copier.blocking_client import BlockingClient, BrokerResponseError
from mm2.formats import record_set_splitter
from mm2.formats.record_batch import BatchHeader

_RETRIABLE_COORDINATOR_ERRORS = frozenset({14, 15, 16, 51})
_MARKER_TIMEOUT_S = 10.0
_TRANSACTION_TIMEOUT_MS = 60_000
_LATEST_TIMESTAMP = -1
_EARLIEST_TIMESTAMP = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdAndEpoch:
    """A producer id and epoch."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRefusal:
    """A request that the broker rejected with a Kafka error code."""

    code: int

    def __str__(self) -> str:
        return request_errors.format_error_code(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFence:
    """Proof that earlier producers can no longer write to the partition."""

    producer: ProducerIdAndEpoch
    marker_offset: int
    """Offset of the commit marker of the empty transaction that fenced the partition."""
    leader_epoch: int
    """Leader epoch of the batch that contains this commit marker."""


class PartitionFencer:
    """Fences one partition with blocking calls, which raise `ConnectError` if a broker does not
    respond.
    """

    def __init__(
        self,
        client: BlockingClient,
        partition: TopicPartition,
        *,
        transactional_id: str,
        clock: Clock,
    ) -> None:
        self.client = client
        self.partition = partition
        self._coordinator = CoordinatorKey(
            request_builders.TRANSACTION_COORDINATOR, transactional_id
        )
        self._clock = clock

    def init_transactional_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """Send InitProducerId with the partition's transactional id, which fences earlier producers
        that use this id."""
        return self._init_producer(
            self._coordinator,
            request_builders.build_init_producer_id_request(
                self._coordinator.key, _TRANSACTION_TIMEOUT_MS
            ),
        )

    def init_idempotent_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """Send InitProducerId without a transactional id. Such a producer cannot be fenced."""
        message = request_builders.build_init_producer_id_request(None, _TRANSACTION_TIMEOUT_MS)
        return self._init_producer(AnyNodeTarget(), message)

    def commit_empty_transaction(self, owner: ProducerIdAndEpoch) -> BrokerRefusal | None:
        """Commit a transaction without records."""
        topics = {self.partition.topic: [self.partition.partition]}
        added = self._request_with_retry(
            self._coordinator,
            request_builders.build_add_partitions_to_txn_request(
                self._coordinator.key, producer_id=owner.id, epoch=owner.epoch, topics=topics
            ),
        )
        if isinstance(added, BrokerRefusal):
            return added
        ended = self._request_with_retry(
            self._coordinator,
            request_builders.build_end_txn_request(
                self._coordinator.key, producer_id=owner.id, epoch=owner.epoch, committed=True
            ),
        )
        return ended if isinstance(ended, BrokerRefusal) else None

    def fence_partition(self) -> PartitionFence | BrokerRefusal | None:
        """Fence the partition and wait until the commit marker of the empty transaction is
        readable. Return None if it is not readable before the timeout."""
        start = self.find_end_offset()
        owner = self.init_transactional_producer()
        if isinstance(owner, BrokerRefusal):
            return owner
        if (refused := self.commit_empty_transaction(owner)) is not None:
            return refused
        marker = self.find_marker(owner, start=start)
        if marker is None:
            return None
        return PartitionFence(
            producer=owner, marker_offset=marker.base_offset, leader_epoch=marker.leader_epoch
        )

    def find_marker(self, owner: ProducerIdAndEpoch, *, start: int) -> BatchHeader | None:
        """Find the commit marker of an empty transaction at offset `start` or later. `owner` is the
        producer that committed the transaction.

        Return None if the marker is not readable before the timeout. Fenced producers cannot write
        after the marker.
        """
        end_s = self._clock.now_s() + _MARKER_TIMEOUT_S
        offset = start
        while self._clock.now_s() < end_s:
            for header in self.read_batch_headers(offset):
                offset = max(offset, header.last_offset + 1)
                is_own = (header.producer_id, header.producer_epoch) == (owner.id, owner.epoch)
                if header.is_control and is_own and header.base_offset >= start:
                    return header
        return None

    def read_batch_headers(self, offset: int) -> list[BatchHeader]:
        """Read the batch headers in one fetch response, starting at `offset`."""
        return [header for header, _ in self.read_batches(offset)]

    def read_batches(self, offset: int) -> list[tuple[BatchHeader, memoryview]]:
        """Read the batches in one fetch response, starting at `offset`. The result includes
        uncommitted batches."""
        partition = self.partition
        fetched = self.client.fetch(partition.topic, offset, partition=partition.partition)
        return list(record_set_splitter.iter_batches(memoryview(fetched.records), position=offset))

    def find_start_offset(self) -> int:
        """Return the log start offset."""
        return self._look_up_offset(_EARLIEST_TIMESTAMP, "start")

    def find_end_offset(self) -> int:
        """Return the log end offset."""
        return self._look_up_offset(_LATEST_TIMESTAMP, "end")

    def _look_up_offset(self, timestamp: int, what: str) -> int:
        partition = self.partition
        node = NodeTarget(self.client.find_leader(partition.topic, partition.partition))
        query = OffsetQuery(partition=partition.partition, timestamp=timestamp)
        message = request_builders.build_list_offsets_request(
            {partition.topic: [query]}, read_committed=False
        )
        ((result,),) = (each.partitions for each in self.client.send_request(node, message).topics)
        if int(result.error_code):
            raise BrokerResponseError(
                f"looking up the {what} offset of {partition}", int(result.error_code)
            )
        return int(result.offset)

    def _init_producer(
        self, target: RequestTarget, message: RequestBuilder
    ) -> ProducerIdAndEpoch | BrokerRefusal:
        response = self._request_with_retry(target, message)
        if isinstance(response, BrokerRefusal):
            return response
        return ProducerIdAndEpoch(id=int(response.producer_id), epoch=int(response.producer_epoch))

    def _request_with_retry(self, target: RequestTarget, message: RequestBuilder) -> Any:
        """Send a request. Retry while the coordinator is loading, has moved, or is busy."""

        def try_request() -> Any | None:
            try:
                body = self.client.send_request(target, message)
            except CoordinatorLookupRefused as refused:
                return BrokerRefusal(code=refused.error_code)
            code = _read_error_code(body)
            if code in consumer_group_requests.COORDINATOR_MOVED_ERRORS:
                self.client.forget_coordinator(self._coordinator)
            if code in _RETRIABLE_COORDINATOR_ERRORS:
                return None
            return BrokerRefusal(code=code) if code else body

        return self.client.wait_for_result(try_request, f"{message.api} for {target}")


def _read_error_code(body: Any) -> int:
    if hasattr(body, "error_code"):
        return int(body.error_code)
    ((result,),) = (each.results_by_partition for each in body.results_by_topic_v3_and_below)
    return int(result.partition_error_code)
