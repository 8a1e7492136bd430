"""One cluster of a flow in memory: implements `looks.sides.OneSide`."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base import errors
from mm2.cluster import map_reader, record_writer
from mm2.formats import receipt
from tests.fakes import admin, groups, logs, state_topics


@dataclass
class WritingWriter:
    """A `record_writer.RecordWriter` whose records stand when it is polled; `refusal`: none
    does."""

    topics: state_topics.FakeStateTopics
    topic: str
    refusal: errors.ConnectError | None = None
    waiting: list[tuple[bytes, bytes, record_writer.OnWritten]] = field(default_factory=list)

    def write(self, key: bytes, value: bytes, *, on_written: record_writer.OnWritten) -> None:
        self.waiting.append((key, value, on_written))

    def poll(self, timeout_s: float) -> None:
        waiting, self.waiting = self.waiting, []
        for key, value, on_written in waiting:
            if self.refusal is None:
                self.topics.topics[self.topic] = [*self.topics.topics[self.topic], (key, value)]
            on_written(self.refusal)

    def close(self, timeout_s: float) -> None:
        assert not self.waiting


@dataclass
class FakeSide:
    """`refusal`: what is told of all that is written."""

    alias: str
    cluster: admin.FakeCluster = field(default_factory=admin.FakeCluster)
    group_cluster: groups.FakeGroupCluster = field(default_factory=groups.FakeGroupCluster)
    logs: logs.FakeLogs = field(default_factory=lambda: logs.FakeLogs({}))
    topics: state_topics.FakeStateTopics = field(default_factory=state_topics.FakeStateTopics)
    refusal: errors.ConnectError | None = None

    @property
    def admin(self) -> admin.FakeAdmin:
        return admin.FakeAdmin(self.cluster)

    @property
    def groups(self) -> groups.FakeGroups:
        return groups.FakeGroups(self.group_cluster)

    def writer(self, topic: str) -> record_writer.RecordWriter:
        return WritingWriter(self.topics, topic, refusal=self.refusal)

    def receipts(self, topic: str) -> list[receipt.Receipt]:
        """All that the topic has, none where there is no such topic."""
        return [
            receipt.decode(key or b"", value or b"")
            for key, value in self.topics.topics.get(topic, ())
        ]

    def map_reader(self, source_alias: str) -> map_reader.MapReader:
        raise NotImplementedError(source_alias)
