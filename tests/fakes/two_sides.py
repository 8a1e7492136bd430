"""The two clusters of a flow in memory, as commands look at them: a `sides.TwoSides`."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.cluster import map_reader, state_topics
from mm2.core import flows, naming
from tests.fakes import admin, groups, logs
from tests.fakes import state_topics as fake_topics


@dataclass
class _Tail:
    """All of the topic, each time that is not already read."""

    topics: fake_topics.FakeStateTopics
    topic: str
    read: int = 0

    def read_to_end(self, timeout_s: float) -> list[state_topics.TopicRecord]:
        found = self.topics.read_topic(self.topic, timeout_s)[self.read :]
        self.read += len(found)
        return found

    def feed_to_end(self, timeout_s: float, take: state_topics.Take) -> None:
        for each in self.read_to_end(timeout_s):
            take(each)

    def close(self) -> None:
        pass


class FakeSide:
    """One cluster; tests change what stands behind its clients."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.cluster = admin.FakeCluster()
        self.members = groups.FakeGroupCluster()
        self.admin = admin.FakeAdmin(self.cluster)
        self.groups = groups.FakeGroups(self.members)
        self.logs = logs.FakeLogs({})
        self.topics = fake_topics.FakeStateTopics()

    def map_reader(self, source_alias: str) -> map_reader.MapReader:
        topic = naming.map_topic(source_alias)
        return map_reader.MapReader(lambda: _Tail(self.topics, topic), where=self.alias)

    def log(self, topic: str, records: int, *, partition: int = 0, pending: int = 0) -> None:
        """The topic holds so many records, `pending` of them in a transaction that is open."""
        if topic not in self.cluster.topics:
            self.cluster.create(topic)
        place = ids.TopicPartition(topic, partition)
        self.logs.logs[place] = logs.FakeLog(times_ms=[1_000] * records, pending=pending)


@dataclass
class FakeSides:
    flow: flows.Flow
    source: FakeSide = field(init=False)
    target: FakeSide = field(init=False)

    def __post_init__(self) -> None:
        self.source = FakeSide(self.flow.source)
        self.target = FakeSide(self.flow.target)
