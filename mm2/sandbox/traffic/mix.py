"""Traffic of every kind that is mirrored batch by batch, from real clients.

    with mix.Mix(east.client_properties()) as traffic:
        traffic.create_topics()
        traffic.send_backlog()      # each kind once
        traffic.start()             # all kinds, modestly, until
        traffic.stop()
        proof.compare(east…, west…, {name: "east." + name for name in traffic.topic_names})

Content is repeatable by its seed. What was sent is in the source's log: compare logs, not notes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Self

from connect_runtime.base import clock as base_clock
from connect_runtime.system import clock as system_clock
from connect_runtime.system import threads
from mm2.sandbox import clients, failures
from mm2.sandbox.traffic import java_perf, kinds, streams, topics, transactions

Report = Callable[[str], None]

_LIVE_PAUSE_S = 0.1
_LIVE_JAVA_PER_SECOND = 1_000
_ENDLESS = 2**31 - 1
_STOP_S = 30.0


class Mix:
    """All kinds on one source cluster. Topic names begin with `prefix`.

    `records` is how many a large kind has in the backlog, of about 1 KB each. One owner's thread;
    `close` it, or use it in a `with`.
    """

    def __init__(
        self,
        to: clients.Properties,
        *,
        seed: int = 1,
        prefix: str = "",
        records: int = 20_000,
        now: base_clock.Clock | None = None,
    ) -> None:
        place = streams.Place(
            properties=to,
            clients=clients.Clients(to, alias="source"),
            seed=seed,
            prefix=prefix,
            clock=now or system_clock.SystemClock(),
        )
        self._place = place
        self._records = records
        self._opened: tuple[streams.Stream, ...] = ()
        self._transactional: streams.TransactionalStream | None = None
        self._failure: BaseException | None = None
        self._thread: threads.OwnedThread | None = None
        self._threads = threads.Threads(on_unasked_end=self._note_end)

    @property
    def topic_names(self) -> list[str]:
        return [self._place.prefix + each.name for each in kinds.TOPICS]

    @property
    def transactions(self) -> transactions.Totals:
        """How many records were committed and aborted so far."""
        if self._transactional is None:
            return transactions.Totals()
        return self._transactional.totals

    def create_topics(self, more: Sequence[topics.Topic] = ()) -> None:
        """Create all of them, the empty one too, and `more`."""
        named = (
            topics.Topic(
                name=self._place.prefix + each.name, partitions=each.partitions, config=each.config
            )
            for each in kinds.TOPICS
        )
        topics.create(self._place.clients, [*named, *more])

    def send_backlog(self, report: Report = lambda _: None) -> None:
        """Each kind once; all is acknowledged and every transaction ended when it returns.

        `report` hears what comes next. The Java tool, slow to start, runs beside the others.
        """
        opened = self._streams()
        report(java_perf.DESCRIBE)
        tool = self._java(records=max(1_000, 2 * self._records))
        try:
            for stream in opened:
                report(stream.describe)
                stream.send(stream.backlog(self._records))
            tool.finish()
        finally:
            tool.stop()

    def start(self) -> None:
        """Keep all kinds coming, some thousand records a second, on a thread of its own."""
        self._streams()
        self._thread = self._threads.start("traffic", self._run)

    @property
    def running(self) -> bool:
        """Does it go on? When nobody stopped it, `stop` says why it does not."""
        return self._thread is not None and self._thread.alive

    def stop(self) -> None:
        """All that was sent is acknowledged, no transaction is open; raises what went wrong."""
        still_there = self._threads.stop_all(_STOP_S)
        if self._failure is not None:
            raise failures.SandboxError(f"traffic ended: {self._failure}") from self._failure
        if still_there:
            raise failures.SandboxError(f"traffic did not end within {_STOP_S:.0f} s")

    def close(self) -> None:
        """End it all, whatever state it is in."""
        self._threads.stop_all(_STOP_S)
        for stream in self._opened:
            stream.close()
        self._opened = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _streams(self) -> tuple[streams.Stream, ...]:
        """Opened late: a transactional producer needs its cluster when it is made."""
        if not self._opened:
            self._transactional = streams.TransactionalStream(self._place)
            plain = (streams.PlainStream(kind, self._place) for kind in kinds.PLAIN)
            self._opened = (*plain, self._transactional)
        return self._opened

    def _java(self, *, records: int, per_second: int = -1) -> java_perf.PerfProducer:
        topic = self._place.prefix + kinds.JAVA.name
        return java_perf.PerfProducer(
            self._place.properties, topic, records=records, per_second=per_second
        )

    def _run(self, stop: threading.Event) -> None:
        tool = self._java(records=_ENDLESS, per_second=_LIVE_JAVA_PER_SECOND)
        try:
            while not stop.wait(_LIVE_PAUSE_S):
                for stream in self._opened:
                    stream.send(stream.live)
        finally:
            tool.stop()

    def _note_end(self, end: threads.UnaskedEnd) -> None:
        self._failure = end.error or failures.SandboxError("it ended unasked")
