"""Applications as users have them: one writes numbered records, one works in a consumer group.

Whoever has both knows afterwards what was processed, how often, and what was not.
"""

from __future__ import annotations

import itertools
import threading

import confluent_kafka

from mm2.sandbox import clients, failures
from mm2.sandbox.traffic import loops

_STOP_S = 100.0
_FLUSH_S = 20.0
_REQUEST_S = 60.0
_ROOM_S = 0.1


class Writing(loops.Loop):
    """Sends numbers from `first` on, one after the other, to the partitions in turn; `sent` are
    those that were acknowledged. What a dead cluster does not take is given up."""

    def __init__(
        self,
        to: clients.Properties,
        topic: str,
        *,
        partitions: int,
        first: int = 0,
        pause_s: float = 0.005,
    ) -> None:
        super().__init__("application that writes", topic, stop_s=_STOP_S)
        self.sent: set[int] = set()
        self._topic = topic
        self._partitions = partitions
        self._numbers = itertools.count(first)
        self._pause_s = pause_s
        self._producer = clients.Clients(to, alias="source").producer(
            f"writes-{topic}", enable_idempotence=True, linger_ms=5
        )

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._pause_s):
            self._send(next(self._numbers))
        self._producer.flush(_FLUSH_S)

    def _send(self, number: int) -> None:
        def told(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
            if error is None:
                self.sent.add(number)

        try:
            self._producer.produce(
                self._topic,
                str(number).encode(),
                partition=number % self._partitions,
                on_delivery=told,
            )
        except BufferError:
            self._producer.poll(_ROOM_S)
        self._producer.poll(0)


class Reading(loops.Loop):
    """A member of a group that reads these topics: what it has processed, it commits, and it begins
    where the group stands or not at all. `processed` are numbers in the order of reading, `places`
    their partitions and offsets. One that is `cut_off` leaves nothing behind: it does not wait for
    a dead cluster."""

    def __init__(self, at: clients.Properties, group: str, *topics: str) -> None:
        topic = ", ".join(topics)
        super().__init__("application that reads", topic, stop_s=_STOP_S)
        self.processed: list[int] = []
        self.places: list[tuple[int, int]] = []
        self.cut_off = False
        self._committed = 0
        self._topics = topics
        self._clients = clients.Clients(at, alias=group)
        self._consumer = self._clients.consumer(
            f"reads-{topics[0]}",
            group_id=group,
            enable_partition_eof=False,
            session_timeout_ms=10_000,
            socket_timeout_ms=10_000,  # a dead cluster does not hold up the end
        )

    def _run(self, stop: threading.Event) -> None:
        self._consumer.subscribe(list(self._topics))
        while not stop.is_set():
            for message in self._consumer.consume(50, 0.2):
                self._process(message)
            if len(self.processed) > self._committed:
                self._committed = len(self.processed)
                self._consumer.commit(asynchronous=True)
        if not self.cut_off:
            self._consumer.close()  # with what was committed last

    def _process(self, message: confluent_kafka.Message) -> None:
        error = message.error()
        if error is not None:
            if error.fatal():
                raise self._clients.explain(error, f"reading {', '.join(self._topics)}")
            return
        self.processed.append(int(message.value() or b""))
        self.places.append((message.partition() or 0, message.offset() or 0))


def begin(at: clients.Properties, group: str, topic: str, *, partitions: int) -> None:
    """The group begins at the beginning, explicitly: nothing is reset later. Raises `ConnectError`.

    The topic of offsets is made for the first group of all, and brokers hear late of new topics:
    what is refused for now is asked again.
    """
    clients.repeated(
        lambda: _write_first(at, group, topic, partitions=partitions), timeout_s=_REQUEST_S
    )


def _write_first(at: clients.Properties, group: str, topic: str, *, partitions: int) -> None:
    made = clients.Clients(at, alias=group)
    admin = made.admin(f"begins-{group}")  # what it was asked ends with it
    places = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
    request = confluent_kafka.ConsumerGroupTopicPartitions(group, places)
    doing = f"writing the first positions of the group {group}"
    try:
        future = admin.alter_consumer_group_offsets([request])[group]
        done = future.result(_REQUEST_S)
    except TimeoutError:
        raise made.overdue(doing) from None
    except confluent_kafka.KafkaException as error:
        raise made.explain(error.args[0], doing) from None
    refused = [each.error for each in done.topic_partitions if each.error is not None]
    if refused:
        raise made.explain(refused[0], doing)


def positions(at: clients.Properties, group: str, topic: str, *, partitions: int) -> dict[int, int]:
    """By partition, where the group goes on. Raises `SandboxError` where it would not know."""
    made = clients.Clients(at, alias=group)
    consumer = made.consumer(f"asks-{group}", group_id=group)
    places = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]

    def ask() -> dict[int, int]:
        doing = f"reading the positions of the group {group}"
        try:
            answer = consumer.committed(places, _REQUEST_S)
        except confluent_kafka.KafkaException as error:
            raise made.explain(error.args[0], doing) from None
        refused = [each.error for each in answer if each.error is not None]
        if refused:
            raise made.explain(refused[0], doing)
        return {each.partition: each.offset for each in answer}

    try:
        found = clients.repeated(ask, timeout_s=_REQUEST_S)
    finally:
        consumer.close()
    if min(found.values()) < 0:
        raise failures.SandboxError(f"the group {group} stands nowhere in {topic}: {found}")
    return found
