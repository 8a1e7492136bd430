"""Builds Kafka clients for a flow's source and target cluster from the configuration."""

from __future__ import annotations

import os

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network.cluster_connections import ConnectionSettings
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.copier import client_properties
from mm2.copier.control_channel_messages import ClusterAccess
from mm2.kafka import suggested_command_arguments
from mm2.kafka.flow_state_log import KafkaFlowStateLog
from mm2.kafka.kafka_cluster import KafkaCluster
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from mm2.suggested_commands import OperatorCommands
from mm2.topics.flow_config import Flow


def build_librdkafka_connection_settings(
    cluster: ClusterSettings, alias: str
) -> KafkaClusterAccess:
    """Build the connection settings of a librdkafka client. `alias` names the cluster in
    messages."""
    return KafkaClusterAccess(
        name=alias,
        bootstrap=cluster.bootstrap_servers,
        security=cluster.security,
        properties=cluster.properties,
    )


def build_copy_process_connection_settings(
    cluster: ClusterSettings, alias: str, *, client_id: str
) -> ClusterAccess:
    """Build the connection settings for copy processes."""
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


def build_protocol_client_connection_settings(
    cluster: ClusterSettings, alias: str, *, client_id: str
) -> ConnectionSettings:
    """Build the connection settings for the built-in protocol client that copy processes use."""
    return client_properties.parse_connection_settings(
        build_copy_process_connection_settings(cluster, alias, client_id=client_id)
    )


def build_operator_commands(settings: Mm2Settings, flow: Flow) -> OperatorCommands:
    """Build the `OperatorCommands` of a flow: they format the commands that error messages suggest,
    with the consumer's credentials on the source and the producer's on the target."""
    clients = settings.get_clients(flow)
    return OperatorCommands(
        file=os.path.abspath(settings.file),
        source=suggested_command_arguments.build_cluster_commands(
            build_librdkafka_connection_settings(clients.consumer, flow.source)
        ),
        target=suggested_command_arguments.build_cluster_commands(
            build_librdkafka_connection_settings(clients.producer, flow.target)
        ),
    )


def build_source_admin_connection_settings(settings: Mm2Settings, flow: Flow) -> KafkaClusterAccess:
    """Build the admin client's connection settings for the flow's source."""
    return build_librdkafka_connection_settings(
        settings.get_clients(flow).source_admin, flow.source
    )


def build_target_admin_connection_settings(settings: Mm2Settings, flow: Flow) -> KafkaClusterAccess:
    """Build the admin client's connection settings for the flow's target."""
    return build_librdkafka_connection_settings(
        settings.get_clients(flow).target_admin, flow.target
    )


def connect_source_admin(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> KafkaAdmin:
    """Create an admin client for the flow's source. Raises `FatalError` for invalid settings."""
    found = build_source_admin_connection_settings(settings, flow)
    return KafkaAdmin(found, client_id=client_id, clock=clock)


def connect_target_admin(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> KafkaAdmin:
    """Create an admin client for the flow's target. Raises `FatalError` for invalid settings."""
    found = build_target_admin_connection_settings(settings, flow)
    return KafkaAdmin(found, client_id=client_id, clock=clock)


def connect_target_cluster(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> KafkaCluster:
    """Create clients for the flow's target, with the login that the flow's tasks use for their
    producers.

    Raises `FatalError` for invalid settings.
    """
    return KafkaCluster(
        build_target_admin_connection_settings(settings, flow),
        build_librdkafka_connection_settings(settings.get_clients(flow).producer, flow.target),
        client_id=client_id,
        clock=clock,
    )


def create_flow_state_store(
    settings: Mm2Settings, flow: Flow, *, client_id: str, clock: Clock
) -> FlowStateStore:
    """Create the store that reads and writes the flow's internal topics (offset map and incidents)
    on its target. The store is not open yet."""
    replication = flow.replication_factor
    return FlowStateStore(
        KafkaFlowStateLog(
            build_librdkafka_connection_settings(settings.clusters[flow.target], flow.target),
            source_alias=flow.source,
            client_id=client_id,
            target_admin=connect_target_admin(settings, flow, client_id=client_id, clock=clock),
            clock=clock,
            replication_factor=None if replication < 0 else replication,
        )
    )
