"""Interfaces of the Kafka clients that connectors and tasks use: producer, consumer, group
offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.api.records import RecordMetadata, TimestampType
from connect_runtime.base.bounded_regex import BoundedPattern
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config.connector_client_settings import ClientConfig

RawHeaders = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRecord:
    """A serialized record to produce to Kafka."""

    topic: str
    partition: int | None
    """Partition to write to; None if the key determines it."""
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    """Record timestamp in ms since the epoch; None for the current time."""
    headers: RawHeaders = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord:
    """A record consumed from Kafka, before deserialization."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    timestamp_type: TimestampType
    headers: RawHeaders | None = ()
    """Record headers; None if a header name is not valid UTF-8."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


OnDelivered = Callable[[RecordMetadata | None, ConnectError | None], None]
"""Called once per accepted record on a client thread, with the partition and offset to which the
record was written, or with an error."""

OnCommitted = Callable[[ConnectError | None], None]


class RecordProducer(Protocol):
    """Sends records to Kafka. Thread-safe. Records of a partition are written in the order of
    `send` calls."""

    def send(self, record: ProducerRecord, *, on_delivered: OnDelivered) -> None:
        """Queue a record for sending. Never blocks.

        Raises `RetriableError` if the queue is full, and `FatalError` for a record that can never
        be written. In both cases `on_delivered` is not called.
        """

    def flush(self, timeout_s: float) -> bool:
        """Wait until every sent record has been delivered or has failed. Return False on
        timeout."""

    def close(self, timeout_s: float) -> None:
        """Flush the producer, then fail the records that are still queued."""


class ConsumerRebalanceListener(Protocol):
    """Callbacks for consumer group rebalances, called on the polling thread during `poll`. Their
    exceptions propagate from `poll`."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Called before partitions are revoked. The task can still commit their offsets."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Called after partitions were lost. Other group members may already own these
        partitions."""


class RecordConsumer(Protocol):
    """Member of a consumer group, used by one thread.

    All methods except `poll` and `positions` return quickly. Each method raises `ConnectError` if
    it fails.
    """

    def subscribe(
        self, topics: Sequence[str] | BoundedPattern, listener: ConsumerRebalanceListener
    ) -> None:
        """Subscribe to topics by name, or by a regular expression that must match the whole topic
        name."""

    def poll(self, timeout_s: float) -> Sequence[ConsumerRecord]:
        """Return the next records, or an empty sequence if no record arrives within the timeout."""

    def positions(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return each partition's committed offset, or the offset that `auto.offset.reset` selects.
        May block."""

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None: ...

    def resume(self, partitions: Collection[TopicPartition]) -> None: ...

    def commit_async(
        self, offsets: Mapping[TopicPartition, int], *, on_committed: OnCommitted
    ) -> None:
        """Start an offset commit. A later `poll` calls `on_committed` with the result."""

    def commit_sync(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit offsets and wait for the response."""

    def close(self, timeout_s: float) -> None:
        """Close the consumer and leave the group."""


class ConsumerGroupInUseError(RetriableError):
    """Raised if a consumer group has active members, because only members may change its
    offsets."""


class GroupOffsetsClient(Protocol):
    """Admin client that reads and changes consumer group offsets. Used by one thread. Retries until
    the timeout. Raises `RetriableError` on timeout, otherwise `ConnectError`."""

    def fetch_offsets(self, group: str, timeout_s: float) -> Mapping[TopicPartition, int]:
        """Return all committed offsets of the group; empty if the group does not exist."""

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> None:
        """Commit offsets of the group, and create the group if it does not exist. Raises
        `ConsumerGroupInUseError`."""

    def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition], timeout_s: float
    ) -> None:
        """Delete committed offsets of the group.

        Raises `ConsumerGroupInUseError` if a member is subscribed to one of the topics.
        """

    def delete_group(self, group: str, timeout_s: float) -> None:
        """Delete the group with all its offsets, if it exists. Raises `ConsumerGroupInUseError`."""

    def close(self) -> None: ...


class TaskClientFactory(Protocol):
    """Creates the Kafka clients of connectors and tasks. Raises `ConnectError` for unsupported
    settings."""

    def create_producer(self, plan: ClientConfig) -> RecordProducer: ...

    def create_consumer(self, plan: ClientConfig) -> RecordConsumer: ...

    def create_group_offsets_client(self, plan: ClientConfig) -> GroupOffsetsClient: ...
