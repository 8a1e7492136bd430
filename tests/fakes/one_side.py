"""One cluster of a flow in memory: implements `looks.sides.OneSide`."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base.errors import ConnectError
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident
from mm2.kafka.kafka_client_interfaces import OnWritten, RecordWriter
from mm2.kafka.offset_map_reader import OffsetMapReader
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.groups import FakeGroupCluster, FakeGroups
from tests.fakes.logs import FakeLogs
from tests.fakes.state_topics import FakeStateTopics


@dataclass
class WritingWriter:
    """A `RecordWriter` whose records stand when it is polled; `refusal`: none
    does."""

    topics: FakeStateTopics
    topic: str
    refusal: ConnectError | None = None
    waiting: list[tuple[bytes, bytes, OnWritten]] = field(default_factory=list)

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
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
    cluster: FakeCluster = field(default_factory=FakeCluster)
    group_cluster: FakeGroupCluster = field(default_factory=FakeGroupCluster)
    logs: FakeLogs = field(default_factory=lambda: FakeLogs({}))
    topics: FakeStateTopics = field(default_factory=FakeStateTopics)
    refusal: ConnectError | None = None

    @property
    def admin(self) -> FakeAdmin:
        return FakeAdmin(self.cluster)

    @property
    def groups(self) -> FakeGroups:
        return FakeGroups(self.group_cluster)

    def create_writer(self, topic: str) -> RecordWriter:
        return WritingWriter(self.topics, topic, refusal=self.refusal)

    def incidents(self, topic: str) -> list[Incident]:
        """All that the topic has, none where there is no such topic."""
        return [
            incident_records.decode_incident(key or b"", value or b"")
            for key, value in self.topics.topics.get(topic, ())
        ]

    def open_offset_map_reader(self, source_alias: str) -> OffsetMapReader:
        raise NotImplementedError(source_alias)
