"""Traffic for chaos: writers that go on whatever happens to their brokers, and what they wrote.

Each writer has a topic and a producer of its own. A producer that a fault has spoilt is replaced;
what it had sent may or may not be in the source. That is no matter: the judge compares logs, and
`acknowledged` only says that there was something to lose.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import confluent_kafka

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import kafka
from tests.support.kafka import Properties

CLOCK = SystemClock()
OLD_MS = 3 * 86_400_000
STOP_S = 60.0
_ABORT_CHANCE = 0.35
_FLUSH_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One writer: `transactional` ones abort every third transaction; `age_ms` is how old its
    records are when they are written."""

    topic: str
    codec: str = "none"
    partitions: int = 2
    transactional: bool = False
    age_ms: int = 0
    burst: int = 40
    value_bytes: int = 200
    settings: Mapping[str, object] = field(default_factory=dict)


MIXED = (
    Kind(topic="plain-none", codec="none"),
    Kind(topic="plain-gzip", codec="gzip"),
    Kind(topic="plain-snappy", codec="snappy"),
    Kind(topic="plain-lz4", codec="lz4", partitions=4),
    Kind(topic="plain-zstd", codec="zstd"),
    Kind(topic="txn-zstd", codec="zstd", transactional=True, partitions=3),
    Kind(topic="txn-none", codec="none", transactional=True),
    Kind(topic="old", codec="lz4", age_ms=OLD_MS),
    Kind(topic="tiny", codec="none", burst=3, value_bytes=10, settings={"linger.ms": 0}),
)
"""Every codec, plain and in transactions, fresh and three days old."""


class Writer:
    """Writes bursts until it is stopped."""

    def __init__(
        self, kind: Kind, properties: Properties, *, random: Random, pause_s: float
    ) -> None:
        self.kind = kind
        self.acknowledged = 0
        self.replaced = 0
        self._properties = properties
        self._random = random
        self._pause_s = pause_s
        self._number = 0
        self._failed = False

    def run(self, stop: threading.Event) -> None:
        producer: confluent_kafka.Producer | None = None
        while not stop.wait(self._pause_s):
            try:
                producer = producer or self._open()
                self._round(producer)
            except confluent_kafka.KafkaException:
                self._failed = True
            if self._failed:
                self._failed = False
                self.replaced += 1
                producer = None
                stop.wait(0.5)
        if producer is not None:
            producer.flush(_FLUSH_S)

    def _open(self) -> confluent_kafka.Producer:
        settings: dict[str, Any] = {
            "compression.type": self.kind.codec,
            "enable.idempotence": True,
            "linger.ms": 5,
            **self.kind.settings,
        }
        if self.kind.transactional:
            settings["transactional.id"] = f"chaos-{self.kind.topic}"
            settings["transaction.timeout.ms"] = 10_000
        producer = confluent_kafka.Producer({**kafka.client_config(self._properties), **settings})
        if self.kind.transactional:
            producer.init_transactions(_FLUSH_S)
        return producer

    def _round(self, producer: confluent_kafka.Producer) -> None:
        if self.kind.transactional:
            producer.begin_transaction()
        self._send(producer)
        if self.kind.transactional:
            producer.flush(_FLUSH_S)
            if self._failed:
                return
            if self._random.random() < _ABORT_CHANCE:
                producer.abort_transaction(_FLUSH_S)
            else:
                producer.commit_transaction(_FLUSH_S)

    def _send(self, producer: confluent_kafka.Producer) -> None:
        for _ in range(self._random.randrange(1, 2 * self.kind.burst)):
            self._number += 1
            try:
                producer.produce(
                    self.kind.topic,
                    key=b"%d" % self._number,
                    value=self._random.randbytes(self._random.randrange(1, self.kind.value_bytes)),
                    headers=[("n", b"%d" % self._number)],
                    partition=self._random.randrange(self.kind.partitions),
                    timestamp=CLOCK.wall_ms() - self.kind.age_ms,
                    on_delivery=self._delivered,
                )
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)

    def _delivered(
        self, error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message
    ) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._failed = True


class Traffic:
    """All writers of a workload on one source cluster, a thread each. `seed` fixes content and
    sizes; when things happen is the machine's affair."""

    def __init__(
        self,
        source: SandboxCluster,
        *,
        seed: int,
        kinds: Sequence[Kind] = MIXED,
        pause_s: float = 0.1,
    ) -> None:
        self.kinds = tuple(kinds)
        self._properties = source.client_properties()
        self.writers = [
            Writer(
                kind,
                self._properties,
                random=Random(f"{seed} {kind.topic}"),
                pause_s=pause_s,
            )
            for kind in kinds
        ]
        self._ends: list[UnexpectedThreadEnd] = []
        self._threads = ThreadGroup(on_unexpected_end=self._ends.append)

    @property
    def acknowledged(self) -> int:
        return sum(each.acknowledged for each in self.writers)

    @property
    def topics(self) -> list[str]:
        return [kind.topic for kind in self.kinds]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(kind.topic, number)
            for kind in self.kinds
            for number in range(kind.partitions)
        ]

    def create_topics(self) -> Self:
        for kind in self.kinds:
            kafka.create_topic(self._properties, kind.topic, partitions=kind.partitions)
        return self

    def start(self) -> Self:
        for writer in self.writers:
            self._threads.start(f"writer {writer.kind.topic}", writer.run)
        return self

    def stop(self) -> None:
        """All is acknowledged or given up; raises what a writer could not live with."""
        left = self._threads.stop_all(STOP_S)
        assert not left, f"writers still run: {left}"
        assert not self._ends, self._ends

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self._threads.stop_all(STOP_S)
