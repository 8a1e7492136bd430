"""Two clusters in memory, for a MirrorSourceTask."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors.flow_state_store import FlowStateStore, ReadJavaProgress
from mm2.connectors.reverse_flow_producer_ids import ReverseFlowProducerLookup
from mm2.copier.control_channel_messages import ClusterAccess
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.kafka_client_interfaces import OnWritten
from mm2.suggested_commands import OperatorCommands
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.checkpoint_clients import FakeTail, Record
from tests.fakes.flow_log import FakeFlowStateLog
from tests.fakes.opposite import Source


@dataclass
class FakeWriter:
    """Implements `RecordWriter`: what was written is answered in `poll`."""

    written: list[OffsetSync] = field(default_factory=list)
    waiting: list[OnWritten] = field(default_factory=list)
    failure: ConnectError | None = None
    silent: bool = False
    closed: bool = False

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
        assert not self.closed
        self.written.append(mirrormaker2_records.decode_offset_sync(key, value))
        self.waiting.append(on_written)

    def poll(self, timeout_s: float) -> None:
        if not self.silent:
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                each(self.failure)

    def close(self, timeout_s: float) -> None:
        self.closed = True


@dataclass
class FakeClusters:
    """Implements `task_client_factory.Clients`, and makes itself."""

    source_cluster: FakeCluster = field(default_factory=FakeCluster)
    target_cluster: FakeCluster = field(default_factory=FakeCluster)
    syncs_log: list[Record] = field(default_factory=list)
    syncs_failures: list[ConnectError] = field(default_factory=list)
    writer: FakeWriter = field(default_factory=FakeWriter)
    task: int | str = "?"
    admins_made: list[FakeAdmin] = field(default_factory=list)
    ledgers: list[FlowStateStore] = field(default_factory=list)
    config: MirrorSourceConfig | None = None

    def __call__(
        self,
        config: MirrorSourceConfig,
        *,
        clock: Clock,
        task: int | str,
    ) -> FakeClusters:
        self.config, self.task = config, task
        return self

    def create_admin_clients(self) -> tuple[FakeAdmin, FakeAdmin]:
        made = FakeAdmin(self.source_cluster), FakeAdmin(self.target_cluster)
        self.admins_made.extend(made)
        return made

    def create_flow_state_store(
        self, partitions: Collection[TopicPartition], java: ReadJavaProgress
    ) -> FlowStateStore:
        assert self.config is not None
        log = FakeFlowStateLog(self.target_cluster, source_alias=self.config.common.source)
        self.ledgers.append(FlowStateStore(log, partitions=partitions, read_java_progress=java))
        return self.ledgers[-1]

    def create_lookup_of_reverse_flow_producers(self) -> ReverseFlowProducerLookup:
        return Source(self.source_cluster).ids()

    def create_offset_syncs_reader(self) -> FakeTail:
        return FakeTail(topic="syncs", log=self.syncs_log, failures=self.syncs_failures)

    def create_offset_syncs_writer(self) -> FakeWriter:
        return self.writer

    def get_source_cluster_access(self) -> ClusterAccess:
        return _access("A")

    def get_target_cluster_access(self) -> ClusterAccess:
        return _access("B")

    def get_operator_commands(self) -> OperatorCommands:
        return suggested_commands.GENERIC_COMMANDS


def _access(alias: str) -> ClusterAccess:
    return ClusterAccess(alias=alias, bootstrap=("b:1",), security={}, client_id=alias)
