"""Producers of test traffic: a plain producer, interleaved transactions, and Kafka's Java producer.

`AcknowledgedProducer` waits for acknowledgements with a deadline. `InterleavedTransactions` runs
several transactional producers whose transactions overlap, commit and abort. `JavaPerfProducer`
runs Kafka's own `ProducerPerformance` from the sandbox's jars.
"""

from __future__ import annotations

import itertools
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import confluent_kafka

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError
from connect_runtime.system import child_processes
from mm2.sandbox import broker_settings, java_server_process, kafka_jars, sandbox_clients
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.traffic import payloads
from mm2.sandbox.traffic.payloads import BatchSpec, OutgoingRecord

SEND_TIMEOUT_S = 60.0

_RECORDS_PER_POLL = 500
_QUEUE_FULL_WAIT_S = 0.1


class AcknowledgedProducer:
    """A producer that counts `acknowledged` records. Not thread-safe.

    `settings` are librdkafka settings with `_` instead of `.`.
    """

    def __init__(
        self,
        clients: SandboxClients,
        client_id: str,
        *,
        now: Clock,
        settings: Mapping[str, object],
    ) -> None:
        self.acknowledged = 0
        self.producer = clients.create_producer(client_id, **settings)
        self._clients = clients
        self._clock = now
        self._refusal: tuple[confluent_kafka.KafkaError, str] | None = None

    def send(
        self, topic: str, records: Iterable[OutgoingRecord], *, timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        """Enqueue records without waiting for their acknowledgements (see `flush`). Raises an error
        if an earlier record was rejected."""
        until = Deadline.after(timeout_s, now_s=self._clock.now_s())
        for number, record in enumerate(records):
            self._produce_record(topic, record, until=until)
            if number % _RECORDS_PER_POLL == 0:
                self.producer.poll(0)
                self._raise_delivery_error()

    def flush(self, *, timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Wait until all enqueued records are acknowledged."""
        left = self.producer.flush(timeout_s)
        self._raise_delivery_error()
        if left:
            raise self._clients.create_timeout_error(
                f"cannot flush the producer: {plurals.format_count(left, 'record')} not "
                "acknowledged"
            )

    def close(self, *, timeout_s: float = 5.0) -> None:
        """Flush for up to `timeout_s`, and drop the records that are still not acknowledged."""
        self.producer.flush(timeout_s)
        self.producer.purge()

    def _produce_record(self, topic: str, record: OutgoingRecord, *, until: Deadline) -> None:
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
                    on_delivery=self._on_delivery,
                    **optional,
                )
            except BufferError:
                self.producer.poll(_QUEUE_FULL_WAIT_S)
                if until.is_expired(self._clock.now_s()):
                    raise self._clients.create_timeout_error(f"sending to {topic}") from None
            except confluent_kafka.KafkaException as error:
                raise self._clients.create_error(error.args[0], f"sending to {topic}") from None
            else:
                return

    def _on_delivery(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is None:
            self.acknowledged += 1
        elif error.code() not in sandbox_clients.PURGED_CODES:
            self._refusal = self._refusal or (error, str(message.topic()))

    def _raise_delivery_error(self) -> None:
        if self._refusal is not None:
            error, topic = self._refusal
            raise self._clients.create_error(error, f"sending to {topic}")


TRANSACTION_CODECS = ("none", "lz4", "zstd", "gzip")
"""Compression types of the transactional producers, one per producer."""

_BURST_RECORDS_MAX = 40
_TRANSACTION_END_CHANCE = 0.25
_ABORT_CHANCE = 0.4
_TRANSACTION_TIMEOUT_S = 60.0


@dataclass(slots=True)
class TransactionTotals:
    """Counts of the records sent in transactions. Consumers see only the records of `committed`
    transactions."""

    committed: int = 0
    aborted: int = 0
    transactions: int = 0


class TransactionalProducer:
    """A producer and its current transaction; `open_records` is the number of records in the
    transaction."""

    def __init__(self, clients: SandboxClients, name: str, *, codec: str, now: Clock):
        self._clients = clients
        self._name = name
        self._clock = now
        self._sender = AcknowledgedProducer(
            clients,
            name,
            now=now,
            settings={"transactional_id": name, "compression_type": codec, "linger_ms": 5},
        )
        self.open_records = 0
        self._retry_transaction_step("starting", self._sender.producer.init_transactions)

    def send(self, topic: str, records: list[OutgoingRecord]) -> None:
        """Send records. Begins a transaction if none is open."""
        if not self.open_records:
            self._retry_transaction_step(
                "beginning", lambda _: self._sender.producer.begin_transaction()
            )
        self._sender.send(topic, records)
        self.open_records += len(records)

    def end_transaction(self, *, commit: bool) -> int:
        """End the transaction and return its number of records.

        Flushes before an abort, so that the aborted records are in the log.
        """
        self._sender.flush()
        if commit:
            self._retry_transaction_step("committing", self._sender.producer.commit_transaction)
        else:
            self._retry_transaction_step("aborting", self._sender.producer.abort_transaction)
        ended, self.open_records = self.open_records, 0
        return ended

    def close(self) -> None:
        """Close the producer. An open transaction is not aborted by the producer, but by the broker
        after the transaction timeout."""
        self._sender.close()

    def _retry_transaction_step(self, doing: str, step: Callable[[float], None]) -> None:
        until = Deadline.after(_TRANSACTION_TIMEOUT_S, now_s=self._clock.now_s())
        while True:
            left_s = until.remaining_s(self._clock.now_s())
            try:
                step(max(0.1, left_s))
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable() or left_s <= 0:
                    raise self._create_error(error.args[0], doing) from None
            else:
                return

    def _create_error(self, error: confluent_kafka.KafkaError, doing: str) -> ConnectError:
        return self._clients.create_error(error, f"{doing} a transaction of {self._name}")


class InterleavedTransactions:
    """Interleaves the transactions of several producers on one thread, in a random but reproducible
    order (`BatchSpec.rng`).

    No transaction is open after `run` returns. All transactional ids start with `prefix`.
    """

    def __init__(self, clients: SandboxClients, *, topic: str, prefix: str, now: Clock):
        self.totals = TransactionTotals()
        self._topic = topic
        self._producers = [
            TransactionalProducer(clients, f"{prefix}-{codec}", codec=codec, now=now)
            for codec in TRANSACTION_CODECS
        ]

    def run(self, batch: BatchSpec) -> None:
        """Send the documents of a batch in interleaved transactions."""
        records = payloads.make_documents(batch)
        while burst := _take_record_burst(batch.rng, records):
            producer = batch.rng.choice(self._producers)
            producer.send(self._topic, burst)
            if batch.rng.random() < _TRANSACTION_END_CHANCE:
                self._end_transaction(producer, batch.rng)
        for producer in self._producers:
            if producer.open_records:
                self._end_transaction(producer, batch.rng)

    def close(self) -> None:
        for producer in self._producers:
            producer.close()

    def _end_transaction(self, producer: TransactionalProducer, rng: Random) -> None:
        commit = rng.random() >= _ABORT_CHANCE
        ended = producer.end_transaction(commit=commit)
        self.totals.transactions += 1
        if commit:
            self.totals.committed += ended
        else:
            self.totals.aborted += ended


def _take_record_burst(rng: Random, records: Iterator[OutgoingRecord]) -> list[OutgoingRecord]:
    size = rng.randrange(1, _BURST_RECORDS_MAX)
    return list(itertools.islice(records, size))


JAVA_PRODUCER_DESCRIPTION = "Kafka's Java producer"

_PERF_MAIN_CLASS = "org.apache.kafka.tools.ProducerPerformance"
_PERF_LOG_TAIL_CHARS = 1_500
_PERF_STOP_TIMEOUT_S = 5.0


class JavaPerfProducer:
    """A single run of Kafka's `ProducerPerformance` tool as a child process."""

    def __init__(
        self,
        to: ClientProperties,
        topic: str,
        *,
        records: int,
        record_bytes: int = 1_000,
        per_second: int = -1,
        codec: str = "lz4",
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mm2-perf-")
        self._topic = topic
        self._log = Path(self._folder.name) / "perf.log"
        config = Path(self._folder.name) / "client.properties"
        config.touch(mode=0o600)
        config.write_text(
            broker_settings.render_properties({**to, "compression.type": codec, "acks": "all"})
        )
        argv = java_server_process.make_java_command(
            _PERF_MAIN_CLASS,
            *("--topic", topic, "--num-records", str(records)),
            *("--record-size", str(record_bytes), "--throughput", str(per_second)),
            *("--command-config", str(config)),
            jars=kafka_jars.ensure_jars(),
        )
        with self._log.open("wb") as output:
            self._child = child_processes.start_process(argv, output=output)

    def await_completion(self, *, timeout_s: float = 120.0) -> None:
        """Wait until the tool has finished. Raises `SandboxError` with the tool's output on
        failure."""
        status = self._child.wait(timeout_s)
        said = self._log.read_text(errors="replace")[-_PERF_LOG_TAIL_CHARS:]
        self.stop()
        if status != 0:
            what = (
                f"ended with status {status}"
                if status
                else (f"was still running after {timeout_s:.0f} s")
            )
            raise SandboxError(
                f"the Java producer for topic {self._topic} {what}; its output:\n{said}"
            )

    def stop(self) -> None:
        """Kill the tool's process."""
        self._child.send_signal(signal.SIGTERM)
        if self._child.wait(_PERF_STOP_TIMEOUT_S) is None:
            self._child.kill()
        self._folder.cleanup()
