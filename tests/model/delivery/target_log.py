"""The target partition: one log, its leader epochs, high watermark and producer state.

The rules are the broker's (`ProducerAppendInfo`, `ProducerStateManager`, `LeaderEpochFileCache`):
epochs are fenced with 47, sequences checked with 45, the last five batches of a producer
recognised, state dropped by the timestamp of a producer's last batch, and rebuilt from what is left
of the log after a truncation.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import crc32c

from mm2.formats import record_batch, record_codec
from mm2.formats.record_codec import BatchRecord
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.model.delivery import source_log
from tests.model.delivery.events import Events
from tests.model.delivery.source_log import Refusal
from tests.model.delivery.weather import Weather

NOT_LEADER = 6
TIMED_OUT = 7
TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
INVALID_TIMESTAMP = 32
OUT_OF_SEQUENCE = 45
OLD_EPOCH = 47
INVALID_TXN_STATE = 48
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
INVALID_RECORD = 87

EXPIRATION_MS = 86_400_000
EXPIRY_CHECK_MS = 600_000
REQUEST_TIMEOUT_S = 20.0
STABLE_LATE_S = 0.2

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_AND_LENGTH = struct.Struct(">qii")

Reply = Callable[[int, int], None]
"""(error code, base offset) of an append."""


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """One batch in the log. `life`: how many requested eras began before it was written.
    `written` is what it was before the cleaner came.

    `seen`: it was committed, at least for a while, and retention took it; `never_seen`: it took it
    while its transaction was open. An incident named its offsets from `named_from` on: they may
    hold what is copied again.
    `unfenced`: its writer was older than one before it, and the broker had forgotten that.
    `java`: Java wrote it; `late`: one of ours that Java had followed, and did not fence.
    """

    base: int
    last: int
    data: bytes
    producer: int
    producer_epoch: int
    sequences: tuple[int, int]
    timestamp: int
    transactional: bool = False
    control: bool = False
    commit: bool = False
    foreign: bool = False
    life: int = 0
    written: bytes = b""
    named_from: float = float("inf")
    once_committed: bool = False
    seen: bool = False
    never_seen: bool = False
    unfenced: bool = False
    java: bool = False
    late: bool = False

    def name(self, offsets: tuple[int, int]) -> None:
        """An incident speaks of these; it always ends behind a batch, if it reaches it."""
        start, end = offsets
        if start <= self.last and self.base < end:
            self.named_from = min(self.named_from, start)


@dataclass(slots=True)
class _Producer:
    epoch: int
    timestamp: int
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    transaction: int | None = None


@dataclass(slots=True, eq=False)
class _Pending:
    end: int
    base: int
    reply: Reply


class TargetLog:
    """`entries` keeps what retention deleted (below `log_start`), never what was truncated."""

    def __init__(self, world: Events, conditions: Weather) -> None:
        self._world = world
        self._random = world.random
        self._weather = conditions
        self.calm = False
        self.entries: list[Entry] = []
        self.log_start = 0
        self.end = 0
        self.high_watermark = 0
        self._known_to = float("inf")
        self._stable_before = 0
        self._stable_late_until_s = 0.0
        self.leader = 1
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self.life = 0
        self.lost_something = False
        self.unfenced_writes = 0
        self.java_turn = 0
        self.granted: dict[tuple[int, int], int] = {}
        self._newest_writer = (-1, -1)
        self.verify: Callable[[int, int], bool] = lambda _producer, _epoch: False
        self.leader_epoch = 0
        self._producers: dict[int, _Producer] = {}
        self._pending: list[_Pending] = []

    @property
    def told_end(self) -> int:
        """High watermark as its leader tells it: a new one may not know yet how far it had got."""
        return int(min(self.high_watermark, self._known_to))

    # Appending

    def produce(
        self, payload: bytes, *, transactional_id: bool, reply: Reply, java: bool = False
    ) -> None:
        """One produced batch with acks=all; replies once it is replicated, or with an error."""
        fields = _HEADER.unpack_from(payload)
        base, _, _, _, crc, attributes, last_delta, _, newest, producer, epoch, sequence, count = (
            fields
        )
        if base != 0 or count != last_delta + 1 or attributes & batches.CONTROL:
            return reply(INVALID_RECORD, -1)
        if crc32c.crc32c(payload[21:]) != crc:
            return reply(2, -1)
        if count > 1 and len(payload) > self._weather.largest:
            return reply(TOO_LARGE, -1)
        if count > 1 and self._weather.picky and crc32c.crc32c(payload[61:]) % 5 == 0:
            return reply(INVALID_TIMESTAMP, -1)
        in_transaction = bool(attributes & batches.TRANSACTIONAL)
        assert transactional_id == in_transaction, "the bit and the transactional id go together"
        last_sequence = (sequence + count - 1) & 0x7FFFFFFF
        code, known = self._check(producer, epoch, sequence, last_sequence, in_transaction)
        if code:
            return reply(code, -1)
        if known >= 0:
            return self._when_replicated(known + count, known, reply)
        entry = Entry(
            base=self.end,
            last=self.end + count - 1,
            data=payload,
            producer=producer,
            producer_epoch=epoch,
            sequences=(sequence, last_sequence),
            timestamp=newest,
            transactional=in_transaction,
            foreign=producer < 0 and not java,
            java=java,
            late=self.granted.get((producer, epoch), self.java_turn) < self.java_turn,
        )
        self._append(entry)
        return self._when_replicated(self.end, entry.base, reply)

    def _check(
        self, producer: int, epoch: int, sequence: int, last: int, transactional: bool
    ) -> tuple[int, int]:
        """(error, offset where this batch stands already or -1)"""
        if producer < 0:
            return 0, -1
        state = self._state(producer)
        if state is not None and epoch < state.epoch:
            return OLD_EPOCH, -1
        begins = transactional and (state is None or state.transaction is None)
        if begins and self._weather.verified and not self.verify(producer, epoch):
            return INVALID_TXN_STATE, -1
        if state is None:
            return 0, -1
        recent = state.recent if epoch == state.epoch else []
        for first, end, base in recent:
            if (first, end) == (sequence, last):
                return 0, base
        if sequence != ((recent[-1][1] + 1) & 0x7FFFFFFF if recent else 0):
            return OUT_OF_SEQUENCE, -1
        if state.transaction is not None and not transactional:
            return INVALID_TXN_STATE, -1
        return 0, -1

    def abort(self, start: int) -> None:
        """A person ends the transaction that begins there, if there is one (WriteTxnMarkers)."""
        for producer, begun in self.open_transactions.items():
            if begun == start:
                epoch = self._producers[producer].epoch
                self.append_marker(
                    producer, epoch, commit=False, reply=lambda _code, _base: None, by_person=True
                )

    def append_marker(
        self, producer: int, epoch: int, *, commit: bool, reply: Reply, by_person: bool = False
    ) -> None:
        """A transaction coordinator writes the end of a transaction."""
        self._stable_before = self.last_stable
        state = self._state(producer)
        if state is not None and epoch < state.epoch:
            return reply(OLD_EPOCH, -1)
        now_ms = self._world.wall_ms()
        stamp = Stamp(producer_id=producer, producer_epoch=epoch)
        entry = Entry(
            base=self.end,
            last=self.end,
            data=batches.marker(stamp, commit=commit, timestamp=now_ms),
            producer=producer,
            producer_epoch=epoch,
            sequences=(-1, -1),
            timestamp=now_ms,
            transactional=True,
            control=True,
            commit=commit,
        )
        if state is not None and state.transaction is not None:
            for each in self.entries:
                if each.producer == producer and each.base >= state.transaction:
                    each.never_seen = each.last < self.log_start
                    each.once_committed |= commit
        self._append(entry, by_person=by_person)
        return self._when_replicated(self.end, entry.base, reply)

    def _append(self, entry: Entry, *, by_person: bool = False) -> None:
        entry.life = self.life
        if entry.producer >= 0 and not by_person:
            writer = (entry.producer, entry.producer_epoch)
            entry.unfenced = writer < self._newest_writer
            self.unfenced_writes += entry.unfenced
            self._newest_writer = max(writer, self._newest_writer)
        head = _BASE_AND_LENGTH.pack(entry.base, len(entry.data) - 12, self.leader_epoch)
        entry.data = entry.written = head + entry.data[16:]
        self.entries.append(entry)
        self.end = entry.last + 1
        self._remember(entry)
        if self._world.tracing:
            kind = "marker" if entry.control else "txn" if entry.transactional else "data"
            self._world.note(
                "target",
                f"{entry.base}: {kind} of {entry.producer}/{entry.producer_epoch} "
                f"seq {entry.sequences[0]} {entry.data[61:][-6:-1]!r}",
            )

    def _when_replicated(self, end: int, base: int, reply: Reply) -> None:
        pending = _Pending(end, base, reply)
        self._pending.append(pending)
        if self.calm or self._random.random() < 0.85:
            self._advance(self.end)
            return
        delay_s = self._random.choice((0.005, 0.1, 2.0, 2 * REQUEST_TIMEOUT_S))
        epoch = self.leader_epoch

        def replicated() -> None:
            if epoch == self.leader_epoch:
                self._advance(end)

        def timed_out() -> None:
            if pending in self._pending:
                self._pending.remove(pending)
                reply(TIMED_OUT, -1)

        self._world.after(delay_s, replicated)
        if delay_s > REQUEST_TIMEOUT_S:
            self._world.after(REQUEST_TIMEOUT_S, timed_out)

    def _advance(self, end: int) -> None:
        if self._weather.late_stable:
            self._stable_late_until_s = self._world.now_s + STABLE_LATE_S
        self.high_watermark = max(self.high_watermark, min(end, self.end))
        if not self._pending:
            return
        ready = [each for each in self._pending if each.end <= self.high_watermark]
        if ready:
            self._pending = [each for each in self._pending if each.end > self.high_watermark]
            for each in ready:
                each.reply(0, each.base)

    # Producer state

    def _state(self, producer: int) -> _Producer | None:
        state = self._producers.get(producer)
        if state is None or state.transaction is not None:
            return state
        checked_ms = self._world.wall_ms() // EXPIRY_CHECK_MS * EXPIRY_CHECK_MS
        if state.timestamp + EXPIRATION_MS < checked_ms:
            del self._producers[producer]
            self._world.note("target", f"forgot producer {producer}")
            return None
        return state

    def _remember(self, entry: Entry) -> None:
        if entry.producer < 0:
            return
        state = self._producers.get(entry.producer)
        if state is None:
            state = self._producers[entry.producer] = _Producer(
                entry.producer_epoch, entry.timestamp
            )
        if entry.producer_epoch > state.epoch:
            state.epoch = entry.producer_epoch
            state.recent.clear()
        state.timestamp = entry.timestamp
        if entry.control:
            state.transaction = None
            return
        state.recent.append((*entry.sequences, entry.base))
        if entry.transactional and state.transaction is None:
            state.transaction = entry.base

    def restart_broker(self) -> None:
        """Of every producer only the last batch is remembered."""
        for state in self._producers.values():
            while len(state.recent) > 1:
                state.recent.popleft()
        self._world.note("target", "restarted")

    def _rebuild(self) -> None:
        self._producers = {}
        for entry in self.entries:
            self._remember(entry)
        now_ms = self._world.wall_ms()
        for producer, state in list(self._producers.items()):
            if state.transaction is None and state.timestamp + EXPIRATION_MS < now_ms:
                del self._producers[producer]
        if self._random.random() < 0.5:
            self.restart_broker()

    # Elections and retention

    def elect(self, *, unclean: bool) -> None:
        """Another leader. A clean one has all that is replicated, an unclean one may have less."""
        bounds = [each.base for each in self.entries] + [self.end]
        if unclean:
            bounds = [each for each in bounds if self.log_start <= each <= self.high_watermark]
            bounds = bounds[-self._random.choice((2, 4, 8, 30)) :]
        else:
            bounds = [each for each in bounds if each >= self.high_watermark]
        cut = self._random.choice(bounds)
        if cut < self.end:
            if cut < self.high_watermark:
                self.lost_something = True
            self.entries = [each for each in self.entries if each.base < cut]
            self.end = cut
            self.epochs = [each for each in self.epochs if each[1] < cut] or self.epochs[:1]
            self._new_epoch(cut)
            self._rebuild()
        else:
            self._new_epoch(cut)
        self.high_watermark = min(self.high_watermark, cut)
        self.leader = self._random.choice([each for each in (1, 2, 3) if each != self.leader])
        self._world.note("target", f"leader {self.leader}, epoch {self.leader_epoch}, end {cut}")
        pending, self._pending = self._pending, []
        for each in pending:
            each.reply(NOT_LEADER, -1)
        bases = [each.base for each in self.entries if each.base >= self.log_start]
        self._known_to = self._random.choice([*bases[-4:], float("inf")])

        def known() -> None:
            self._known_to = float("inf")
            self._advance(cut)

        self._world.after(self._random.choice((0.01, 0.5)), known)

    def _new_epoch(self, start: int) -> None:
        self.leader_epoch += 1
        self.epochs.append((self.leader_epoch, start))

    def delete_head(self) -> None:
        bounds = [each.base for each in self.entries if self.log_start < each.base]
        bounds = [each for each in bounds if each <= self.high_watermark]
        if bounds:
            self.log_start = self._random.choice(bounds)
            for entry in self.entries:
                entry.seen |= entry.once_committed and entry.last < self.log_start
            self._world.note("target", f"log start {self.log_start}")

    def compact(self) -> None:
        """As the source's cleaner does it; what is open, and the newest batches, stay."""
        open_from = min(
            (each.transaction for each in self._producers.values() if each.transaction is not None),
            default=self.high_watermark,
        )
        known = [each for each in self.entries[:-3] if each.base >= self.log_start]
        known = [each for each in known if each.last < min(open_from, self.high_watermark)]
        known = [each for each in known[: self._random.randint(0, len(known))] if each.data]
        opened = {
            each.base: record_codec.decode_batch(
                record_batch.read_batch_header(memoryview(each.data)), memoryview(each.data)
            )
            for each in known
            if not each.control
        }
        newest = {
            record_codec.decode_record_body(record.body).key: record.offset
            for found in opened.values()
            for record in found
        }
        for entry in known:
            held = opened.get(entry.base, [])
            kept = [
                each
                for each in held
                if newest[record_codec.decode_record_body(each.body).key] == each.offset
            ]
            if len(kept) < len(held):
                entry.data = _cleaned(entry, kept)
        self._world.note("target", f"cleaned up to {known[-1].last if known else -1}")

    # Reading

    @property
    def open_transactions(self) -> dict[int, int]:
        """Where the open transaction of a producer begins, by its id (DescribeProducers)."""
        return {
            producer: state.transaction
            for producer, state in self._producers.items()
            if state.transaction is not None
        }

    @property
    def last_stable(self) -> int:
        """It stays at the log's start where retention deleted what a transaction began with."""
        first = min(self.open_transactions.values(), default=self.told_end)
        return min(max(first, self.log_start), self.told_end)

    @property
    def told_stable(self) -> int:
        """As its leader tells it: with `late_stable`, for a moment what it was before a marker."""
        late = self._world.now_s < self._stable_late_until_s
        return min(self._stable_before, self.last_stable) if late else self.last_stable

    def fetch(self, offset: int) -> Refusal | tuple[bytes, int, int]:
        """Fetch(read_uncommitted): (batches up to the high watermark, log start, watermark)."""
        if not self.log_start <= offset <= self.end:
            return Refusal(source_log.OUT_OF_RANGE, self.log_start)
        at = bisect_left(self.entries, offset, key=lambda each: each.last)
        found = [
            each.data for each in self.entries[at:] if each.last < self.told_end and each.data
        ][: self._random.choice((1, 3, 500))]
        return b"".join(found), self.log_start, self.told_end

    def epoch_end(self, epoch: int, current: int) -> tuple[int, int]:
        """(error code, end offset of that leader epoch)"""
        if current != self.leader_epoch:
            old = current < self.leader_epoch
            return (FENCED_LEADER_EPOCH if old else UNKNOWN_LEADER_EPOCH), -1
        if epoch == self.leader_epoch:
            return 0, self.end
        if epoch > self.leader_epoch:
            return 0, -1
        at = bisect_right(self.epochs, epoch, key=lambda each: each[0])
        return 0, self.epochs[at][1]


def _cleaned(entry: Entry, kept: list[BatchRecord]) -> bytes:
    """The batch without the other records; nothing when none is left."""
    if not kept:
        return b""
    was = record_batch.read_batch_header(memoryview(entry.data))
    body = [
        Record(
            key=fields.key,
            value=fields.value,
            headers=fields.headers,
            timestamp=each.timestamp,
            offset_delta=each.offset - entry.base,
        )
        for each in kept
        for fields in (record_codec.decode_record_body(each.body),)
    ]
    stamp = Stamp(
        base_offset=entry.base,
        leader_epoch=was.leader_epoch,
        producer_id=was.producer_id,
        producer_epoch=was.producer_epoch,
        base_sequence=was.base_sequence,
        attributes=was.attributes,
    )
    return batches.data(body, stamp, last_offset_delta=was.last_offset_delta)


def committed_view(target: TargetLog) -> list[Entry]:
    """What a read_committed reader has seen by now, in offset order."""
    open_: dict[int, list[Entry]] = defaultdict(list)
    aborted: set[int] = set()
    for entry in target.entries:
        if entry.control:
            ended = open_.pop(entry.producer, [])
            if not entry.commit:
                aborted.update(each.base for each in ended)
        elif entry.transactional:
            open_[entry.producer].append(entry)
    stable = min((each[0].base for each in open_.values() if each), default=target.end)
    return [
        each
        for each in target.entries
        if not each.control
        and not each.never_seen
        and each.base not in aborted
        and each.base < stable
    ]
