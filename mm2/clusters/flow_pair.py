"""Connects to both clusters of one flow: `FlowPair`, and the protocols that its users need."""

from __future__ import annotations

from typing import Protocol

from connect_runtime.base.timing import Clock
from mm2.clusters import cluster_clients
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.kafka.client_interfaces import Admin, ClusterClients
from mm2.kafka.kafka_cluster import KafkaCluster
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.topics.flow_config import Flow


class FlowSide(ClusterClients, Protocol):
    """One cluster of a flow; `alias` is its name in the configuration."""

    @property
    def alias(self) -> str: ...

    @property
    def admin(self) -> Admin: ...

    def create_map_reader(self, source_alias: str) -> OffsetMapReader:
        """Create a reader of the offset map of the flow from `source_alias`; the caller closes
        it."""


class FlowClusters(Protocol):
    """Clients of a flow's source and target; not thread-safe."""

    @property
    def flow(self) -> Flow: ...

    @property
    def source(self) -> FlowSide: ...

    @property
    def target(self) -> FlowSide: ...


class FlowPair:
    """Implements `FlowClusters`; a context manager."""

    def __init__(
        self,
        settings: Mm2Settings,
        flow: Flow,
        *,
        purpose: str,
        clock: Clock,
    ) -> None:
        """`purpose` is the suffix of the `client.id`. Does not connect yet."""
        clients = settings.get_clients(flow)
        client_id = f"mm2-{flow.name}-{purpose}"

        def side(
            administering: ClusterSettings,
            reading: ClusterSettings,
            alias: str,
        ) -> KafkaCluster:
            return KafkaCluster(
                cluster_clients.build_client_access(administering, alias),
                cluster_clients.build_client_access(reading, alias),
                client_id=client_id,
                clock=clock,
            )

        self.flow = flow
        self.source = side(clients.source_admin, clients.consumer, flow.source)
        self.target = side(clients.target_admin, settings.clusters[flow.target], flow.target)

    def __enter__(self) -> FlowPair:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.source.close()
        self.target.close()
