"""The source partition: producers of every kind, retention, truncation, and what a fetch sees.

Everything that was ever appended is remembered, with what became of it, for the judge.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from mm2.formats import record_batch, record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.model.delivery import events
from tests.model.delivery.events import Events
from tests.model.delivery.weather import Weather

OUT_OF_RANGE = 1
OLD_MS = 3 * 86_400_000
ZSTD = 4


@dataclass(slots=True, kw_only=True)
class Entry:
    """One batch; `committed` is None while its transaction is open. `held` are its records as
    readers see them."""

    base: int
    last: int
    data: bytes
    producer: int
    epoch: int
    timestamp: int
    control: bool = False
    transactional: bool = False
    committed: bool | None = True
    held: tuple[BatchRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    records: bytearray
    log_start: int
    stable_end: int
    aborted: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    code: int
    log_start: int


@dataclass(frozen=True, slots=True)
class Diverged:
    end: int


@dataclass(slots=True)
class _Transaction:
    first: int
    entries: list[Entry] = field(default_factory=list)


class SourceLog:
    """`lost_branches` are the logs as they stood before each truncation, `cleaned` the batches of
    which the cleaner took records."""

    def __init__(self, world: Events, conditions: Weather) -> None:
        self._world = world
        self._random = world.random
        self._weather = conditions
        self.entries: list[Entry] = []
        self.log_start = 0
        self.end = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self.lost_branches: list[list[Entry]] = []
        self.cleaned: list[Entry] = []
        self._open: dict[int, _Transaction] = {}
        self._aborted: list[tuple[int, int, int]] = []
        self._waiting: list[Callable[[], bool]] = []
        self._made = 0
        self._known_to = float("inf")

    @property
    def epoch(self) -> int:
        return self.epochs[-1][0]

    @property
    def stable_end(self) -> int:
        return min((each.first for each in self._open.values()), default=self.end)

    @property
    def _told_end(self) -> int:
        return int(min(self.stable_end, self._known_to))

    # Writing

    def write_something(self) -> None:
        """A plain batch, or the next step of one of two transactional producers."""
        drawn = self._random.random()
        if not self._weather.source_transactions or drawn < 0.4:
            self.write_plain()
            return
        producer = self._random.choice((101, 102))
        if producer in self._open and drawn > 0.75:
            self.end_transaction(producer, commit=self._random.random() < 0.6)
        else:
            self._append_data(producer, transactional=True)

    def write_plain(self) -> None:
        self._append_data(7, transactional=False)

    def end_all_transactions(self) -> None:
        for producer in list(self._open):
            self.end_transaction(producer, commit=self._random.random() < 0.6)

    def _append_data(self, producer: int, *, transactional: bool) -> None:
        counts = (1, 3, 8, 20) if self._weather.large else (1, 1, 1, 2, 3)
        made = [self._record() for _ in range(self._random.choice(counts))]
        if self._weather.identical:
            made = [Record(value=b"same", timestamp=self._timestamp())]
        stamp = Stamp(
            base_offset=self.end,
            leader_epoch=self.epoch,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            attributes=(batches.TRANSACTIONAL if transactional else 0)
            | (batches.LOG_APPEND_TIME if self._weather.appended else 0),
        )
        entry = Entry(
            base=self.end,
            last=self.end + len(made) - 1,
            data=batches.data(made, stamp, codec=ZSTD if self._weather.large else 0),
            producer=producer,
            epoch=self.epoch,
            timestamp=max(each.timestamp for each in made),
            transactional=transactional,
            committed=None if transactional else True,
            held=self._as_read(made),
        )
        if transactional:
            begun = self._open.setdefault(producer, _Transaction(first=entry.base))
            begun.entries.append(entry)
        self._append(entry)

    def _as_read(self, made: list[Record]) -> tuple[BatchRecord, ...]:
        newest = max(each.timestamp for each in made)
        return tuple(
            BatchRecord(
                self.end + place,
                newest if self._weather.appended else each.timestamp,
                record_codec.encode_record_body(RecordFields(each.key, each.value, each.headers)),
            )
            for place, each in enumerate(made)
        )

    def _record(self) -> Record:
        self._made += 1
        if self._weather.compaction:
            return Record(
                key=b"k%d" % self._random.randrange(6),
                value=b"v" if self._random.random() < 0.8 else None,
                headers=((b"n", b"%d" % self._made),),
                timestamp=self._timestamp(),
            )
        return Record(
            key=None if self._made % 3 else b"k",
            value=b"%d" % self._made,
            timestamp=self._timestamp(),
        )

    def _timestamp(self) -> int:
        now_ms = self._world.wall_ms()
        if self._weather.identical:
            now_ms = events.WALL_AT_ZERO_MS
        match self._weather.timestamps:
            case "fresh":
                return now_ms
            case "old":
                return now_ms - OLD_MS
            case "none":
                return -1
        return now_ms - OLD_MS if self._made // 8 % 2 else now_ms

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        ended = self._open.pop(producer)
        for entry in ended.entries:
            entry.committed = commit
        if not commit:
            self._aborted.append((producer, ended.first, self.end))
        stamp = Stamp(
            base_offset=self.end, leader_epoch=self.epoch, producer_id=producer, producer_epoch=0
        )
        now_ms = self._world.wall_ms()
        self._append(
            Entry(
                base=self.end,
                last=self.end,
                data=batches.marker(stamp, commit=commit, timestamp=now_ms),
                producer=producer,
                epoch=self.epoch,
                timestamp=now_ms,
                control=True,
                transactional=True,
            )
        )

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.end = entry.last + 1
        self._wake()

    # What happens to it

    def delete_head(self) -> None:
        """Retention, or now and then DeleteRecords to the middle of a batch."""
        bases = [each.base for each in self.entries if self.log_start < each.base]
        if not bases:
            return
        start = self._random.choice(bases[: len(bases) * 2 // 3 + 1])
        if self._random.random() < 0.2:
            start += 1
        if start > self.stable_end:
            return
        self.log_start = start
        self._world.note("source", f"log start {start}")
        self._wake()

    def compact(self) -> None:
        """The cleaner's way (`LogCleaner`): of each key the newest record stays, of what was
        aborted nothing, and of some batches that lose all their records the header."""
        known = [each for each in self.entries if each.base >= self.log_start]
        known = [each for each in known if each.last < self.stable_end]
        known = known[: self._random.randint(0, len(known))]
        newest = {
            record_codec.decode_record_body(record.body).key: record.offset
            for entry in known
            if entry.committed
            for record in entry.held
        }
        for entry in known:
            if not entry.control:
                self._clean(entry, newest)
        self._world.note("source", f"cleaned up to {known[-1].last if known else -1}")

    def _clean(self, entry: Entry, newest: dict[bytes | None, int]) -> None:
        kept = []
        for record in entry.held if entry.committed else ():
            fields = record_codec.decode_record_body(record.body)
            tombstone = fields.value is None and self._random.random() < 0.3
            if newest[fields.key] == record.offset and not tombstone:
                kept.append(record)
        if len(kept) == len(entry.held):
            return
        self.cleaned.append(dataclasses.replace(entry))
        entry.held = tuple(kept)
        if kept or self._random.random() < 0.5:
            entry.data = self._written_again(entry)
        else:
            self.entries.remove(entry)

    def _written_again(self, entry: Entry) -> bytes:
        header = record_batch.read_batch_header(memoryview(entry.data))
        left = []
        for record in record_codec.decode_batch(header, memoryview(entry.data)):
            if any(each.offset == record.offset for each in entry.held):
                fields = record_codec.decode_record_body(record.body)
                left.append(
                    Record(
                        key=fields.key,
                        value=fields.value,
                        headers=fields.headers,
                        timestamp=record.timestamp,
                        offset_delta=record.offset - entry.base,
                    )
                )
        stamp = Stamp(
            base_offset=entry.base,
            leader_epoch=header.leader_epoch,
            producer_id=entry.producer,
            producer_epoch=0,
            base_sequence=0,
            attributes=header.attributes,
        )
        codec = header.attributes & record_batch.CODEC_MASK
        return batches.data(left, stamp, last_offset_delta=entry.last - entry.base, codec=codec)

    def truncate(self) -> None:
        """An unclean election: the log is cut and goes on in a new leader epoch."""
        bases = [each.base for each in self.entries if each.base >= self.log_start]
        if not bases:
            return
        cut = self._random.choice(bases[-6:])
        self.lost_branches.append(list(self.entries))
        self.entries = [each for each in self.entries if each.base < cut]
        cut = self.entries[-1].last + 1 if self.entries else cut  # the cleaner may have been here
        self._begin_epoch(cut)
        self._world.note("source", f"truncated at {cut}, epoch {self.epoch}")
        self._reopen_transactions()
        self._wake()

    def elect(self) -> None:
        """A clean election. For a moment the new leader may not know how much is replicated."""
        self._begin_epoch(self.end)
        bases = [each.base for each in self.entries if each.base >= self.log_start]
        self._known_to = self._random.choice([*bases[-4:], float("inf")])
        self._world.note("source", f"epoch {self.epoch}, known up to {self._known_to}")

        def known() -> None:
            self._known_to = float("inf")
            self._wake()

        self._world.after(self._random.uniform(0.0, 1.0), known)
        self._wake()

    def _begin_epoch(self, start: int) -> None:
        newest = self.epoch
        self.end = start
        self.epochs = [each for each in self.epochs if each[1] < start]
        self.epochs.append((newest + 1, start))

    def _reopen_transactions(self) -> None:
        """What is open when the end of the log is lost; ended at once, one way or the other."""
        self._open = {}
        self._aborted = [each for each in self._aborted if each[2] < self.end]
        for entry in self.entries:
            if entry.control:
                self._open.pop(entry.producer, None)
            elif entry.transactional:
                begun = self._open.setdefault(entry.producer, _Transaction(first=entry.base))
                begun.entries.append(entry)
        for begun in self._open.values():
            begun.entries = [self._replaced(each) for each in begun.entries]
        self.end_all_transactions()

    def _replaced(self, entry: Entry) -> Entry:
        """A copy of its own for the new history: its outcome may differ from the lost one's."""
        copy = Entry(
            base=entry.base,
            last=entry.last,
            data=entry.data,
            producer=entry.producer,
            epoch=entry.epoch,
            timestamp=entry.timestamp,
            transactional=True,
            committed=None,
            held=entry.held,
        )
        self.entries[self.entries.index(entry)] = copy
        return copy

    # Reading

    def fetch(self, offset: int, *, last_epoch: int = -1) -> Fetched | Refusal | Diverged:
        """Fetch(read_committed) with the epoch of the batch before `offset`, if known."""
        if not self.log_start <= offset <= self.end:
            return Refusal(OUT_OF_RANGE, self.log_start)
        if last_epoch >= 0:
            epoch, end = self._epoch_end(last_epoch)
            if epoch < last_epoch or end < offset:
                return Diverged(end)
        stable = self._told_end
        at = bisect_left(self.entries, offset, key=lambda each: each.last)
        found = [each for each in self.entries[at : at + 5] if each.last < stable]
        if found and self._random.random() < 0.3:
            found = found[: self._random.randint(1, len(found))]
        given = bytearray(b"".join([each.data for each in found]))
        upper = found[-1].last + 1 if found else offset
        aborted = [(who, first) for who, first, last in self._aborted if last >= offset]
        aborted = [each for each in aborted if each[1] < upper]
        if len(found) > 1 and self._random.random() < 0.2:
            del given[-self._random.randint(1, len(found[-1].data) - 1) :]
        self._random.shuffle(aborted)
        return Fetched(given, self.log_start, stable, tuple(aborted))

    def _epoch_end(self, epoch: int) -> tuple[int, int]:
        at = bisect_right(self.epochs, epoch, key=lambda each: each[0])
        end = self.epochs[at][1] if at < len(self.epochs) else self.end
        return self.epochs[at - 1][0], end

    def offset_of(self, position: str) -> int:
        """ListOffsets: of a timestamp the first record at or after it, else the stable end."""
        if position == "earliest":
            return self.log_start
        stable = self.stable_end
        if position != "latest":
            for each in self.entries:
                if self.log_start <= each.last < stable and each.timestamp >= int(position):
                    return max(each.last, self.log_start)
        return stable

    def when_changed(self, offset: int, action: Callable[[], None]) -> None:
        """Calls `action` once there may be an answer for a fetch from `offset`."""
        epoch = self.epoch

        def ready() -> bool:
            moved = self._has_batches(offset) or self.epoch != epoch
            if moved or not self.log_start <= offset <= self.end:
                action()
                return True
            return False

        if not ready():
            self._waiting.append(ready)

    def _has_batches(self, offset: int) -> bool:
        at = bisect_left(self.entries, offset, key=lambda each: each.last)
        return at < len(self.entries) and self.entries[at].last < self._told_end

    def _wake(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._waiting.extend(each for each in waiting if not each())
