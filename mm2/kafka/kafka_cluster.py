"""`KafkaCluster` provides all clients of one cluster, creates them on first use and closes them
together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from mm2.kafka.authorized_operations import AuthorizedOperationsClient
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.kafka.kafka_client_interfaces import (
    Admin,
    ConsumerGroups,
    LogOffsets,
    StateTopics,
    TopicTail,
)
from mm2.kafka.list_offsets_client import KafkaLogOffsets
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.kafka.single_partition_producer import KafkaRecordWriter
from mm2.kafka.state_topic_reader import KafkaStateTopicReader, TopicReader
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from mm2.topics import replication_policy

T = TypeVar("T", Admin, ConsumerGroups, LogOffsets, StateTopics)


class KafkaCluster:
    """All clients of one cluster. Not thread-safe. Clients raise `FatalError` for unsupported
    settings."""

    def __init__(
        self,
        administering: KafkaClusterAccess,
        reading: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
    ) -> None:
        """Create the object without connecting. `administering` and `reading` are logins to the
        same cluster: one for topics and groups, the other for reading and writing records."""
        self.alias = administering.name
        self._administering = administering
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._closing: list[Callable[[], None]] = []

    @functools.cached_property
    def admin(self) -> Admin:
        """Client for topics and configs."""
        return self._register_for_close(
            KafkaAdmin(self._administering, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def groups(self) -> ConsumerGroups:
        """Client for consumer groups."""
        return self._register_for_close(
            KafkaGroups(self._administering, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def logs(self) -> LogOffsets:
        """Client for log offsets and timestamps."""
        return self._register_for_close(
            KafkaLogOffsets(self._reading, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def topics(self) -> StateTopics:
        """Client for state topics."""
        return self._register_for_close(
            KafkaStateTopicReader(
                listing=self._administering,
                reading=self._reading,
                client_id=self._client_id,
                clock=self._clock,
            )
        )

    # The caller closes the clients below.

    def open_new_record_reader(self, topic: str) -> TopicTail:
        """Open a reader that follows a topic: each read continues where the last one ended."""
        return TopicReader(
            self._reading, client_id=self._client_id, topics=[topic], clock=self._clock
        )

    def open_offset_map_reader(self, source_alias: str) -> OffsetMapReader:
        """Create a reader for the offset map of the flow from cluster `source_alias` to this
        cluster."""
        topic = replication_policy.format_offset_map_topic(source_alias)
        flow = f"{source_alias}->{self.alias}"
        return OffsetMapReader(
            lambda: self.open_new_record_reader(topic), where=self.alias, flow=flow
        )

    def create_writer(self, topic: str) -> KafkaRecordWriter:
        """Create a producer that writes to one topic."""
        return KafkaRecordWriter(
            self._reading, client_id=self._client_id, topic=topic, clock=self._clock
        )

    def create_authorized_operations_client(
        self, *, administering: bool
    ) -> AuthorizedOperationsClient:
        """Create a client that reads which operations a login is authorized for: the administering
        login if `administering` is True, otherwise the reading login."""
        access = self._administering if administering else self._reading
        return AuthorizedOperationsClient(access, client_id=self._client_id, clock=self._clock)

    def close(self) -> None:
        """Close all clients that this object created."""
        while self._closing:
            self._closing.pop()()

    def _register_for_close(self, client: T) -> T:
        self._closing.append(client.close)
        return client
