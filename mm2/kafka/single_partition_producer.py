"""Producer for partition 0 of one topic, configured like Java's `OffsetSyncWriter`.

One batch is in flight at a time, which keeps the order of the records. The producer is not
idempotent, as in Java, and needs no IDEMPOTENT_WRITE permission. A batch is sent again if its
response is lost, so its records may be stored twice.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.client_errors import AuthenticationError, TopicMissingError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network.client_requests import ClientResponse
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import LeaderTarget
from mm2.formats import record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from mm2.kafka.kafka_client_interfaces import OnWritten

_MAX_QUEUED_RECORDS = 100_000
_MAX_BATCH_BYTES = 65_536
_RECORD_TIMEOUT_S = 30.0
"""Time after which a queued record is dropped with an error, because newer records replace it."""
_REQUEST_TIMEOUT_S = 15.0
_PARTITION = 0


@dataclass(slots=True, kw_only=True)
class _QueuedRecord:
    """A record that is not acknowledged yet."""

    body: bytes
    time_ms: int
    deadline_s: float
    on_written: OnWritten


class KafkaRecordWriter:
    """Implements `RecordWriter` with connect_runtime's connections. The methods are documented in
    `RecordWriter`.

    Invariant: the first `_in_flight` records of `_queue` are in the batch that is being sent.
    """

    def __init__(
        self, access: KafkaClusterAccess, *, client_id: str, topic: str, clock: Clock
    ) -> None:
        """Create the writer without connecting. Raises `FatalError` for unsupported settings."""
        settings = access.to_connection_settings(client_id)
        self._doing = f"writing {topic} on {access.name_and_addresses}"
        self._where = access.name_and_addresses
        self._topic = topic
        self._clock = clock
        self._rng = random.Random()  # noqa: S311  # spreads retries
        self._backoff = Backoff(
            initial_s=settings.retry_backoff_s, max_s=settings.retry_backoff_max_s
        )
        self._queue: deque[_QueuedRecord] = deque()
        self._in_flight = 0
        self._closing = False
        self._send_at_s = 0.0
        self._last_error: ConnectError | None = None
        self._finished: deque[tuple[OnWritten, ConnectError | None]] = deque()
        self._poller = Poller()
        try:
            self._connections = ClusterConnections(
                settings, poller=self._poller, clock=clock, random=self._rng
            )
        except BaseException as error:
            self._poller.close()
            if isinstance(error, ValueError):
                raise FatalError(f"{self._doing}: {error}") from error
            raise
        self._connections.set_metadata_topics([topic])

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
        """Queue a record for sending."""
        if self._closing or len(self._queue) >= _MAX_QUEUED_RECORDS:
            reason = "the writer is closing" if self._closing else "the send buffer is full"
            self._finished.append((on_written, RetriableError(f"{self._doing}: {reason}")))
            return
        self._queue.append(
            _QueuedRecord(
                body=record_codec.encode_record_body(RecordFields(key=key, value=value)),
                time_ms=self._clock.wall_ms(),
                deadline_s=self._clock.now_s() + _RECORD_TIMEOUT_S,
                on_written=on_written,
            )
        )

    def poll(self, timeout_s: float) -> None:
        end_s = self._clock.now_s() + timeout_s
        while True:
            now_s = self._clock.now_s()
            self._expire_records(now_s)
            self._send_next_batch(now_s)
            wait_s = self._connections.tick(now_s)
            if self._finished or now_s >= end_s:
                break
            if self._queue:
                next_s = min(self._queue[0].deadline_s, max(self._send_at_s, now_s))
                wait_s = min(wait_s, next_s - now_s if not self._in_flight else wait_s)
            self._poller.poll(max(0.0, min(wait_s, end_s - now_s)))
        self._poller.poll(0.0)
        self._run_callbacks()

    def close(self, timeout_s: float) -> None:
        end_s = self._clock.now_s() + timeout_s
        while self._queue and self._clock.now_s() < end_s:
            self.poll(end_s - self._clock.now_s())
        self._closing, self._in_flight = True, 0
        self._fail_records(
            len(self._queue),
            RetriableError(f"{self._doing}: closed before the record was acknowledged"),
        )
        try:
            self._run_callbacks()
        finally:
            self._connections.close()
            self._poller.close()

    def _expire_records(self, now_s: float) -> None:
        """Fail queued records after their deadline. Records in flight wait for the response."""
        if not self._in_flight:
            expired = 0
            while expired < len(self._queue) and self._queue[expired].deadline_s <= now_s:
                expired += 1
            if expired:
                self._fail_records(expired, self._last_error or self._create_timeout_error())

    def _handle_missing_leader(self, now_s: float) -> None:
        """Fail the queued records if the topic or the connection has a permanent error. Otherwise
        request the metadata again after a pause."""
        error = self._find_missing_leader_error()
        if error is not None:
            if not isinstance(error, (RetriableError, TopicMissingError)):
                self._fail_records(len(self._queue), error)
                return
            self._last_error = error
        self._connections.refresh_metadata()
        self._send_at_s = now_s + self._backoff.next_delay_s(self._rng)

    def _find_missing_leader_error(self) -> ConnectError | None:
        """Return the error that explains why the leader is unknown; None if the metadata has not
        been received yet."""
        topic = self._connections.view.get_topic(self._topic)
        if topic is not None and topic.error_code:
            return client_errors.translate_error_code(
                int(topic.error_code), f"writing {self._topic}", where=self._where
            )
        failures = [
            client_errors.translate_request_failure(each, self._doing)
            for each in self._connections.get_connection_errors().values()
        ]
        rejections = [each for each in failures if isinstance(each, AuthenticationError)]
        return next(iter([*rejections, *failures]), None)

    def _create_timeout_error(self) -> ConnectError:
        return client_errors.translate_request_failure(
            RetriableError(f"not acknowledged within {_RECORD_TIMEOUT_S:g} s"), self._doing
        )

    def _send_next_batch(self, now_s: float) -> None:
        if self._in_flight or not self._queue or now_s < self._send_at_s:
            return
        if self._connections.view.get_leader(self._topic, _PARTITION) is None:
            self._handle_missing_leader(now_s)
            return
        batch = self._collect_batch()
        self._in_flight = len(batch)
        timeout_s = min(_REQUEST_TIMEOUT_S, max(0.1, batch[0].deadline_s - now_s))
        self._connections.call(
            LeaderTarget(self._topic, _PARTITION),
            request_builders.build_produce_request(
                self._topic,
                _PARTITION,
                bytes(
                    record_codec.encode_batch(
                        [BatchRecord(0, each.time_ms, each.body) for each in batch], codec=0
                    )
                ),
                timeout_ms=round(timeout_s * 1000),
            ),
            done=self._handle_response,
            timeout_s=timeout_s,
        )

    def _collect_batch(self) -> Sequence[_QueuedRecord]:
        """Return the next records that fit into one batch, at least one."""
        batch: list[_QueuedRecord] = []
        size = 0
        for record in self._queue:
            size += len(record.body)
            if batch and size > _MAX_BATCH_BYTES:
                break
            batch.append(record)
        return batch

    def _handle_response(self, reply: ClientResponse) -> None:
        count, self._in_flight = self._in_flight, 0
        error = (
            client_errors.translate_request_failure(reply.failure, self._doing)
            if reply.failure is not None
            else self._find_produce_error(reply.body)
        )
        if error is None:
            self._backoff.reset()
            self._last_error = None
            for _ in range(count):
                self._finished.append((self._queue.popleft().on_written, None))
        elif isinstance(error, RetriableError):
            self._last_error = error
            self._send_at_s = self._clock.now_s() + self._backoff.next_delay_s(self._rng)
            self._connections.refresh_metadata()
        else:
            self._fail_records(count, error)

    def _find_produce_error(self, body: Any) -> ConnectError | None:
        """Return the error in a Produce response; None if the batch was stored."""
        partitions = [
            each
            for topic in body.responses
            if topic.name == self._topic
            for each in topic.partition_responses
            if each.index == _PARTITION
        ]
        if not partitions:
            return RetriableError(f"{self._doing}: the response is incomplete")
        code = int(partitions[0].error_code)
        if not code:
            return None
        error = client_errors.translate_error_code(
            code,
            f"writing {self._topic}",
            where=self._where,
            broker_message=getattr(partitions[0], "error_message", None),
        )
        if code == ErrorCode.unknown_topic_or_partition:  # the leader may have changed
            return RetriableError(str(error))
        return error

    def _fail_records(self, count: int, error: ConnectError) -> None:
        for _ in range(count):
            self._finished.append((self._queue.popleft().on_written, error))

    def _run_callbacks(self) -> None:
        while self._finished:
            on_written, error = self._finished.popleft()
            on_written(error)
