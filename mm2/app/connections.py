"""From checked settings to the clients of `mm2.cluster`."""

from __future__ import annotations

from connect_runtime.base import clock as base_clock
from mm2.app.settings import settings as app_settings
from mm2.cluster import client_config, kafka_admin, kafka_flow_log
from mm2.connectors import flow_ledger
from mm2.core import flows


def access(settings: app_settings.Settings, alias: str) -> client_config.ClusterAccess:
    cluster = settings.clusters[alias]
    return client_config.ClusterAccess(
        alias=alias,
        bootstrap=cluster.bootstrap_servers,
        security=cluster.security,
        properties=cluster.properties,
    )


def admin(
    settings: app_settings.Settings, alias: str, *, client_id: str, clock: base_clock.Clock
) -> kafka_admin.KafkaAdmin:
    return kafka_admin.KafkaAdmin(access(settings, alias), client_id=client_id, clock=clock)


def ledger(
    settings: app_settings.Settings, flow: flows.Flow, *, client_id: str, clock: base_clock.Clock
) -> flow_ledger.FlowLedger:
    """The flow's own topics on its target; not open yet."""
    replication = flow.replication_factor
    return flow_ledger.FlowLedger(
        kafka_flow_log.KafkaFlowLog(
            access(settings, flow.target),
            source_alias=flow.source,
            client_id=client_id,
            target_admin=admin(settings, flow.target, client_id=client_id, clock=clock),
            clock=clock,
            replication_factor=None if replication < 0 else replication,
        )
    )
