"""Two clusters in memory, for a source connector."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from mm2.cluster import admin, flow_log_topics
from mm2.connectors.share import flow_ledger
from mm2.connectors.source import java_way_back
from mm2.core import commands
from mm2.core.configs import connector_configs
from tests.fakes import acls as fake_acls
from tests.fakes import admin as fake_admin
from tests.fakes import checkpoint_clients as fake_checkpoints
from tests.fakes import flow_log as fake_flow_log

T = TypeVar("T")


@dataclass
class FakeClusters:
    """Implements `source_clients.Clients`, and makes itself: whatever is made is kept."""

    source: fake_admin.FakeCluster = field(default_factory=fake_admin.FakeCluster)
    target: fake_admin.FakeCluster = field(default_factory=fake_admin.FakeCluster)
    source_rights: fake_acls.FakeAclCluster = field(default_factory=fake_acls.FakeAclCluster)
    target_rights: fake_acls.FakeAclCluster = field(default_factory=fake_acls.FakeAclCluster)
    made: list[Any] = field(default_factory=list)
    config: connector_configs.SourceConfig | None = None
    gone: Callable[[], bool] = lambda: False

    def __call__(
        self,
        config: connector_configs.SourceConfig,
        *,
        clock: base_clock.Clock,
        gone: Callable[[], bool],
    ) -> FakeClusters:
        self.config, self.clock, self.gone = config, clock, gone
        return self

    def source_admin(self) -> fake_admin.FakeAdmin:
        return self._kept(fake_admin.FakeAdmin(self.source))

    def target_admin(self) -> fake_admin.FakeAdmin:
        return self._kept(fake_admin.FakeAdmin(self.target))

    def syncs_admin(self) -> fake_admin.FakeAdmin:
        assert self.config is not None
        assert self.config.syncs_topic is not None
        on = self.source if self.config.syncs_topic.on_source else self.target
        return self._kept(fake_admin.FakeAdmin(on))

    def source_acls(self) -> fake_acls.FakeAcls:
        return self._kept(fake_acls.FakeAcls(self.source_rights))

    def target_acls(self) -> fake_acls.FakeAcls:
        return self._kept(fake_acls.FakeAcls(self.target_rights))

    def log_topics(self, target: admin.Admin) -> flow_log_topics.LogTopics:
        return flow_log_topics.LogTopics(
            target=target, where="B", bootstrap="b:1", replication_factor=1, clock=self.clock
        )

    def ledger(self, share: Collection[ids.TopicPartition]) -> flow_ledger.FlowLedger:
        log = fake_flow_log.FakeFlowLog(self.target, source_alias="A")
        return flow_ledger.FlowLedger(log, share=share)

    def way_back(self, *, source: admin.Admin, target: admin.Admin) -> java_way_back.JavaWayBack:
        assert self.config is not None
        return java_way_back.JavaWayBack(
            self.config.flow,
            source=self._looked_at(source, self.source),
            target=self._looked_at(target, self.target),
            syncs=None,
            clock=self.clock,
        )

    def _looked_at(self, asked: admin.Admin, on: fake_admin.FakeCluster) -> java_way_back.Cluster:
        def tail(topic: str, partitions: int) -> fake_checkpoints.FakeTail:
            assert on.topics[topic].partitions == partitions
            log: list[fake_checkpoints.Record] = [*on.topics[topic].log]
            return self._kept(fake_checkpoints.FakeTail(topic=topic, log=log, failures=[]))

        return java_way_back.Cluster(asked=asked, connect_tail=tail)

    def operator(self) -> commands.Operator:
        return commands.NOBODY

    def all_closed(self) -> bool:
        return all(
            "close" in each.calls if isinstance(each, fake_admin.FakeAdmin) else each.closed
            for each in self.made
        )

    def _kept(self, made: T) -> T:
        self.made.append(made)
        return made
