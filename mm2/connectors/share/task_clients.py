"""How a MirrorSourceTask reaches its two clusters, as its own configuration says.

Records are written by the copies: with what the connector says of clients that produce on the
target, and of the producer of its records (`producer.override.`). The worker's own producer, which
Java's tasks write with, has no part in it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from connect_runtime.api import errors
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.connection import store_files
from mm2.cluster import (
    admin,
    kafka_admin,
    kafka_flow_log,
    kafka_record_writer,
    record_writer,
    state_topics,
)
from mm2.connectors import connector_clients, operators
from mm2.connectors.share import flow_ledger, opposite_ids, opposite_map
from mm2.core import commands, loops
from mm2.core.configs import client_properties, connector_configs, roles
from mm2.core.copy import messages
from mm2.pipeline import client_options

LEDGER = "mm2-ledger"
OPPOSITE = "mm2-opposite"


class Clients(Protocol):
    """Makes them, each anew; whoever asks for one closes it."""

    def admins(self) -> tuple[admin.Admin, admin.Admin]:
        """The source's and the target's."""

    def ledger(
        self, share: Collection[ids.TopicPartition], java: flow_ledger.ReadJava
    ) -> flow_ledger.FlowLedger:
        """The flow's own topics on the target; not open yet."""

    def opposite(self) -> opposite_ids.OppositeIds:
        """Of the flow that leads back, whose map is on the source."""

    def syncs(self) -> state_topics.TopicTail:
        """The offset-syncs topic, from its beginning. Not for a flow without."""

    def sync_writer(self) -> record_writer.RecordWriter:
        """To that topic."""

    def source(self) -> messages.ClusterAccess:
        """How the copies reach it."""

    def target(self) -> messages.ClusterAccess: ...

    def operator(self) -> commands.Operator: ...


class KafkaClients:
    """With Java's client ids, where Java has such a client. Raises `FatalError` for settings that
    cannot be honoured."""

    def __init__(
        self,
        config: connector_configs.SourceConfig,
        *,
        clock: base_clock.Clock,
        task: int | str,
    ) -> None:
        self._config = config
        self._clock = clock
        self._task = task

    def admins(self) -> tuple[admin.Admin, admin.Admin]:
        return self._admin(roles.SOURCE_ADMIN), self._admin(roles.TARGET_ADMIN)

    def ledger(
        self, share: Collection[ids.TopicPartition], java: flow_ledger.ReadJava
    ) -> flow_ledger.FlowLedger:
        flow = self._config.flow
        factor = flow.replication_factor
        log = kafka_flow_log.KafkaFlowLog(
            self._access(roles.TARGET_PRODUCER),
            source_alias=flow.source,
            client_id=self._named(roles.TARGET_PRODUCER, LEDGER)[roles.CLIENT_ID],
            target_admin=self._admin(roles.TARGET_ADMIN),
            clock=self._clock,
            replication_factor=None if factor < 0 else factor,
        )
        return flow_ledger.FlowLedger(log, share=share, java=java)

    def opposite(self) -> opposite_ids.OppositeIds:
        flow = self._config.flow
        topic = loops.opposite_map_topic(flow)
        found = opposite_map.OppositeMap(
            topic,
            connect_admin=lambda: self._admin(roles.SOURCE_ADMIN),
            connect_tail=lambda: connector_clients.reader_of(
                self._config.common,
                roles.SOURCE_CONSUMER,
                use=OPPOSITE,
                clock=self._clock,
                task=self._task,
                topic=topic,
            ),
            clock=self._clock,
            flow=f"{flow.target}->{flow.source}",
        )
        return opposite_ids.OppositeIds(found, name=f"{flow.name}-{self._task}")

    def syncs(self) -> state_topics.TopicTail:
        topic = self._config.syncs_topic
        assert topic is not None, "the flow writes no offset syncs"
        return connector_clients.reader_of(
            self._config.common,
            roles.SOURCE_CONSUMER if topic.on_source else roles.TARGET_CONSUMER,
            use=f"offset-syncs-{topic.location}-consumer",
            clock=self._clock,
            task=self._task,
            topic=topic.name,
        )

    def sync_writer(self) -> record_writer.RecordWriter:
        topic = self._config.syncs_topic
        assert topic is not None, "the flow writes no offset syncs"
        role = roles.SOURCE_PRODUCER if topic.on_source else roles.TARGET_PRODUCER
        name = self._named(role, f"offset-syncs-{topic.location}-producer")[roles.CLIENT_ID]
        return kafka_record_writer.KafkaRecordWriter(
            self._access(role), client_id=name, topic=topic.name
        )

    def source(self) -> messages.ClusterAccess:
        properties = self._named(roles.SOURCE_CONSUMER, "replication-consumer")
        return _copy_access(properties, self._config.flow.source)

    def target(self) -> messages.ClusterAccess:
        """As Java's worker names the producer of a task's records."""
        properties = roles.task_producer(self._config.common.props)
        name = f"connector-producer-{self._config.common.name}-{self._task}"
        properties.setdefault(roles.CLIENT_ID, name)
        return _copy_access(properties, self._config.flow.target)

    def operator(self) -> commands.Operator:
        return operators.of(
            source=self._access(roles.SOURCE_CONSUMER),
            target=self._access(roles.TARGET_PRODUCER),
            connector=self._config.common.name,
        )

    def _admin(self, role: roles.Role) -> kafka_admin.KafkaAdmin:
        return connector_clients.admin_of(
            self._config.common,
            role,
            use=f"replication-{role.side}-admin",
            clock=self._clock,
            task=self._task,
        )

    def _named(self, role: roles.Role, use: str) -> dict[str, str]:
        return dict(self._config.common.client(role, use, task=self._task))

    def _access(self, role: roles.Role) -> kafka_access.Access:
        common = self._config.common
        alias = common.source if role.side == "source" else common.target
        properties = roles.properties(common.props, role)
        return kafka_access.parse(properties, files=store_files.below(Path()), name=alias)


def _copy_access(properties: dict[str, str], alias: str) -> messages.ClusterAccess:
    """Raises `ConfigError` for values that shape no connection."""
    access = kafka_access.parse(properties, files=store_files.below(Path()), name=alias)
    taken = {name: text for name, text in properties.items() if name in client_options.NAMES}
    for name, text in taken.items():
        kind = client_properties.TAKEN[name]
        try:
            kind.parse((text,))
        except ValueError:
            raise errors.ConfigError(
                f"{name} of the client on {alias} is {text!r}; allowed: {kind.allowed}"
            ) from None
    return messages.ClusterAccess(
        alias=alias,
        bootstrap=access.bootstrap,
        security=access.security.to_dict(),
        client_id=properties[roles.CLIENT_ID],
        properties=taken,
    )


class MakeClients(Protocol):
    """`KafkaClients`; tests have their own."""

    def __call__(
        self,
        config: connector_configs.SourceConfig,
        *,
        clock: base_clock.Clock,
        task: int | str,
    ) -> Clients: ...
