"""Appends to a shared log: one producer, and a thread that hears what became of records.

Records of one partition stay in order because one request at a time is under way. As Java's do,
records of one key go to one partition, the same for every worker, whatever it is written in.
"""

from __future__ import annotations

import enum
import functools
import threading
from collections.abc import Mapping

import confluent_kafka

from connect_runtime.adapters.kafka import log_mark
from connect_runtime.base import amounts, errors
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors
from connect_runtime.ports import shared_log
from connect_runtime.system import outstanding

_PRODUCER: Mapping[str, object] = {
    "acks": "all",
    "enable.idempotence": False,
    "max.in.flight.requests.per.connection": 1,
    "partitioner": "murmur2_random",
    "linger.ms": 0,
    "request.timeout.ms": 8_000,  # of one try: a silent leader may be none any more
    "batch.size": 65_536,  # a record that is too large is refused alone
    "message.max.bytes": 100_000_000,  # what is too large, the topic says
    "queue.buffering.max.kbytes": 262_144,
    "allow.auto.create.topics": False,
}
_POLL_S = 0.2
_LAST_REPORTS_S = 5.0  # after a purge the library answers at once, if it gets a core


class Patience(enum.Enum):
    """What becomes of a record that a broker did not take; the value is librdkafka's settings."""

    TRIED_FOREVER = "forever"
    TRIED_ONCE = "once"

    @property
    def settings(self) -> Mapping[str, object]:
        """In librdkafka's words. Whoever tries once hears of it, and may have a newer record."""
        if self is Patience.TRIED_FOREVER:
            return {"message.timeout.ms": 0}
        return {"message.timeout.ms": 120_000, "retries": 0}


class LogWriter:
    """One producer's life. `run` is the body of its thread.

    Invariant: `_waiting` counts every record that was taken and whose callback has not run yet.
    """

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        topic: str,
        client_id: str,
        patience: Patience,
        clock: base_clock.Clock,
    ) -> None:
        self._where = access.where
        self._topic = topic
        self._clock = clock
        self._reports = translate_errors.ConnectionReports()
        self._waiting = outstanding.Outstanding()
        self._lock = threading.Lock()
        self._recorded: dict[int, int] = {}
        self._closed = False
        self._producer = kafka_clients.producer(
            access,
            client_id=client_id,
            settings={**_PRODUCER, **patience.settings},
            reports=self._reports,
        )

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._producer.poll(_POLL_S)

    def send(self, record: shared_log.Record, *, on_recorded: shared_log.OnRecorded) -> None:
        """See `SharedLog.send`."""
        if self._closed:
            raise errors.FatalError(f"{self._doing()}: the log was stopped")
        number = self._waiting.begin()
        answer = functools.partial(self._answered, number=number, on_recorded=on_recorded)
        try:
            self._producer.produce(
                self._topic,
                record.value,
                record.key,
                on_delivery=answer,
                headers=log_mark.HEADERS,
            )
        except confluent_kafka.KafkaException as error:
            self._waiting.end(number)
            raise self._translated(error.args[0]) from error
        except BufferError as error:
            self._waiting.end(number)
            waiting = amounts.counted(len(self._waiting), "record", "wait")
            raise errors.RetriableError(
                f"{self._doing()}: {waiting} already; look at the brokers"
            ) from error

    def settle(self, end: base_deadline.Deadline) -> None:
        """Wait until every record sent before this call is recorded, or is known to have failed.

        Raises `RetriableError` when time is up.
        """
        if self._waiting.wait(end.left_s(self._clock.now_s())):
            return
        reason = self._reports.reason() or translate_errors.timed_out()
        raise errors.RetriableError(
            f"{self._translated(reason)}; {amounts.counted(len(self._waiting), 'record', 'are')} "
            "not acknowledged yet"
        )

    def recorded_ends(self) -> Mapping[int, int]:
        """By partition, the offset behind the newest record that was acknowledged to us."""
        with self._lock:
            return dict(self._recorded)

    def forget_ends(self) -> None:
        """Offsets begin again: the topic is another one."""
        with self._lock:
            self._recorded.clear()

    def close(self, timeout_s: float) -> None:
        """Wait for what was sent, then give up on it; its thread must still run."""
        self._closed = True
        if not self._waiting.wait(timeout_s):
            self._producer.purge(in_queue=True, in_flight=True, blocking=True)
            self._waiting.wait(_LAST_REPORTS_S)

    def _answered(
        self,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
        *,
        number: int,
        on_recorded: shared_log.OnRecorded,
    ) -> None:
        if error is None:
            self._reports.forget()
            self._note_recorded(message)
        try:
            on_recorded(None if error is None else self._translated(error))
        finally:
            self._waiting.end(number)

    def _note_recorded(self, message: confluent_kafka.Message) -> None:
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            with self._lock:
                self._recorded[partition] = max(self._recorded.get(partition, 0), offset + 1)

    def _doing(self) -> str:
        return f"writing to {self._topic} on {self._where}"

    def _translated(self, error: confluent_kafka.KafkaError) -> errors.ConnectError:
        if error.code() in translate_errors.PURGED:
            return errors.RetriableError(
                f"{self._doing()}: stopped before it was acknowledged; it may or may not be there"
            )
        doing = f"writing to {self._topic}"
        return translate_errors.translate(error, doing, where=self._where, reports=self._reports)
