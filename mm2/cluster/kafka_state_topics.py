"""Adapter of `state_topics.StateTopics`: an admin client that lists, a consumer for each read."""

from __future__ import annotations

from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from mm2.cluster import kafka_admin, state_topics, topic_reader


class KafkaStateTopics:
    """Implements `state_topics.StateTopics`. Connects when it is first asked something."""

    def __init__(
        self,
        *,
        listing: kafka_access.Access,
        reading: kafka_access.Access,
        client_id: str,
        clock: base_clock.Clock,
    ) -> None:
        """The same cluster twice: users may have rights of their own for either."""
        self._listing = listing
        self._reading = reading
        self._client_id = client_id
        self._clock = clock
        self._admin: kafka_admin.KafkaAdmin | None = None

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """See `StateTopics`; so for all below."""
        if self._admin is None:
            self._admin = kafka_admin.KafkaAdmin(
                self._listing, client_id=self._client_id, clock=self._clock
            )
        return self._admin.list_topics(timeout_s)

    def read_topic(
        self, topic: str, timeout_s: float, *, partitions: int = 1
    ) -> list[state_topics.TopicRecord]:
        reader = topic_reader.TopicReader(
            self._reading,
            client_id=self._client_id,
            topics=[topic],
            clock=self._clock,
            partitions=partitions,
        )
        try:
            return reader.read_to_end(timeout_s)
        finally:
            reader.close()

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
