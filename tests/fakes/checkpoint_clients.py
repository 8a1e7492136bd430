"""Two clusters in memory, for a checkpoint connector and its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.config.mirror_connector_config import MirrorCheckpointConfig
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.kafka_client_interfaces import RecordHandler, TopicRecord
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.groups import FakeGroupCluster, FakeGroups
from tests.fakes.logs import FakeLog, FakeLogs

T = TypeVar("T")

Record = tuple[bytes | None, bytes | None]


@dataclass
class FakeTail:
    """Implements `TopicTail`. `failures` are raised first, one a call."""

    topic: str
    log: list[Record]
    failures: list[ConnectError]
    at: int = 0
    closed: bool = False

    def read_to_end(self, timeout_s: float, take: RecordHandler) -> None:
        assert not self.closed
        if self.failures:
            raise self.failures.pop(0)
        for offset, (key, value) in enumerate(self.log[self.at :], start=self.at):
            take(TopicRecord(topic=self.topic, offset=offset, key=key, value=value))
            self.at = offset + 1

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeClusters:
    """Implements `checkpoint_clients.Clients`, and makes itself: whatever is made is kept.

    `checkpoints_log`, `map_log` None: there is no such topic. `…_failures`: what reading answers
    first.
    """

    source: FakeGroupCluster = field(default_factory=FakeGroupCluster)
    target: FakeGroupCluster = field(default_factory=FakeGroupCluster)
    target_topics: FakeCluster = field(default_factory=FakeCluster)
    target_ends: dict[TopicPartition, FakeLog] = field(default_factory=dict)
    syncs_log: list[Record] = field(default_factory=list)
    syncs_failures: list[ConnectError] = field(default_factory=list)
    checkpoints_log: list[Record] | None = field(default_factory=list)
    checkpoints_failures: list[ConnectError] = field(default_factory=list)
    map_log: list[Record] | None = None
    map_failures: list[ConnectError] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    task: int | str | None = None
    gone: Callable[[], bool] = lambda: False

    def __call__(
        self,
        config: MirrorCheckpointConfig,
        *,
        clock: object,
        gone: Callable[[], bool],
        task: int | str | None = None,
    ) -> FakeClusters:
        self.gone, self.task = gone, task
        return self

    def synced(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        sync = OffsetSync(partition=partition, upstream=upstream, downstream=downstream)
        self.syncs_log.append(mirrormaker2_records.encode_offset_sync(sync))

    def create_source_groups_client(self) -> FakeGroups:
        return self._kept(FakeGroups(self.source))

    def create_target_groups_client(self) -> FakeGroups:
        return self._kept(FakeGroups(self.target))

    def create_target_admin(self) -> FakeAdmin:
        return self._kept(FakeAdmin(self.target_topics))

    def create_target_log_offsets_client(self) -> FakeLogs:
        return self._kept(FakeLogs(self.target_ends))

    def create_offset_syncs_reader(self) -> FakeTail:
        return self._kept(FakeTail("syncs", self.syncs_log, self.syncs_failures))

    def create_checkpoints_reader(self) -> FakeTail:
        return self._tail("checkpoints", self.checkpoints_log, self.checkpoints_failures)

    def create_offset_map_reader(self) -> FakeTail:
        return self._tail("map", self.map_log, self.map_failures)

    def _tail(self, name: str, log: list[Record] | None, failures: list[ConnectError]) -> FakeTail:
        if log is None:
            missing = TopicMissingError(f"reading {name}: there is no topic")
            failures = [missing] * 1_000
        return self._kept(FakeTail(name, [] if log is None else log, failures))

    def all_closed(self) -> bool:
        return all(getattr(each, "closed", True) for each in self.made)

    def _kept(self, made: T) -> T:
        self.made.append(made)
        return made
