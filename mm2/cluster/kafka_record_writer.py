"""Adapter of `record_writer.RecordWriter`: a producer of its own, as `OffsetSyncWriter` has one."""

from __future__ import annotations

import confluent_kafka

from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors
from mm2.cluster import record_writer

_PRODUCER: dict[str, object] = {
    "acks": "all",
    "enable.idempotence": False,  # as in Java: no right of its own is needed
    "max.in.flight.requests.per.connection": 1,  # and still in order
    "linger.ms": 0,
    "message.timeout.ms": 30_000,  # what cannot be written gives way to what is newer
    "socket.timeout.ms": 15_000,
    "allow.auto.create.topics": False,
}


class KafkaRecordWriter:
    """Implements `record_writer.RecordWriter`."""

    def __init__(self, access: kafka_access.Access, *, client_id: str, topic: str) -> None:
        """Nothing is asked of the cluster yet. Raises `FatalError` on refused settings."""
        self._where = access.where
        self._topic = topic
        self._reports = translate_errors.ConnectionReports()
        self._producer = kafka_clients.producer(
            access, client_id=client_id, settings=_PRODUCER, reports=self._reports
        )

    def write(self, key: bytes, value: bytes, *, on_written: record_writer.OnWritten) -> None:
        """See `record_writer.RecordWriter`; so for all below."""

        def written(error: confluent_kafka.KafkaError | None, _: object) -> None:
            if error is None:
                self._reports.forget()
            on_written(None if error is None else self._translated(error))

        try:
            self._producer.produce(self._topic, value, key, partition=0, on_delivery=written)
        except confluent_kafka.KafkaException as error:
            on_written(self._translated(error.args[0]))
        except BufferError:
            on_written(errors.RetriableError(f"writing {self._topic} on {self._where}: no room"))

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def close(self, timeout_s: float) -> None:
        if len(self._producer):
            self._producer.flush(timeout_s)
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        self._producer.poll(0.0)

    def _translated(self, error: confluent_kafka.KafkaError) -> errors.ConnectError:
        doing = f"writing {self._topic}"
        return translate_errors.translate(error, doing, where=self._where, reports=self._reports)
