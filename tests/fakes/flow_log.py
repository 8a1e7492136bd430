"""A `flow_log.FlowLog` in memory, over the topics of a `FakeCluster`.

Records reach the log, and their callbacks run, in `poll`: what a test has not polled is not
recorded. While the cluster is away records wait.
"""

from __future__ import annotations

from collections import deque

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from mm2.cluster import errors as cluster_errors
from mm2.cluster import flow_log, flow_log_topics, flow_log_writer
from tests.fakes import admin


class FakeFlowLog:
    """Implements `flow_log.FlowLog`. Logs that share a cluster and alias share their records."""

    def __init__(
        self,
        cluster: admin.FakeCluster,
        *,
        source_alias: str,
        bounds: flow_log_writer.Bounds = flow_log_writer.DEFAULT_BOUNDS,
        max_record_bytes: int = 1 << 20,
    ) -> None:
        self._cluster = cluster
        self._names = flow_log.topic_names(source_alias)
        self._bounds = bounds
        self._max_record_bytes = max_record_bytes
        self._waiting: deque[tuple[flow_log.LogTopic, bytes, bytes | None, flow_log.OnRecorded]] = (
            deque()
        )
        self._broken: errors.ConnectError | None = None
        self._positions: dict[flow_log.LogTopic, int] = {}
        self._ids: dict[flow_log.LogTopic, object] = {}
        self._opened = False

    def open(self, timeout_s: float) -> None:
        self.close(0.0)
        topics = flow_log_topics.LogTopics(
            target=admin.FakeAdmin(self._cluster),
            where="fake",
            bootstrap="fake:9092",
            replication_factor=1,
            clock=clock.SystemClock(),
        )
        topics.ensure(list(self._names.values()), timeout_s)
        self._broken = None
        self._positions = dict.fromkeys(flow_log.LogTopic, 0)
        self._ids = {
            topic: self._cluster.topics[name].topic_id for topic, name in self._names.items()
        }
        self._opened = True

    def append(
        self,
        topic: flow_log.LogTopic,
        key: bytes,
        value: bytes | None,
        *,
        on_recorded: flow_log.OnRecorded,
    ) -> None:
        assert self._opened, "open the flow log first"
        if self._broken is not None:
            raise cluster_errors.FlowLogBrokenError(str(self._broken))
        size = sum(len(key) + len(value or b"") for _, key, value, _ in self._waiting)
        size += len(key) + len(value or b"")
        full = len(self._waiting) >= self._bounds.records or size > self._bounds.bytes
        if full and self._waiting:
            raise cluster_errors.FlowLogFullError("too many records wait")
        self._waiting.append((topic, key, value, on_recorded))

    def poll(self, timeout_s: float) -> int:
        assert self._opened, "open the flow log first"
        ran = 0
        while self._waiting and not self._cluster.away:
            ran += 1
            topic, key, value, on_recorded = self._waiting.popleft()
            on_recorded(self._record(topic, key, value))
        return ran

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def read_to_end(self, timeout_s: float) -> list[flow_log.LogRecord]:
        assert self._opened, "open the flow log first"
        if self._cluster.away:
            raise kafka_errors.UnreachableError("reading: nobody answers")
        found: list[flow_log.LogRecord] = []
        for topic in flow_log.LogTopic:
            self._check_same(topic)
            records = self._cluster.topics[self._names[topic]].log
            for offset in range(self._positions[topic], len(records)):
                key, value = records[offset]
                record = flow_log.LogRecord(topic=topic, offset=offset, key=key, value=value)
                found.append(record)
            self._positions[topic] = len(records)
        return found

    def close(self, timeout_s: float) -> None:
        if not self._opened:
            return
        self.poll(0.0)
        self._opened = False
        left = errors.RetriableError(f"closed before {len(self._waiting)} records were recorded")
        while self._waiting:
            *_, on_recorded = self._waiting.popleft()
            on_recorded(left)

    def _record(
        self, topic: flow_log.LogTopic, key: bytes, value: bytes | None
    ) -> errors.ConnectError | None:
        if self._broken is not None:
            return cluster_errors.FlowLogBrokenError(f"behind a failed record: {self._broken}")
        try:
            self._check_same(topic)
            if len(key) + len(value or b"") > self._max_record_bytes:
                raise errors.FatalError("record too large; raise max.message.bytes of the topic")
        except errors.ConnectError as error:
            self._broken = error
            return error
        self._cluster.topics[self._names[topic]].log.append((key, value))
        return None

    def _check_same(self, topic: flow_log.LogTopic) -> None:
        name = self._names[topic]
        if name not in self._cluster.topics:
            raise kafka_errors.TopicMissingError(f"topic {name} does not exist")
        if self._cluster.topics[name].topic_id != self._ids[topic]:
            raise cluster_errors.LogTruncatedError(f"topic {name} was made again")
