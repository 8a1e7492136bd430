"""Interfaces of the Kafka clients of connectors and tasks: producer, consumer, group offsets."""

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
    """A record to write."""

    topic: str
    partition: int | None
    """None selects the partition by key."""
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    """Wall-clock milliseconds; None for the current time."""
    headers: RawHeaders = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord:
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    timestamp_type: TimestampType
    headers: RawHeaders = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


OnDelivered = Callable[[RecordMetadata | None, ConnectError | None], None]
"""Called once per accepted record, with its position or an error, on a thread of the client."""

OnCommitted = Callable[[ConnectError | None], None]


class RecordProducer(Protocol):
    """Sends records. Thread-safe; records of one partition stay in order."""

    def send(self, record: ProducerRecord, *, on_delivered: OnDelivered) -> None:
        """Queue a record; never blocks.

        Raises `RetriableError` if the queue is full, `FatalError` for a record that can never be
        written; `on_delivered` is not called then.
        """

    def flush(self, timeout_s: float) -> bool:
        """Wait until all sent records are delivered or failed; returns False on timeout."""

    def close(self, timeout_s: float) -> None:
        """Flush, then fail the remaining records."""


class ConsumerRebalanceListener(Protocol):
    """Called on the polling thread during `poll`; exceptions propagate from `poll`."""

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Called before partitions are revoked; their offsets can still be committed."""

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Called after partitions were lost; other members may already own them."""


class RecordConsumer(Protocol):
    """Member of a consumer group, used by one thread.

    All methods but `poll` and `positions` return quickly. All raise `ConnectError`.
    """

    def subscribe(
        self, topics: Sequence[str] | BoundedPattern, listener: ConsumerRebalanceListener
    ) -> None:
        """Subscribe to topics by name or by a pattern that matches the whole name."""

    def poll(self, timeout_s: float) -> Sequence[ConsumerRecord]:
        """Return the next records; empty if there are none within the timeout."""

    def positions(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return committed offsets, or those that `auto.offset.reset` selects. May block."""

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None: ...

    def resume(self, partitions: Collection[TopicPartition]) -> None: ...

    def commit(self, offsets: Mapping[TopicPartition, int], *, on_committed: OnCommitted) -> None:
        """Start a commit; `on_committed` is called by a later `poll`."""

    def commit_now(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit and wait."""

    def close(self, timeout_s: float) -> None:
        """Leave the group."""


class ConsumerGroupInUseError(RetriableError):
    """A consumer group has active members, so only they may change its offsets."""


class GroupOffsetsClient(Protocol):
    """Reads and changes offsets of consumer groups as an administrator; used by one thread.

    Retries until the timeout. Raises `ConnectError`, or `RetriableError` on timeout.
    """

    def fetch(self, group: str, timeout_s: float) -> Mapping[TopicPartition, int]:
        """Return all committed offsets; empty if the group does not exist."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit offsets; creates a missing group. Raises `ConsumerGroupInUseError`."""

    def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition], timeout_s: float
    ) -> None:
        """Delete offsets.

        Raises `ConsumerGroupInUseError` if members subscribe to one of the topics.
        """

    def delete_group(self, group: str, timeout_s: float) -> None:
        """Delete the group with all offsets, if it exists. Raises `ConsumerGroupInUseError`."""

    def close(self) -> None: ...


class TaskClientFactory(Protocol):
    """Creates Kafka clients. Raises `ConnectError` for unsupported settings."""

    def producer(self, plan: ClientConfig) -> RecordProducer: ...

    def consumer(self, plan: ClientConfig) -> RecordConsumer: ...

    def group_offsets(self, plan: ClientConfig) -> GroupOffsetsClient: ...
