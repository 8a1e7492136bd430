"""One cluster of brokers, as whoever looks at it needs it: clients that are made when they are
first needed, and let go of together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from mm2.cluster import (
    admin,
    groups,
    kafka_admin,
    kafka_groups,
    kafka_logs,
    kafka_record_writer,
    kafka_rights,
    kafka_state_topics,
    logs,
    map_reader,
    state_topics,
    topic_reader,
)
from mm2.core import naming

T = TypeVar("T", admin.Admin, groups.Groups, logs.Logs, state_topics.StateTopics)


class KafkaCluster:
    """One thread at a time. Clients raise `FatalError` for settings that cannot be honoured."""

    def __init__(
        self,
        administering: kafka_access.Access,
        reading: kafka_access.Access,
        *,
        client_id: str,
        clock: base_clock.Clock,
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
    def admin(self) -> admin.Admin:
        return self._kept(
            kafka_admin.KafkaAdmin(
                self._administering, client_id=self._client_id, clock=self._clock
            )
        )

    @functools.cached_property
    def groups(self) -> groups.Groups:
        return self._kept(
            kafka_groups.KafkaGroups(
                self._administering, client_id=self._client_id, clock=self._clock
            )
        )

    @functools.cached_property
    def logs(self) -> logs.Logs:
        return self._kept(
            kafka_logs.KafkaLogs(self._reading, client_id=self._client_id, clock=self._clock)
        )

    @functools.cached_property
    def topics(self) -> state_topics.StateTopics:
        return self._kept(
            kafka_state_topics.KafkaStateTopics(
                listing=self._administering,
                reading=self._reading,
                client_id=self._client_id,
                clock=self._clock,
            )
        )

    # Whoever asks for one of these closes it.

    def tail(self, topic: str) -> state_topics.TopicTail:
        return topic_reader.TopicReader(
            self._reading, client_id=self._client_id, topics=[topic], clock=self._clock
        )

    def map_reader(self, source_alias: str) -> map_reader.MapReader:
        """Of the flow from `source_alias` to this cluster."""
        topic = naming.map_topic(source_alias)
        flow = f"{source_alias}->{self.alias}"
        return map_reader.MapReader(lambda: self.tail(topic), where=self.alias, flow=flow)

    def writer(self, topic: str) -> kafka_record_writer.KafkaRecordWriter:
        return kafka_record_writer.KafkaRecordWriter(
            self._reading, client_id=self._client_id, topic=topic
        )

    def rights(self, *, administering: bool) -> kafka_rights.KafkaRights:
        """Of who administers, or of who reads and writes."""
        access = self._administering if administering else self._reading
        return kafka_rights.KafkaRights(access, client_id=self._client_id, clock=self._clock)

    def close(self) -> None:
        while self._closing:
            self._closing.pop()()

    def _kept(self, client: T) -> T:
        self._closing.append(client.close)
        return client
