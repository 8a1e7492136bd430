"""Applications of a user's: one writes numbered records, one reads them in a consumer group."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import Any, Self

import confluent_kafka

from connect_runtime.system import threads
from tests.support import eventually, kafka

_JOIN_S = 100.0
_FLUSH_S = 20.0


class _Application:
    """Runs on a thread of its own until `stop`, or until it leaves `with`."""

    def __init__(self) -> None:
        self._failures: list[threads.UnaskedEnd] = []
        self._owned = threads.Threads(on_unasked_end=self._failures.append)

    def __enter__(self) -> Self:
        self._owned.start(type(self).__name__, self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when it has ended, and fails where it has failed."""
        assert self._owned.stop_all(_JOIN_S) == []
        assert self._failures == []

    def _run(self, stop: threading.Event) -> None:
        raise NotImplementedError


class Writing(_Application):
    """Sends numbers, one after the other, to the partitions in turn; `sent` are those that were
    acknowledged."""

    def __init__(
        self,
        properties: kafka.Properties,
        topic: str,
        *,
        partitions: int,
        first: int = 0,
        pause_s: float = 0.005,
    ) -> None:
        super().__init__()
        self.sent: set[int] = set()
        self._topic = topic
        self._partitions = partitions
        self._numbers = itertools.count(first)
        self._pause_s = pause_s
        config = kafka.client_config(properties, enable_idempotence=True, linger_ms=5)
        self._producer = confluent_kafka.Producer(config)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._pause_s):
            number = next(self._numbers)

            def told(error: object, _: object, number: int = number) -> None:
                if error is None:
                    self.sent.add(number)

            self._producer.produce(
                self._topic,
                str(number).encode(),
                partition=number % self._partitions,
                on_delivery=told,
            )
            self._producer.poll(0)
        self._producer.flush(_FLUSH_S)  # what a dead cluster does not take is given up


class Reading(_Application):
    """A member of a group: what it has processed, it commits. `processed` are numbers in the order
    of reading, `places` their partitions and offsets. One that is `cut_off` leaves nothing behind
    it: it does not wait for a cluster that is dead."""

    def __init__(self, properties: kafka.Properties, group: str, topic: str) -> None:
        super().__init__()
        self.processed: list[int] = []
        self.places: list[tuple[int, int]] = []
        self.cut_off = False
        self._told = 0
        self._topic = topic
        settings: Mapping[str, Any] = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "session.timeout.ms": 10_000,
            "socket.timeout.ms": 10_000,  # a dead cluster does not hold up the end
        }
        self._consumer = confluent_kafka.Consumer({**kafka.client_config(properties), **settings})

    def _run(self, stop: threading.Event) -> None:
        self._consumer.subscribe([self._topic])
        while not stop.is_set():
            for message in self._consumer.consume(50, 0.2):
                error = message.error()
                if error is not None:
                    if error.fatal():
                        raise confluent_kafka.KafkaException(error)
                    continue
                value = message.value()
                assert value is not None
                self.processed.append(int(value))
                self.places.append((message.partition() or 0, message.offset() or 0))
            if len(self.processed) > self._told:
                self._told = len(self.processed)
                self._consumer.commit(asynchronous=True)
        if not self.cut_off:
            self._consumer.close()  # with what was committed last


def first_positions(properties: kafka.Properties, group: str, topic: str, partitions: int) -> None:
    """The group begins at the beginning, explicitly: nobody resets anything later."""
    places = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]

    def written() -> bool:
        client = kafka.admin_client(properties)
        request = confluent_kafka.ConsumerGroupTopicPartitions(group, places)
        try:
            done = client.alter_consumer_group_offsets([request])[group].result(30)
        except TimeoutError:
            return False
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return all(each.error is None for each in done.topic_partitions)

    # The topic of offsets is made for the first of all, and brokers hear late of new topics.
    eventually.eventually(written, _JOIN_S)


def positions(
    properties: kafka.Properties, group: str, topic: str, partitions: int
) -> dict[int, int]:
    """By partition, where the group goes on; it has to go on somewhere."""
    consumer = confluent_kafka.Consumer(kafka.client_config(properties, group_id=group))
    try:
        places = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
        found = {each.partition: each.offset for each in consumer.committed(places, 60)}
    finally:
        consumer.close()
    assert min(found.values()) >= 0, found
    return found
