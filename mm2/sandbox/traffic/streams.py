"""Each kind of traffic, opened on a cluster: sends so many records when asked."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from connect_runtime.base import clock as base_clock
from mm2.sandbox import clients
from mm2.sandbox.traffic import kinds, payloads, sender, transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and how streams send. `seed` makes content repeatable, `prefix` begins topic names."""

    properties: clients.Properties
    clients: clients.Clients
    seed: int
    prefix: str
    clock: base_clock.Clock


class Stream(Protocol):
    """One kind of traffic. `backlog(records)` and `live` say how many records are due."""

    @property
    def describe(self) -> str: ...

    @property
    def live(self) -> int: ...

    def backlog(self, records: int) -> int: ...

    def send(self, count: int) -> None:
        """Returns when all are acknowledged; raises `ConnectError`."""

    def close(self) -> None: ...


class PlainStream:
    """A `kinds.PlainKind`."""

    def __init__(self, kind: kinds.PlainKind, place: Place) -> None:
        self.describe = kind.describe
        self.live = kind.live
        self._kind = kind
        self._place = place
        self._topic = place.prefix + kind.topic.name
        self._rng = Random(f"{place.seed} {kind.topic.name}")  # noqa: S311 - repeatable content
        self._next = 0
        self._sender = sender.Sender(
            place.clients, f"traffic-{self._topic}", now=place.clock, settings=kind.settings
        )

    def backlog(self, records: int) -> int:
        return max(self._kind.least, int(records * self._kind.share))

    def send(self, count: int) -> None:
        batch = payloads.Batch(
            rng=self._rng,
            count=count,
            partitions=self._kind.topic.partitions,
            wall_ms=self._place.clock.wall_ms(),
            first=self._next,
        )
        self._next += count
        self._sender.send(self._topic, self._kind.make(batch))
        self._sender.flush()

    def close(self) -> None:
        self._sender.close()


class TransactionalStream:
    """Interleaved transactions; the batch ends with all of them ended."""

    describe = "transactions, interleaved, committed and aborted"
    live = kinds.TRANSACTIONS_LIVE

    def __init__(self, place: Place) -> None:
        topic = place.prefix + kinds.TRANSACTIONS.name
        self._place = place
        self._rng = Random(f"{place.seed} transactions")  # noqa: S311 - repeatable content
        self._next = 0
        self._transactions = transactions.Transactions(
            place.clients, topic=topic, prefix=topic, now=place.clock
        )
        self.totals = self._transactions.totals

    def backlog(self, records: int) -> int:
        return max(500, records // 2)

    def send(self, count: int) -> None:
        self._transactions.run(
            payloads.Batch(
                rng=self._rng,
                count=count,
                partitions=kinds.TRANSACTIONS.partitions,
                wall_ms=self._place.clock.wall_ms(),
                first=self._next,
            )
        )
        self._next += count

    def close(self) -> None:
        self._transactions.close()
