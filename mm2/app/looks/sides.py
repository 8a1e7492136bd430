"""The two clusters of one flow, for commands that look at them: clients that are made when they are
first needed, and closed together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from mm2.app import connections
from mm2.app.settings import settings as app_settings
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
from mm2.core import flows, naming

T = TypeVar("T", admin.Admin, groups.Groups, logs.Logs, state_topics.StateTopics)


class OneSide(Protocol):
    """What is asked of one cluster of a flow; `alias` is its name in the file."""

    @property
    def alias(self) -> str: ...

    @property
    def admin(self) -> admin.Admin: ...

    @property
    def groups(self) -> groups.Groups: ...

    @property
    def logs(self) -> logs.Logs: ...

    @property
    def topics(self) -> state_topics.StateTopics: ...

    def map_reader(self, source_alias: str) -> map_reader.MapReader:
        """Of the flow from `source_alias` to this cluster. Whoever asks for it closes it."""


class TwoSides(Protocol):
    """Source and target of a flow. One thread at a time."""

    @property
    def flow(self) -> flows.Flow: ...

    @property
    def source(self) -> OneSide: ...

    @property
    def target(self) -> OneSide: ...


class Side:
    """One cluster: implements `OneSide`. Clients raise `FatalError` for settings that cannot be
    honoured."""

    def __init__(
        self,
        administering: kafka_access.Access,
        reading: kafka_access.Access,
        *,
        client_id: str,
        clock: base_clock.Clock,
    ) -> None:
        self.alias = administering.name
        self.bootstrap = administering.bootstrap
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

    def map_reader(self, source_alias: str) -> map_reader.MapReader:
        topic = naming.map_topic(source_alias)

        def connect() -> state_topics.TopicTail:
            return topic_reader.TopicReader(
                self._reading, client_id=self._client_id, topics=[topic], clock=self._clock
            )

        return map_reader.MapReader(connect, where=self.alias)

    def writer(self, topic: str) -> kafka_record_writer.KafkaRecordWriter:
        """Whoever asks for it closes it."""
        return kafka_record_writer.KafkaRecordWriter(
            self._reading, client_id=self._client_id, topic=topic
        )

    def rights(self, *, administering: bool) -> kafka_rights.KafkaRights:
        """Of who administers, or of who reads and writes. Whoever asks for it closes it."""
        access = self._administering if administering else self._reading
        return kafka_rights.KafkaRights(access, client_id=self._client_id, clock=self._clock)

    def close(self) -> None:
        while self._closing:
            self._closing.pop()()

    def _kept(self, client: T) -> T:
        self._closing.append(client.close)
        return client


class Sides:
    """Implements `TwoSides`; use it in `with`."""

    def __init__(
        self,
        settings: app_settings.Settings,
        flow: flows.Flow,
        *,
        purpose: str,
        clock: base_clock.Clock,
    ) -> None:
        """`purpose` is the end of our `client.id`. Nothing is asked of the clusters yet."""
        clients = settings.clients_of(flow)
        client_id = f"mm2-{flow.name}-{purpose}"

        def side(
            administering: app_settings.ClusterSettings,
            reading: app_settings.ClusterSettings,
            alias: str,
        ) -> Side:
            return Side(
                connections.access(administering, alias),
                connections.access(reading, alias),
                client_id=client_id,
                clock=clock,
            )

        self.flow = flow
        self.source = side(clients.source_admin, clients.consumer, flow.source)
        self.target = side(clients.target_admin, settings.clusters[flow.target], flow.target)

    def __enter__(self) -> Sides:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.source.close()
        self.target.close()
