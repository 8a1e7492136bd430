"""Writers of the internal topics: a plain producer, and the leader's transactional producer, which
fences earlier leaders (KIP-618).

Records of one partition remain in order because only one request is in flight. As with Java
workers, a key is always written to the same partition. Records have a header that marks them as
written by this implementation; Java workers ignore it.

Each write of the transactional producer is one transaction. Claiming its transactional id fences
every earlier writer. After any failure the producer is discarded, and the next claim completes or
aborts the open transaction.
"""

from __future__ import annotations

import enum
import functools
import threading
from collections.abc import Mapping, Sequence

import confluent_kafka

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import OnRecorded, WritePrivilegeLost
from connect_runtime.system.supervised_threads import PendingOperations

_MARK_HEADER = "connect_runtime"
MARK_HEADERS: list[tuple[str, str | bytes | None]] = [(_MARK_HEADER, b"")]


def is_own_record(message: confluent_kafka.Message) -> bool:
    """Return whether the record was written by this implementation, not by a Java worker."""
    headers = librdkafka_clients.read_headers(message)
    return headers is not None and any(each[0] == _MARK_HEADER for each in headers)


def read_timestamp_ms(message: confluent_kafka.Message) -> int:
    """Return the record's timestamp in milliseconds, or -1 if the record has no timestamp."""
    kind, found = message.timestamp()
    return -1 if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else int(found)


_PRODUCER_SETTINGS: Mapping[str, object] = {
    "acks": "all",
    "enable.idempotence": False,
    "max.in.flight.requests.per.connection": 1,
    "partitioner": "murmur2_random",
    "linger.ms": 0,
    "request.timeout.ms": 8_000,  # per attempt: a silent leader may have been replaced
    "batch.size": 65_536,  # so that a record that is too large is refused alone
    "message.max.bytes": 100_000_000,  # the topic decides what is too large
    "queue.buffering.max.kbytes": 262_144,
    "allow.auto.create.topics": False,
}
_REPORT_POLL_S = 0.2
_FINAL_REPORTS_TIMEOUT_S = 5.0  # after a purge librdkafka reports at once, given CPU time


class LogRetryPolicy(enum.Enum):
    """Retry policy for records that a broker does not accept."""

    RETRY_FOREVER = "forever"
    TRY_ONCE = "once"

    @property
    def settings(self) -> Mapping[str, object]:
        """librdkafka settings of this policy.

        With `TRY_ONCE`, records are never resent, so a failed write cannot arrive later and
        overwrite newer data.
        """
        if self is LogRetryPolicy.RETRY_FOREVER:
            return {"message.timeout.ms": 0}
        return {"message.timeout.ms": 120_000, "retries": 0}


class SharedLogWriter:
    """Producer of a shared log. `run_writer_thread` is its thread body.

    Invariant: `_waiting` counts the accepted records whose callbacks have not returned.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        topic: str,
        client_id: str,
        retry_policy: LogRetryPolicy,
        clock: Clock,
    ) -> None:
        self._where = access.name_and_addresses
        self._topic = topic
        self._clock = clock
        self._reports = RecentConnectionErrors()
        self._waiting = PendingOperations()
        self._lock = threading.Lock()
        self._recorded: dict[int, int] = {}
        self._closed = False
        self._producer = librdkafka_clients.create_producer(
            access,
            client_id=client_id,
            settings={**_PRODUCER_SETTINGS, **retry_policy.settings},
            reports=self._reports,
        )

    def run_writer_thread(self, stop: threading.Event) -> None:
        """Process the producer's delivery reports until stopped."""
        while not stop.is_set():
            self._producer.poll(_REPORT_POLL_S)

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        """Send a record, with the same contract as `SharedLog.send`."""
        if self._closed:
            raise FatalError(f"{self._describe_write()}: the log was stopped")
        number = self._waiting.begin_operation()
        answer = functools.partial(self._on_delivery, number=number, on_recorded=on_recorded)
        try:
            self._producer.produce(
                self._topic,
                record.value,
                record.key,
                on_delivery=answer,
                headers=MARK_HEADERS,
            )
        except confluent_kafka.KafkaException as error:
            self._waiting.end_operation(number)
            raise self._translate_error(error.args[0]) from error
        except BufferError as error:
            self._waiting.end_operation(number)
            waiting = plurals.format_count(len(self._waiting), "record", "wait")
            raise RetriableError(
                f"{self._describe_write()}: {waiting} for acknowledgment; check the brokers"
            ) from error

    def wait_for_acknowledgements(self, end: Deadline) -> None:
        """Wait until every record sent before this call has been acknowledged or has failed.

        Raises `RetriableError` after the deadline.
        """
        if self._waiting.wait_for_earlier_operations(end.remaining_s(self._clock.now_s())):
            return
        reason = self._reports.get_most_specific_error() or client_errors.create_timeout_error()
        raise RetriableError(
            f"{self._translate_error(reason)}; "
            f"{plurals.format_count(len(self._waiting), 'record', 'are')} "
            "not acknowledged yet"
        )

    def get_acknowledged_end_offsets(self) -> Mapping[int, int]:
        """Return the end offset (exclusive) of acknowledged records by partition."""
        with self._lock:
            return dict(self._recorded)

    def clear_acknowledged_end_offsets(self) -> None:
        """Forget the end offsets of acknowledged records, because the topic was truncated or
        recreated."""
        with self._lock:
            self._recorded.clear()

    def close(self, timeout_s: float) -> None:
        """Reject further records, and wait until all sent records are acknowledged. After the
        timeout, discard the remaining records.

        The thread that runs `run_writer_thread` must still be running.
        """
        self._closed = True
        if not self._waiting.wait_for_earlier_operations(timeout_s):
            self._producer.purge(in_queue=True, in_flight=True, blocking=True)
            self._waiting.wait_for_earlier_operations(_FINAL_REPORTS_TIMEOUT_S)

    def _on_delivery(
        self,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
        *,
        number: int,
        on_recorded: OnRecorded,
    ) -> None:
        if error is None:
            self._reports.clear_errors()
            self._update_end_offset(message)
        try:
            on_recorded(None if error is None else self._translate_error(error))
        finally:
            self._waiting.end_operation(number)

    def _update_end_offset(self, message: confluent_kafka.Message) -> None:
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            with self._lock:
                self._recorded[partition] = max(self._recorded.get(partition, 0), offset + 1)

    def _describe_write(self) -> str:
        return f"writing to {self._topic} on {self._where}"

    def _translate_error(self, error: confluent_kafka.KafkaError) -> ConnectError:
        if error.code() in client_errors.PURGED_ERRORS:
            return RetriableError(
                f"{self._describe_write()}: the writer was stopped before the record was "
                "acknowledged; the record may or may not have been written"
            )
        doing = f"writing to {self._topic}"
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)


_TRANSACTIONAL_PRODUCER_SETTINGS: dict[str, object] = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 0,
    "message.max.bytes": 100_000_000,  # the topic decides what is too large
    "allow.auto.create.topics": False,
}


class KafkaFencedWriter:
    """Implements `FencedWriter` with a transactional producer. `FencedWriter` documents the
    methods."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        topic: str,
        client_id: str,
        transactional_id: str,
        clock: Clock,
    ) -> None:
        self._access = access
        self._topic = topic
        self._client_id = client_id
        self._transactional_id = transactional_id
        self._clock = clock
        self._reports = RecentConnectionErrors()
        self._producer: confluent_kafka.Producer | None = None

    def claim_write_privileges(self, timeout_s: float) -> None:
        """Become the only writer by fencing all earlier writers."""
        self.stop()
        self._reports = RecentConnectionErrors()
        producer = librdkafka_clients.create_producer(
            self._access,
            client_id=self._client_id,
            settings={
                **_TRANSACTIONAL_PRODUCER_SETTINGS,
                "transactional.id": self._transactional_id,
            },
            reports=self._reports,
        )
        try:
            producer.init_transactions(timeout_s)
        except confluent_kafka.KafkaException as error:
            raise self._translate_error(error.args[0], "claiming the write privilege") from error
        self._producer = producer

    def write_records(self, records: Sequence[KeyedRecord], timeout_s: float) -> None:
        producer = self._producer
        if producer is None:
            raise WritePrivilegeLost(
                f"writing to {self._topic} on {self._access.name_and_addresses}: the write "
                "privilege was not claimed or has been lost"
            )
        try:
            self._write_transaction(producer, records, timeout_s)
        except (confluent_kafka.KafkaException, BufferError) as error:
            self.stop()
            raise self._create_privilege_error(error) from error

    def stop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _write_transaction(
        self,
        producer: confluent_kafka.Producer,
        records: Sequence[KeyedRecord],
        timeout_s: float,
    ) -> None:
        """Write the records in one transaction and commit the transaction. The commit waits until
        all records are acknowledged, and fails with the first error of a record."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        producer.begin_transaction()
        for record in records:
            producer.produce(self._topic, record.value, record.key)
        producer.commit_transaction(max(0.01, end.remaining_s(self._clock.now_s())))

    def _create_privilege_error(
        self, error: confluent_kafka.KafkaException | BufferError
    ) -> ConnectError:
        if isinstance(error, confluent_kafka.KafkaException):
            reason: object = self._translate_error(error.args[0], "writing")
        else:
            reason = error
        return WritePrivilegeLost(f"{reason}; the write privilege is lost as well")

    def _translate_error(self, error: confluent_kafka.KafkaError, doing: str) -> ConnectError:
        doing = f"{doing} to {self._topic}"
        where = self._access.name_and_addresses
        return client_errors.translate_error(error, doing, where=where, reports=self._reports)
