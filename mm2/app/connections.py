"""From checked settings to the clients of `mm2.cluster`."""

from __future__ import annotations

import os

from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.connection import cluster as wire
from mm2.app.settings import settings as app_settings
from mm2.cluster import kafka_admin, kafka_cluster, kafka_flow_log
from mm2.connectors import operators
from mm2.connectors.share import flow_ledger
from mm2.core import commands, flows
from mm2.core.copy import messages
from mm2.pipeline import client_options


def access(cluster: app_settings.ClusterSettings, alias: str) -> kafka_access.Access:
    """How clients of the Kafka library reach a cluster; `alias` is for messages."""
    return kafka_access.Access(
        name=alias,
        bootstrap=cluster.bootstrap_servers,
        security=cluster.security,
        properties=cluster.properties,
    )


def copy_access(
    cluster: app_settings.ClusterSettings, alias: str, *, client_id: str
) -> messages.ClusterAccess:
    """How the copies reach a cluster."""
    return messages.ClusterAccess(
        alias=alias,
        bootstrap=cluster.bootstrap_servers,
        security=cluster.security.to_dict(),
        client_id=client_id,
        properties={
            name: value
            for name, value in cluster.properties.items()
            if name in client_options.NAMES
        },
    )


def wire_settings(
    cluster: app_settings.ClusterSettings, alias: str, *, client_id: str
) -> wire.ConnectionSettings:
    """How connections of our own reach a cluster: as the copies do."""
    return client_options.connection_settings(copy_access(cluster, alias, client_id=client_id))


def operator(settings: app_settings.Settings, flow: flows.Flow) -> commands.Operator:
    """The source as who reads sees it, the target as who writes."""
    clients = settings.clients_of(flow)
    return commands.Operator(
        file=os.path.abspath(settings.file),
        source=operators.cluster(access(clients.consumer, flow.source)),
        target=operators.cluster(access(clients.producer, flow.target)),
    )


def source_access(settings: app_settings.Settings, flow: flows.Flow) -> kafka_access.Access:
    """How the flow's source is administered."""
    return access(settings.clients_of(flow).source_admin, flow.source)


def target_access(settings: app_settings.Settings, flow: flows.Flow) -> kafka_access.Access:
    """How the flow's target is administered."""
    return access(settings.clients_of(flow).target_admin, flow.target)


def source_admin(
    settings: app_settings.Settings, flow: flows.Flow, *, client_id: str, clock: base_clock.Clock
) -> kafka_admin.KafkaAdmin:
    """Asks the flow's source. Raises `FatalError` for settings that cannot be honoured."""
    found = source_access(settings, flow)
    return kafka_admin.KafkaAdmin(found, client_id=client_id, clock=clock)


def target_admin(
    settings: app_settings.Settings, flow: flows.Flow, *, client_id: str, clock: base_clock.Clock
) -> kafka_admin.KafkaAdmin:
    """Asks the flow's target. Raises as `source_admin`."""
    found = target_access(settings, flow)
    return kafka_admin.KafkaAdmin(found, client_id=client_id, clock=clock)


def target_cluster(
    settings: app_settings.Settings, flow: flows.Flow, *, client_id: str, clock: base_clock.Clock
) -> kafka_cluster.KafkaCluster:
    """The flow's target, read and written as by the producer of its tasks. Raises as
    `source_admin`."""
    return kafka_cluster.KafkaCluster(
        target_access(settings, flow),
        access(settings.clients_of(flow).producer, flow.target),
        client_id=client_id,
        clock=clock,
    )


def ledger(
    settings: app_settings.Settings, flow: flows.Flow, *, client_id: str, clock: base_clock.Clock
) -> flow_ledger.FlowLedger:
    """The flow's own topics on its target; not open yet."""
    replication = flow.replication_factor
    return flow_ledger.FlowLedger(
        kafka_flow_log.KafkaFlowLog(
            access(settings.clusters[flow.target], flow.target),
            source_alias=flow.source,
            client_id=client_id,
            target_admin=target_admin(settings, flow, client_id=client_id, clock=clock),
            clock=clock,
            replication_factor=None if replication < 0 else replication,
        )
    )
