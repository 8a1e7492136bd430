"""How far sources have read: the offsets topic (or file), folded, and the writes to it.

Java: KafkaOffsetBackingStore, FileOffsetBackingStore, OffsetStorageReaderImpl.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from connect_runtime.base import errors
from connect_runtime.core.state import offset_log, offset_records
from connect_runtime.ports import shared_log
from connect_runtime.runtime.stores import folded_log

_LOG = logging.getLogger(__name__)

Partition: TypeAlias = offset_records.Partition | None
Offset: TypeAlias = offset_records.Offset | None
Pairs: TypeAlias = Sequence[tuple[Partition, Offset]]
"""Partitions with their offsets; an offset None forgets the partition."""


class Offsets(Protocol):
    """Source offsets as a worker reads and writes them. Any thread may."""

    def read(
        self, connector: str, partitions: Sequence[Partition], timeout_s: float
    ) -> list[Offset]:
        """Read to the end as of now; one answer for each, None for what has no offset.

        Raises as `SharedLog.read_to_end`, and `BadOffset` for what cannot be a partition.
        """

    def read_all(
        self, connector: str, timeout_s: float
    ) -> list[tuple[offset_records.Partition, Offset]]:
        """Every partition of the connector with its offset; one that is no offset is left out.

        Raises as `SharedLog.read_to_end`; so does `partitions`.
        """

    def partitions(self, connector: str, timeout_s: float) -> list[offset_records.Partition]:
        """Every partition of the connector that has an offset, or what should be one."""

    def write(self, connector: str, pairs: Pairs, *, on_done: shared_log.OnRecorded) -> None:
        """Write them; never waits.

        `on_done` is called once: when all are recorded, or with the first failure. Raises
        `BadOffset` for what cannot be written: then nothing is, and nobody called.
        """


def commit(offsets: Offsets, connector: str, pairs: Pairs, *, timeout_s: float) -> None:
    """Write and wait. Raises what went wrong, `RetriableError` when time is up.

    Nobody hears what comes after that: such offsets are to be committed again, or newer ones.
    """
    answered = threading.Event()
    answer: list[errors.ConnectError | None] = []

    def note(error: errors.ConnectError | None) -> None:
        answer.append(error)
        answered.set()

    offsets.write(connector, pairs, on_done=note)
    if not answered.wait(timeout_s):
        raise errors.RetriableError(
            f"committing offsets of {connector}: not acknowledged within {timeout_s:.1f} s; they "
            "are tried again with the next ones (offset.flush.timeout.ms is how long to wait)"
        )
    if answer[0] is not None:
        raise answer[0]


class OffsetStore:
    """Implements `Offsets` over one log: a worker's own, or one of a connector's own topic."""

    def __init__(self, log: shared_log.SharedLog) -> None:
        self._log = log
        self._view: folded_log.FoldedLog[offset_log.OffsetLog, offset_log.OffsetChanged] = (
            folded_log.FoldedLog(make=offset_log.OffsetLog, on_change=lambda _: None)
        )

    @property
    def name(self) -> str:
        """The topic's or file's."""
        return self._log.name

    def start(self, timeout_s: float) -> None:
        """Read all offsets. Raises as `SharedLog.start`."""
        self._log.start(self._view, timeout_s)

    def stop(self, timeout_s: float) -> None:
        self._log.stop(timeout_s)

    def read(
        self, connector: str, partitions: Sequence[Partition], timeout_s: float
    ) -> list[Offset]:
        """See `Offsets`; so for all below."""
        self._log.read_to_end(timeout_s)
        with self._view.lock:
            return [self._view.fold.get(connector, each) for each in partitions]

    def read_all(
        self, connector: str, timeout_s: float
    ) -> list[tuple[offset_records.Partition, Offset]]:
        found: list[tuple[offset_records.Partition, Offset]] = []
        self._log.read_to_end(timeout_s)
        with self._view.lock:
            for each in self._view.fold.partitions(connector):
                try:
                    found.append((each, self._view.fold.get(connector, each)))
                except offset_records.BadOffset as error:
                    _LOG.warning("%s: %s; it is left out", self.name, error)
        return found

    def partitions(self, connector: str, timeout_s: float) -> list[offset_records.Partition]:
        self._log.read_to_end(timeout_s)
        with self._view.lock:
            return self._view.fold.partitions(connector)

    def write(self, connector: str, pairs: Pairs, *, on_done: shared_log.OnRecorded) -> None:
        records = self._records(connector, pairs)
        if not records:
            on_done(None)
            return
        gathered = _Gathered(len(records), on_done)
        for record in records:
            try:
                self._log.send(record, on_recorded=gathered.note)
            except errors.ConnectError as error:
                gathered.note(error)

    def _records(self, connector: str, pairs: Pairs) -> list[shared_log.Record]:
        """A partition is forgotten under every key that it has: in any order of its fields."""
        records: list[shared_log.Record] = []
        with self._view.lock:
            fold = self._view.fold
            for partition, offset in pairs:
                value = offset_records.encode_value(offset, connector=connector)
                key = fold.key_for(connector, partition)
                keys = [key] if value is not None else fold.aliases(connector, partition) or [key]
                records += [shared_log.Record(key=each, value=value) for each in keys]
        return records


class _Gathered:
    """Many answers made one: called when the last has come, with the first that is an error."""

    def __init__(self, count: int, on_done: shared_log.OnRecorded) -> None:
        self._left = count
        self._on_done = on_done
        self._failure: errors.ConnectError | None = None
        self._lock = threading.Lock()

    def note(self, error: errors.ConnectError | None) -> None:
        with self._lock:
            self._left -= 1
            self._failure = self._failure or error
            last = self._left == 0
        if last:
            self._on_done(self._failure)
