"""Kafka clients of the connectors and their tasks, built from connector configurations.

Client ids match Java's where Java has the same client. Copy processes produce with the connector's
target client properties and `producer.override.*`. Java's source tasks write through the worker's
own producer; mm2's source tasks do not use that producer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from connect_runtime.api.errors import ConfigError
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network import keystore_files
from mm2.config import client_config_keys, mirror_connector_client_properties
from mm2.config.mirror_connector_client_properties import ClientRole
from mm2.config.mirror_connector_config import (
    MirrorCheckpointConfig,
    MirrorConnectorConfig,
    MirrorSourceConfig,
)
from mm2.connectors.flow_state_store import FlowStateStore, ReadJavaProgress
from mm2.connectors.java_reverse_flow_detector import (
    JavaReverseFlowDetector,
    ReverseFlowClusterClients,
)
from mm2.connectors.reverse_flow_producer_ids import (
    ReverseFlowProducerLookup,
    ReverseOffsetMapReader,
)
from mm2.copier import client_properties
from mm2.copier.control_channel_messages import ClusterAccess
from mm2.kafka import suggested_command_arguments
from mm2.kafka.acl_client import KafkaAclAdmin
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.kafka.flow_state_log import KafkaFlowStateLog
from mm2.kafka.flow_state_topics import FlowStateTopics
from mm2.kafka.kafka_client_interfaces import (
    AclAdmin,
    Admin,
    ConsumerGroups,
    LogOffsets,
    RecordWriter,
    TopicTail,
)
from mm2.kafka.list_offsets_client import KafkaLogOffsets
from mm2.kafka.single_partition_producer import KafkaRecordWriter
from mm2.kafka.state_topic_reader import TopicReader
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from mm2.suggested_commands import OperatorCommands
from mm2.topics import replication_loops, replication_policy
from mm2.topics.replication_loops import OffsetSyncsLocation


class AdminFactory(Protocol):
    """Signature of `create_admin`, so that tests can pass a fake."""

    def __call__(
        self,
        common: MirrorConnectorConfig,
        role: ClientRole,
        *,
        use: str,
        clock: Clock,
    ) -> Admin: ...


def create_admin(
    common: MirrorConnectorConfig,
    role: ClientRole,
    *,
    use: str,
    clock: Clock,
    task: int | str | None = None,
    gone: Callable[[], bool] = lambda: False,
) -> KafkaAdmin:
    """Create an admin client for the cluster of `role`.

    `use` is the suffix of the `client.id`, as in Java, and `task` is the task number in the
    `client.id`. Pending calls end early once `gone` returns True (the connector is stopping). No
    request is sent yet. Relative certificate paths are resolved against the working directory.
    Raises a `FatalError` that lists all unsupported settings.
    """
    access, client_id = _build_cluster_access(common, role, use=use, task=task)
    return KafkaAdmin(access, client_id=client_id, clock=clock, is_shutting_down=gone)


def create_acl_admin(
    common: MirrorConnectorConfig,
    role: ClientRole,
    *,
    use: str,
    clock: Clock,
    gone: Callable[[], bool],
) -> KafkaAclAdmin:
    """Create an ACL client for the cluster of `role`. The parameters are as in
    `create_admin`."""
    access, client_id = _build_cluster_access(common, role, use=use, task=None)
    return KafkaAclAdmin(access, client_id=client_id, clock=clock, is_shutting_down=gone)


def create_flow_state_topics_client(
    common: MirrorConnectorConfig,
    role: ClientRole,
    cluster: Admin,
    *,
    replication_factor: int | None,
    clock: Clock,
) -> FlowStateTopics:
    """Create the `FlowStateTopics`, which creates and validates a flow's internal topics. `cluster`
    is the admin client of the cluster that `role` identifies."""
    access, _ = _build_cluster_access(common, role, use="", task=None)
    return FlowStateTopics(
        target=cluster,
        where=access.name_and_addresses,
        bootstrap=",".join(access.bootstrap),
        secured=access.security.protocol != "PLAINTEXT",
        replication_factor=replication_factor,
        clock=clock,
    )


def build_operator_commands(common: MirrorConnectorConfig) -> OperatorCommands:
    """Build the `OperatorCommands` of the connector: they format the commands that error messages
    suggest, with the connector's principals and cluster addresses."""
    source, _ = _build_cluster_access(
        common, mirror_connector_client_properties.SOURCE_CONSUMER, use="", task=None
    )
    target, _ = _build_cluster_access(
        common, mirror_connector_client_properties.TARGET_ADMIN, use="", task=None
    )
    return suggested_command_arguments.build_operator_commands(
        source=source, target=target, connector=common.name
    )


def create_groups_client(
    common: MirrorConnectorConfig,
    role: ClientRole,
    *,
    use: str,
    clock: Clock,
    task: int | str | None = None,
    gone: Callable[[], bool],
) -> KafkaGroups:
    """Create a consumer group client for the cluster of `role`. The parameters are as in
    `create_admin`."""
    access, client_id = _build_cluster_access(common, role, use=use, task=task)
    return KafkaGroups(access, client_id=client_id, clock=clock, is_shutting_down=gone)


def create_log_offsets_client(
    common: MirrorConnectorConfig,
    role: ClientRole,
    *,
    use: str,
    clock: Clock,
    task: int | str | None = None,
) -> KafkaLogOffsets:
    """Create a client that reads partition end offsets. The parameters are as in
    `create_admin`."""
    access, client_id = _build_cluster_access(common, role, use=use, task=task)
    return KafkaLogOffsets(access, client_id=client_id, clock=clock)


def create_topic_reader(
    common: MirrorConnectorConfig,
    role: ClientRole,
    *,
    use: str,
    clock: Clock,
    task: int | str | None = None,
    topic: str,
    partitions: int = 1,
) -> TopicReader:
    """Create a reader of a topic that has `partitions` partitions. The other parameters are as in
    `create_admin`."""
    access, client_id = _build_cluster_access(common, role, use=use, task=task)
    return TopicReader(
        access, client_id=client_id, topics=[topic], partitions=partitions, clock=clock
    )


def _build_cluster_access(
    common: MirrorConnectorConfig, role: ClientRole, *, use: str, task: int | str | None
) -> tuple[KafkaClusterAccess, str]:
    """Build the connection settings of a client and its `client.id`."""
    properties = dict(common.resolve_client_properties(role, use, task=task))
    if not properties.get(client_config_keys.BOOTSTRAP_SERVERS, "").strip():
        raise ConfigError(
            f"connector {common.name}: "
            f"{role.cluster_prefix}{client_config_keys.BOOTSTRAP_SERVERS} is "
            "missing; set it to at least one broker, as host:port"
        )
    alias = common.source if role.side == "source" else common.target
    access = librdkafka_connection_settings.parse_cluster_access(
        properties, files=keystore_files.create_store_files(Path()), name=alias
    )
    return access, properties[mirror_connector_client_properties.CLIENT_ID]


class CheckpointClients(Protocol):
    """Creates the clients of the checkpoint connector and its tasks. The caller closes
    each client.
    """

    def create_source_groups_client(self) -> ConsumerGroups: ...

    def create_target_groups_client(self) -> ConsumerGroups: ...

    def create_target_admin(self) -> Admin: ...

    def create_target_log_offsets_client(self) -> LogOffsets: ...

    def create_offset_syncs_reader(self) -> TopicTail:
        """Create a reader that reads the offset-syncs topic from the start, on the cluster that
        stores the topic."""

    def create_checkpoints_reader(self) -> TopicTail: ...

    def create_offset_map_reader(self) -> TopicTail:
        """Create a reader of mm2's offset map on the target. The topic is missing if only Java
        replicates the flow."""


class KafkaCheckpointClients:
    """Creates the Kafka clients of the checkpoint connector and its tasks, with Java's client ids.
    Raises `FatalError` for unsupported settings."""

    def __init__(
        self,
        config: MirrorCheckpointConfig,
        *,
        clock: Clock,
        gone: Callable[[], bool],
        task: int | str | None = None,
    ) -> None:
        """Create the factory. Group requests end early once `gone` returns True. `task` is the task
        number, as in `create_admin`."""
        self._config = config
        self._clock = clock
        self._gone = gone
        self._task = task

    def create_source_groups_client(self) -> ConsumerGroups:
        return self._create_groups_client(mirror_connector_client_properties.SOURCE_ADMIN)

    def create_target_groups_client(self) -> ConsumerGroups:
        return self._create_groups_client(mirror_connector_client_properties.TARGET_ADMIN)

    def create_target_admin(self) -> Admin:
        return create_admin(
            self._config.common,
            mirror_connector_client_properties.TARGET_ADMIN,
            use="checkpoint-target-admin",
            clock=self._clock,
            task=self._task,
        )

    def create_target_log_offsets_client(self) -> LogOffsets:
        return create_log_offsets_client(
            self._config.common,
            mirror_connector_client_properties.TARGET_ADMIN,
            use="checkpoint-target-logs",
            clock=self._clock,
            task=self._task,
        )

    def create_offset_syncs_reader(self) -> TopicTail:
        topic = self._config.syncs_topic
        role = (
            mirror_connector_client_properties.SOURCE_CONSUMER
            if topic.on_source
            else mirror_connector_client_properties.TARGET_CONSUMER
        )
        return self._create_topic_reader(
            role, topic.name, use=f"offset-syncs-{topic.cluster_role}-consumer"
        )

    def create_checkpoints_reader(self) -> TopicTail:
        topic = self._config.checkpoints_topic
        return self._create_topic_reader(
            mirror_connector_client_properties.TARGET_CONSUMER,
            topic,
            use="checkpoints-target-consumer",
        )

    def create_offset_map_reader(self) -> TopicTail:
        topic = replication_policy.format_offset_map_topic(self._config.common.source)
        return self._create_topic_reader(
            mirror_connector_client_properties.TARGET_CONSUMER,
            topic,
            use="offset-map-target-consumer",
        )

    def _create_groups_client(self, role: ClientRole) -> ConsumerGroups:
        return create_groups_client(
            self._config.common,
            role,
            use=f"checkpoint-{role.side}-admin",
            clock=self._clock,
            task=self._task,
            gone=self._gone,
        )

    def _create_topic_reader(self, role: ClientRole, topic: str, *, use: str) -> TopicTail:
        return create_topic_reader(
            self._config.common,
            role,
            use=use,
            clock=self._clock,
            task=self._task,
            topic=topic,
        )


class CheckpointClientsFactory(Protocol):
    """Signature of `KafkaCheckpointClients`, so that tests can pass a fake."""

    def __call__(
        self,
        config: MirrorCheckpointConfig,
        *,
        clock: Clock,
        gone: Callable[[], bool],
        task: int | str | None = None,
    ) -> CheckpointClients: ...


LEDGER_CLIENT_ID_SUFFIX = "mm2-store"
REVERSE_FLOW_CLIENT_ID_SUFFIX = "mm2-opposite"


class SourceTaskClients(Protocol):
    """Creates the clients of a source task. The caller closes each client."""

    def create_admin_clients(self) -> tuple[Admin, Admin]:
        """Create the admin clients of source and target."""

    def create_flow_state_store(
        self, partitions: Collection[TopicPartition], java: ReadJavaProgress
    ) -> FlowStateStore:
        """Create the store that reads and writes the flow's offset map and incidents on the target.
        The store is not open yet."""

    def create_lookup_of_reverse_flow_producers(self) -> ReverseFlowProducerLookup:
        """Create the client that looks up the reverse flow's producer ids in the reverse flow's
        offset map, which is stored on the source cluster."""

    def create_offset_syncs_reader(self) -> TopicTail:
        """Create a reader that reads the offset-syncs topic from the start. The flow must have an
        offset-syncs topic."""

    def create_offset_syncs_writer(self) -> RecordWriter:
        """Create a writer to the offset-syncs topic."""

    def get_source_cluster_access(self) -> ClusterAccess:
        """Return the settings with which the copy process connects to the source."""

    def get_target_cluster_access(self) -> ClusterAccess: ...

    def get_operator_commands(self) -> OperatorCommands: ...


class KafkaSourceTaskClients:
    """Creates the Kafka clients of a source task, with Java's client ids where Java has the same
    client. Raises `FatalError` for unsupported settings."""

    def __init__(
        self,
        config: MirrorSourceConfig,
        *,
        clock: Clock,
        task: int | str,
    ) -> None:
        self._config = config
        self._clock = clock
        self._task = task

    def create_admin_clients(self) -> tuple[Admin, Admin]:
        return self._create_admin(
            mirror_connector_client_properties.SOURCE_ADMIN
        ), self._create_admin(mirror_connector_client_properties.TARGET_ADMIN)

    def create_flow_state_store(
        self, partitions: Collection[TopicPartition], java: ReadJavaProgress
    ) -> FlowStateStore:
        flow = self._config.flow
        factor = flow.replication_factor
        log = KafkaFlowStateLog(
            self._parse_cluster_access(mirror_connector_client_properties.TARGET_PRODUCER),
            source_alias=flow.source,
            client_id=self._build_client_properties(
                mirror_connector_client_properties.TARGET_PRODUCER, LEDGER_CLIENT_ID_SUFFIX
            )[mirror_connector_client_properties.CLIENT_ID],
            target_admin=self._create_admin(mirror_connector_client_properties.TARGET_ADMIN),
            clock=self._clock,
            replication_factor=None if factor < 0 else factor,
        )
        return FlowStateStore(log, partitions=partitions, read_java_progress=java)

    def create_lookup_of_reverse_flow_producers(self) -> ReverseFlowProducerLookup:
        flow = self._config.flow
        topic = replication_loops.format_reverse_offset_map_topic(flow)
        reader = ReverseOffsetMapReader(
            topic,
            connect_admin=lambda: self._create_admin(
                mirror_connector_client_properties.SOURCE_ADMIN
            ),
            connect_tail=lambda: create_topic_reader(
                self._config.common,
                mirror_connector_client_properties.SOURCE_CONSUMER,
                use=REVERSE_FLOW_CLIENT_ID_SUFFIX,
                clock=self._clock,
                task=self._task,
                topic=topic,
            ),
            clock=self._clock,
            flow=f"{flow.target}->{flow.source}",
        )
        return ReverseFlowProducerLookup(reader, name=f"{flow.name}-{self._task}")

    def create_offset_syncs_reader(self) -> TopicTail:
        topic = self._config.syncs_topic
        assert topic is not None, "the flow has no offset-syncs topic"
        return create_topic_reader(
            self._config.common,
            mirror_connector_client_properties.SOURCE_CONSUMER
            if topic.on_source
            else mirror_connector_client_properties.TARGET_CONSUMER,
            use=f"offset-syncs-{topic.cluster_role}-consumer",
            clock=self._clock,
            task=self._task,
            topic=topic.name,
        )

    def create_offset_syncs_writer(self) -> RecordWriter:
        topic = self._config.syncs_topic
        assert topic is not None, "the flow has no offset-syncs topic"
        role = (
            mirror_connector_client_properties.SOURCE_PRODUCER
            if topic.on_source
            else mirror_connector_client_properties.TARGET_PRODUCER
        )
        name = self._build_client_properties(role, f"offset-syncs-{topic.cluster_role}-producer")[
            mirror_connector_client_properties.CLIENT_ID
        ]
        return KafkaRecordWriter(
            self._parse_cluster_access(role), client_id=name, topic=topic.name, clock=self._clock
        )

    def get_source_cluster_access(self) -> ClusterAccess:
        properties = self._build_client_properties(
            mirror_connector_client_properties.SOURCE_CONSUMER, "replication-consumer"
        )
        return _build_copy_cluster_access(properties, self._config.flow.source)

    def get_target_cluster_access(self) -> ClusterAccess:
        """Return the settings with which the copy process connects to the target. The producer has
        the client id of a Java task's producer."""
        properties = mirror_connector_client_properties.resolve_task_producer_properties(
            self._config.common.props
        )
        name = f"connector-producer-{self._config.common.name}-{self._task}"
        properties.setdefault(mirror_connector_client_properties.CLIENT_ID, name)
        return _build_copy_cluster_access(properties, self._config.flow.target)

    def get_operator_commands(self) -> OperatorCommands:
        return suggested_command_arguments.build_operator_commands(
            source=self._parse_cluster_access(mirror_connector_client_properties.SOURCE_CONSUMER),
            target=self._parse_cluster_access(mirror_connector_client_properties.TARGET_PRODUCER),
            connector=self._config.common.name,
        )

    def _create_admin(self, role: ClientRole) -> KafkaAdmin:
        return create_admin(
            self._config.common,
            role,
            use=f"replication-{role.side}-admin",
            clock=self._clock,
            task=self._task,
        )

    def _build_client_properties(self, role: ClientRole, use: str) -> dict[str, str]:
        return dict(self._config.common.resolve_client_properties(role, use, task=self._task))

    def _parse_cluster_access(self, role: ClientRole) -> KafkaClusterAccess:
        common = self._config.common
        alias = common.source if role.side == "source" else common.target
        properties = mirror_connector_client_properties.resolve_role_properties(common.props, role)
        return librdkafka_connection_settings.parse_cluster_access(
            properties, files=keystore_files.create_store_files(Path()), name=alias
        )


def _build_copy_cluster_access(properties: dict[str, str], alias: str) -> ClusterAccess:
    """Build the settings with which a copy process accesses a cluster. Raises `ConfigError` for
    invalid client properties."""
    access = librdkafka_connection_settings.parse_cluster_access(
        properties, files=keystore_files.create_store_files(Path()), name=alias
    )
    copy_properties = {
        name: text
        for name, text in properties.items()
        if name in client_properties.COPY_CLIENT_PROPERTIES
    }
    for name, text in copy_properties.items():
        kind = client_config_keys.SUPPORTED_PROPERTIES[name]
        try:
            kind.parse((text,))
        except ValueError:
            raise ConfigError(
                f"{name} of the client on {alias} is {text!r}; allowed: {kind.allowed}"
            ) from None
    return ClusterAccess(
        alias=alias,
        bootstrap=access.bootstrap,
        security=access.security.to_dict(),
        client_id=properties[mirror_connector_client_properties.CLIENT_ID],
        properties=copy_properties,
    )


class SourceTaskClientsFactory(Protocol):
    """Signature of `KafkaSourceTaskClients`, so that tests can pass a fake."""

    def __call__(
        self,
        config: MirrorSourceConfig,
        *,
        clock: Clock,
        task: int | str,
    ) -> SourceTaskClients: ...


_TARGET_ADMIN_CLIENT_ID_SUFFIX = "replication-target-admin"
_SOURCE_ADMIN_CLIENT_ID_SUFFIX = "replication-source-admin"
_REVERSE_FLOW_CHECK_CLIENT_ID_SUFFIX = "mm2-way-back"


class SourceConnectorClients(Protocol):
    """Creates the clients of the source connector. The caller closes each client."""

    def create_source_admin(self) -> Admin: ...

    def create_target_admin(self) -> Admin: ...

    def create_offset_syncs_admin(self) -> Admin:
        """Create an admin client for the cluster that stores the offset-syncs topic. The flow must
        have an offset-syncs topic."""

    def create_source_acl_admin(self) -> AclAdmin: ...

    def create_target_acl_admin(self) -> AclAdmin: ...

    def create_flow_state_topics_client(self, target: Admin) -> FlowStateTopics:
        """Create the `FlowStateTopics`, which creates the flow's internal topics with the admin
        client `target`."""

    def create_flow_state_store(self, partitions: Collection[TopicPartition]) -> FlowStateStore:
        """Create the store that reads and writes the offset map and incidents of `partitions`. The
        store is not open yet."""

    def create_java_reverse_flow_detector(
        self, *, source: Admin, target: Admin
    ) -> JavaReverseFlowDetector:
        """Create the detector of a reverse flow of Java's MirrorMaker 2. The detector uses the
        given admin clients and creates its own readers."""

    def get_operator_commands(self) -> OperatorCommands: ...


class KafkaSourceConnectorClients:
    """Creates the Kafka clients of the source connector, with Java's client ids. Raises
    `FatalError` for unsupported settings."""

    def __init__(
        self,
        config: MirrorSourceConfig,
        *,
        clock: Clock,
        gone: Callable[[], bool],
    ) -> None:
        """Create the factory. Pending requests end early once `gone` returns True (the connector is
        stopping)."""
        self._config = config
        self._clock = clock
        self._gone = gone

    def create_source_admin(self) -> Admin:
        return self._create_admin(
            mirror_connector_client_properties.SOURCE_ADMIN, _SOURCE_ADMIN_CLIENT_ID_SUFFIX
        )

    def create_target_admin(self) -> Admin:
        return self._create_admin(
            mirror_connector_client_properties.TARGET_ADMIN, _TARGET_ADMIN_CLIENT_ID_SUFFIX
        )

    def create_offset_syncs_admin(self) -> Admin:
        topic = self._config.syncs_topic
        assert topic is not None, "the flow has no offset-syncs topic"
        role = (
            mirror_connector_client_properties.SOURCE_ADMIN
            if topic.on_source
            else mirror_connector_client_properties.TARGET_ADMIN
        )
        return self._create_admin(role, f"offset-syncs-{topic.cluster_role}-admin")

    def create_source_acl_admin(self) -> AclAdmin:
        return self._create_acl_admin(
            mirror_connector_client_properties.SOURCE_ADMIN, _SOURCE_ADMIN_CLIENT_ID_SUFFIX
        )

    def create_target_acl_admin(self) -> AclAdmin:
        return self._create_acl_admin(
            mirror_connector_client_properties.TARGET_ADMIN, _TARGET_ADMIN_CLIENT_ID_SUFFIX
        )

    def create_flow_state_topics_client(self, target: Admin) -> FlowStateTopics:
        factor = self._config.flow.replication_factor
        return create_flow_state_topics_client(
            self._config.common,
            mirror_connector_client_properties.TARGET_ADMIN,
            target,
            replication_factor=None if factor < 0 else factor,
            clock=self._clock,
        )

    def create_flow_state_store(self, partitions: Collection[TopicPartition]) -> FlowStateStore:
        clients = KafkaSourceTaskClients(self._config, clock=self._clock, task="offsets")
        return clients.create_flow_state_store(partitions, java=lambda _: {})

    def create_java_reverse_flow_detector(
        self, *, source: Admin, target: Admin
    ) -> JavaReverseFlowDetector:
        topic = self._config.syncs_topic
        own_syncs = None
        if topic is not None:
            own_syncs = OffsetSyncsLocation(on_source=topic.on_source, topic=topic.name)
        return JavaReverseFlowDetector(
            self._config.flow,
            source=self._build_reverse_flow_clients(
                source, mirror_connector_client_properties.SOURCE_CONSUMER
            ),
            target=self._build_reverse_flow_clients(
                target, mirror_connector_client_properties.TARGET_CONSUMER
            ),
            syncs=own_syncs,
            clock=self._clock,
        )

    def _build_reverse_flow_clients(
        self, asked: Admin, role: ClientRole
    ) -> ReverseFlowClusterClients:
        def create_reader(topic: str, partitions: int) -> TopicTail:
            return create_topic_reader(
                self._config.common,
                role,
                use=_REVERSE_FLOW_CHECK_CLIENT_ID_SUFFIX,
                clock=self._clock,
                topic=topic,
                partitions=partitions,
            )

        return ReverseFlowClusterClients(admin=asked, connect_tail=create_reader)

    def get_operator_commands(self) -> OperatorCommands:
        return build_operator_commands(self._config.common)

    def _create_admin(self, role: ClientRole, use: str) -> Admin:
        return create_admin(self._config.common, role, use=use, clock=self._clock, gone=self._gone)

    def _create_acl_admin(self, role: ClientRole, use: str) -> AclAdmin:
        return create_acl_admin(
            self._config.common, role, use=use, clock=self._clock, gone=self._gone
        )


class SourceConnectorClientsFactory(Protocol):
    """Signature of `KafkaSourceConnectorClients`, so that tests can pass a fake."""

    def __call__(
        self,
        config: MirrorSourceConfig,
        *,
        clock: Clock,
        gone: Callable[[], bool],
    ) -> SourceConnectorClients: ...
