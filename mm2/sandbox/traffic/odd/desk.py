"""Where one odd topic is written: its clients, its dice, and how much is wanted."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from mm2.sandbox import clients
from mm2.sandbox.traffic import payloads, sender, transactions
from mm2.sandbox.traffic.odd import batch_writer, raw_log, settings


class Size(enum.Enum):
    """`QUICK`: every oddity, in seconds; `FULL`: as much of it as tells under load."""

    QUICK = "quick"
    FULL = "full"


@dataclasses.dataclass(slots=True, kw_only=True)
class Desk:
    """One topic, which is there. `name` is its whole name; `now_ms` is the same for all topics.

    `written` counts records that readers of committed data will see.
    """

    clients: clients.Clients
    changes: settings.Settings
    raw: raw_log.RawLog
    name: str
    partitions: int
    rng: Random
    now_ms: int
    clock: base_clock.Clock
    size: Size
    written: int = 0
    _numbers: int = 0

    def much(self, *, quick: int, full: int) -> int:
        """How much of something by the size that is wanted."""
        return full if self.size is Size.FULL else quick

    def send(
        self, records: Iterable[payloads.Outgoing], *, codec: str = "none", **settings: object
    ) -> None:
        """By a producer of its own (`settings` are librdkafka's); all are acknowledged after."""
        ours = {"compression_type": codec, "linger_ms": 20, **settings}
        client = sender.Sender(self.clients, f"odd-{self.name}", now=self.clock, settings=ours)
        try:
            client.send(self.name, records)
            client.flush()
        finally:
            client.close()
        self.written += client.acknowledged

    def send_transactions(
        self,
        each: Iterable[tuple[Iterable[payloads.Outgoing], bool]],
        *,
        transactional_id: str,
    ) -> None:
        """One producer's transactions, one after the other: their records, and to commit or not."""
        producer = transactions.TransactionalProducer(
            self.clients, transactional_id, codec="none", now=self.clock
        )
        try:
            for records, commit in each:
                producer.burst(self.name, list(records))
                ended = producer.end(commit=commit)
                self.written += ended if commit else 0
        finally:
            producer.close()

    def append(
        self,
        records: Sequence[batch_writer.Stamped],
        *,
        compressed: bool = False,
        attributes: int = 0,
        base_timestamp_ms: int | None = None,
    ) -> None:
        """One batch written by hand, to partition 0."""
        made = batch_writer.batch(
            records,
            compressed=compressed,
            attributes=attributes,
            base_timestamp_ms=base_timestamp_ms,
        )
        self.raw.append(ids.TopicPartition(self.name, 0), made)
        self.written += len(records)

    def change_topic(self, changes: Mapping[str, str | None]) -> None:
        """Settings of this topic; None takes one back to its default."""
        self.changes.change_topic(self.name, changes)

    def documents(self, count: int, *, partition: int | None = None) -> Iterator[payloads.Outgoing]:
        """The next documents, a millisecond apart; in all partitions, or in one."""
        batch = payloads.Batch(
            rng=self.rng,
            count=count,
            partitions=self.partitions,
            wall_ms=self.now_ms,
            first=self._numbers,
        )
        self._numbers += count
        for number, each in zip(batch.numbers(), payloads.documents(batch), strict=True):
            yield dataclasses.replace(
                each,
                partition=each.partition if partition is None else partition,
                timestamp_ms=self.now_ms + number,
            )
