"""Appends records to a flow's log (offset map and incidents) in order, with an idempotent producer
that stops at the first failure.

librdkafka preserves order across retries unless a record fails permanently. Two settings prevent a
later record from overtaking a failed record: records never time out (`message.timeout.ms=0`), and
any gap is a fatal producer error (`enable.gapless.guarantee`).

Records are passed to librdkafka in bursts. If a partition has five unacknowledged requests and more
records are queued, librdkafka 2.16 polls its socket in a busy loop.
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
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from mm2.kafka.kafka_client_interfaces import (
    FlowStateLogBrokenError,
    FlowStateLogFullError,
    FlowStateTopic,
    LogTruncatedError,
    OnRecorded,
)

_PRODUCER_CONFIG: dict[str, object] = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "acks": "all",
    "message.timeout.ms": 0,
    "linger.ms": 5,  # enough to collect a burst, too little to notice
    "batch.size": 262_144,
    "message.max.bytes": 100_000_000,  # the topic's limit applies
    "socket.timeout.ms": 15_000,  # limit for a leader that does not respond
    "allow.auto.create.topics": False,
}

_BURST_BYTES = 196_608
"""Maximum size of a burst, unless a single record is larger. A burst fits into one librdkafka batch
including its overhead."""
_RECORD_OVERHEAD_BYTES = 64
_MIN_IN_FLIGHT = 5
"""Maximum number of unacknowledged records with which more records are passed to librdkafka before
the previous burst is acknowledged."""
_DELIVERY_REPORT_TIMEOUT_S = (
    5.0  # after a purge, reports arrive as soon as librdkafka's thread runs
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnacknowledgedRecordLimits:
    """Maximum number and total size of unacknowledged records."""

    records: int = 50_000
    bytes: int = 64 << 20


DEFAULT_UNACKNOWLEDGED_LIMITS = UnacknowledgedRecordLimits()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _QueuedRecord:
    """A record that is queued until it is passed to librdkafka."""

    topic: FlowStateTopic
    key: bytes
    value: bytes | None
    on_recorded: OnRecorded

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"")


class FlowStateLogWriter:
    """Appends records to a flow's log with one producer. After `failure` is set, no more records
    are sent: create a new writer.

    Invariant: `_unacknowledged` counts the records in `_queue` and the `_handed_over` records that
    librdkafka has not reported on yet.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        topics: Mapping[FlowStateTopic, str],
        clock: Clock,
        limits: UnacknowledgedRecordLimits,
    ) -> None:
        self._where = access.name_and_addresses
        self._topics = topics
        self._clock = clock
        self._bounds = limits
        self._reports = RecentConnectionErrors()
        self._finished: collections.deque[tuple[OnRecorded, ConnectError | None]] = (
            collections.deque()
        )
        self._fatal: confluent_kafka.KafkaError | None = None
        self._closing = False
        self._queue: collections.deque[_QueuedRecord] = collections.deque()
        self._handed_over = 0
        self._unacknowledged = 0
        self._unacknowledged_bytes = 0
        self.failure: ConnectError | None = None
        """First error that prevented storing a record; None while the writer is operational."""
        self.next_offsets: dict[FlowStateTopic, int] = {}
        """Offset after the newest acknowledged record, by topic."""
        self._producer = librdkafka_clients.create_producer(
            access, client_id=client_id, settings=_PRODUCER_CONFIG, reports=self._reports
        )

    @property
    def pending_record_count(self) -> int:
        return self._unacknowledged + len(self._finished)

    def append(
        self,
        topic: FlowStateTopic,
        key: bytes,
        value: bytes | None,
        *,
        on_recorded: OnRecorded,
    ) -> None:
        """Queue one record to be appended to the log. See `FlowStateLog.append`."""
        if self.failure is not None:
            raise self._create_log_broken_error()
        record = _QueuedRecord(topic=topic, key=key, value=value, on_recorded=on_recorded)
        self._check_unacknowledged_limits(topic, record.size)
        self._queue.append(record)
        self._unacknowledged += 1
        self._unacknowledged_bytes += record.size

    def poll(self, timeout_s: float) -> int:
        """Send queued records and run due callbacks. See `FlowStateLog.poll`."""
        self._pass_records_to_producer()
        if not self._finished:
            self._poll_producer(timeout_s)
            self._pass_records_to_producer()
        if self._fatal is not None and self.failure is None:
            self._poll_producer(0.1)  # delivery reports that name the cause
            self._fail_remaining_records()
        elif self.failure is not None and self._unacknowledged:
            self._fail_remaining_records()
        return self._run_callbacks()

    def close(self, timeout_s: float) -> None:
        """Wait for pending records and close the producer. See `FlowStateLog.close`."""
        self._closing = True
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        while (
            self._unacknowledged
            and not self._has_failed
            and not end.is_expired(self._clock.now_s())
        ):
            self._pass_records_to_producer()
            self._poll_producer(end.remaining_s(self._clock.now_s()))
        if self.failure is None and self._fatal is None and self._unacknowledged:
            self.failure = RetriableError(
                f"writing {self._format_topic_names()} on {self._where}: the log was closed before "
                f"{plurals.format_count(self._unacknowledged, 'record', 'were')} "
                "acknowledged; "
                "they may still be stored: read the log to find out"
            )
        self._fail_remaining_records()
        self._run_callbacks()

    def _check_unacknowledged_limits(self, topic: FlowStateTopic, size: int) -> None:
        """Raise `FlowStateLogFullError` if the limits are reached. If no record is unacknowledged,
        one record of any size is accepted."""
        if self._unacknowledged == 0:
            return
        over_records = self._unacknowledged >= self._bounds.records
        if over_records or self._unacknowledged_bytes + size > self._bounds.bytes:
            raise self._create_log_full_error(topic)

    def _create_log_full_error(self, topic: FlowStateTopic) -> FlowStateLogFullError:
        return FlowStateLogFullError(
            f"appending to {self._topics[topic]} on {self._where}: too many unacknowledged "
            f"records: {plurals.format_count(self._unacknowledged, 'record')}, "
            f"{self._unacknowledged_bytes} bytes; "
            "poll, then append again"
        )

    def _pass_records_to_producer(self) -> None:
        """Pass all queued records to librdkafka if only a few are unacknowledged. Otherwise pass
        the next burst once the previous burst is acknowledged."""
        if self._handed_over and self._handed_over + len(self._queue) > _MIN_IN_FLIGHT:
            return
        for topic, burst in itertools.groupby(
            self._collect_records_to_send(), key=lambda each: each.topic
        ):
            if not self._has_failed:
                self._produce_records(topic, list(burst))

    def _collect_records_to_send(self) -> list[_QueuedRecord]:
        burst: list[_QueuedRecord] = []
        room = _BURST_BYTES
        for record in self._queue:
            room -= record.size + _RECORD_OVERHEAD_BYTES
            if room < 0 and burst:
                break
            burst.append(record)
        return burst

    def _produce_records(self, topic: FlowStateTopic, burst: list[_QueuedRecord]) -> None:
        """Pass a burst of records to librdkafka in one call, so that they linger and are sent
        together."""
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
        self._handed_over += len(burst) - len(refused)
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
        """Process the delivery report of a record. This callback runs inside librdkafka's poll and
        must not raise."""
        self._handed_over -= 1
        self._record_result(record, error, offset=message.offset() or 0)

    def _record_result(
        self, record: _QueuedRecord, error: confluent_kafka.KafkaError | None, *, offset: int = 0
    ) -> None:
        if error is None:
            self._reports.clear_errors()
            self._remove_unacknowledged_record(
                record, self._advance_next_offset(record.topic, offset)
            )
            return
        whole = self.failure is None or self._closing
        self.failure = self.failure or self._translate_error(self._topics[record.topic], error)
        self._remove_unacknowledged_record(
            record, self.failure if whole else self._create_log_broken_error()
        )

    def _remove_unacknowledged_record(
        self, record: _QueuedRecord, error: ConnectError | None
    ) -> None:
        self._unacknowledged -= 1
        self._unacknowledged_bytes -= record.size
        self._finished.append((record.on_recorded, error))

    def _advance_next_offset(self, topic: FlowStateTopic, offset: int) -> ConnectError | None:
        """Store the offset at which a record was acknowledged. Returns an error if it is lower than
        an earlier one, because the topic was then truncated or recreated."""
        if offset < self.next_offsets.get(topic, 0):
            self.failure = self.failure or LogTruncatedError(
                f"appending to {self._topics[topic]} on {self._where}: the record was stored at "
                f"offset {offset}, but the log had already reached {self.next_offsets[topic]}: "
                "the topic was truncated or recreated; it will be read again from the start"
            )
            return self.failure
        self.next_offsets[topic] = offset + 1
        return None

    @property
    def _has_failed(self) -> bool:
        return self.failure is not None or self._fatal is not None

    def _poll_producer(self, timeout_s: float) -> None:
        """Poll the producer. librdkafka raises a fatal error once, before the delivery reports that
        the error causes.

        `flush` is not used, because it would run callbacks while the fatal error is being raised.
        """
        try:
            self._producer.poll(timeout_s)
        except confluent_kafka.KafkaException as error:
            self._fatal = error.args[0]

    def _fail_remaining_records(self) -> None:
        """Report all remaining records as failed, in order, after waiting for pending delivery
        reports."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        end = Deadline.after(_DELIVERY_REPORT_TIMEOUT_S, now_s=self._clock.now_s())
        while self._handed_over and not end.is_expired(self._clock.now_s()):
            self._poll_producer(end.remaining_s(self._clock.now_s()))
        assert self._handed_over == 0, self._handed_over
        if self.failure is None and self._fatal is not None:
            self.failure = self._translate_error(self._format_topic_names(), self._fatal)
        while self._queue:
            self._remove_unacknowledged_record(
                self._queue.popleft(),
                self.failure if self._closing else self._create_log_broken_error(),
            )

    def _run_callbacks(self) -> int:
        ran = 0
        while self._finished:
            on_recorded, error = self._finished.popleft()
            ran += 1
            on_recorded(error)
        return ran

    def _translate_error(self, name: str, error: confluent_kafka.KafkaError) -> ConnectError:
        if error.code() in client_errors.PURGED_ERRORS:
            error = self._fatal or error
        doing = f"appending to {name}"
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)

    def _create_log_broken_error(self) -> FlowStateLogBrokenError:
        return FlowStateLogBrokenError(
            "an earlier record could not be stored, so this record must not be stored either: "
            f"{self.failure}; reopen the log, and read it to find out what is stored"
        )

    def _format_topic_names(self) -> str:
        return " and ".join(self._topics.values())
