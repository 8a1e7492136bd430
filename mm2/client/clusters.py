"""What is asked of a cluster to translate offsets; clients are made when they are first needed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from mm2.client import settings
from mm2.cluster import (
    groups,
    kafka_groups,
    kafka_logs,
    kafka_state_topics,
    logs,
    state_topics,
    topic_reader,
)

T = TypeVar("T", groups.Groups, logs.Logs, state_topics.StateTopics)


class Cluster(Protocol):
    """`Kafka` is one made of properties."""

    @property
    def topics(self) -> state_topics.StateTopics: ...

    @property
    def groups(self) -> groups.Groups: ...

    @property
    def logs(self) -> logs.Logs: ...

    def tail(self, topic: str) -> state_topics.TopicTail:
        """Whoever asks for it closes it."""
        ...

    def close(self) -> None:
        """Let go of all other connections."""
        ...


class Kafka:
    """A cluster of brokers. Clients raise `FatalError` for settings that cannot be honoured."""

    def __init__(
        self,
        listing: kafka_access.Access,
        reading: kafka_access.Access,
        *,
        client_id: str,
        clock: base_clock.Clock,
    ) -> None:
        """The same cluster twice: users may have rights of their own for asking of topics and
        groups, and for reading records."""
        self._listing = listing
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._closing: list[Callable[[], None]] = []

    @classmethod
    def of(cls, properties: settings.Properties, *, clock: base_clock.Clock) -> Kafka:
        """The one that a client's properties name. Raises as `settings.state_topics`."""
        return cls(
            settings.listing(properties),
            settings.reading(properties),
            client_id=settings.CLIENT_ID,
            clock=clock,
        )

    @functools.cached_property
    def topics(self) -> state_topics.StateTopics:
        return self._kept(
            kafka_state_topics.KafkaStateTopics(
                listing=self._listing,
                reading=self._reading,
                client_id=self._client_id,
                clock=self._clock,
            )
        )

    @functools.cached_property
    def groups(self) -> groups.Groups:
        return self._kept(
            kafka_groups.KafkaGroups(self._listing, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def logs(self) -> logs.Logs:
        return self._kept(
            kafka_logs.KafkaLogs(self._reading, client_id=self._client_id, clock=self._clock)
        )

    def tail(self, topic: str) -> state_topics.TopicTail:
        return topic_reader.TopicReader(
            self._reading, client_id=self._client_id, topics=[topic], clock=self._clock
        )

    def close(self) -> None:
        while self._closing:
            self._closing.pop()()

    def _kept(self, client: T) -> T:
        self._closing.append(client.close)
        return client
