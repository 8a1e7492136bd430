"""MirrorHeartbeatConnector: one task writes a flow's heartbeats, or none where that is off.

Configured with Java's keys. The heartbeats topic is made on `target.cluster.…`; records go where
the worker writes, which has to be that cluster (`producer.override.…` can change it), as in Java.

Whatever converters the worker has, records are the bytes that Java's dedicated mode writes. Java's
connector is subject to its worker's: with JsonConverter it writes JSON around its bytes, with
StringConverter `[B@6052dc25`, and no client of its reads either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect_runtime.api import config_def, connector, records, task
from mm2.cluster import admin
from mm2.connectors import connector_clients, internal_topics
from mm2.connectors.heartbeats import heartbeat_task
from mm2.core import connect_offsets, heartbeats, naming
from mm2.core.configs import answers, connector_configs, java_classes, roles
from mm2.core.configs import connector_keys as keys

_USE = "heartbeats-target-admin"


class MirrorHeartbeatConnector(connector.SourceConnector):
    """Java's of the same name."""

    default_converter = answers.BYTES

    def __init__(
        self, make_admin: connector_clients.MakeAdmin = connector_clients.admin_of
    ) -> None:
        self._make_admin = make_admin
        self._admin: admin.Admin | None = None
        self._interval_s: float | None = None

    def version(self) -> str:
        return java_classes.VERSION

    def config(self) -> config_def.ConfigDef:
        return connector_configs.HEARTBEAT

    def validate(self, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
        return connector_configs.validate_heartbeat(props)

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where the target refuses the topic, or us."""
        super().start(props)
        config = connector_configs.heartbeat(props)
        self._interval_s = config.interval_s
        self._admin = self._make_admin(
            config.common, roles.TARGET_ADMIN, use=_USE, clock=self.context.clock
        )
        internal_topics.create(
            internal_topics.InternalTopic(
                name=naming.HEARTBEATS_TOPIC,
                replication_factor=config.topic_factor,
                factor_key=keys.HEARTBEATS_FACTOR,
            ),
            self._admin,
            timeout_s=config.common.admin_timeout_s,
            wait=self.context.wait,
        )

    def stop(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def task_class(self) -> type[task.Task]:
        return heartbeat_task.MirrorHeartbeatTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return heartbeats.task_configs(self.props, self._interval_s)

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[records.SourceOffset]
    ) -> bool:
        """Nobody reads them: it is enough that they are of the right form."""
        connect_offsets.check_heartbeats(offsets)
        return True
