"""What MirrorSourceConnector asks of the two clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from mm2.cluster import acls, admin, flow_log_topics, state_topics
from mm2.connectors import connector_clients
from mm2.connectors.share import flow_ledger, task_clients
from mm2.connectors.source import java_way_back
from mm2.core import commands, loops
from mm2.core.configs import connector_configs, roles

_TARGET_ADMIN = "replication-target-admin"
_SOURCE_ADMIN = "replication-source-admin"
_WAY_BACK = "mm2-way-back"


class Clients(Protocol):
    """Makes them, each anew; whoever asks for one closes it."""

    def source_admin(self) -> admin.Admin: ...

    def target_admin(self) -> admin.Admin: ...

    def syncs_admin(self) -> admin.Admin:
        """Of the cluster that the offset-syncs topic is on. Not for a flow without."""

    def source_acls(self) -> acls.Acls: ...

    def target_acls(self) -> acls.Acls: ...

    def log_topics(self, target: admin.Admin) -> flow_log_topics.LogTopics:
        """Makes the flow's own topics through `target`."""

    def ledger(self, share: Collection[ids.TopicPartition]) -> flow_ledger.FlowLedger:
        """What the flow knows of these partitions; not open yet."""

    def way_back(self, *, source: admin.Admin, target: admin.Admin) -> java_way_back.JavaWayBack:
        """Asks through these, and readers of its own."""

    def operator(self) -> commands.Operator: ...


class KafkaClients:
    """With Java's client ids. Raises `FatalError` for settings that cannot be honoured."""

    def __init__(
        self,
        config: connector_configs.SourceConfig,
        *,
        clock: base_clock.Clock,
        gone: Callable[[], bool],
    ) -> None:
        """Once `gone`, nobody waits for answers."""
        self._config = config
        self._clock = clock
        self._gone = gone

    def source_admin(self) -> admin.Admin:
        return self._admin(roles.SOURCE_ADMIN, _SOURCE_ADMIN)

    def target_admin(self) -> admin.Admin:
        return self._admin(roles.TARGET_ADMIN, _TARGET_ADMIN)

    def syncs_admin(self) -> admin.Admin:
        topic = self._config.syncs_topic
        assert topic is not None, "the flow writes no offset syncs"
        role = roles.SOURCE_ADMIN if topic.on_source else roles.TARGET_ADMIN
        return self._admin(role, f"offset-syncs-{topic.location}-admin")

    def source_acls(self) -> acls.Acls:
        return self._acls(roles.SOURCE_ADMIN, _SOURCE_ADMIN)

    def target_acls(self) -> acls.Acls:
        return self._acls(roles.TARGET_ADMIN, _TARGET_ADMIN)

    def log_topics(self, target: admin.Admin) -> flow_log_topics.LogTopics:
        factor = self._config.flow.replication_factor
        return connector_clients.log_topics_of(
            self._config.common,
            roles.TARGET_ADMIN,
            target,
            replication_factor=None if factor < 0 else factor,
            clock=self._clock,
        )

    def ledger(self, share: Collection[ids.TopicPartition]) -> flow_ledger.FlowLedger:
        clients = task_clients.KafkaClients(self._config, clock=self._clock, task="offsets")
        return clients.ledger(share, java=lambda _: {})

    def way_back(self, *, source: admin.Admin, target: admin.Admin) -> java_way_back.JavaWayBack:
        topic = self._config.syncs_topic
        own = None
        if topic is not None:
            own = loops.SyncsPlace(on_source=topic.on_source, topic=topic.name)
        return java_way_back.JavaWayBack(
            self._config.flow,
            source=self._looked_at(source, roles.SOURCE_CONSUMER),
            target=self._looked_at(target, roles.TARGET_CONSUMER),
            syncs=own,
            clock=self._clock,
        )

    def _looked_at(self, asked: admin.Admin, role: roles.Role) -> java_way_back.Cluster:
        def connect_tail(topic: str, partitions: int) -> state_topics.TopicTail:
            return connector_clients.reader_of(
                self._config.common,
                role,
                use=_WAY_BACK,
                clock=self._clock,
                topic=topic,
                partitions=partitions,
            )

        return java_way_back.Cluster(asked=asked, connect_tail=connect_tail)

    def operator(self) -> commands.Operator:
        return connector_clients.operator_of(self._config.common)

    def _admin(self, role: roles.Role, use: str) -> admin.Admin:
        return connector_clients.admin_of(
            self._config.common, role, use=use, clock=self._clock, gone=self._gone
        )

    def _acls(self, role: roles.Role, use: str) -> acls.Acls:
        return connector_clients.acls_of(
            self._config.common, role, use=use, clock=self._clock, gone=self._gone
        )


class MakeClients(Protocol):
    """`KafkaClients`; tests have their own."""

    def __call__(
        self,
        config: connector_configs.SourceConfig,
        *,
        clock: base_clock.Clock,
        gone: Callable[[], bool],
    ) -> Clients: ...
