"""`KafkaCluster`: all clients of one cluster, created on first use and closed together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from connect_runtime.base.timing import Clock
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from mm2.kafka.admin import KafkaAdmin
from mm2.kafka.authorized_operations import AuthorizedOperationsClient
from mm2.kafka.client_interfaces import Admin, ConsumerGroups, LogOffsets, StateTopics, TopicTail
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.kafka.log_offsets import KafkaLogOffsets
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.kafka.record_writer import KafkaRecordWriter
from mm2.kafka.state_topic_reader import KafkaStateTopics, TopicReader
from mm2.topics import naming

T = TypeVar("T", Admin, ConsumerGroups, LogOffsets, StateTopics)


class KafkaCluster:
    """One thread at a time. Clients raise `FatalError` for settings that cannot be honoured."""

    def __init__(
        self,
        administering: KafkaClusterAccess,
        reading: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
    ) -> None:
        """The same cluster twice: users may have rights of their own for asking of topics and
        groups, and for reading and writing records."""
        self.alias = administering.name
        self._administering = administering
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._closing: list[Callable[[], None]] = []

    @functools.cached_property
    def admin(self) -> Admin:
        return self._kept(
            KafkaAdmin(self._administering, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def groups(self) -> ConsumerGroups:
        return self._kept(
            KafkaGroups(self._administering, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def logs(self) -> LogOffsets:
        return self._kept(
            KafkaLogOffsets(self._reading, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def topics(self) -> StateTopics:
        return self._kept(
            KafkaStateTopics(
                listing=self._administering,
                reading=self._reading,
                client_id=self._client_id,
                clock=self._clock,
            )
        )

    # Whoever asks for one of these closes it.

    def tail(self, topic: str) -> TopicTail:
        return TopicReader(
            self._reading, client_id=self._client_id, topics=[topic], clock=self._clock
        )

    def map_reader(self, source_alias: str) -> OffsetMapReader:
        """Of the flow from `source_alias` to this cluster."""
        topic = naming.offset_map_topic(source_alias)
        flow = f"{source_alias}->{self.alias}"
        return OffsetMapReader(lambda: self.tail(topic), where=self.alias, flow=flow)

    def writer(self, topic: str) -> KafkaRecordWriter:
        return KafkaRecordWriter(self._reading, client_id=self._client_id, topic=topic)

    def rights(self, *, administering: bool) -> AuthorizedOperationsClient:
        """Of who administers, or of who reads and writes."""
        access = self._administering if administering else self._reading
        return AuthorizedOperationsClient(access, client_id=self._client_id, clock=self._clock)

    def close(self) -> None:
        while self._closing:
            self._closing.pop()()

    def _kept(self, client: T) -> T:
        self._closing.append(client.close)
        return client
