"""A cluster in memory as translating offsets asks it (`clusters.Cluster`)."""

from __future__ import annotations

from connect_runtime.base.errors import ConnectError
from mm2.kafka.kafka_client_interfaces import RecordHandler, TopicRecord, TopicTail
from tests.fakes.groups import FakeGroupCluster, FakeGroups
from tests.fakes.logs import FakeLogs
from tests.fakes.state_topics import FakeStateTopics


class FakeTail:
    def __init__(self, topics: FakeStateTopics, topic: str) -> None:
        self._topics = topics
        self._topic = topic
        self._next = 0
        self.closed = False

    def read_to_end(self, timeout_s: float, take: RecordHandler) -> None:
        assert not self.closed
        found: list[TopicRecord] = []
        self._topics.read_topic(self._topic, timeout_s, found.append)
        for each in found[self._next :]:
            take(each)
            self._next += 1

    def close(self) -> None:
        self.closed = True


class FakeCluster:
    """What `group_cluster`, `topics` and `logs` hold; `tails` are those that were opened."""

    def __init__(self) -> None:
        self.group_cluster = FakeGroupCluster()
        self.groups = FakeGroups(self.group_cluster)
        self.topics = FakeStateTopics()
        self.logs = FakeLogs({})
        self.tails: list[FakeTail] = []
        self.closed = False

    def fail(self, error: ConnectError | None) -> None:
        """What every question answers from now on."""
        self.topics.failure = error
        self.group_cluster.failure = error
        self.logs.failure = error

    def open_new_record_reader(self, topic: str) -> TopicTail:
        self.tails.append(FakeTail(self.topics, topic))
        return self.tails[-1]

    def close(self) -> None:
        self.closed = True
