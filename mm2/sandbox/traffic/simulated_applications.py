"""Test applications: a producer of numbered records and a consumer group member.

Together they show which records were processed, how often, and which were not processed.
`ClientLoop` is the thread that runs a test application; its `stop` method raises the error with
which the thread failed.
"""

from __future__ import annotations

import itertools
import threading
from typing import Self

import confluent_kafka

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import sandbox_clients
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.sandbox_errors import SandboxError

LOOP_STOP_TIMEOUT_S = 10.0


class ClientLoop:
    """Base class that runs the subclass's method `_run` on a thread, from `start` to `stop` or
    within a `with` block. `name` and `location` are used in messages."""

    def __init__(
        self,
        name: str,
        location: str,
        *,
        stop_s: float = LOOP_STOP_TIMEOUT_S,
        now: Clock | None = None,
    ) -> None:
        self._name = name
        self._where = location
        self._stop_s = stop_s
        self._clock = now or SystemClock()
        self._failure: BaseException | None = None
        self._thread: StoppableThread | None = None
        self._threads = ThreadGroup(on_unexpected_end=self._record_thread_end)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive

    def start(self) -> None:
        self._thread = self._threads.start(f"{self._name} {self._where}", self._run)

    def stop(self) -> None:
        """Stop the thread. Raises the error with which the thread failed, if any."""
        still_there = self._threads.stop_all(self._stop_s)
        if self._failure is not None:
            raise SandboxError(f"{self._name} on {self._where}: {self._failure}") from self._failure
        if still_there:
            raise SandboxError(f"{self._name} on {self._where} did not stop in time")

    def stop_quietly(self) -> None:
        """Stop the thread without raising its error, for cleanup."""
        self._threads.stop_all(self._stop_s)

    def _run(self, stop: threading.Event) -> None:
        raise NotImplementedError

    def _record_thread_end(self, end: UnexpectedThreadEnd) -> None:
        self._failure = end.error or SandboxError("the thread ended unexpectedly")


_APPLICATION_STOP_TIMEOUT_S = 100.0
_FLUSH_TIMEOUT_S = 20.0
_REQUEST_TIMEOUT_S = 60.0
_QUEUE_FULL_WAIT_S = 0.1


class NumberProducer(ClientLoop):
    """Produces consecutive numbers starting with `first` to all partitions in round-robin order.

    `sent` contains the acknowledged numbers. Records that a dead cluster does not accept are
    dropped.
    """

    def __init__(
        self,
        to: ClientProperties,
        topic: str,
        *,
        partitions: int,
        first: int = 0,
        pause_s: float = 0.005,
    ) -> None:
        super().__init__("application that writes", topic, stop_s=_APPLICATION_STOP_TIMEOUT_S)
        self.sent: set[int] = set()
        self._topic = topic
        self._partitions = partitions
        self._numbers = itertools.count(first)
        self._pause_s = pause_s
        self._producer = SandboxClients(to, alias="source").create_producer(
            f"writes-{topic}", enable_idempotence=True, linger_ms=5
        )

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._pause_s):
            self._send_number(next(self._numbers))
        self._producer.flush(_FLUSH_TIMEOUT_S)

    def _send_number(self, number: int) -> None:
        def on_delivery(
            error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message
        ) -> None:
            if error is None:
                self.sent.add(number)

        try:
            self._producer.produce(
                self._topic,
                str(number).encode(),
                partition=number % self._partitions,
                on_delivery=on_delivery,
            )
        except BufferError:
            self._producer.poll(_QUEUE_FULL_WAIT_S)
        self._producer.poll(0)


class GroupConsumer(ClientLoop):
    """A consumer group member that commits the offsets of the records it has processed.

    The member starts at the group's committed offsets and fails if the group has none. `processed`
    contains the numbers of the processed records in reading order, and `positions` contains
    (partition, offset) of each processed record. If `abandon_cluster` is True, `stop` does not
    close the consumer, which would wait for a dead cluster.
    """

    def __init__(self, properties: ClientProperties, group: str, *topics: str) -> None:
        topic = ", ".join(topics)
        super().__init__("application that reads", topic, stop_s=_APPLICATION_STOP_TIMEOUT_S)
        self.processed: list[int] = []
        self.positions: list[tuple[int, int]] = []
        self.abandon_cluster = False
        self._committed = 0
        self._topics = topics
        self._clients = SandboxClients(properties, alias=group)
        self._consumer = self._clients.create_consumer(
            f"reads-{topics[0]}",
            group_id=group,
            enable_partition_eof=False,
            session_timeout_ms=10_000,
            socket_timeout_ms=10_000,  # do not wait long for a dead cluster when closing
        )

    def _run(self, stop: threading.Event) -> None:
        self._consumer.subscribe(list(self._topics))
        while not stop.is_set():
            for message in self._consumer.consume(50, 0.2):
                self._process_message(message)
            if len(self.processed) > self._committed:
                self._committed = len(self.processed)
                self._consumer.commit(asynchronous=True)
        if not self.abandon_cluster:
            self._consumer.close()  # with the last commit

    def _process_message(self, message: confluent_kafka.Message) -> None:
        error = message.error()
        if error is not None:
            if error.fatal():
                raise self._clients.create_error(error, f"reading {', '.join(self._topics)}")
            return
        self.processed.append(int(message.value() or b""))
        self.positions.append((message.partition() or 0, message.offset() or 0))


def create_group_at_offset_zero(
    properties: ClientProperties, group: str, topic: str, *, partitions: int
) -> None:
    """Commit offset 0 of all partitions of a new topic for a consumer group, so that
    `auto.offset.reset` never applies.

    Retries transient errors: the offsets topic is created only when the first group needs it, and
    brokers may not know a new topic yet. Raises `ConnectError` if the commit still fails.
    """
    sandbox_clients.retry_transient_errors(
        lambda: _write_start_offsets(properties, group, topic, partitions=partitions),
        timeout_s=_REQUEST_TIMEOUT_S,
    )


def _write_start_offsets(at: ClientProperties, group: str, topic: str, *, partitions: int) -> None:
    made = SandboxClients(at, alias=group)
    admin = made.create_admin_client(f"begins-{group}")  # deleting the client cancels its requests
    places = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
    request = confluent_kafka.ConsumerGroupTopicPartitions(group, places)
    doing = f"committing the first offsets of the group {group}"
    try:
        future = admin.alter_consumer_group_offsets([request])[group]
        done = future.result(_REQUEST_TIMEOUT_S)
    except TimeoutError:
        raise made.create_timeout_error(doing) from None
    except confluent_kafka.KafkaException as error:
        raise made.create_error(error.args[0], doing) from None
    refused = [each.error for each in done.topic_partitions if each.error is not None]
    if refused:
        raise made.create_error(refused[0], doing)


def read_group_offsets(
    properties: ClientProperties, group: str, topic: str, *, partitions: int
) -> dict[int, int]:
    """Return the group's committed offset of each partition. Raises `SandboxError` if a partition
    has no offset."""
    made = SandboxClients(properties, alias=group)
    consumer = made.create_consumer(f"asks-{group}", group_id=group)
    places = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]

    def fetch_group_offsets() -> dict[int, int]:
        doing = f"reading the offsets of the group {group}"
        try:
            answer = consumer.committed(places, _REQUEST_TIMEOUT_S)
        except confluent_kafka.KafkaException as error:
            raise made.create_error(error.args[0], doing) from None
        refused = [each.error for each in answer if each.error is not None]
        if refused:
            raise made.create_error(refused[0], doing)
        return {each.partition: each.offset for each in answer}

    try:
        found = sandbox_clients.retry_transient_errors(
            fetch_group_offsets, timeout_s=_REQUEST_TIMEOUT_S
        )
    finally:
        consumer.close()
    if min(found.values()) < 0:
        raise SandboxError(f"the group {group} has no committed offsets for {topic}: {found}")
    return found
