"""Kafka clients of tasks in memory, statuses that are kept, plugins by name."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api.errors import ConfigError, ConnectError
from connect_runtime.api.plugin_context import LastTaskRuns
from connect_runtime.api.records import RecordMetadata, TimestampType
from connect_runtime.base.ids import TopicPartition
from connect_runtime.plugins.header_converter import SimpleHeaderConverter
from connect_runtime.plugins.plugin_aliases import InstalledPlugin, Kind
from connect_runtime.plugins.simple_converters import ByteArrayConverter, StringConverter
from connect_runtime.storage.status_records import RunStatus, StatusSubject, TopicStatus
from connect_runtime.worker.task_client_interfaces import (
    ConsumerRecord,
    OnDelivered,
    ProducerRecord,
)


class Membership:
    """Implements `ports.worker.Membership`: of a group that has just answered, `asked` how often
    it was to be soon."""

    session_timeout_s = 10.0

    def __init__(self) -> None:
        self.confirmed_s = 0.0
        self.asked = 0

    def get_last_heartbeat_s(self) -> float:
        return self.confirmed_s

    def request_heartbeat(self) -> None:
        self.asked += 1


@dataclass
class Producer:
    """Implements `RecordProducer`. `refusals` are raised by the next sends, `failures`
    are what the next ones come to; `held`: nobody is told before `release`."""

    sent: list[ProducerRecord] = field(default_factory=list)
    refusals: deque[Exception] = field(default_factory=deque)
    failures: deque[ConnectError] = field(default_factory=deque)
    held: bool = False
    waiting: deque[tuple[ProducerRecord, OnDelivered]] = field(default_factory=deque)
    closed: list[float] = field(default_factory=list)

    def send(self, record: ProducerRecord, *, on_delivered: OnDelivered) -> None:
        if self.refusals:
            raise self.refusals.popleft()
        self.sent.append(record)
        if self.held:
            self.waiting.append((record, on_delivered))
        else:
            self._answer(record, on_delivered)

    def release(self, count: int = 1) -> None:
        for _ in range(count):
            self._answer(*self.waiting.popleft())

    def flush(self, timeout_s: float) -> bool:
        return not self.waiting

    def close(self, timeout_s: float) -> None:
        self.closed.append(timeout_s)

    def _answer(self, record: ProducerRecord, on_delivered: OnDelivered) -> None:
        if self.failures:
            on_delivered(None, self.failures.popleft())
            return
        found = RecordMetadata(topic=record.topic, partition=0, offset=len(self.sent))
        on_delivered(found, None)


@dataclass
class Consumer:
    """Implements `RecordConsumer`. `script`: what the next polls do, each a list of
    records or a call; `begins`: where partitions begin."""

    begins: dict[TopicPartition, int] = field(default_factory=dict)
    script: deque[Any] = field(default_factory=deque)
    topics: Any = None
    listener: Any = None
    sought: list[dict[TopicPartition, int]] = field(default_factory=list)
    paused: set[TopicPartition] = field(default_factory=set)
    committed: list[dict[TopicPartition, int]] = field(default_factory=list)
    commit_errors: deque[ConnectError] = field(default_factory=deque)
    closed: bool = False
    revoked_at_close: list[TopicPartition] = field(default_factory=list)

    def subscribe(self, topics, listener) -> None:
        self.topics, self.listener = topics, listener

    def poll(self, timeout_s):
        if not self.script:
            return []
        step = self.script.popleft()
        if callable(step):
            step()
            return []
        return [each for each in step if each.topic_partition not in self.paused]

    def positions(self, partitions):
        return {each: self.begins.get(each, 0) for each in partitions}

    def seek(self, offsets) -> None:
        self.sought.append(dict(offsets))

    def pause(self, partitions) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions) -> None:
        self.paused -= set(partitions)

    def commit_async(self, offsets, *, on_committed) -> None:
        self.committed.append(dict(offsets))
        on_committed(self.commit_errors.popleft() if self.commit_errors else None)

    def commit_sync(self, offsets, timeout_s) -> None:
        self.committed.append(dict(offsets))

    def close(self, timeout_s) -> None:
        if self.listener is not None:
            self.listener.on_partitions_revoked(self.revoked_at_close)
        self.closed = True


@dataclass
class GroupOffsets:
    """Implements `GroupOffsetsClient`. `refusals` are raised by the next questions; `calls` are
    the questions, with their times in seconds."""

    groups: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    refusals: deque[Exception] = field(default_factory=deque)
    calls: list[tuple[str, float]] = field(default_factory=list)
    closed: int = 0

    def _asked(self, what: str, timeout_s: float) -> None:
        self.calls.append((what, timeout_s))
        if self.refusals:
            raise self.refusals.popleft()

    def fetch_offsets(self, group, timeout_s):
        self._asked("fetch", timeout_s)
        return dict(self.groups.get(group, {}))

    def commit_offsets(self, group, offsets, timeout_s) -> None:
        self._asked("commit", timeout_s)
        self.groups.setdefault(group, {}).update(offsets)

    def delete_offsets(self, group, partitions, timeout_s) -> None:
        self._asked("forget", timeout_s)
        for each in partitions:
            self.groups[group].pop(each, None)

    def delete_group(self, group, timeout_s) -> None:
        self._asked("delete", timeout_s)
        self.groups.pop(group, None)

    def close(self) -> None:
        self.closed += 1


@dataclass
class Clients:
    """Implements `TaskClientFactory`: always the same ones."""

    one_producer: Producer = field(default_factory=Producer)
    one_consumer: Consumer = field(default_factory=Consumer)
    one_group_offsets: GroupOffsets = field(default_factory=GroupOffsets)
    plans: list[Any] = field(default_factory=list)

    def create_producer(self, plan):
        self.plans.append(plan)
        return self.one_producer

    def create_consumer(self, plan):
        self.plans.append(plan)
        return self.one_consumer

    def create_group_offsets_client(self, plan):
        self.plans.append(plan)
        return self.one_group_offsets


@dataclass
class Statuses:
    """Implements `ports.worker.Statuses`; all that was said, in order."""

    said: list[tuple[StatusSubject, RunStatus]] = field(default_factory=list)
    topics: list[TopicStatus] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, subject, status, *, safe=False) -> None:
        with self.lock:
            self.said.append((subject, status))

    def put_topic_status(self, topic) -> None:
        self.topics.append(topic)

    def is_topic_recorded(self, connector: str, topic: str) -> bool:
        return any((each.connector, each.topic) == (connector, topic) for each in self.topics)

    def get_last_task_runs(self, connector: str) -> LastTaskRuns:
        return LastTaskRuns()

    def states(self, subject) -> list[str]:
        with self.lock:
            return [status.state.value for each, status in self.said if each == subject]

    def last(self, subject) -> RunStatus | None:
        with self.lock:
            found = [status for each, status in self.said if each == subject]
        return found[-1] if found else None


@dataclass
class Plugins:
    """Implements `ports.plugins.Plugins`."""

    classes: dict[str, type[Any]] = field(default_factory=dict)

    def find_plugin_class(self, name, *kinds):
        known = {
            "String": StringConverter,
            "ByteArray": ByteArrayConverter,
            "Simple": SimpleHeaderConverter,
            **self.classes,
        }
        if name not in known:
            raise ConfigError(f"Failed to find any class which name matches {name}")
        return known[name]

    def list_installed_plugins(self):
        return [
            InstalledPlugin(kind=Kind.SOURCE, class_name=name, version=None)
            for name in self.classes
        ]


def consumed(offset: int, value: bytes = b"v", *, topic: str = "t") -> ConsumerRecord:
    return ConsumerRecord(
        topic=topic,
        partition=0,
        offset=offset,
        key=None,
        value=value,
        timestamp=1,
        timestamp_type=TimestampType.CREATE_TIME,
    )
