"""Measures replication latency with a producer that sends small records at a low constant rate, and
a consumer that reads their mirror topic.

Each value starts with the sending time according to the machine's monotonic clock, which all
processes on the machine share: 8 bytes, big-endian, in nanoseconds. Producer and consumer are
ordinary clients.
"""

from __future__ import annotations

import array
import struct
import threading
from dataclasses import dataclass

import confluent_kafka

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.kafka import client_errors
from mm2.sandbox import partition_reader
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.traffic import simulated_applications
from mm2.sandbox.traffic.simulated_applications import ClientLoop

_SENT_NS = struct.Struct(">Q")
_SAMPLES_MAX = 5_000_000
_POLL_TIMEOUT_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPercentiles:
    """Latency percentiles in milliseconds, from sending at the source to reading at the target. NaN
    if `count` is 0."""

    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


def compute_percentiles(samples_ms: array.array[float]) -> LatencyPercentiles:
    """Compute latency percentiles from samples in any order; NaN if there are no samples."""
    ranked = sorted(samples_ms)

    def get_percentile(share: float) -> float:
        return ranked[min(len(ranked) - 1, int(len(ranked) * share))] if ranked else float("nan")

    return LatencyPercentiles(
        count=len(ranked),
        p50_ms=get_percentile(0.5),
        p99_ms=get_percentile(0.99),
        p999_ms=get_percentile(0.999),
        max_ms=get_percentile(1.0),
    )


class TrickleProducer(ClientLoop):
    """Produces `per_second` records per second, each of `record_bytes` bytes, to all partitions of
    a topic in round-robin order.

    The producer is idempotent: no record is lost or duplicated while brokers restart. `sent` counts
    the acknowledged records. Records that do not fit into the producer's full buffer are dropped.
    """

    def __init__(
        self,
        to: ClientProperties,
        topic: str,
        *,
        partitions: int = 1,
        per_second: float = 500.0,
        record_bytes: int = 100,
        now: Clock | None = None,
    ) -> None:
        super().__init__("trickle", topic, now=now)
        assert record_bytes >= _SENT_NS.size
        self.sent = 0
        self._clients = SandboxClients(to, alias="source")
        self._topic = topic
        self._partitions = partitions
        self._pause_s = 1.0 / per_second
        self._padding = b"." * (record_bytes - _SENT_NS.size)
        self._refusal: confluent_kafka.KafkaError | None = None

    def _run(self, stop: threading.Event) -> None:
        producer = self._clients.create_producer(
            f"trickle-{self._topic}", enable_idempotence=True, linger_ms=0
        )
        due_s = self._clock.now_s()
        number = 0
        while not stop.wait(max(0.0, due_s - self._clock.now_s())):
            self._send_record(producer, number)
            number += 1
            due_s += self._pause_s
        left = producer.flush(simulated_applications.LOOP_STOP_TIMEOUT_S / 2)
        self._raise_delivery_error()
        if left:
            records = plurals.format_count(left, "record", "were")
            raise self._clients.create_timeout_error(f"trickle: {records} not acknowledged")

    def _send_record(self, producer: confluent_kafka.Producer, number: int) -> None:
        now_ns = int(self._clock.now_s() * 1e9)
        try:
            producer.produce(
                self._topic,
                value=_SENT_NS.pack(now_ns) + self._padding,
                key=b"%d" % number,
                partition=number % self._partitions,
                on_delivery=self._on_delivery,
            )
        except BufferError:
            producer.poll(_POLL_TIMEOUT_S)
        producer.poll(0)
        self._raise_delivery_error()

    def _on_delivery(
        self, error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message
    ) -> None:
        if error is None:
            self.sent += 1
        else:
            self._refusal = self._refusal or error

    def _raise_delivery_error(self) -> None:
        if self._refusal is not None:
            raise self._clients.create_error(self._refusal, f"sending to {self._topic}")


class LatencyProbe(ClientLoop):
    """Measures the replication latency of each record that a `TrickleProducer` sends. Reads the
    mirror topic, starting at its current end.

    Start the probe after the mirror topic has been created. `restart_measurement` discards earlier
    samples.
    """

    def __init__(
        self,
        properties: ClientProperties,
        topic: str,
        *,
        partitions: int = 1,
        isolation: str = partition_reader.READ_COMMITTED,
        now: Clock | None = None,
    ) -> None:
        super().__init__("latency probe", topic, now=now)
        self._clients = SandboxClients(properties, alias="target")
        self._topic = topic
        self._partitions = partitions
        self._isolation = isolation
        self._samples_ms = array.array("d")
        self._from_ns = 0

    def restart_measurement(self) -> None:
        """Discard all samples. Only records sent after this call are measured."""
        self._from_ns = int(self._clock.now_s() * 1e9)
        self._samples_ms = array.array("d")

    @property
    def latencies(self) -> LatencyPercentiles:
        return compute_percentiles(self._samples_ms[:])

    @property
    def sample_count(self) -> int:
        return len(self._samples_ms)

    def _run(self, stop: threading.Event) -> None:
        consumer = self._clients.create_consumer(
            f"probe-{self._topic}", isolation_level=self._isolation, auto_offset_reset="latest"
        )
        try:
            self._assign_partitions(consumer)
            while not stop.is_set():
                self._poll_records(consumer)
        finally:
            consumer.close()

    def _assign_partitions(self, consumer: confluent_kafka.Consumer) -> None:
        consumer.assign(
            [
                confluent_kafka.TopicPartition(self._topic, number, confluent_kafka.OFFSET_END)
                for number in range(self._partitions)
            ]
        )

    def _poll_records(self, consumer: confluent_kafka.Consumer) -> None:
        # Wait only for the first message: waiting for more would increase the measured age.
        message = consumer.poll(_POLL_TIMEOUT_S)
        while message is not None:
            error = message.error()
            if error is None:
                self._measure_record_age(message.value())
            elif error.code() != client_errors.PARTITION_EOF and error.fatal():
                raise self._clients.create_error(error, f"reading {self._topic}")
            message = consumer.poll(0)

    def _measure_record_age(self, value: bytes | None) -> None:
        now_ns = int(self._clock.now_s() * 1e9)
        if value is None or len(value) < _SENT_NS.size:
            return
        (sent_ns,) = _SENT_NS.unpack_from(value)
        if sent_ns >= self._from_ns and len(self._samples_ms) < _SAMPLES_MAX:
            self._samples_ms.append((now_ns - sent_ns) / 1e6)
