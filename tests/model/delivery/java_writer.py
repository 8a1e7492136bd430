"""MirrorMaker 2 as a writer: at least once, without a producer id, in batches of its own making.

It begins behind the offset that is stored, has one request under way at a time, asks again what was
not answered, and stores its progress now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mm2.formats import record_codec
from mm2.formats.record_codec import BatchRecord
from tests.fakes import batches
from tests.fakes.batches import Record
from tests.model.delivery import java_topics

if TYPE_CHECKING:
    from tests.model.delivery.world import World


TIMEOUT_S = 5.0


class JavaWriter:
    """`busy_until_s`: what it sent has arrived by then."""

    def __init__(self, around: World) -> None:
        self.alive = True
        self.busy_until_s = 0.0
        self._world = around
        self._events = around.events
        self._topics = around.java
        self._random = around.java.random
        stored = self._topics.stored
        self._position = around.source.log_start if stored is None else stored + 1
        self._closing = False
        self._sent = 0
        self._acknowledged = -1
        self._flushed_s = self._events.now_s
        self._flush_every_s = self._random.choice((1.0, 5.0, 60.0))
        self._previous = (-1, -1)
        self._synced = -1
        self._delayed: tuple[int, int] | None = None
        self._note(f"begins at {self._position}, flushes every {self._flush_every_s} s")
        self._next()

    def crash(self) -> None:
        """Not before an OffsetSync says where it began: what stood before would be copied again."""
        if self._sent and not self._topics.syncs:
            self._events.after(0.5, self.crash)
            return
        self.alive = False
        self._note("crashes")

    def stop(self) -> None:
        """Ends once nothing is under way, with a last flush."""
        self._closing = True
        self._note("is stopped")

    def _note(self, what: str) -> None:
        self._events.note("java", what)

    def _again(self, delay_s: float) -> None:
        number = self._sent

        def again() -> None:
            if self.alive and number == self._sent:
                self._next()

        self._events.after(delay_s, again)

    def _next(self) -> None:
        if self._closing:
            self._flush()
            self.alive = False
            return
        if self._events.now_s - self._flushed_s > self._flush_every_s:
            self._flush()
        found = self._poll()
        if found:
            self._send(found)
        else:
            self._again(self._random.uniform(0.05, 0.5))

    def _poll(self) -> list[BatchRecord]:
        source = self._world.source
        end = source.end if self._world.weather.uncommitted else source.stable_end
        found = [
            record
            for entry in source.entries
            if entry.last < end and (entry.committed or self._world.weather.uncommitted)
            for record in entry.held
            if record.offset >= self._position
        ]
        return found[: self._random.choice((1, 2, 5, 9))]

    def _send(self, found: list[BatchRecord]) -> None:
        self._sent += 1
        number = self._sent
        network = self._world.network
        made = []
        for record in found:
            fields = record_codec.decode_record_body(record.body)
            made.append(
                Record(
                    key=fields.key,
                    value=fields.value,
                    headers=fields.headers,
                    timestamp=record.timestamp,
                )
            )
        payload = batches.data(made)
        arrives_s = min(network.delay_s(), TIMEOUT_S)
        self.busy_until_s = max(self.busy_until_s, self._events.now_s + arrives_s)
        answered = False

        def reply(code: int, base: int) -> None:
            if network.loses():
                return
            self._events.after(network.delay_s(), lambda: heard(code, base))

        def heard(code: int, base: int) -> None:
            nonlocal answered
            if not self.alive or answered or number != self._sent:
                return
            answered = True
            if code:
                self._events.after(0.1, lambda: self._send_again(found, number))
            else:
                self._stored(found, base)

        def unanswered() -> None:
            if not answered:
                self._send_again(found, number)

        target = self._world.target
        if not network.loses():
            self._events.after(
                arrives_s,
                lambda: target.produce(payload, transactional_id=False, reply=reply, java=True),
            )
        self._events.after(2 * TIMEOUT_S, unanswered)

    def _send_again(self, found: list[BatchRecord], number: int) -> None:
        if self.alive and number == self._sent:
            self._send(found)

    def _stored(self, found: list[BatchRecord], base: int) -> None:
        for place, record in enumerate(found):
            self._decide_sync(record.offset, base + place)
        self._acknowledged = found[-1].offset
        self._position = found[-1].offset + 1
        self._sent += 1
        self._again(self._random.choice((0.0, 0.01, 0.3)))

    def _decide_sync(self, source: int, target: int) -> None:
        """As `PartitionState` of Java's `OffsetSyncWriter`."""
        before = self._previous
        first = self._synced < 0
        stale = target - (self._synced + 1) >= java_topics.LAG_MAX
        gap = source - before[0] != 1 or target < before[1]
        self._previous = (source, target)
        if first or stale or gap:
            self._synced, self._delayed = target, None
            self._topics.sync(source, target)
        else:
            self._delayed = (source, target)

    def _flush(self) -> None:
        self._flushed_s = self._events.now_s
        if self._acknowledged >= 0:
            self._topics.store(self._acknowledged)
        if self._delayed is not None:
            self._topics.sync(*self._delayed)
            self._delayed = None
