"""What is asked of a cluster to translate offsets."""

from __future__ import annotations

from typing import Protocol

from connect_runtime.base import clock as base_clock
from mm2.client import settings
from mm2.cluster import clusters, kafka_cluster, state_topics


class Cluster(clusters.Cluster, Protocol):
    """`kafka` makes one of properties."""

    def tail(self, topic: str) -> state_topics.TopicTail:
        """Whoever asks for it closes it."""
        ...

    def close(self) -> None:
        """Let go of all other connections."""
        ...


def kafka(
    properties: settings.Properties, *, clock: base_clock.Clock
) -> kafka_cluster.KafkaCluster:
    """The one that a client's properties name. Raises as `settings.state_topics`."""
    return kafka_cluster.KafkaCluster(
        settings.listing(properties),
        settings.reading(properties),
        client_id=settings.CLIENT_ID,
        clock=clock,
    )
