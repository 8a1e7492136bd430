"""Interface to an internal topic: a log that every worker writes and reads to its end
(KafkaBasedLog).

A written record counts only after it was read back: then every worker reads it at the same
position. A log has one listener, which receives every record in partition order. Standalone workers
use logs in memory or in a file.

`FencedWriter` is for the leader of a cluster with exactly-once sources: only one writer at a time,
with atomic writes, so that a former leader that does not know of its replacement cannot write any
more (KIP-618).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.storage.config_records import KeyedRecord

OnRecorded = Callable[[ConnectError | None], None]
"""Called once per sent record, with None when it is in the log, or the failure. A failed record may
be in the log nevertheless. Runs on a thread of the log: it should only post an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLogRecord:
    """A record that was read; value None deletes the key."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    is_own: bool = True
    """True if a worker of this implementation wrote it, not a Java worker."""
    wall_ms: int = -1
    """When it was written, by the writer's clock; -1 if unknown."""


class LogListener(Protocol):
    """Receives the log's records, one by one on its reading thread. Must not block or raise."""

    def on_record(self, record: SharedLogRecord) -> None:
        """Process the next record of a partition. Superseded ones may have been compacted away."""

    def on_replayed(self) -> None:
        """All records that existed at the start (or restart) of reading have been delivered."""

    def on_start_over(self) -> None:
        """Records are gone, because the topic was truncated or recreated: drop all state.

        All records are delivered again from the beginning, followed by `on_replayed`.
        """


class SharedLog(Protocol):
    """An internal topic that a worker writes and reads to its end.

    Thread-safe, except for `start` and `stop`. The listener must not call it.
    """

    @property
    def name(self) -> str:
        """The topic's name, or a substitute for messages."""

    def start(self, listener: LogListener, timeout_s: float) -> None:
        """Create and check the topic, deliver all its records, and continue in the background.

        Returns after `on_replayed`. Raises `FatalError` for an unusable topic, missing permissions
        or refused credentials; `RetriableError` after the timeout.
        """

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        """Queue a record without waiting.

        Records of one thread and key are read in the order in which they were sent. Raises
        `RetriableError` if too many records are queued, `FatalError` if it can never be written;
        `on_recorded` is not called then.
        """

    def read_to_end(self, timeout_s: float) -> None:
        """Wait until the listener has processed everything that is in the log now.

        That includes all acknowledged writes of anyone, and all records sent here before this call.
        Raises `RetriableError` after the timeout, while reading continues; `FatalError` if waiting
        is useless (missing permissions, stopped).
        """

    def stop(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for sent records, then close. Every `on_recorded` is called."""


class WritePrivilegeLost(FatalError):
    """Nothing was written: the writer was not claimed, has failed, or another one was claimed."""


class FencedWriter(Protocol):
    """The leader's writer. Not thread-safe."""

    def claim(self, timeout_s: float) -> None:
        """Become the only writer and fence all others.

        Raises `ConnectError` on failure; then this is not the writer.
        """

    def write(self, records: Sequence[KeyedRecord], timeout_s: float) -> None:
        """Write all records or none. Raises `WritePrivilegeLost`; then call `claim` again."""

    def stop(self) -> None:
        """Close without waiting."""


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that changed nothing and should be logged.

    The reason contains the key but never a value, since values may contain secrets. The reader of
    the record adds topic, partition and offset.
    """

    reason: str
