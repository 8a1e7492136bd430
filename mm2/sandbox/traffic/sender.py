"""An ordinary producer that waits for its acknowledgements, with a deadline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

from connect_runtime.base import amounts, deadline
from connect_runtime.base import clock as base_clock
from mm2.sandbox import clients
from mm2.sandbox.traffic import payloads

TIMEOUT_S = 60.0

_POLL_EVERY = 500
_WAIT_S = 0.1


class Sender:
    """One producer. `acknowledged` counts records; one thread.

    `settings` are librdkafka's, `_` for `.`.
    """

    def __init__(
        self,
        of: clients.Clients,
        client_id: str,
        *,
        now: base_clock.Clock,
        settings: Mapping[str, object],
    ) -> None:
        self.acknowledged = 0
        self.producer = of.producer(client_id, **settings)
        self._clients = of
        self._clock = now
        self._refusal: tuple[confluent_kafka.KafkaError, str] | None = None

    def send(
        self, topic: str, records: Iterable[payloads.Outgoing], *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Hand records over; raises what was refused so far. `flush` waits for the rest."""
        until = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        for number, record in enumerate(records):
            self._produce(topic, record, until=until)
            if number % _POLL_EVERY == 0:
                self.producer.poll(0)
                self._raise_refusal()

    def flush(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until all are acknowledged."""
        left = self.producer.flush(timeout_s)
        self._raise_refusal()
        if left:
            raise self._clients.overdue(
                f"sending: {amounts.counted(left, 'record')} not acknowledged"
            )

    def close(self, *, timeout_s: float = 5.0) -> None:
        """Flush what can be, and drop the rest."""
        self.producer.flush(timeout_s)
        self.producer.purge()

    def _produce(self, topic: str, record: payloads.Outgoing, *, until: deadline.Deadline) -> None:
        optional: dict[str, Any] = {}
        if record.timestamp_ms is not None:
            optional["timestamp"] = record.timestamp_ms
        while True:
            try:
                self.producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    on_delivery=self._note,
                    **optional,
                )
            except BufferError:
                self.producer.poll(_WAIT_S)
                if until.passed(self._clock.now_s()):
                    raise self._clients.overdue(f"sending to {topic}") from None
            except confluent_kafka.KafkaException as error:
                raise self._clients.explain(error.args[0], f"sending to {topic}") from None
            else:
                return

    def _note(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is None:
            self.acknowledged += 1
        elif error.code() not in clients.PURGED:
            self._refusal = self._refusal or (error, str(message.topic()))

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            error, topic = self._refusal
            raise self._clients.explain(error, f"sending to {topic}")
