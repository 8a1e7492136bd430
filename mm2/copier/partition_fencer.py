"""Fences the earlier writers of one target partition with a transactional id.

A new producer epoch and an empty transaction, as in `mm2.replication.producer_fencing`, for
tools that work on one partition and wait for each answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorTarget,
    NodeTarget,
    OffsetQuery,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import CoordinatorLookupRefused
from mm2.copier.blocking_client import BlockingClient, BrokerResponseError
from mm2.formats import record_sets
from mm2.formats.record_batch import BatchHeader

_RETRIABLE_COORDINATOR_ERRORS = frozenset({14, 15, 16, 51})
_COORDINATOR_MOVED_ERRORS = frozenset({15, 16})
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
    """A Kafka error code."""

    code: int

    def __str__(self) -> str:
        return request_errors.format_error_code(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFence:
    """All before `owner` write no more: its marker stands at the offset `marker`, of a batch of
    this leader epoch."""

    owner: ProducerIdAndEpoch
    marker: int
    leader_epoch: int


class PartitionFencer:
    """Every call waits, and raises `ConnectError` when nobody answers."""

    def __init__(
        self,
        questions: BlockingClient,
        partition: TopicPartition,
        *,
        transactional_id: str,
        clock: Clock,
    ) -> None:
        self.questions = questions
        self.partition = partition
        self._to = CoordinatorTarget(request_builders.TRANSACTION_COORDINATOR, transactional_id)
        self._clock = clock

    def new_owner(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """InitProducerId with the transactional id."""
        return self._owner(
            self._to, request_builders.init_producer_id(self._to.key, _TRANSACTION_TIMEOUT_MS)
        )

    def new_plain_owner(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """InitProducerId without a transactional id: nobody can fence it."""
        message = request_builders.init_producer_id(None, _TRANSACTION_TIMEOUT_MS)
        return self._owner(AnyNodeTarget(), message)

    def commit_empty(self, owner: ProducerIdAndEpoch) -> BrokerRefusal | None:
        """A transaction with nothing in it."""
        place = {self.partition.topic: [self.partition.partition]}
        added = self._patiently(
            self._to,
            request_builders.add_partitions_to_txn(
                self._to.key, producer_id=owner.id, epoch=owner.epoch, topics=place
            ),
        )
        if isinstance(added, BrokerRefusal):
            return added
        ended = self._patiently(
            self._to,
            request_builders.end_txn(
                self._to.key, producer_id=owner.id, epoch=owner.epoch, committed=True
            ),
        )
        return ended if isinstance(ended, BrokerRefusal) else None

    def lock_out(self) -> PartitionFence | BrokerRefusal | None:
        """A new owner, an empty transaction of its own, and the marker read back. None: that could
        not be read."""
        start = self.end()
        owner = self.new_owner()
        if isinstance(owner, BrokerRefusal):
            return owner
        if (refused := self.commit_empty(owner)) is not None:
            return refused
        marker = self.marker_of(owner, start=start)
        if marker is None:
            return None
        return PartitionFence(
            owner=owner, marker=marker.base_offset, leader_epoch=marker.leader_epoch
        )

    def marker_of(self, owner: ProducerIdAndEpoch, *, start: int) -> BatchHeader | None:
        """The marker of its empty transaction, at `start` or behind; None: it could not be read
        within a deadline. Everything before it is final."""
        end_s = self._clock.now_s() + _MARKER_TIMEOUT_S
        at = start
        while self._clock.now_s() < end_s:
            for header in self.headers(at):
                at = max(at, header.last_offset + 1)
                ours = (header.producer_id, header.producer_epoch) == (owner.id, owner.epoch)
                if header.is_control and ours and header.base_offset >= start:
                    return header
        return None

    def headers(self, offset: int) -> list[BatchHeader]:
        """Of the batches that can be read from there on, as many as one answer holds."""
        return [header for header, _ in self.batches(offset)]

    def batches(self, offset: int) -> list[tuple[BatchHeader, memoryview]]:
        """Those that can be read from there on, uncommitted too, as many as one answer holds."""
        place = self.partition
        fetched = self.questions.fetch(place.topic, offset, partition=place.partition)
        return list(record_sets.iter_batches(memoryview(fetched.records)))

    def start(self) -> int:
        """The offset of the first batch that is still there."""
        return self._listed(_EARLIEST_TIMESTAMP, "start")

    def end(self) -> int:
        """The offset that the next batch gets."""
        return self._listed(_LATEST_TIMESTAMP, "end")

    def _listed(self, timestamp: int, what: str) -> int:
        place = self.partition
        node = NodeTarget(self.questions.leader(place.topic, place.partition))
        query = OffsetQuery(partition=place.partition, timestamp=timestamp)
        message = request_builders.list_offsets({place.topic: [query]}, read_committed=False)
        ((found,),) = (each.partitions for each in self.questions.ask(node, message).topics)
        if int(found.error_code):
            raise BrokerResponseError(f"asking for the {what} of {place}", int(found.error_code))
        return int(found.offset)

    def _owner(
        self, to: RequestTarget, message: RequestBuilder
    ) -> ProducerIdAndEpoch | BrokerRefusal:
        found = self._patiently(to, message)
        if isinstance(found, BrokerRefusal):
            return found
        return ProducerIdAndEpoch(id=int(found.producer_id), epoch=int(found.producer_epoch))

    def _patiently(self, to: RequestTarget, message: RequestBuilder) -> Any:
        """The answer, or `BrokerRefusal`; coordinators ask for patience while they load or are
        busy."""

        def settled() -> Any | None:
            try:
                body = self.questions.ask(to, message)
            except CoordinatorLookupRefused as refused:
                return BrokerRefusal(code=refused.error_code)
            code = _read_error_code(body)
            if code in _COORDINATOR_MOVED_ERRORS:
                self.questions.forget_coordinator(self._to)
            if code in _RETRIABLE_COORDINATOR_ERRORS:
                return None
            return BrokerRefusal(code=code) if code else body

        return self.questions.until(settled, f"{message.api} for {to}")


def _read_error_code(body: Any) -> int:
    if hasattr(body, "error_code"):
        return int(body.error_code)
    ((result,),) = (each.results_by_partition for each in body.results_by_topic_v3_and_below)
    return int(result.partition_error_code)
