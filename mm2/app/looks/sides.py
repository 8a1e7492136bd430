"""The two clusters of one flow, for commands that look at them."""

from __future__ import annotations

from typing import Protocol

from connect_runtime.base import clock as base_clock
from mm2.app import connections
from mm2.app.settings import settings as app_settings
from mm2.cluster import admin, clusters, kafka_cluster, map_reader
from mm2.core import flows


class OneSide(clusters.Cluster, Protocol):
    """What is asked of one cluster of a flow; `alias` is its name in the file."""

    @property
    def alias(self) -> str: ...

    @property
    def admin(self) -> admin.Admin: ...

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
        ) -> kafka_cluster.KafkaCluster:
            return kafka_cluster.KafkaCluster(
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
