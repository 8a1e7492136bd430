"""Backing store of source offsets: applies the records of the offsets topic (or file) in order, and
writes to it.

Also contains the reader that source plugins use. Java: KafkaOffsetBackingStore,
FileOffsetBackingStore, OffsetStorageReaderImpl.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.storage import offset_topic
from connect_runtime.storage.backing_store_base import TopicStateListener
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import OnRecorded, SharedLog
from connect_runtime.storage.offset_topic import (
    InvalidSourceOffset,
    OffsetTopicState,
    SourceOffset,
    SourceOffsetChanged,
    SourcePartition,
)

_LOG = logging.getLogger(__name__)

NullablePartition: TypeAlias = SourcePartition | None
NullableOffset: TypeAlias = SourceOffset | None
OffsetPairs: TypeAlias = Sequence[tuple[NullablePartition, NullableOffset]]
"""Source partitions with their offsets. An offset of None deletes the partition's stored offset."""


class OffsetBackingStore(Protocol):
    """Reads and writes source offsets for a worker. Thread-safe."""

    def read_offsets(
        self, connector: str, partitions: Sequence[NullablePartition], timeout_s: float
    ) -> list[NullableOffset]:
        """Read to the current end of the log, then return the offset of each given partition; None
        for a partition without an offset.

        Raises the same errors as `SharedLog.read_to_end`, and `InvalidSourceOffset` for an invalid
        partition.
        """

    def read_all_offsets(
        self, connector: str, timeout_s: float
    ) -> list[tuple[SourcePartition, NullableOffset]]:
        """Return all partitions of the connector with their offsets. Invalid offsets are skipped.

        Raises the same errors as `SharedLog.read_to_end`.
        """

    def connector_partitions(self, connector: str, timeout_s: float) -> list[SourcePartition]:
        """Return all partitions of the connector that have an offset, even an invalid one.

        Raises the same errors as `SharedLog.read_to_end`.
        """

    def write_offsets(self, connector: str, pairs: OffsetPairs, *, on_done: OnRecorded) -> None:
        """Write offsets asynchronously.

        `on_done` is called once: when all offsets are recorded, or with the first failure. If
        `InvalidSourceOffset` is raised, nothing is written and `on_done` is not called.
        """


def commit_offsets(
    offsets: OffsetBackingStore, connector: str, pairs: OffsetPairs, *, timeout_s: float
) -> None:
    """Write offsets and wait until they are recorded.

    Raises the first failure, or `RetriableError` after the timeout. After a timeout the outcome is
    unknown: commit these or newer offsets again.
    """
    answered = threading.Event()
    answer: list[ConnectError | None] = []

    def add_write_result(error: ConnectError | None) -> None:
        answer.append(error)
        answered.set()

    offsets.write_offsets(connector, pairs, on_done=add_write_result)
    if not answered.wait(timeout_s):
        raise RetriableError(
            f"committing offsets of {connector}: not acknowledged within {timeout_s:.1f} s; the "
            "offsets may not be stored, so source records may be read again "
            "(offset.flush.timeout.ms limits the commits of a task)"
        )
    if answer[0] is not None:
        raise answer[0]


class LogOffsetBackingStore:
    """Implements `OffsetBackingStore` on one log: the worker's offsets topic or file, or a
    connector's own offsets topic."""

    def __init__(self, log: SharedLog) -> None:
        self._log = log
        self._view: TopicStateListener[OffsetTopicState, SourceOffsetChanged] = TopicStateListener(
            create_fold=OffsetTopicState, on_change=lambda _: None
        )

    @property
    def name(self) -> str:
        """Name of the offsets topic or file."""
        return self._log.name

    def start(self, timeout_s: float) -> None:
        """Read all stored offsets. Raises the same errors as `SharedLog.start`."""
        self._log.start(self._view, timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Wait for pending offset writes, then close the log."""
        self._log.stop(timeout_s)

    def read_offsets(
        self, connector: str, partitions: Sequence[NullablePartition], timeout_s: float
    ) -> list[NullableOffset]:
        """Read the offsets of partitions. This and the following methods are documented in
        `OffsetBackingStore`."""
        self._log.read_to_end(timeout_s)
        with self._view.lock:
            return [self._view.state.get_offset(connector, each) for each in partitions]

    def read_all_offsets(
        self, connector: str, timeout_s: float
    ) -> list[tuple[SourcePartition, NullableOffset]]:
        found: list[tuple[SourcePartition, NullableOffset]] = []
        self._log.read_to_end(timeout_s)
        with self._view.lock:
            for each in self._view.state.list_partitions(connector):
                try:
                    found.append((each, self._view.state.get_offset(connector, each)))
                except InvalidSourceOffset as error:
                    _LOG.warning("%s: %s; skipping it", self.name, error)
        return found

    def connector_partitions(self, connector: str, timeout_s: float) -> list[SourcePartition]:
        self._log.read_to_end(timeout_s)
        with self._view.lock:
            return self._view.state.list_partitions(connector)

    def write_offsets(self, connector: str, pairs: OffsetPairs, *, on_done: OnRecorded) -> None:
        records = self._encode_records(connector, pairs)
        if not records:
            on_done(None)
            return
        combined = _CombinedWriteResult(len(records), on_done)
        for record in records:
            try:
                self._log.send(record, on_recorded=combined.add_write_result)
            except ConnectError as error:
                combined.add_write_result(error)

    def _encode_records(self, connector: str, pairs: OffsetPairs) -> list[KeyedRecord]:
        """Encode offsets as records. The deletion of a source partition's offset is encoded as a
        tombstone for each record key of the source partition: it has several keys if it was written
        with several field orders."""
        records: list[KeyedRecord] = []
        with self._view.lock:
            fold = self._view.state
            for partition, offset in pairs:
                value = offset_topic.encode_offset_value(offset, connector=connector)
                key = fold.get_record_key(connector, partition)
                keys = (
                    [key]
                    if value is not None
                    else fold.list_record_keys(connector, partition) or [key]
                )
                records += [KeyedRecord(key=each, value=value) for each in keys]
        return records


class _CombinedWriteResult:
    """Combines the results of several writes: reports the first error, or None, once all writes are
    complete."""

    def __init__(self, count: int, on_done: OnRecorded) -> None:
        self._left = count
        self._on_done = on_done
        self._failure: ConnectError | None = None
        self._lock = threading.Lock()

    def add_write_result(self, error: ConnectError | None) -> None:
        with self._lock:
            self._left -= 1
            self._failure = self._failure or error
            last = self._left == 0
        if last:
            self._on_done(self._failure)


SLOW_READ_WARNING_S = 60.0
_READ_WAIT_SLICE_S = 2.0


class StoredOffsetReader:
    """Implements `OffsetReader` of the plugin API.

    The worker sets the event `abandoned` when it abandons the connector or task. Reads in progress
    then raise `FatalError`.
    """

    def __init__(
        self,
        connector: str,
        *,
        offsets: OffsetBackingStore,
        abandoned: threading.Event,
        clock: Clock,
    ) -> None:
        self._connector = connector
        self._offsets = offsets
        self._given_up = abandoned
        self._clock = clock

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the offset of one source partition, as documented in `OffsetReader`."""
        return self.offsets([partition])[0]

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any] | None]:
        """Return the offsets of source partitions, as documented in `OffsetReader`.

        Retries until the task is abandoned, with a warning every minute, because a failed task
        would have to be restarted manually.
        """
        begun_s = warned_s = self._clock.now_s()
        while True:
            if self._given_up.is_set():
                raise FatalError(
                    f"reading offsets of {self._connector}: the connector or task did not stop in"
                    " time and was abandoned"
                )
            try:
                return self._offsets.read_offsets(self._connector, partitions, _READ_WAIT_SLICE_S)
            except RetriableError as error:
                now_s = self._clock.now_s()
                if now_s - warned_s >= SLOW_READ_WARNING_S:
                    warned_s = now_s
                    _LOG.warning(
                        "connector %s has waited %.0f s for its offsets: %s",
                        self._connector,
                        now_s - begun_s,
                        error,
                    )
