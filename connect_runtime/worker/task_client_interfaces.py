"""Interfaces of the Kafka clients of connectors and tasks: producer, consumer, group offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.api.records import RecordMetadata, TimestampType
from connect_runtime.base.bounded_regex import BoundedPattern
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config.client_settings import ClientConfig

RawHeaders = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRecord:
    """To be written. `partition` None: by its key; `timestamp` None: now, in ms of wall time."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: RawHeaders = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord:
    """As it was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    timestamp_type: TimestampType
    headers: RawHeaders = ()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


OnDelivered = Callable[[RecordMetadata | None, ConnectError | None], None]
"""Told once per record that was taken: where it is, or why it is not. On a thread of the client."""

OnCommitted = Callable[[ConnectError | None], None]


class RecordProducer(Protocol):
    """Any thread may use it. Records of one partition stay in the order in which they were sent."""

    def send(self, record: ProducerRecord, *, on_delivered: OnDelivered) -> None:
        """Hand over one; never waits.

        Raises `RetriableError` when too many wait already, `FatalError` for what can never be
        written; then `on_delivered` is not called.
        """

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything sent so far was told of: whether it was."""

    def close(self, timeout_s: float) -> None:
        """As `flush`, then give up on the rest: it is told of as failed."""


class ConsumerRebalanceListener(Protocol):
    """Called on the thread that polls, while it does; what it raises comes out of `poll`."""

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """They may still be committed."""

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """They are others' already."""


class RecordConsumer(Protocol):
    """A member of a consumer group, for one thread. All but `poll` return soon.

    Raises `ConnectError` everywhere.
    """

    def subscribe(
        self, topics: Sequence[str] | BoundedPattern, listener: ConsumerRebalanceListener
    ) -> None:
        """These topics, or those whose whole name matches."""

    def poll(self, timeout_s: float) -> Sequence[ConsumerRecord]:
        """The next records; none if none came in that time."""

    def positions(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Where it goes on: a group's offset, or where `auto.offset.reset` says. May wait."""

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None: ...

    def resume(self, partitions: Collection[TopicPartition]) -> None: ...

    def commit(self, offsets: Mapping[TopicPartition, int], *, on_committed: OnCommitted) -> None:
        """Begin to; `on_committed` is called by a later `poll`."""

    def commit_now(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """And wait."""

    def close(self, timeout_s: float) -> None:
        """Leave the group."""


class ConsumerGroupInUseError(RetriableError):
    """A consumer group has members: only they may change its offsets while they are there."""


class GroupOffsetsClient(Protocol):
    """Offsets of consumer groups, seen and changed from outside; for one thread.

    Asks again until there is an answer. Raises `ConnectError`: what the cluster refuses, or
    `RetriableError` when time is up.
    """

    def fetch(self, group: str, timeout_s: float) -> Mapping[TopicPartition, int]:
        """All that it has; a group that does not exist has none."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Give it these, which makes a group that does not exist. Raises `ConsumerGroupInUseError`."""

    def forget(self, group: str, partitions: Collection[TopicPartition], timeout_s: float) -> None:
        """Take these away. Raises `ConsumerGroupInUseError` where members read one of their topics."""

    def delete(self, group: str, timeout_s: float) -> None:
        """Take all away; nothing happens if there is no such group. Raises
        `ConsumerGroupInUseError`."""

    def close(self) -> None: ...


class TaskClientFactory(Protocol):
    """Makes them. Raises `ConnectError` for settings that cannot be honoured."""

    def producer(self, plan: ClientConfig) -> RecordProducer: ...

    def consumer(self, plan: ClientConfig) -> RecordConsumer: ...

    def group_offsets(self, plan: ClientConfig) -> GroupOffsetsClient: ...
