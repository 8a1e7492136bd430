"""A producer that writes to its topics throughout, whatever happens to them meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import confluent_kafka

from tests.support import kafka
from tests.support.kafka import Outgoing, Properties
from tests.support.rounds import Rounds

ROUND_S = 0.1
_WAITS_S = 60.0


class Steady(Rounds):
    """A few records to every partition of each topic, in every round.

    `places` are partition counts by topic; `follow` and `leave` change them as it runs. Records are
    numbered per topic, and their keys come again. `settings` are librdkafka's, `_` for `.`.
    """

    def __init__(
        self,
        properties: Properties,
        places: Mapping[str, int],
        *,
        each: int = 4,
        bytes_each: int = 100,
        **settings: object,
    ) -> None:
        super().__init__("steady")
        self._config = kafka.client_config(
            properties, **{"linger_ms": 20, "acks": "all"} | settings
        )
        self._producer = confluent_kafka.Producer(self._config)
        self._places = dict(places)
        self._each = each
        self._bytes_each = bytes_each
        self._number = 0

    def follow(self, topic: str, partitions: int) -> None:
        """From now on it has so many partitions, which a producer learns late by itself."""
        self._producer = confluent_kafka.Producer(self._config)
        self._places = {**self._places, topic: partitions}

    def leave(self, topic: str) -> None:
        """Returns once nothing more is on its way to the topic."""
        self._places = {name: count for name, count in self._places.items() if name != topic}
        self.go_on(2)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(ROUND_S):
            producer = self._producer
            for topic, partitions in self._places.items():
                kafka.send(producer, topic, self._records(partitions))
            kafka.flush(producer)
            self.rounds += 1

    def _records(self, partitions: int) -> list[Outgoing]:
        made = []
        for partition in range(partitions):
            for _ in range(self._each):
                self._number += 1
                value = b"%09d" % self._number * max(1, self._bytes_each // 9)
                key = b"%d" % (self._number % 50)
                made.append(Outgoing(key=key, value=value, partition=partition))
        return made
