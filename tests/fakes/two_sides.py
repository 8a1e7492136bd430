"""The two clusters of a flow in memory, as commands look at them: a `sides.TwoSides`."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.kafka.kafka_client_interfaces import RecordHandler, TopicRecord
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.groups import FakeGroupCluster, FakeGroups
from tests.fakes.logs import FakeLog, FakeLogs
from tests.fakes.state_topics import FakeStateTopics


@dataclass
class _Tail:
    """All of the topic, each time that is not already read."""

    topics: FakeStateTopics
    topic: str
    read: int = 0

    def read_to_end(self, timeout_s: float, take: RecordHandler) -> None:
        found: list[TopicRecord] = []
        self.topics.read_topic(self.topic, timeout_s, found.append)
        for each in found[self.read :]:
            take(each)
            self.read += 1

    def close(self) -> None:
        pass


class FakeSide:
    """One cluster; tests change what stands behind its clients."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.cluster = FakeCluster()
        self.members = FakeGroupCluster()
        self.admin = FakeAdmin(self.cluster)
        self.groups = FakeGroups(self.members)
        self.logs = FakeLogs({})
        self.topics = FakeStateTopics()

    def open_offset_map_reader(self, source_alias: str) -> OffsetMapReader:
        topic = replication_policy.format_offset_map_topic(source_alias)
        return OffsetMapReader(lambda: _Tail(self.topics, topic), where=self.alias)

    def log(self, topic: str, records: int, *, partition: int = 0, pending: int = 0) -> None:
        """The topic holds so many records, `pending` of them in a transaction that is open."""
        if topic not in self.cluster.topics:
            self.cluster.create(topic)
        place = TopicPartition(topic, partition)
        self.logs.logs[place] = FakeLog(times_ms=[1_000] * records, pending=pending)


@dataclass
class FakeSides:
    flow: Flow
    source: FakeSide = field(init=False)
    target: FakeSide = field(init=False)

    def __post_init__(self) -> None:
        self.source = FakeSide(self.flow.source)
        self.target = FakeSide(self.flow.target)
