"""Writers whose every record bears a number of its own, and which note where it came to stand."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Self

import confluent_kafka

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from tests.support import kafka
from tests.support.kafka import Properties

_WAITS_S = 60.0
_KEYS = 25
_HEADER = "n"

Places = dict[int, int]
"""Who stands where: by offset, the record's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`aborts`: of its transactions this share is aborted; None writes without transactions.

    Some records are written by themselves, some in batches of up to `burst`.
    """

    topic: str
    partitions: int = 1
    aborts: float | None = None
    burst: int = 20
    codec: str = "lz4"
    config: Mapping[str, str] = field(default_factory=dict)


class Writer:
    """One topic's. Its cluster must stay up: what is not acknowledged ends it with an error.

    `written` is touched by its own thread only, until that has ended.
    """

    def __init__(
        self, kind: Kind, properties: Properties, *, random: Random, pause_s: float
    ) -> None:
        self.kind = kind
        self.partitions = kind.partitions
        self.written: dict[TopicPartition, Places] = {}
        self._properties = properties
        self._random = random
        self._pause_s = pause_s
        self._number = 0
        self._pending: list[tuple[TopicPartition, int, int]] = []

    def run(self, stop: threading.Event) -> None:
        producer, known = self._open(), self.partitions
        while not stop.wait(self._random.uniform(0, 2 * self._pause_s)):
            if known != self.partitions:
                producer, known = self._open(), self.partitions  # else it learns of them late
            self._round(producer)

    def _open(self) -> confluent_kafka.Producer:
        settings: dict[str, Any] = {
            "compression.type": self.kind.codec,
            "enable.idempotence": True,
            "linger.ms": 10,
        }
        if self.kind.aborts is not None:
            settings["transactional.id"] = f"numbered-{self.kind.topic}"
        producer = confluent_kafka.Producer({**kafka.client_config(self._properties), **settings})
        if self.kind.aborts is not None:
            kafka.init_transactions(producer)
        return producer

    def _round(self, producer: confluent_kafka.Producer) -> None:
        if self.kind.aborts is None:
            self._send(producer)
            kafka.flush(producer)
            self._keep()
            return
        producer.begin_transaction()
        self._send(producer)
        kafka.flush(producer)
        if self._random.random() < self.kind.aborts:
            kafka.end_transaction(producer, commit=False)
            self._pending.clear()
        else:
            kafka.end_transaction(producer, commit=True)
            self._keep()

    def _send(self, producer: confluent_kafka.Producer) -> None:
        for _ in range(self._random.randint(1, self.kind.burst)):
            self._number += 1
            producer.produce(
                self.kind.topic,
                key=b"%d" % self._random.randrange(_KEYS),
                value=self._random.randbytes(self._random.randrange(60)),
                headers=[(_HEADER, b"%d" % self._number)],
                partition=self._random.randrange(self.partitions),
                on_delivery=functools.partial(self._acknowledged, self._number),
            )
        producer.poll(0)

    def _acknowledged(
        self,
        number: int,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
    ) -> None:
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        place = TopicPartition(self.kind.topic, message.partition() or 0)
        self._pending.append((place, message.offset() or 0, number))

    def _keep(self) -> None:
        for place, offset, number in self._pending:
            self.written.setdefault(place, {})[offset] = number
        self._pending.clear()


def number_of(headers: Any) -> int:
    """Which record it is; -1 of those that none of these writers has written."""
    return int(dict(headers or ()).get(_HEADER, b"-1"))


def places(
    properties: Properties, topic: str, partition: int, *, isolation: str = "read_committed"
) -> Places:
    """What a log holds now."""
    found = kafka.read_partition(properties, topic, partition, isolation=isolation)
    return {each.offset: number_of(each.headers) for each in found}


class Traffic:
    """A writer and a thread for each topic, from `start` to `stop`, as often as wanted."""

    def __init__(
        self, properties: Properties, kinds: Sequence[Kind], *, seed: int, pause_s: float
    ) -> None:
        self._properties = properties
        self._ends: list[UnexpectedThreadEnd] = []
        self._threads: ThreadGroup | None = None
        self.writers = {
            kind.topic: Writer(
                kind, properties, random=Random(f"{seed} {kind.topic}"), pause_s=pause_s
            )
            for kind in kinds
        }

    def create_topics(self) -> Self:
        for writer in self.writers.values():
            kind = writer.kind
            kafka.create_topic(
                self._properties, kind.topic, partitions=kind.partitions, config=kind.config
            )
        return self

    def start(self) -> None:
        self._threads = ThreadGroup(on_unexpected_end=self._ends.append)
        for name, writer in self.writers.items():
            self._threads.start(f"writer {name}", writer.run)

    def stop(self) -> None:
        """All is acknowledged, and every transaction has ended."""
        running, self._threads = self._threads, None
        if running is not None:
            assert running.stop_all(_WAITS_S) == []
        assert self._ends == []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        elif self._threads is not None:
            self._threads.stop_all(_WAITS_S)
