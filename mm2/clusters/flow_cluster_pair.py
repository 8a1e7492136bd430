"""Connects to both clusters of one flow: `FlowPair`, and the protocols through which other packages
use it."""

from __future__ import annotations

from typing import Protocol

from connect_runtime.base.clock_and_deadline import Clock
from mm2.clusters import flow_kafka_clients
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.kafka.kafka_client_interfaces import Admin, ClusterClients
from mm2.kafka.kafka_cluster import KafkaCluster
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.topics.flow_config import Flow


class FlowSide(ClusterClients, Protocol):
    """Clients of one cluster of a flow. `alias` is the cluster's alias in the configuration."""

    @property
    def alias(self) -> str: ...

    @property
    def admin(self) -> Admin: ...

    def open_offset_map_reader(self, source_alias: str) -> OffsetMapReader:
        """Create a reader for the offset map of the flow whose source cluster is `source_alias`.
        The caller must close the reader."""


class FlowClusters(Protocol):
    """Clients of a flow's source and target. Not thread-safe."""

    @property
    def flow(self) -> Flow: ...

    @property
    def source(self) -> FlowSide: ...

    @property
    def target(self) -> FlowSide: ...


class FlowPair:
    """Implementation of `FlowClusters` that is also a context manager."""

    def __init__(
        self,
        settings: Mm2Settings,
        flow: Flow,
        *,
        purpose: str,
        clock: Clock,
    ) -> None:
        """Create the clients without connecting. `purpose` is the suffix of the `client.id`."""
        clients = settings.get_clients(flow)
        client_id = f"mm2-{flow.name}-{purpose}"

        def connect_side(
            administering: ClusterSettings,
            reading: ClusterSettings,
            alias: str,
        ) -> KafkaCluster:
            return KafkaCluster(
                flow_kafka_clients.build_librdkafka_connection_settings(administering, alias),
                flow_kafka_clients.build_librdkafka_connection_settings(reading, alias),
                client_id=client_id,
                clock=clock,
            )

        self.flow = flow
        self.source = connect_side(clients.source_admin, clients.consumer, flow.source)
        self.target = connect_side(
            clients.target_admin, settings.clusters[flow.target], flow.target
        )

    def __enter__(self) -> FlowPair:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.source.close()
        self.target.close()
