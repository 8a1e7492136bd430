"""Two clusters in memory, for a MirrorSourceTask."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from mm2.cluster import record_writer
from mm2.connectors.share import flow_ledger, opposite_ids
from mm2.core import commands
from mm2.core.configs import connector_configs
from mm2.core.copy import messages
from mm2.formats import offset_sync
from tests.fakes import admin, checkpoint_clients, flow_log, opposite


@dataclass
class FakeWriter:
    """Implements `record_writer.RecordWriter`: what was written is answered in `poll`."""

    written: list[offset_sync.OffsetSync] = field(default_factory=list)
    waiting: list[record_writer.OnWritten] = field(default_factory=list)
    failure: errors.ConnectError | None = None
    silent: bool = False
    closed: bool = False

    def write(self, key: bytes, value: bytes, *, on_written: record_writer.OnWritten) -> None:
        assert not self.closed
        self.written.append(offset_sync.decode(key, value))
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
    """Implements `task_clients.Clients`, and makes itself."""

    source_cluster: admin.FakeCluster = field(default_factory=admin.FakeCluster)
    target_cluster: admin.FakeCluster = field(default_factory=admin.FakeCluster)
    syncs_log: list[checkpoint_clients.Record] = field(default_factory=list)
    syncs_failures: list[errors.ConnectError] = field(default_factory=list)
    writer: FakeWriter = field(default_factory=FakeWriter)
    task: int | str = "?"
    admins_made: list[admin.FakeAdmin] = field(default_factory=list)
    ledgers: list[flow_ledger.FlowLedger] = field(default_factory=list)
    config: connector_configs.SourceConfig | None = None

    def __call__(
        self,
        config: connector_configs.SourceConfig,
        *,
        clock: base_clock.Clock,
        task: int | str,
    ) -> FakeClusters:
        self.config, self.task = config, task
        return self

    def admins(self) -> tuple[admin.FakeAdmin, admin.FakeAdmin]:
        made = admin.FakeAdmin(self.source_cluster), admin.FakeAdmin(self.target_cluster)
        self.admins_made.extend(made)
        return made

    def ledger(
        self, share: Collection[ids.TopicPartition], java: flow_ledger.ReadJava
    ) -> flow_ledger.FlowLedger:
        assert self.config is not None
        log = flow_log.FakeFlowLog(self.target_cluster, source_alias=self.config.common.source)
        self.ledgers.append(flow_ledger.FlowLedger(log, share=share, java=java))
        return self.ledgers[-1]

    def opposite(self) -> opposite_ids.OppositeIds:
        return opposite.Source(self.source_cluster).ids()

    def syncs(self) -> checkpoint_clients.FakeTail:
        return checkpoint_clients.FakeTail(
            topic="syncs", log=self.syncs_log, failures=self.syncs_failures
        )

    def sync_writer(self) -> FakeWriter:
        return self.writer

    def source(self) -> messages.ClusterAccess:
        return _access("A")

    def target(self) -> messages.ClusterAccess:
        return _access("B")

    def operator(self) -> commands.Operator:
        return commands.NOBODY


def _access(alias: str) -> messages.ClusterAccess:
    return messages.ClusterAccess(alias=alias, bootstrap=("b:1",), security={}, client_id=alias)
