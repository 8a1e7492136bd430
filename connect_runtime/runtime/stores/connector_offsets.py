"""Offsets of a connector that has an offsets topic of its own (`offsets.storage.topic`, KIP-618).

Its own topic is what counts. The worker's has what was committed before there was one, and a copy
of what came later, as far as that worked: for the day when the connector has none any more.
Java: ConnectorOffsetBackingStore.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.core.state import offset_records
from connect_runtime.ports import shared_log
from connect_runtime.runtime.stores import offset_store

_LOG = logging.getLogger(__name__)


class ConnectorOffsets:
    """Implements `offset_store.Offsets` over two stores; neither is started or stopped here."""

    def __init__(
        self,
        own: offset_store.Offsets,
        workers: offset_store.Offsets,
        *,
        clock: base_clock.Clock,
    ) -> None:
        self._own = own
        self._workers = workers
        self._clock = clock

    def read(
        self,
        connector: str,
        partitions: Sequence[offset_store.Partition],
        timeout_s: float,
    ) -> list[offset_store.Offset]:
        """See `offset_store.Offsets`; so for all below."""
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        own = self._own.read(connector, partitions, timeout_s)
        left_s = end.left_s(self._clock.now_s())
        workers = self._workers.read(connector, partitions, left_s)
        return [workers[at] if offset is None else offset for at, offset in enumerate(own)]

    def read_all(
        self, connector: str, timeout_s: float
    ) -> list[tuple[offset_records.Partition, offset_store.Offset]]:
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        own = self._own.read_all(connector, timeout_s)
        left_s = end.left_s(self._clock.now_s())
        merged = {
            _same(connector, partition): (partition, offset)
            for partition, offset in [*self._workers.read_all(connector, left_s), *own]
        }
        return list(merged.values())

    def partitions(self, connector: str, timeout_s: float) -> list[offset_records.Partition]:
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        own = self._own.partitions(connector, timeout_s)
        left_s = end.left_s(self._clock.now_s())
        every = [*self._workers.partitions(connector, left_s), *own]
        return list({_same(connector, each): each for each in every}.values())

    def write(
        self, connector: str, pairs: offset_store.Pairs, *, on_done: shared_log.OnRecorded
    ) -> None:
        """What is forgotten must be forgotten by the worker's topic first: else it would come
        back, should the second write fail (KAFKA-15018)."""
        forgotten, kept = offset_store.split(pairs)

        def own_first(error: errors.ConnectError | None) -> None:
            if error is not None:
                on_done(error)
                return
            self._write(self._own, connector, pairs, on_done=own_done)

        def own_done(error: errors.ConnectError | None) -> None:
            on_done(error)
            if error is None and kept:
                self._write(self._workers, connector, kept, on_done=copied)

        def copied(error: errors.ConnectError | None) -> None:
            if error is not None:
                _LOG.warning(
                    "offsets of %s are in its own topic, but were not copied to the worker's: %s",
                    connector,
                    error,
                )

        if forgotten:
            self._workers.write(connector, forgotten, on_done=own_first)
        else:
            self._own.write(connector, pairs, on_done=own_done)

    def _write(
        self,
        offsets: offset_store.Offsets,
        connector: str,
        pairs: offset_store.Pairs,
        *,
        on_done: shared_log.OnRecorded,
    ) -> None:
        """From within a callback, where nothing may be raised."""
        try:
            offsets.write(connector, pairs, on_done=on_done)
        except errors.ConnectError as error:
            on_done(error)


def _same(connector: str, partition: offset_records.Partition) -> Hashable:
    return offset_records.canonical(offset_records.OffsetKey(connector, partition))
