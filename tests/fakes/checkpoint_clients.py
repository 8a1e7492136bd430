"""Two clusters in memory, for a checkpoint connector and its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import state_topics
from mm2.core.configs import connector_configs
from mm2.formats import offset_sync
from tests.fakes import admin as fake_admin
from tests.fakes import groups as fake_groups
from tests.fakes import logs as fake_logs

T = TypeVar("T")

Record = tuple[bytes | None, bytes | None]


@dataclass
class FakeTail:
    """Implements `state_topics.TopicTail`. `failures` are raised first, one a call."""

    topic: str
    log: list[Record]
    failures: list[errors.ConnectError]
    at: int = 0
    closed: bool = False

    def read_to_end(self, timeout_s: float) -> list[state_topics.TopicRecord]:
        assert not self.closed
        if self.failures:
            raise self.failures.pop(0)
        found = [
            state_topics.TopicRecord(topic=self.topic, offset=offset, key=key, value=value)
            for offset, (key, value) in enumerate(self.log[self.at :], start=self.at)
        ]
        self.at = len(self.log)
        return found

    def feed_to_end(self, timeout_s: float, take: state_topics.Take) -> None:
        for each in self.read_to_end(timeout_s):
            take(each)

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeClusters:
    """Implements `checkpoint_clients.Clients`, and makes itself: whatever is made is kept.

    `checkpoints_log`, `map_log` None: there is no such topic. `…_failures`: what reading answers
    first.
    """

    source: fake_groups.FakeGroupCluster = field(default_factory=fake_groups.FakeGroupCluster)
    target: fake_groups.FakeGroupCluster = field(default_factory=fake_groups.FakeGroupCluster)
    target_topics: fake_admin.FakeCluster = field(default_factory=fake_admin.FakeCluster)
    target_ends: dict[ids.TopicPartition, fake_logs.FakeLog] = field(default_factory=dict)
    syncs_log: list[Record] = field(default_factory=list)
    syncs_failures: list[errors.ConnectError] = field(default_factory=list)
    checkpoints_log: list[Record] | None = field(default_factory=list)
    checkpoints_failures: list[errors.ConnectError] = field(default_factory=list)
    map_log: list[Record] | None = None
    map_failures: list[errors.ConnectError] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    task: int | str | None = None
    gone: Callable[[], bool] = lambda: False

    def __call__(
        self,
        config: connector_configs.CheckpointConfig,
        *,
        clock: object,
        gone: Callable[[], bool],
        task: int | str | None = None,
    ) -> FakeClusters:
        self.gone, self.task = gone, task
        return self

    def synced(self, partition: ids.TopicPartition, upstream: int, downstream: int) -> None:
        sync = offset_sync.OffsetSync(partition=partition, upstream=upstream, downstream=downstream)
        self.syncs_log.append(offset_sync.encode(sync))

    def source_groups(self) -> fake_groups.FakeGroups:
        return self._kept(fake_groups.FakeGroups(self.source))

    def target_groups(self) -> fake_groups.FakeGroups:
        return self._kept(fake_groups.FakeGroups(self.target))

    def target_admin(self) -> fake_admin.FakeAdmin:
        return self._kept(fake_admin.FakeAdmin(self.target_topics))

    def target_logs(self) -> fake_logs.FakeLogs:
        return self._kept(fake_logs.FakeLogs(self.target_ends))

    def offset_syncs(self) -> FakeTail:
        return self._kept(FakeTail("syncs", self.syncs_log, self.syncs_failures))

    def checkpoints(self) -> FakeTail:
        return self._tail("checkpoints", self.checkpoints_log, self.checkpoints_failures)

    def offset_map(self) -> FakeTail:
        return self._tail("map", self.map_log, self.map_failures)

    def _tail(
        self, name: str, log: list[Record] | None, failures: list[errors.ConnectError]
    ) -> FakeTail:
        if log is None:
            missing = kafka_errors.TopicMissingError(f"reading {name}: there is no topic")
            failures = [missing] * 1_000
        return self._kept(FakeTail(name, [] if log is None else log, failures))

    def all_closed(self) -> bool:
        return all(getattr(each, "closed", True) for each in self.made)

    def _kept(self, made: T) -> T:
        self.made.append(made)
        return made
