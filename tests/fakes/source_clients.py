"""Two clusters in memory, for a source connector."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.config.mirror_connector_config import MirrorSourceConfig
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.connectors.java_reverse_flow_detector import (
    JavaReverseFlowDetector,
    ReverseFlowClusterClients,
)
from mm2.kafka.flow_state_topics import FlowStateTopics
from mm2.kafka.kafka_client_interfaces import Admin
from mm2.suggested_commands import OperatorCommands
from tests.fakes.acls import FakeAclCluster, FakeAcls
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.checkpoint_clients import FakeTail, Record
from tests.fakes.flow_log import FakeFlowStateLog

T = TypeVar("T")


@dataclass
class FakeClusters:
    """Implements `source_clients.Clients`, and makes itself: whatever is made is kept."""

    source: FakeCluster = field(default_factory=FakeCluster)
    target: FakeCluster = field(default_factory=FakeCluster)
    source_rights: FakeAclCluster = field(default_factory=FakeAclCluster)
    target_rights: FakeAclCluster = field(default_factory=FakeAclCluster)
    made: list[Any] = field(default_factory=list)
    config: MirrorSourceConfig | None = None
    gone: Callable[[], bool] = lambda: False

    def __call__(
        self,
        config: MirrorSourceConfig,
        *,
        clock: Clock,
        gone: Callable[[], bool],
    ) -> FakeClusters:
        self.config, self.clock, self.gone = config, clock, gone
        return self

    def create_source_admin(self) -> FakeAdmin:
        return self._kept(FakeAdmin(self.source))

    def create_target_admin(self) -> FakeAdmin:
        return self._kept(FakeAdmin(self.target))

    def create_offset_syncs_admin(self) -> FakeAdmin:
        assert self.config is not None
        assert self.config.syncs_topic is not None
        on = self.source if self.config.syncs_topic.on_source else self.target
        return self._kept(FakeAdmin(on))

    def create_source_acl_admin(self) -> FakeAcls:
        return self._kept(FakeAcls(self.source_rights))

    def create_target_acl_admin(self) -> FakeAcls:
        return self._kept(FakeAcls(self.target_rights))

    def create_flow_state_topics_client(self, target: Admin) -> FlowStateTopics:
        return FlowStateTopics(
            target=target, where="B", bootstrap="b:1", replication_factor=1, clock=self.clock
        )

    def create_flow_state_store(self, partitions: Collection[TopicPartition]) -> FlowStateStore:
        log = FakeFlowStateLog(self.target, source_alias="A")
        return FlowStateStore(log, partitions=partitions)

    def create_java_reverse_flow_detector(
        self, *, source: Admin, target: Admin
    ) -> JavaReverseFlowDetector:
        assert self.config is not None
        return JavaReverseFlowDetector(
            self.config.flow,
            source=self._looked_at(source, self.source),
            target=self._looked_at(target, self.target),
            syncs=None,
            clock=self.clock,
        )

    def _looked_at(self, asked: Admin, on: FakeCluster) -> ReverseFlowClusterClients:
        def tail(topic: str, partitions: int) -> FakeTail:
            assert on.topics[topic].partitions == partitions
            log: list[Record] = [*on.topics[topic].log]
            return self._kept(FakeTail(topic=topic, log=log, failures=[]))

        return ReverseFlowClusterClients(admin=asked, connect_tail=tail)

    def get_operator_commands(self) -> OperatorCommands:
        return suggested_commands.GENERIC_COMMANDS

    def all_closed(self) -> bool:
        return all(
            "close" in each.calls if isinstance(each, FakeAdmin) else each.closed
            for each in self.made
        )

    def _kept(self, made: T) -> T:
        self.made.append(made)
        return made
