"""What MirrorCheckpointConnector and its tasks ask of the two clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from connect_runtime.base import clock as base_clock
from mm2.cluster import admin, groups, logs, state_topics
from mm2.connectors import connector_clients
from mm2.core import naming
from mm2.core.configs import connector_configs, roles


class Clients(Protocol):
    """Makes them, each anew; whoever asks for one closes it."""

    def source_groups(self) -> groups.Groups: ...

    def target_groups(self) -> groups.Groups: ...

    def target_admin(self) -> admin.Admin: ...

    def target_logs(self) -> logs.Logs: ...

    def offset_syncs(self) -> state_topics.TopicTail:
        """From the topic's beginning, on whichever cluster it is."""

    def checkpoints(self) -> state_topics.TopicTail: ...

    def offset_map(self) -> state_topics.TopicTail:
        """Ours, on the target; there is none where only Java mirrors."""


class KafkaClients:
    """With Java's client ids. Raises `FatalError` for settings that cannot be honoured."""

    def __init__(
        self,
        config: connector_configs.CheckpointConfig,
        *,
        clock: base_clock.Clock,
        gone: Callable[[], bool],
        task: int | str | None = None,
    ) -> None:
        """Once `gone`, nobody waits for answers about groups. `task`: see `connector_clients`."""
        self._config = config
        self._clock = clock
        self._gone = gone
        self._task = task

    def source_groups(self) -> groups.Groups:
        return self._groups(roles.SOURCE_ADMIN)

    def target_groups(self) -> groups.Groups:
        return self._groups(roles.TARGET_ADMIN)

    def target_admin(self) -> admin.Admin:
        return connector_clients.admin_of(
            self._config.common,
            roles.TARGET_ADMIN,
            use="checkpoint-target-admin",
            clock=self._clock,
            task=self._task,
        )

    def target_logs(self) -> logs.Logs:
        return connector_clients.logs_of(
            self._config.common,
            roles.TARGET_ADMIN,
            use="checkpoint-target-logs",
            clock=self._clock,
            task=self._task,
        )

    def offset_syncs(self) -> state_topics.TopicTail:
        topic = self._config.syncs_topic
        role = roles.SOURCE_CONSUMER if topic.on_source else roles.TARGET_CONSUMER
        return self._tail(role, topic.name, use=f"offset-syncs-{topic.location}-consumer")

    def checkpoints(self) -> state_topics.TopicTail:
        topic = self._config.checkpoints_topic
        return self._tail(roles.TARGET_CONSUMER, topic, use="checkpoints-target-consumer")

    def offset_map(self) -> state_topics.TopicTail:
        topic = naming.map_topic(self._config.common.source)
        return self._tail(roles.TARGET_CONSUMER, topic, use="offset-map-target-consumer")

    def _groups(self, role: roles.Role) -> groups.Groups:
        return connector_clients.groups_of(
            self._config.common,
            role,
            use=f"checkpoint-{role.side}-admin",
            clock=self._clock,
            task=self._task,
            gone=self._gone,
        )

    def _tail(self, role: roles.Role, topic: str, *, use: str) -> state_topics.TopicTail:
        return connector_clients.reader_of(
            self._config.common,
            role,
            use=use,
            clock=self._clock,
            task=self._task,
            topic=topic,
        )


class MakeClients(Protocol):
    """`KafkaClients`; tests have their own."""

    def __call__(
        self,
        config: connector_configs.CheckpointConfig,
        *,
        clock: base_clock.Clock,
        gone: Callable[[], bool],
        task: int | str | None = None,
    ) -> Clients: ...
