"""From a sandbox cluster to the clients of `mm2.kafka`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network import keystore_files
from connect_runtime.protocol.topic_requests import ConfigChange
from connect_runtime.system.system_clock import SystemClock
from mm2.kafka import flow_state_log_writer
from mm2.kafka.flow_state_log import KafkaFlowStateLog
from mm2.kafka.flow_state_log_writer import UnacknowledgedRecordLimits
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from mm2.sandbox import cluster_security
from mm2.sandbox.sandbox_cluster import SandboxCluster

CLOCK = SystemClock()


def of(
    running: SandboxCluster,
    user: str = cluster_security.ADMIN_USER,
    *,
    mechanism: str = cluster_security.SCRAM_512,
) -> KafkaClusterAccess:
    """As settings would give it that hold this cluster's client properties."""
    properties = running.client_properties(user, mechanism=mechanism)
    return librdkafka_connection_settings.parse_cluster_access(
        properties, files=keystore_files.create_store_files(Path()), name=running.name
    )


def admin(access: KafkaClusterAccess, **options: Any) -> KafkaAdmin:
    return KafkaAdmin(access, client_id="test-admin", clock=CLOCK, **options)


def flow_log(
    access: KafkaClusterAccess,
    source_alias: str,
    *,
    replication_factor: int = 1,
    bounds: UnacknowledgedRecordLimits = flow_state_log_writer.DEFAULT_UNACKNOWLEDGED_LIMITS,
) -> KafkaFlowStateLog:
    return KafkaFlowStateLog(
        access,
        source_alias=source_alias,
        client_id="test-flow-log",
        target_admin=admin(access),
        clock=CLOCK,
        replication_factor=replication_factor,
        limits=bounds,
    )


def compact() -> ConfigChange:
    return ConfigChange(set={"cleanup.policy": "compact"})
