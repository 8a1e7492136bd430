"""A `flow_log.FlowStateLog` in memory, over the topics of a `FakeCluster`.

Records reach the log, and their callbacks run, in `poll`: what a test has not polled is not
recorded. While the cluster is away records wait.
"""

from __future__ import annotations

from collections import deque

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka.client_errors import TopicMissingError, UnreachableError
from connect_runtime.system.system_clock import SystemClock
from mm2.kafka import flow_state_log_writer, kafka_client_interfaces
from mm2.kafka.flow_state_log_writer import UnacknowledgedRecordLimits
from mm2.kafka.flow_state_topics import FlowStateTopics
from mm2.kafka.kafka_client_interfaces import (
    FlowStateLogBrokenError,
    FlowStateLogFullError,
    FlowStateTopic,
    LogTruncatedError,
    OnRecorded,
    StoredLogRecord,
    StoredRecordHandler,
)
from tests.fakes.admin import FakeAdmin, FakeCluster


class FakeFlowStateLog:
    """Implements `FlowStateLog`. Logs that share a cluster and alias share their records."""

    def __init__(
        self,
        cluster: FakeCluster,
        *,
        source_alias: str,
        bounds: UnacknowledgedRecordLimits = flow_state_log_writer.DEFAULT_UNACKNOWLEDGED_LIMITS,
        max_record_bytes: int = 1 << 20,
    ) -> None:
        self._cluster = cluster
        self._names = kafka_client_interfaces.build_flow_state_topic_names(source_alias)
        self._bounds = bounds
        self._max_record_bytes = max_record_bytes
        self._waiting: deque[tuple[FlowStateTopic, bytes, bytes | None, OnRecorded]] = deque()
        self._broken: ConnectError | None = None
        self._positions: dict[FlowStateTopic, int] = {}
        self._ids: dict[FlowStateTopic, object] = {}
        self._opened = False

    def open(self, timeout_s: float) -> None:
        self.close(0.0)
        topics = FlowStateTopics(
            target=FakeAdmin(self._cluster),
            where="fake",
            bootstrap="fake:9092",
            replication_factor=1,
            clock=SystemClock(),
        )
        topics.ensure_topics(list(self._names.values()), timeout_s)
        self._broken = None
        self._positions = dict.fromkeys(FlowStateTopic, 0)
        self._ids = {
            topic: self._cluster.topics[name].topic_id for topic, name in self._names.items()
        }
        self._opened = True

    def append(
        self,
        topic: FlowStateTopic,
        key: bytes,
        value: bytes | None,
        *,
        on_recorded: OnRecorded,
    ) -> None:
        assert self._opened, "open the flow log first"
        if self._broken is not None:
            raise FlowStateLogBrokenError(str(self._broken))
        size = sum(len(key) + len(value or b"") for _, key, value, _ in self._waiting)
        size += len(key) + len(value or b"")
        full = len(self._waiting) >= self._bounds.records or size > self._bounds.bytes
        if full and self._waiting:
            raise FlowStateLogFullError("too many records wait")
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
    def pending_record_count(self) -> int:
        return len(self._waiting)

    def read_to_end(self, timeout_s: float, take: StoredRecordHandler) -> None:
        assert self._opened, "open the flow log first"
        if self._cluster.away:
            raise UnreachableError("reading: nobody answers")
        for topic in FlowStateTopic:
            self._check_same(topic)
            records = self._cluster.topics[self._names[topic]].log
            for offset in range(self._positions[topic], len(records)):
                key, value = records[offset]
                take(StoredLogRecord(topic=topic, offset=offset, key=key, value=value))
                self._positions[topic] = offset + 1

    def close(self, timeout_s: float) -> None:
        if not self._opened:
            return
        self.poll(0.0)
        self._opened = False
        left = RetriableError(f"closed before {len(self._waiting)} records were recorded")
        while self._waiting:
            *_, on_recorded = self._waiting.popleft()
            on_recorded(left)

    def _record(
        self, topic: FlowStateTopic, key: bytes, value: bytes | None
    ) -> ConnectError | None:
        if self._broken is not None:
            return FlowStateLogBrokenError(f"behind a failed record: {self._broken}")
        try:
            self._check_same(topic)
            if len(key) + len(value or b"") > self._max_record_bytes:
                raise FatalError("record too large; raise the topic's max.message.bytes")
        except ConnectError as error:
            self._broken = error
            return error
        self._cluster.topics[self._names[topic]].log.append((key, value))
        return None

    def _check_same(self, topic: FlowStateTopic) -> None:
        name = self._names[topic]
        if name not in self._cluster.topics:
            raise TopicMissingError(f"topic {name} does not exist")
        if self._cluster.topics[name].topic_id != self._ids[topic]:
            raise LogTruncatedError(f"topic {name} was made again")
