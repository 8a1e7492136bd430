"""The settings of a worker in a group: the properties that ConnectDistributed takes."""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.adapters.kafka import group as kafka_group
from connect_runtime.adapters.kafka import worker_logs
from connect_runtime.app.settings import worker
from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import participation
from connect_runtime.core.membership import settings as membership
from connect_runtime.core.state import topic_settings
from connect_runtime.core.task import worker_config
from connect_runtime.wire.connection import settings as connection_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(worker.WorkerSettings):
    """`connections`: how the group's coordinator is reached; `offers`: `connect.protocol`."""

    config: worker_config.DistributedConfig
    topics: topic_settings.Wanted
    exactly_once: worker_logs.ExactlyOnce
    membership: membership.Settings
    offers: protocol.Protocol
    connections: connection_settings.ConnectionSettings

    def group(self, *, worker_id: str, url: str) -> kafka_group.Settings:
        """Once the REST API listens: `url` is what other workers are told, `worker_id` host:port
        of it."""
        return kafka_group.Settings(
            worker_id=worker_id,
            part=participation.Settings(
                membership=self.membership,
                url=url,
                offers=self.offers,
                delay_max_ms=round(self.config.rebalance_delay_s * 1000),
            ),
            connections=self.connections,
        )
