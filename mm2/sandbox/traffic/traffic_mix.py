"""Traffic from real clients, with every kind of batch that mm2 copies without re-encoding
(pass-through).

    with traffic_mix.TrafficMix(east.client_properties()) as traffic:
        traffic.create_topics()
        traffic.send_backlog()      # each kind once
        traffic.start()             # all kinds, at a low rate, until
        traffic.stop()
        mirrors = {name: "east." + name for name in traffic.topic_names}
        replication_proof.compare_topics(east…, west…, mirrors)

Content is reproducible from its seed. Sent records are not stored: compare the mirror topics with
the source topics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, Self

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.traffic import payloads, producers, topic_creation
from mm2.sandbox.traffic.payloads import BatchSpec, MakeRecords
from mm2.sandbox.traffic.producers import (
    AcknowledgedProducer,
    InterleavedTransactions,
    JavaPerfProducer,
    TransactionTotals,
)
from mm2.sandbox.traffic.topic_creation import TrafficTopic

LARGE_TOPIC_MESSAGE_BYTES = 8_000_000
_LARGE_TOPIC_CONFIG = {"max.message.bytes": str(LARGE_TOPIC_MESSAGE_BYTES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTraffic:
    """Traffic from one producer to one topic."""

    topic: TrafficTopic
    description: str
    make_records: MakeRecords
    settings: Mapping[str, object] = field(default_factory=dict)
    """librdkafka settings of the producer."""
    backlog_share: float = 1.0
    """Number of backlog records, as a fraction of the parameter `records` of `TrafficMix`."""
    min_backlog: int = 1
    """Minimum number of backlog records."""
    live_records: int = 20
    """Number of records sent in each iteration of the continuous traffic."""


def _make_codec_traffic(name: str, *, idempotent: bool) -> PlainTraffic:
    return PlainTraffic(
        topic=TrafficTopic(name=f"codec-{name}", partitions=2),
        description=f"JSON documents, compression {name}",
        make_records=payloads.make_documents,
        settings={
            "compression_type": name,
            "enable_idempotence": idempotent,
            "linger_ms": 10,
        },
        live_records=40,
    )


PLAIN_TRAFFIC = (
    _make_codec_traffic("none", idempotent=False),
    _make_codec_traffic("gzip", idempotent=True),
    _make_codec_traffic("snappy", idempotent=False),
    _make_codec_traffic("lz4", idempotent=True),
    _make_codec_traffic("zstd", idempotent=True),
    PlainTraffic(
        topic=TrafficTopic(name="shapes", partitions=3),
        description="null and empty keys and values, various headers",
        make_records=payloads.make_varied_shape_records,
        backlog_share=0.05,
        min_backlog=432,
    ),
    PlainTraffic(
        topic=TrafficTopic(name="sizes", partitions=2, config=_LARGE_TOPIC_CONFIG),
        description="records of 1 byte to 5 MB",
        make_records=payloads.make_varied_size_records,
        settings={"message_max_bytes": LARGE_TOPIC_MESSAGE_BYTES},
        backlog_share=0.002,
        min_backlog=16,
        live_records=1,
    ),
    PlainTraffic(
        topic=TrafficTopic(name="wide", partitions=24),
        description="small records over many partitions",
        make_records=payloads.make_counter_records,
        settings={"compression_type": "snappy"},
        backlog_share=0.5,
        min_backlog=240,
        live_records=48,
    ),
    PlainTraffic(
        topic=TrafficTopic(name="three-days-old", partitions=2),
        description="documents with timestamps from three days ago",
        make_records=payloads.make_documents_with_past_timestamps,
        settings={"compression_type": "lz4", "enable_idempotence": True},
        backlog_share=0.1,
        min_backlog=100,
    ),
    PlainTraffic(
        topic=TrafficTopic(name="timeless", partitions=1),
        description="records without timestamps, and with timestamps from 1970",
        make_records=payloads.make_records_without_timestamps,
        backlog_share=0.02,
        min_backlog=100,
        live_records=5,
    ),
)
TRANSACTIONS_TOPIC = TrafficTopic(name="transactions", partitions=4)
TRANSACTIONS_LIVE_RECORDS = 60
JAVA_TOPIC = TrafficTopic(name="java-perf", partitions=3)
EMPTY_TOPIC = TrafficTopic(name="empty", partitions=2)
MIX_TOPICS = (*(kind.topic for kind in PLAIN_TRAFFIC), TRANSACTIONS_TOPIC, JAVA_TOPIC, EMPTY_TOPIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamContext:
    """Clients and parameters shared by all traffic streams.

    `seed` makes content reproducible. Topic names start with `prefix`.
    """

    properties: ClientProperties
    clients: SandboxClients
    seed: int
    prefix: str
    clock: Clock


class TrafficStream(Protocol):
    """A kind of traffic. `compute_backlog_size(records)` returns the number of records to send
    before replication starts; `live` is the number of records to send in each iteration of the
    continuous traffic."""

    @property
    def describe(self) -> str: ...

    @property
    def live_record_count(self) -> int: ...

    def compute_backlog_size(self, records: int) -> int: ...

    def send(self, count: int) -> None:
        """Send `count` records and wait until they are acknowledged. Raises `ConnectError`."""

    def close(self) -> None: ...


class PlainStream:
    """Sends the traffic that a `PlainTraffic` describes."""

    def __init__(self, kind: PlainTraffic, place: StreamContext) -> None:
        self.describe = kind.description
        self.live_record_count = kind.live_records
        self._kind = kind
        self._place = place
        self._topic = place.prefix + kind.topic.name
        self._rng = Random(f"{place.seed} {kind.topic.name}")  # noqa: S311 - repeatable content
        self._next = 0
        self._sender = AcknowledgedProducer(
            place.clients, f"traffic-{self._topic}", now=place.clock, settings=kind.settings
        )

    def compute_backlog_size(self, records: int) -> int:
        return max(self._kind.min_backlog, int(records * self._kind.backlog_share))

    def send(self, count: int) -> None:
        batch = BatchSpec(
            rng=self._rng,
            count=count,
            partitions=self._kind.topic.partitions,
            wall_ms=self._place.clock.wall_ms(),
            first=self._next,
        )
        self._next += count
        self._sender.send(self._topic, self._kind.make_records(batch))
        self._sender.flush()

    def close(self) -> None:
        self._sender.close()


class TransactionalStream:
    """Sends interleaved transactions. No transaction is open after `send` returns."""

    describe = "interleaved transactions, committed and aborted"
    live_record_count = TRANSACTIONS_LIVE_RECORDS

    def __init__(self, place: StreamContext) -> None:
        topic = place.prefix + TRANSACTIONS_TOPIC.name
        self._place = place
        self._rng = Random(f"{place.seed} transactions")  # noqa: S311 - repeatable content
        self._next = 0
        self._transactions = InterleavedTransactions(
            place.clients, topic=topic, prefix=topic, now=place.clock
        )
        self.totals = self._transactions.totals

    def compute_backlog_size(self, records: int) -> int:
        return max(500, records // 2)

    def send(self, count: int) -> None:
        self._transactions.run(
            BatchSpec(
                rng=self._rng,
                count=count,
                partitions=TRANSACTIONS_TOPIC.partitions,
                wall_ms=self._place.clock.wall_ms(),
                first=self._next,
            )
        )
        self._next += count

    def close(self) -> None:
        self._transactions.close()


ReportProgress = Callable[[str], None]

_LIVE_ROUND_PAUSE_S = 0.1
_LIVE_JAVA_RECORDS_S = 1_000
_ENDLESS_RECORDS = 2**31 - 1
_MIX_STOP_TIMEOUT_S = 30.0


class TrafficMix:
    """All kinds of traffic on one source cluster. Topic names start with `prefix`.

    `records` is the number of backlog records (about 1 KB each) that each high-volume kind of
    traffic sends. Not thread-safe. Call `close`, or use the object in a `with` block.
    """

    def __init__(
        self,
        to: ClientProperties,
        *,
        seed: int = 1,
        prefix: str = "",
        records: int = 20_000,
        now: Clock | None = None,
    ) -> None:
        place = StreamContext(
            properties=to,
            clients=SandboxClients(to, alias="source"),
            seed=seed,
            prefix=prefix,
            clock=now or SystemClock(),
        )
        self._place = place
        self._records = records
        self._opened: tuple[TrafficStream, ...] = ()
        self._transactional: TransactionalStream | None = None
        self._failure: BaseException | None = None
        self._thread: StoppableThread | None = None
        self._threads = ThreadGroup(on_unexpected_end=self._record_thread_end)

    @property
    def topic_names(self) -> list[str]:
        return [self._place.prefix + each.name for each in MIX_TOPICS]

    @property
    def transactions(self) -> TransactionTotals:
        """Counts of the records that were committed and aborted so far."""
        if self._transactional is None:
            return TransactionTotals()
        return self._transactional.totals

    def create_topics(self, more: Sequence[TrafficTopic] = ()) -> None:
        """Create the topics of all kinds of traffic, an empty topic, and the additional topics
        `more`."""
        named = (
            TrafficTopic(
                name=self._place.prefix + each.name, partitions=each.partitions, config=each.config
            )
            for each in MIX_TOPICS
        )
        topic_creation.create_topics(self._place.clients, [*named, *more])

    def send_backlog(self, report: ReportProgress = lambda _: None) -> None:
        """Send the backlog of each kind of traffic, one kind after the other. Returns after all
        records are acknowledged and every transaction has ended.

        `report` is called before each kind. The Java tool runs concurrently because it is slow to
        start.
        """
        opened = self._streams()
        report(producers.JAVA_PRODUCER_DESCRIPTION)
        tool = self._create_java_producer(records=max(1_000, 2 * self._records))
        try:
            for stream in opened:
                report(stream.describe)
                stream.send(stream.compute_backlog_size(self._records))
            tool.await_completion()
        finally:
            tool.stop()

    def start(self) -> None:
        """Start sending all kinds of traffic continuously, a few thousand records per second, on a
        separate thread."""
        self._streams()
        self._thread = self._threads.start("traffic", self._run)

    @property
    def running(self) -> bool:
        """True while traffic is being sent. If traffic ended unexpectedly, `stop` raises the
        error."""
        return self._thread is not None and self._thread.is_alive

    def stop(self) -> None:
        """Stop sending. All records are acknowledged and no transaction is open afterwards. Raises
        the error if traffic failed earlier."""
        still_there = self._threads.stop_all(_MIX_STOP_TIMEOUT_S)
        if self._failure is not None:
            raise SandboxError(f"traffic ended: {self._failure}") from self._failure
        if still_there:
            raise SandboxError(f"traffic did not stop within {_MIX_STOP_TIMEOUT_S:.0f} s")

    def close(self) -> None:
        """Stop all streams and close their clients, regardless of failures."""
        self._threads.stop_all(_MIX_STOP_TIMEOUT_S)
        for stream in self._opened:
            stream.close()
        self._opened = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _streams(self) -> tuple[TrafficStream, ...]:
        """Return the traffic streams, which are created on first use because transactional
        producers connect immediately."""
        if not self._opened:
            self._transactional = TransactionalStream(self._place)
            plain = (PlainStream(kind, self._place) for kind in PLAIN_TRAFFIC)
            self._opened = (*plain, self._transactional)
        return self._opened

    def _create_java_producer(self, *, records: int, per_second: int = -1) -> JavaPerfProducer:
        topic = self._place.prefix + JAVA_TOPIC.name
        return JavaPerfProducer(
            self._place.properties, topic, records=records, per_second=per_second
        )

    def _run(self, stop: threading.Event) -> None:
        tool = self._create_java_producer(records=_ENDLESS_RECORDS, per_second=_LIVE_JAVA_RECORDS_S)
        try:
            while not stop.wait(_LIVE_ROUND_PAUSE_S):
                for stream in self._opened:
                    stream.send(stream.live_record_count)
        finally:
            tool.stop()

    def _record_thread_end(self, end: UnexpectedThreadEnd) -> None:
        self._failure = end.error or SandboxError("the thread ended unexpectedly")
