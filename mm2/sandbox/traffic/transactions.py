"""Several transactional producers at once, whose transactions interleave, commit and abort."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import confluent_kafka

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors
from mm2.sandbox import clients
from mm2.sandbox.traffic import payloads, sender

CODECS = ("none", "lz4", "zstd", "gzip")
"""One producer for each."""

_BURST_MAX = 40
_END_CHANCE = 0.25
_ABORT_CHANCE = 0.4
_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Totals:
    """What was sent: only the records of `committed` transactions show."""

    committed: int = 0
    aborted: int = 0
    transactions: int = 0


class TransactionalProducer:
    """One producer, and its transaction of now. `open_records` is how many that has so far."""

    def __init__(self, of: clients.Clients, name: str, *, codec: str, now: base_clock.Clock):
        self._clients = of
        self._name = name
        self._clock = now
        self._sender = sender.Sender(
            of,
            name,
            now=now,
            settings={"transactional_id": name, "compression_type": codec, "linger_ms": 5},
        )
        self.open_records = 0
        self._insist("starting", self._sender.producer.init_transactions)

    def burst(self, topic: str, records: list[payloads.Outgoing]) -> None:
        """Send these, in a new transaction when none is open."""
        if not self.open_records:
            self._insist("beginning", lambda _: self._sender.producer.begin_transaction())
        self._sender.send(topic, records)
        self.open_records += len(records)

    def end(self, *, commit: bool) -> int:
        """Returns how many records it had. Aborted ones are in the log first, as they should."""
        self._sender.flush()
        if commit:
            self._insist("committing", self._sender.producer.commit_transaction)
        else:
            self._insist("aborting", self._sender.producer.abort_transaction)
        ended, self.open_records = self.open_records, 0
        return ended

    def close(self) -> None:
        """An open transaction is left to the broker's timeout."""
        self._sender.close()

    def _insist(self, doing: str, step: Callable[[float], None]) -> None:
        until = deadline.Deadline.after(_TIMEOUT_S, now_s=self._clock.now_s())
        while True:
            left_s = until.left_s(self._clock.now_s())
            try:
                step(max(0.1, left_s))
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable() or left_s <= 0:
                    raise self._failed(error.args[0], doing) from None
            else:
                return

    def _failed(self, error: confluent_kafka.KafkaError, doing: str) -> errors.ConnectError:
        return self._clients.explain(error, f"{doing} a transaction of {self._name}")


class Transactions:
    """Interleaves its producers in one thread, by the dice of the batch: repeatable.

    After each `run` no transaction is open. `prefix` begins the transactional ids.
    """

    def __init__(self, of: clients.Clients, *, topic: str, prefix: str, now: base_clock.Clock):
        self.totals = Totals()
        self._topic = topic
        self._producers = [
            TransactionalProducer(of, f"{prefix}-{codec}", codec=codec, now=now) for codec in CODECS
        ]

    def run(self, batch: payloads.Batch) -> None:
        """Send the documents of a batch."""
        records = payloads.documents(batch)
        while burst := _burst(batch.rng, records):
            producer = batch.rng.choice(self._producers)
            producer.burst(self._topic, burst)
            if batch.rng.random() < _END_CHANCE:
                self._end(producer, batch.rng)
        for producer in self._producers:
            if producer.open_records:
                self._end(producer, batch.rng)

    def close(self) -> None:
        for producer in self._producers:
            producer.close()

    def _end(self, producer: TransactionalProducer, rng: Random) -> None:
        commit = rng.random() >= _ABORT_CHANCE
        ended = producer.end(commit=commit)
        self.totals.transactions += 1
        if commit:
            self.totals.committed += ended
        else:
            self.totals.aborted += ended


def _burst(rng: Random, records: Iterator[payloads.Outgoing]) -> list[payloads.Outgoing]:
    size = rng.randrange(1, _BURST_MAX)
    return list(itertools.islice(records, size))
