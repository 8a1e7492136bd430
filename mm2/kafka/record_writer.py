"""Producer for partition 0 of one topic, configured like Java's `OffsetSyncWriter`."""

from __future__ import annotations

import confluent_kafka

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import ConnectionReports
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from mm2.kafka.client_interfaces import OnWritten

_PRODUCER_CONFIG: dict[str, object] = {
    "acks": "all",
    "enable.idempotence": False,  # as in Java: needs no IDEMPOTENT_WRITE
    "max.in.flight.requests.per.connection": 1,  # keeps the order
    "linger.ms": 0,
    "message.timeout.ms": 30_000,  # newer records replace those that cannot be written
    "socket.timeout.ms": 15_000,
    "allow.auto.create.topics": False,
}


class KafkaRecordWriter:
    """Implementation of `RecordWriter` with a confluent-kafka producer."""

    def __init__(self, access: KafkaClusterAccess, *, client_id: str, topic: str) -> None:
        """Create the writer without connecting. Raises `FatalError` for unsupported settings."""
        self._where = access.where
        self._topic = topic
        self._reports = ConnectionReports()
        self._producer = librdkafka_clients.create_producer(
            access, client_id=client_id, settings=_PRODUCER_CONFIG, reports=self._reports
        )

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
        """Queue a record for sending. `RecordWriter` documents this method and the methods
        below."""

        def written(error: confluent_kafka.KafkaError | None, _: object) -> None:
            if error is None:
                self._reports.clear()
            on_written(None if error is None else self._translate_error(error))

        try:
            self._producer.produce(self._topic, value, key, partition=0, on_delivery=written)
        except confluent_kafka.KafkaException as error:
            on_written(self._translate_error(error.args[0]))
        except BufferError:
            on_written(
                RetriableError(f"writing {self._topic} on {self._where}: the send buffer is full")
            )

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def close(self, timeout_s: float) -> None:
        if len(self._producer):
            self._producer.flush(timeout_s)
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        self._producer.poll(0.0)

    def _translate_error(self, error: confluent_kafka.KafkaError) -> ConnectError:
        doing = f"writing {self._topic}"
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)
