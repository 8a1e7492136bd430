"""Adapter of `ports.fenced_writer`: one transactional producer; each write is one transaction.

Whoever is claimed under the same transactional id fences all that were before. After any failure
the producer is given up: what its transaction came to, the next claim settles.
"""

from __future__ import annotations

from collections.abc import Sequence

import confluent_kafka

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors
from connect_runtime.ports import fenced_writer, shared_log

_PRODUCER: dict[str, object] = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 0,
    "message.max.bytes": 100_000_000,  # what is too large, the topic says
    "allow.auto.create.topics": False,
}


class KafkaFencedWriter:
    """Implements `fenced_writer.FencedWriter`."""

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        topic: str,
        client_id: str,
        transactional_id: str,
        clock: base_clock.Clock,
    ) -> None:
        self._access = access
        self._topic = topic
        self._client_id = client_id
        self._transactional_id = transactional_id
        self._clock = clock
        self._reports = translate_errors.ConnectionReports()
        self._producer: confluent_kafka.Producer | None = None

    def claim(self, timeout_s: float) -> None:
        """See `fenced_writer.FencedWriter`; so for all below."""
        self.stop()
        self._reports = translate_errors.ConnectionReports()
        producer = kafka_clients.producer(
            self._access,
            client_id=self._client_id,
            settings={**_PRODUCER, "transactional.id": self._transactional_id},
            reports=self._reports,
        )
        try:
            producer.init_transactions(timeout_s)
        except confluent_kafka.KafkaException as error:
            raise self._translated(error.args[0], "claiming the right to write") from error
        self._producer = producer

    def write(self, records: Sequence[shared_log.Record], timeout_s: float) -> None:
        producer = self._producer
        if producer is None:
            raise fenced_writer.PrivilegeLost(
                f"writing to {self._topic} on {self._access.where}: the right to was not claimed, "
                "or is lost"
            )
        try:
            self._transact(producer, records, timeout_s)
        except (confluent_kafka.KafkaException, BufferError) as error:
            self.stop()
            raise self._lost(error) from error

    def stop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _transact(
        self,
        producer: confluent_kafka.Producer,
        records: Sequence[shared_log.Record],
        timeout_s: float,
    ) -> None:
        """To commit waits for all records, and fails with the first that did."""
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        producer.begin_transaction()
        for record in records:
            producer.produce(self._topic, record.value, record.key)
        producer.commit_transaction(max(0.01, end.left_s(self._clock.now_s())))

    def _lost(self, error: confluent_kafka.KafkaException | BufferError) -> errors.ConnectError:
        if isinstance(error, confluent_kafka.KafkaException):
            why: object = self._translated(error.args[0], "writing")
        else:
            why = error
        return fenced_writer.PrivilegeLost(f"{why}; the right to write is lost with it")

    def _translated(self, error: confluent_kafka.KafkaError, doing: str) -> errors.ConnectError:
        doing = f"{doing} to {self._topic}"
        where = self._access.where
        return translate_errors.translate(error, doing, where=where, reports=self._reports)
