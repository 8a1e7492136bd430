"""Producer of a source task: a confluent-kafka producer and a thread for delivery reports.

The producer is created when the first record is sent. A worker may run many idle tasks, but a
process can have only about a thousand librdkafka clients.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka

from connect_runtime.api.records import RecordMetadata
from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.system.supervised_threads import (
    PendingOperations,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from connect_runtime.worker.task_client_interfaces import OnDelivered, ProducerRecord

_LOG = logging.getLogger(__name__)
_POLL_TIMEOUT_S = 0.2
_STOP_CHECK_INTERVAL_S = 0.5
"""Interval at which an idle delivery-report thread checks whether to stop."""
_DELIVERY_REPORT_TIMEOUT_S = 5.0


class KafkaRecordProducer:
    """Producer of a source task. Implements `RecordProducer` with confluent-kafka. `RecordProducer`
    documents the methods.

    Invariant: `_waiting` counts the accepted records whose callbacks have not returned. It is 0
    until the producer exists.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        settings: Mapping[str, object],
    ) -> None:
        self._where = access.name_and_addresses
        self._reports = RecentConnectionErrors()
        self._waiting = PendingOperations()
        self._has_delivered = False  # whether a record was ever acknowledged
        self._threads = ThreadGroup(on_unexpected_end=_log_thread_end)
        self._create_producer: Callable[[], confluent_kafka.Producer] = functools.partial(
            librdkafka_clients.create_producer,
            access,
            client_id=client_id,
            settings=settings,
            reports=self._reports,
        )
        self._create_producer()  # discarded: reports invalid settings immediately
        self._client_id = client_id
        self._producer: confluent_kafka.Producer | None = None
        self._closed = False
        self._creation_lock = threading.Lock()

    def send(self, record: ProducerRecord, *, on_delivered: OnDelivered) -> None:
        """Queue a record for sending."""
        producer = self._get_producer(record.topic)
        number = self._waiting.begin_operation()
        callback = functools.partial(
            self._on_delivery, number=number, topic=record.topic, on_delivered=on_delivered
        )
        placed: dict[str, Any] = {}
        if record.partition is not None:
            placed["partition"] = record.partition
        if record.timestamp is not None:
            placed["timestamp"] = record.timestamp
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                on_delivery=callback,
                headers=list(record.headers),
                **placed,
            )
        except confluent_kafka.KafkaException as error:
            self._waiting.end_operation(number)
            raise self._translate_error(error.args[0], record.topic) from error
        except BufferError as error:
            self._waiting.end_operation(number)
            waiting = plurals.format_count(len(self._waiting), "record", "wait")
            raise RetriableError(
                f"writing to {record.topic} on {self._where}: {waiting} for acknowledgment; check "
                "the brokers"
            ) from error

    def flush(self, timeout_s: float) -> bool:
        return self._waiting.wait_for_earlier_operations(timeout_s)

    def close(self, timeout_s: float) -> None:
        with self._creation_lock:
            self._closed = True
            producer = self._producer
        if producer is None:
            return
        if not self._waiting.wait_for_earlier_operations(timeout_s):
            producer.purge(in_queue=True, in_flight=True, blocking=False)
            if timeout_s > 0:
                self._waiting.wait_for_earlier_operations(_DELIVERY_REPORT_TIMEOUT_S)
        self._threads.stop_all(_DELIVERY_REPORT_TIMEOUT_S if timeout_s > 0 else 0.0)

    def _get_producer(self, topic: str) -> confluent_kafka.Producer:
        with self._creation_lock:
            if self._closed:
                raise FatalError(f"writing to {topic} on {self._where}: the producer was closed")
            if self._producer is None:
                self._producer = made = self._create_producer()
                self._threads.start(
                    f"{self._client_id}-reports", lambda stop: self._poll_producer(made, stop)
                )
            return self._producer

    def _poll_producer(self, producer: confluent_kafka.Producer, stop: threading.Event) -> None:
        while not stop.is_set():
            some = self._waiting.wait_for_any_operation(_STOP_CHECK_INTERVAL_S)
            producer.poll(_POLL_TIMEOUT_S if some else 0)
            if self._get_security_error_before_delivery() is not None and len(self._waiting) > 0:
                producer.purge(in_queue=True, in_flight=True, blocking=False)
        producer.poll(0)

    def _get_security_error_before_delivery(self) -> confluent_kafka.KafkaError | None:
        """Return the error if credentials or certificates were rejected before the first record was
        delivered.

        Later rejections (issuer unavailable, password being changed) may be transient and are only
        logged.
        """
        return None if self._has_delivered else self._reports.get_security_error()

    def _on_delivery(
        self,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
        *,
        number: int,
        topic: str,
        on_delivered: OnDelivered,
    ) -> None:
        try:
            if error is not None:
                on_delivered(None, self._translate_error(error, topic))
            else:
                self._has_delivered = True
                self._reports.clear_errors()
                on_delivered(_convert_to_record_metadata(message, topic), None)
        finally:
            self._waiting.end_operation(number)

    def _translate_error(self, error: confluent_kafka.KafkaError, topic: str) -> ConnectError:
        doing = f"writing to {topic}"
        if error.code() in client_errors.PURGED_ERRORS:
            refusal = self._get_security_error_before_delivery()
            if refusal is not None:
                return client_errors.translate_error(refusal, doing, where=self._where)
            return RetriableError(
                f"{doing} on {self._where}: the producer was stopped before the record was "
                "acknowledged; the record may or may not have been written"
            )
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)


def _convert_to_record_metadata(message: confluent_kafka.Message, topic: str) -> RecordMetadata:
    partition, offset = message.partition(), message.offset()
    return RecordMetadata(
        topic=topic,
        partition=-1 if partition is None else partition,
        offset=-1 if offset is None else offset,
        timestamp=message.timestamp()[1],
    )


def _log_thread_end(ended: UnexpectedThreadEnd) -> None:
    _LOG.error("the thread %s ended: %s", ended.name, ended.error, exc_info=ended.error)
