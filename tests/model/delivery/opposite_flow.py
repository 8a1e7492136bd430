"""The flow that leads back, as the source sees it: it takes the partition with a marker, stores its
producer id, and only then writes."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.formats.record_codec import BatchRecord
from tests.model.delivery import source_log
from tests.model.delivery.events import Events
from tests.model.delivery.source_log import Entry, SourceLog

FIRST_ID = 900
"""All ids from here on are its own."""


def is_theirs(entry: Entry) -> bool:
    return entry.producer >= FIRST_ID


def local(entries: Iterable[Entry]) -> list[Entry]:
    """Those that are to be copied."""
    return [each for each in entries if not is_theirs(each)]


def brought(source: SourceLog) -> list[BatchRecord]:
    """All records that it ever brought, in every history of the source."""
    branches = (*source.lost_branches, source.entries, source.cleaned)
    entries = [each for branch in branches for each in branch if is_theirs(each)]
    return [record for entry in entries for record in entry.held]


class OppositeFlow:
    """`stored` are the ids that its map topic has; what is asked of it is read to its end."""

    def __init__(self, world: Events, source: SourceLog) -> None:
        self._world = world
        self._random = world.random
        self._source = source
        self.stored: set[int] = set()
        self._id = FIRST_ID
        self._locals = 200

    def whose(self, producers: Iterable[int]) -> frozenset[int]:
        return frozenset(self.stored.intersection(producers))

    def something(self) -> None:
        """It takes the partition, or writes; or another local producer comes."""
        drawn = self._random.random()
        if drawn < 0.25:
            self._take()
        elif drawn < 0.4:
            self._locals += 1
            self._source._append_data(self._locals, transactional=False)
        elif self._id in self.stored:
            self._write()

    def _take(self) -> None:
        """Under another id now and then: the one before expired, or its epochs were used up."""
        self._end_open()
        if self._id in self.stored and self._random.random() < 0.5:
            self._id += 1
        number = self._id
        self._source._open[number] = source_log._Transaction(first=self._source.end)
        self._source.end_transaction(number, commit=True)
        self._world.note("opposite", f"takes the partition as {number}")
        self._world.after(
            self._random.choice((0.0, 0.01, 0.5, 5.0)), lambda: self.stored.add(number)
        )

    def _write(self) -> None:
        if self._id in self._source._open and self._random.random() < 0.5:
            self._end_open()
            return
        self._source._append_data(self._id, transactional=self._random.random() < 0.3)

    def _end_open(self) -> None:
        if self._id in self._source._open:
            self._source.end_transaction(self._id, commit=self._random.random() < 0.6)
