"""Port: the Kafka clients of connectors and tasks, made from their plans of settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.api import records
from connect_runtime.base import errors, ids, user_pattern
from connect_runtime.core.task import client_settings

RawHeaders = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecord:
    """To be written. `partition` None: by its key; `timestamp` None: now, in ms of wall time."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: RawHeaders = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedRecord:
    """As it was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    timestamp_type: records.TimestampType
    headers: RawHeaders = ()

    @property
    def place(self) -> ids.TopicPartition:
        return ids.TopicPartition(self.topic, self.partition)


OnDelivered = Callable[[records.RecordMetadata | None, errors.ConnectError | None], None]
"""Told once per record that was taken: where it is, or why it is not. On a thread of the client."""

OnCommitted = Callable[[errors.ConnectError | None], None]


class RecordProducer(Protocol):
    """Any thread may use it. Records of one partition stay in the order in which they were sent."""

    def send(self, record: KafkaRecord, *, on_delivered: OnDelivered) -> None:
        """Hand over one; never waits.

        Raises `RetriableError` when too many wait already, `FatalError` for what can never be
        written; then `on_delivered` is not called.
        """

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything sent so far was told of: whether it was."""

    def close(self, timeout_s: float) -> None:
        """As `flush`, then give up on the rest: it is told of as failed."""


class RebalanceListener(Protocol):
    """Called on the thread that polls, while it does; what it raises comes out of `poll`."""

    def on_assigned(self, partitions: Collection[ids.TopicPartition]) -> None: ...

    def on_revoked(self, partitions: Collection[ids.TopicPartition]) -> None:
        """They may still be committed."""

    def on_lost(self, partitions: Collection[ids.TopicPartition]) -> None:
        """They are others' already."""


class RecordConsumer(Protocol):
    """A member of a consumer group, for one thread. All but `poll` return soon.

    Raises `ConnectError` everywhere.
    """

    def subscribe(
        self, topics: Sequence[str] | user_pattern.Pattern, listener: RebalanceListener
    ) -> None:
        """These topics, or those whose whole name matches."""

    def poll(self, timeout_s: float) -> Sequence[ConsumedRecord]:
        """The next records; none if none came in that time."""

    def positions(
        self, partitions: Collection[ids.TopicPartition]
    ) -> Mapping[ids.TopicPartition, int]:
        """Where it goes on: a group's offset, or where `auto.offset.reset` says. May wait."""

    def seek(self, offsets: Mapping[ids.TopicPartition, int]) -> None: ...

    def pause(self, partitions: Collection[ids.TopicPartition]) -> None: ...

    def resume(self, partitions: Collection[ids.TopicPartition]) -> None: ...

    def commit(
        self, offsets: Mapping[ids.TopicPartition, int], *, on_committed: OnCommitted
    ) -> None:
        """Begin to; `on_committed` is called by a later `poll`."""

    def commit_now(self, offsets: Mapping[ids.TopicPartition, int], timeout_s: float) -> None:
        """And wait."""

    def close(self, timeout_s: float) -> None:
        """Leave the group."""


class GroupInUseError(errors.RetriableError):
    """A consumer group has members: only they may change its offsets while they are there."""


class GroupOffsets(Protocol):
    """Offsets of consumer groups, seen and changed from outside; for one thread.

    Asks again until there is an answer. Raises `ConnectError`: what the cluster refuses, or
    `RetriableError` when time is up.
    """

    def fetch(self, group: str, timeout_s: float) -> Mapping[ids.TopicPartition, int]:
        """All that it has; a group that does not exist has none."""

    def commit(
        self, group: str, offsets: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> None:
        """Give it these, which makes a group that does not exist. Raises `GroupInUseError`."""

    def forget(
        self, group: str, partitions: Collection[ids.TopicPartition], timeout_s: float
    ) -> None:
        """Take these away. Raises `GroupInUseError` where members read one of their topics."""

    def delete(self, group: str, timeout_s: float) -> None:
        """Take all away; nothing happens if there is no such group. Raises `GroupInUseError`."""

    def close(self) -> None: ...


class Clients(Protocol):
    """Makes them. Raises `ConnectError` for settings that cannot be honoured."""

    def producer(self, plan: client_settings.ClientPlan) -> RecordProducer: ...

    def consumer(self, plan: client_settings.ClientPlan) -> RecordConsumer: ...

    def group_offsets(self, plan: client_settings.ClientPlan) -> GroupOffsets: ...
