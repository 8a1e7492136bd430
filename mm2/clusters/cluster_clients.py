"""Builds the Kafka clients of a flow's source and target cluster from the effective configuration."""

from __future__ import annotations

import os

from connect_runtime.base.timing import Clock
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.network.cluster_connections import ConnectionSettings
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.connectors.flow_ledger import FlowLedger
from mm2.copier import client_properties
from mm2.copier.control_messages import ClusterAccess
from mm2.kafka import operator_access
from mm2.kafka.admin import KafkaAdmin
from mm2.kafka.flow_log import KafkaFlowLog
from mm2.kafka.kafka_cluster import KafkaCluster
from mm2.operator_commands import OperatorCommands
from mm2.topics.flow_config import Flow


def build_client_access(cluster: ClusterSettings, alias: str) -> KafkaClusterAccess:
    """How clients of the Kafka library reach a cluster; `alias` is for messages."""
    return KafkaClusterAccess(
        name=alias,
        bootstrap=cluster.bootstrap_servers,
        security=cluster.security,
        properties=cluster.properties,
    )


def build_copier_access(cluster: ClusterSettings, alias: str, *, client_id: str) -> ClusterAccess:
    """How the copies reach a cluster."""
    return ClusterAccess(
        alias=alias,
        bootstrap=cluster.bootstrap_servers,
        security=cluster.security.to_dict(),
        client_id=client_id,
        properties={
            name: value
            for name, value in cluster.properties.items()
            if name in client_properties.COPY_CLIENT_PROPERTIES
        },
    )


def build_connection_settings(
    cluster: ClusterSettings, alias: str, *, client_id: str
) -> ConnectionSettings:
    """How connections of our own reach a cluster: as the copies do."""
    return client_properties.read_connection_settings(
        build_copier_access(cluster, alias, client_id=client_id)
    )


def build_operator(settings: Mm2Settings, flow: Flow) -> OperatorCommands:
    """The source as who reads sees it, the target as who writes."""
    clients = settings.clients_of(flow)
    return OperatorCommands(
        file=os.path.abspath(settings.file),
        source=operator_access.build_cluster_access(
            build_client_access(clients.consumer, flow.source)
        ),
        target=operator_access.build_cluster_access(
            build_client_access(clients.producer, flow.target)
        ),
    )


def build_source_access(settings: Mm2Settings, flow: Flow) -> KafkaClusterAccess:
    """How the flow's source is administered."""
    return build_client_access(settings.clients_of(flow).source_admin, flow.source)


def build_target_access(settings: Mm2Settings, flow: Flow) -> KafkaClusterAccess:
    """How the flow's target is administered."""
    return build_client_access(settings.clients_of(flow).target_admin, flow.target)


def connect_source_admin(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> KafkaAdmin:
    """Asks the flow's source. Raises `FatalError` for settings that cannot be honoured."""
    found = build_source_access(settings, flow)
    return KafkaAdmin(found, client_id=client_id, clock=clock)


def connect_target_admin(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> KafkaAdmin:
    """Asks the flow's target. Raises as `connect_source_admin`."""
    found = build_target_access(settings, flow)
    return KafkaAdmin(found, client_id=client_id, clock=clock)


def connect_target_cluster(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> KafkaCluster:
    """The flow's target, read and written as by the producer of its tasks. Raises as
    `connect_source_admin`."""
    return KafkaCluster(
        build_target_access(settings, flow),
        build_client_access(settings.clients_of(flow).producer, flow.target),
        client_id=client_id,
        clock=clock,
    )


def build_flow_ledger(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> FlowLedger:
    """The flow's own topics on its target; not open yet."""
    replication = flow.replication_factor
    return FlowLedger(
        KafkaFlowLog(
            build_client_access(settings.clusters[flow.target], flow.target),
            source_alias=flow.source,
            client_id=client_id,
            target_admin=connect_target_admin(settings, flow, client_id=client_id, clock=clock),
            clock=clock,
            replication_factor=None if replication < 0 else replication,
        )
    )
