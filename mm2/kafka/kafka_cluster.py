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
    """All clients of one cluster. One thread at a time. Clients raise `FatalError` for
    unsupported settings."""

    def __init__(
        self,
        administering: KafkaClusterAccess,
        reading: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
    ) -> None:
        """`administering` and `reading` are logins to the same cluster: one for topics and
        groups, one for reading and writing records."""
        self.alias = administering.name
        self._administering = administering
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._closing: list[Callable[[], None]] = []

    @functools.cached_property
    def admin(self) -> Admin:
        """Topics and configs."""
        return self._close_later(
            KafkaAdmin(self._administering, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def groups(self) -> ConsumerGroups:
        """Consumer groups."""
        return self._close_later(
            KafkaGroups(self._administering, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def logs(self) -> LogOffsets:
        """Log offsets and timestamps."""
        return self._close_later(
            KafkaLogOffsets(self._reading, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def topics(self) -> StateTopics:
        """State topics."""
        return self._close_later(
            KafkaStateTopics(
                listing=self._administering,
                reading=self._reading,
                client_id=self._client_id,
                clock=self._clock,
            )
        )

    # The caller closes the clients below.

    def open_tail(self, topic: str) -> TopicTail:
        """Reader of a topic that grows."""
        return TopicReader(
            self._reading, client_id=self._client_id, topics=[topic], clock=self._clock
        )

    def create_map_reader(self, source_alias: str) -> OffsetMapReader:
        """Reader of the offset map of the flow from `source_alias` to this cluster."""
        topic = naming.offset_map_topic(source_alias)
        flow = f"{source_alias}->{self.alias}"
        return OffsetMapReader(lambda: self.open_tail(topic), where=self.alias, flow=flow)

    def create_writer(self, topic: str) -> KafkaRecordWriter:
        """Producer for one topic."""
        return KafkaRecordWriter(self._reading, client_id=self._client_id, topic=topic)

    def create_authorized_operations_client(
        self, *, administering: bool
    ) -> AuthorizedOperationsClient:
        """Reader of the authorized operations of the administering login, or of the reading one."""
        access = self._administering if administering else self._reading
        return AuthorizedOperationsClient(access, client_id=self._client_id, clock=self._clock)

    def close(self) -> None:
        """Close all clients of this object."""
        while self._closing:
            self._closing.pop()()

    def _close_later(self, client: T) -> T:
        self._closing.append(client.close)
        return client
