"""A `internal_topic_log.SharedLog` in memory: any number of logs over one topic.

Records are in the topic, and told to every log that is started, as soon as they are sent; while the
topic is away they wait. What is told runs on the sender's thread, or on the one that ends the wait.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import LogListener, OnRecorded, SharedLogRecord


@dataclass(slots=True)
class FakeTopic:
    """The records, and everybody who reads them.

    `refusals`: what becomes of the next sends, in their order, instead of being recorded.
    `silent`: recorded, but not told before `tell`, or somebody reads to the end.
    """

    name: str = "fake"
    partitions: int = 1
    cleanup_policy: str = "compact"
    max_record_bytes: int = 1 << 20
    refusals: deque[ConnectError] = field(default_factory=deque)
    silent: bool = False
    wall_ms: int = 1
    away: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    records: list[SharedLogRecord] = field(default_factory=list)
    readers: list[FakeSharedLog] = field(default_factory=list)
    waiting: deque[tuple[FakeSharedLog, KeyedRecord, OnRecorded]] = field(default_factory=deque)

    def append(self, key: bytes | None, value: bytes | None, *, ours: bool = False) -> None:
        """A record; `ours`: by a log of ours."""
        with self.lock:
            partition = zlib.crc32(key or b"") % self.partitions
            offset = sum(1 for each in self.records if each.partition == partition)
            self.records.append(
                SharedLogRecord(
                    topic=self.name,
                    partition=partition,
                    offset=offset,
                    key=key,
                    value=value,
                    is_own=ours,
                    wall_ms=self.wall_ms,
                )
            )
            if not self.silent:
                self.tell()

    def tell(self) -> None:
        with self.lock:
            for reader in list(self.readers):
                reader.hear()

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        self.away = True
        yield
        with self.lock:
            self.away = False
            while self.waiting:
                log, record, on_recorded = self.waiting.popleft()
                log.record(record, on_recorded)
            self.tell()

    def make_again(self) -> None:
        """Deleted and created: empty."""
        with self.lock:
            self.records.clear()
            for reader in list(self.readers):
                reader.start_over()


class FakeSharedLog:
    """Implements `SharedLog`."""

    def __init__(self, topic: FakeTopic) -> None:
        self._topic = topic
        self._listener: LogListener | None = None
        self._told = 0
        self._stopped = False

    @property
    def name(self) -> str:
        return self._topic.name

    def start(self, listener: LogListener, timeout_s: float) -> None:
        if self._topic.cleanup_policy != "compact":
            raise FatalError("cleanup.policy must be compact; set it")
        if self._topic.away:
            raise RetriableError(f"nobody answered within {timeout_s} s")
        with self._topic.lock:
            self._listener = listener
            self._topic.readers.append(self)
            self.hear()
            listener.on_replay_completed()

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        if self._stopped:
            raise FatalError("the log was stopped")
        with self._topic.lock:
            if self._topic.away:
                self._topic.waiting.append((self, record, on_recorded))
            else:
                self.record(record, on_recorded)

    def record(self, record: KeyedRecord, on_recorded: OnRecorded) -> None:
        """It reaches the topic, or is refused."""
        if self._topic.refusals:
            on_recorded(self._topic.refusals.popleft())
        elif len(record.value or b"") > self._topic.max_record_bytes:
            on_recorded(FatalError("too large; raise the topic's max.message.bytes"))
        else:
            self._topic.append(record.key, record.value, ours=True)
            on_recorded(None)

    def read_to_end(self, timeout_s: float) -> None:
        if self._stopped:
            raise FatalError("the log was stopped")
        with self._topic.lock:
            if self._topic.away:
                raise RetriableError(f"nobody answered within {timeout_s} s")
            self.hear()

    def stop(self, timeout_s: float) -> None:
        with self._topic.lock:
            self._stopped = True
            self._listener = None
            if self in self._topic.readers:
                self._topic.readers.remove(self)
            closed = RetriableError("stopped before it was acknowledged")
            ours = [each for each in self._topic.waiting if each[0] is self]
            for each in ours:
                self._topic.waiting.remove(each)
                each[2](closed)

    def hear(self) -> None:
        """All that was not told yet."""
        while self._listener is not None and self._told < len(self._topic.records):
            record = self._topic.records[self._told]
            self._told += 1
            self._listener.on_record(record)

    def start_over(self) -> None:
        if self._listener is not None:
            self._told = 0
            self._listener.on_log_reset()
            self.hear()
            self._listener.on_replay_completed()
