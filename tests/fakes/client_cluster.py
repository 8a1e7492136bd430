"""A cluster in memory as translating offsets asks it (`clusters.Cluster`)."""

from __future__ import annotations

from connect_runtime.base import errors
from mm2.cluster import state_topics as state_topics_port
from tests.fakes import groups, logs, state_topics


class FakeTail:
    def __init__(self, topics: state_topics.FakeStateTopics, topic: str) -> None:
        self._topics = topics
        self._topic = topic
        self._next = 0
        self.closed = False

    def read_to_end(self, timeout_s: float) -> list[state_topics_port.TopicRecord]:
        assert not self.closed
        found = self._topics.read_topic(self._topic, timeout_s)[self._next :]
        self._next += len(found)
        return found

    def feed_to_end(self, timeout_s: float, take: state_topics_port.Take) -> None:
        for each in self.read_to_end(timeout_s):
            take(each)

    def close(self) -> None:
        self.closed = True


class FakeCluster:
    """What `group_cluster`, `topics` and `logs` hold; `tails` are those that were opened."""

    def __init__(self) -> None:
        self.group_cluster = groups.FakeGroupCluster()
        self.groups = groups.FakeGroups(self.group_cluster)
        self.topics = state_topics.FakeStateTopics()
        self.logs = logs.FakeLogs({})
        self.tails: list[FakeTail] = []
        self.closed = False

    def fail(self, error: errors.ConnectError | None) -> None:
        """What every question answers from now on."""
        self.topics.failure = error
        self.group_cluster.failure = error
        self.logs.failure = error

    def tail(self, topic: str) -> state_topics_port.TopicTail:
        self.tails.append(FakeTail(self.topics, topic))
        return self.tails[-1]

    def close(self) -> None:
        self.closed = True
