"""From a sandbox cluster to the clients of `mm2.cluster`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.system import clock
from connect_runtime.wire.connection import store_files
from mm2.cluster import admin as admin_port
from mm2.cluster import flow_log_writer, kafka_admin, kafka_flow_log
from mm2.sandbox import cluster, secure

CLOCK = clock.SystemClock()


def of(
    running: cluster.Cluster, user: str = secure.ADMIN, *, mechanism: str = secure.SCRAM_512
) -> kafka_access.Access:
    """As settings would give it that hold this cluster's client properties."""
    properties = running.client_properties(user, mechanism=mechanism)
    return kafka_access.parse(properties, files=store_files.below(Path()), name=running.name)


def admin(access: kafka_access.Access, **options: Any) -> kafka_admin.KafkaAdmin:
    return kafka_admin.KafkaAdmin(access, client_id="test-admin", clock=CLOCK, **options)


def flow_log(
    access: kafka_access.Access,
    source_alias: str,
    *,
    replication_factor: int = 1,
    bounds: flow_log_writer.Bounds = flow_log_writer.DEFAULT_BOUNDS,
) -> kafka_flow_log.KafkaFlowLog:
    return kafka_flow_log.KafkaFlowLog(
        access,
        source_alias=source_alias,
        client_id="test-flow-log",
        target_admin=admin(access),
        clock=CLOCK,
        replication_factor=replication_factor,
        bounds=bounds,
    )


def compact() -> admin_port.ConfigChange:
    return admin_port.ConfigChange(set={"cleanup.policy": "compact"})
