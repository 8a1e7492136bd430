"""Interface to an internal topic: a log that every worker writes and reads to its end
(KafkaBasedLog).

A worker applies a record that it wrote only when it reads the record back. All workers therefore
apply the records in the same order. A log has one listener, which receives every record in
partition order. Standalone workers use logs in memory or in a file.

`FencedWriter` is for the leader of a group with exactly-once source support. Only one writer is
active at a time, and its writes are atomic. A former leader can therefore no longer write, even if
it has not noticed yet that it was replaced (KIP-618).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.storage.config_records import KeyedRecord

OnRecorded = Callable[[ConnectError | None], None]
"""Called once per sent record, with None when the record is in the log, or with the failure. A
failed record may still be in the log. Runs on a log thread, so it should only post an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLogRecord:
    """A record that was read from a shared log. A value of None deletes the key."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    is_own: bool = True
    """True if a worker of this implementation wrote the record; False for a Java worker."""
    wall_ms: int = -1
    """Time at which the record was written, by the writer's clock; -1 if unknown."""


class LogListener(Protocol):
    """Receives the records of a shared log one by one, on the thread that reads the log. Must not
    block or raise."""

    def on_record(self, record: SharedLogRecord) -> None:
        """Process the next record of a partition. Earlier records with the same key may be missing
        because of compaction."""

    def on_replay_completed(self) -> None:
        """Called once all records that existed when reading started or restarted have been
        delivered."""

    def on_log_reset(self) -> None:
        """Drop all state, because the topic was truncated or recreated and records are missing.

        All records are delivered again from the beginning, followed by `on_replay_completed`.
        """


class SharedLog(Protocol):
    """An internal topic that a worker writes to and reads continuously.

    Thread-safe, except for `start` and `stop`. The listener must not call the log.
    """

    @property
    def name(self) -> str:
        """Name of the topic. For a log in memory or in a file: a name for use in messages."""

    def start(self, listener: LogListener, timeout_s: float) -> None:
        """Create and check the topic, deliver all its records, and continue reading in the
        background.

        Returns after `on_replay_completed`. Raises `FatalError` for an unusable topic, missing
        permissions or rejected credentials, and `RetriableError` after the timeout.
        """

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        """Queue a record for writing and return immediately.

        Records with the same key that one thread sends are read in the order in which they were
        sent. Raises `RetriableError` if too many records are queued, and `FatalError` if the record
        can never be written. In both cases `on_recorded` is not called.
        """

    def read_to_end(self, timeout_s: float) -> None:
        """Wait until the listener has processed all records that are in the log at the time of the
        call.

        These include all acknowledged writes by any worker, and all records sent through this log
        before the call. Raises `RetriableError` after the timeout, while reading continues. Raises
        `FatalError` if the end can never be reached (missing permissions, log stopped).
        """

    def stop(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for sent records to be written, then close the log. When this
        returns, the `on_recorded` callback of every sent record has been called."""


class WritePrivilegeLost(FatalError):
    """Raised if nothing was written, because the writer has not called `claim_write_privileges`,
    has failed, or was fenced by another writer."""


class FencedWriter(Protocol):
    """Writes records to an internal topic on behalf of the leader. A new leader fences the previous
    one. Not thread-safe."""

    def claim_write_privileges(self, timeout_s: float) -> None:
        """Become the only writer of the topic and fence all other writers.

        Raises `ConnectError` on failure; this writer then cannot write.
        """

    def write_records(self, records: Sequence[KeyedRecord], timeout_s: float) -> None:
        """Write all records or none of them. After `WritePrivilegeLost`, call
        `claim_write_privileges` again."""

    def stop(self) -> None:
        """Close the writer without waiting for pending writes."""


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that changed nothing because it is invalid, with the reason to log.

    The reason contains the key but never a value, because values may contain secrets. The code that
    logs it adds topic, partition and offset.
    """

    reason: str
