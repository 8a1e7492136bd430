"""Appends to a flow's log in order, with an idempotent producer that stops at the first failure.

librdkafka preserves order across retries unless a record fails for good. Two settings prevent a
later record from passing a failed one: records never time out (`message.timeout.ms=0`), and any
gap is a fatal producer error (`enable.gapless.guarantee`).

Records are handed to librdkafka in bursts: with five unacknowledged requests of a partition and
more records queued, librdkafka 2.16 polls its socket in a busy loop.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import ConnectionReports
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from mm2.kafka.client_interfaces import (
    FlowLogBrokenError,
    FlowLogFullError,
    FlowLogTopic,
    LogTruncatedError,
    OnRecorded,
)

_PRODUCER_CONFIG: dict[str, object] = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "acks": "all",
    "message.timeout.ms": 0,
    "linger.ms": 5,  # enough to hand over a burst, too little to be felt
    "batch.size": 262_144,
    "message.max.bytes": 100_000_000,  # what is too large, the topic says
    "socket.timeout.ms": 15_000,  # how long a silent leader holds up what it was sent
    "allow.auto.create.topics": False,
}

_BURST_BYTES = 196_608
"""At most, but for one record that is larger: one batch in the library, with what it adds to each
record."""
_RECORD_OVERHEAD_BYTES = 64
_MIN_IN_FLIGHT = 5
"""So few may be unanswered beside each other."""
_DELIVERY_REPORT_TIMEOUT_S = 5.0  # after a purge the library answers at once, if it gets a core


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnacknowledgedLimits:
    """How much may wait for its acknowledgement."""

    records: int = 50_000
    bytes: int = 64 << 20


DEFAULT_UNACKNOWLEDGED_LIMITS = UnacknowledgedLimits()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _QueuedRecord:
    topic: FlowLogTopic
    key: bytes
    value: bytes | None
    on_recorded: OnRecorded

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"")


class FlowLogWriter:
    """One producer's life. After `broken` is set nothing more goes out; make a new writer.

    Invariant: `_unanswered` counts what waits in `_queue` and the `_handed` that the library has.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        topics: Mapping[FlowLogTopic, str],
        clock: Clock,
        bounds: UnacknowledgedLimits,
    ) -> None:
        self._where = access.where
        self._topics = topics
        self._clock = clock
        self._bounds = bounds
        self._reports = ConnectionReports()
        self._finished: collections.deque[tuple[OnRecorded, ConnectError | None]] = (
            collections.deque()
        )
        self._fatal: confluent_kafka.KafkaError | None = None
        self._closing = False
        self._queue: collections.deque[_QueuedRecord] = collections.deque()
        self._handed = 0
        self._unanswered = 0
        self._unanswered_bytes = 0
        self.broken: ConnectError | None = None
        self.recorded_through: dict[FlowLogTopic, int] = {}
        """Offset after the newest acknowledged record, per topic."""
        self._producer = librdkafka_clients.create_producer(
            access, client_id=client_id, settings=_PRODUCER_CONFIG, reports=self._reports
        )

    @property
    def pending(self) -> int:
        return self._unanswered + len(self._finished)

    def append(
        self,
        topic: FlowLogTopic,
        key: bytes,
        value: bytes | None,
        *,
        on_recorded: OnRecorded,
    ) -> None:
        """See `FlowLog.append`."""
        if self.broken is not None:
            raise self._behind()
        record = _QueuedRecord(topic=topic, key=key, value=value, on_recorded=on_recorded)
        self._check_bounds(topic, record.size)
        self._queue.append(record)
        self._unanswered += 1
        self._unanswered_bytes += record.size

    def poll(self, timeout_s: float) -> int:
        """See `FlowLog.poll`."""
        self._hand_over()
        if not self._finished:
            self._serve(timeout_s)
            self._hand_over()
        if self._fatal is not None and self.broken is None:
            self._serve(0.1)  # the reports that say what it was about
            self._give_up()
        elif self.broken is not None and self._unanswered:
            self._give_up()
        return self._run_callbacks()

    def close(self, timeout_s: float) -> None:
        """See `FlowLog.close`."""
        self._closing = True
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        while self._unanswered and not self._failing and not end.passed(self._clock.now_s()):
            self._hand_over()
            self._serve(end.left_s(self._clock.now_s()))
        if self.broken is None and self._fatal is None and self._unanswered:
            self.broken = RetriableError(
                f"writing {self._names()} on {self._where}: closed before "
                f"{plurals.format_count(self._unanswered, 'record', 'were')} acknowledged; "
                "they may or "
                "may not be recorded, so read to know"
            )
        self._give_up()
        self._run_callbacks()

    def _check_bounds(self, topic: FlowLogTopic, size: int) -> None:
        """One record is always taken, so that none is too big for ever."""
        if self._unanswered == 0:
            return
        over_records = self._unanswered >= self._bounds.records
        if over_records or self._unanswered_bytes + size > self._bounds.bytes:
            raise self._full(topic)

    def _full(self, topic: FlowLogTopic) -> FlowLogFullError:
        return FlowLogFullError(
            f"appending to {self._topics[topic]} on {self._where}: not acknowledged yet are "
            f"{plurals.format_count(self._unanswered, 'record')} ({self._unanswered_bytes} bytes); "
            "wait for some"
        )

    def _hand_over(self) -> None:
        """All that waits where it is little, else the next burst once the last one is answered."""
        if self._handed and self._handed + len(self._queue) > _MIN_IN_FLIGHT:
            return
        for topic, burst in itertools.groupby(self._burst(), key=lambda each: each.topic):
            if not self._failing:
                self._produce(topic, list(burst))

    def _burst(self) -> list[_QueuedRecord]:
        burst: list[_QueuedRecord] = []
        room = _BURST_BYTES
        for record in self._queue:
            room -= record.size + _RECORD_OVERHEAD_BYTES
            if room < 0 and burst:
                break
            burst.append(record)
        return burst

    def _produce(self, topic: FlowLogTopic, burst: list[_QueuedRecord]) -> None:
        """The first of the queue, by one call: the library lets them linger from one moment on, and
        so sends them together."""
        messages: list[dict[str, Any]] = [
            {
                "key": each.key,
                "value": each.value,
                "callback": functools.partial(self._on_delivery, record=each),
            }
            for each in burst
        ]
        try:
            self._producer.produce_batch(self._topics[topic], messages, partition=0)
        except confluent_kafka.KafkaException as error:
            self._fatal = error.args[0]
            return
        for _ in burst:
            self._queue.popleft()
        refused = [
            (record, message["_error"])
            for record, message in zip(burst, messages, strict=True)
            if "_error" in message
        ]
        self._handed += len(burst) - len(refused)
        if refused:
            self._queue.extendleft(record for record, _ in reversed(refused))
            self._fatal = refused[0][1]

    def _on_delivery(
        self,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
        *,
        record: _QueuedRecord,
    ) -> None:
        """Runs inside the library's poll, where nothing may be raised: only note what happened."""
        self._handed -= 1
        self._answered(record, error, offset=message.offset() or 0)

    def _answered(
        self, record: _QueuedRecord, error: confluent_kafka.KafkaError | None, *, offset: int = 0
    ) -> None:
        if error is None:
            self._reports.forget()
            self._finish(record, self._acknowledged(record.topic, offset))
            return
        whole = self.broken is None or self._closing
        self.broken = self.broken or self._translated(self._topics[record.topic], error)
        self._finish(record, self.broken if whole else self._behind())

    def _finish(self, record: _QueuedRecord, error: ConnectError | None) -> None:
        self._unanswered -= 1
        self._unanswered_bytes -= record.size
        self._finished.append((record.on_recorded, error))

    def _acknowledged(self, topic: FlowLogTopic, offset: int) -> ConnectError | None:
        """Acknowledged offsets only grow; else the log under us is another one."""
        if offset < self.recorded_through.get(topic, 0):
            self.broken = self.broken or LogTruncatedError(
                f"appending to {self._topics[topic]} on {self._where}: the record got offset "
                f"{offset}, although {self.recorded_through[topic]} offsets were used before: the "
                "topic was truncated, or deleted and made again; its facts are read again"
            )
            return self.broken
        self.recorded_through[topic] = offset + 1
        return None

    @property
    def _failing(self) -> bool:
        return self.broken is not None or self._fatal is not None

    def _serve(self, timeout_s: float) -> None:
        """The library raises a producer's fatal error once, ahead of the reports that it causes.

        Not so in its `flush`, which runs callbacks while that error is being raised.
        """
        try:
            self._producer.poll(timeout_s)
        except confluent_kafka.KafkaException as error:
            self._fatal = error.args[0]

    def _give_up(self) -> None:
        """Fail all that is left, in order, and hear the library say so."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        end = Deadline.after(_DELIVERY_REPORT_TIMEOUT_S, now_s=self._clock.now_s())
        while self._handed and not end.passed(self._clock.now_s()):
            self._serve(end.left_s(self._clock.now_s()))
        assert self._handed == 0, self._handed
        if self.broken is None and self._fatal is not None:
            self.broken = self._translated(self._names(), self._fatal)
        while self._queue:
            self._finish(self._queue.popleft(), self.broken if self._closing else self._behind())

    def _run_callbacks(self) -> int:
        ran = 0
        while self._finished:
            on_recorded, error = self._finished.popleft()
            ran += 1
            on_recorded(error)
        return ran

    def _translated(self, name: str, error: confluent_kafka.KafkaError) -> ConnectError:
        if error.code() in client_errors.PURGED_ERRORS:
            error = self._fatal or error
        doing = f"appending to {name}"
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)

    def _behind(self) -> FlowLogBrokenError:
        return FlowLogBrokenError(
            f"a record before this one was not recorded, so this one may not be either: "
            f"{self.broken}; open the log again, and read to know"
        )

    def _names(self) -> str:
        return " and ".join(self._topics.values())
