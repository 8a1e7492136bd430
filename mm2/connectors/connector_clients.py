"""Clients of a mirror connector, as its own configuration says how to reach its clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from connect_runtime.api import errors
from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.connection import store_files
from mm2.cluster import admin, kafka_admin
from mm2.core.configs import client_keys, connector_configs, roles


class MakeAdmin(Protocol):
    """`admin_of`; tests have their own."""

    def __call__(
        self,
        common: connector_configs.Common,
        role: roles.Role,
        *,
        use: str,
        clock: base_clock.Clock,
    ) -> admin.Admin: ...


def admin_of(
    common: connector_configs.Common, role: roles.Role, *, use: str, clock: base_clock.Clock
) -> kafka_admin.KafkaAdmin:
    """Administers the cluster of `role`; `use` is the end of its `client.id` in Java.

    Nothing is asked of the cluster yet. Relative paths of certificates are below the working
    directory. Raises `FatalError` that names every setting that cannot be honoured.
    """
    properties = dict(common.client(role, use))
    if not properties.get(client_keys.BOOTSTRAP, "").strip():
        raise errors.ConfigError(
            f"connector {common.name}: {role.cluster_prefix}{client_keys.BOOTSTRAP} is missing; "
            "name one broker at least, as host:port"
        )
    alias = common.source if role.side == "source" else common.target
    return kafka_admin.KafkaAdmin(
        kafka_access.parse(properties, files=store_files.below(Path()), name=alias),
        client_id=properties[roles.CLIENT_ID],
        clock=clock,
    )
