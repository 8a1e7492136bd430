"""Ports to an internal topic: a log that every worker writes and reads to its end (KafkaBasedLog).

A written record counts only once it was read back: then every worker reads it in the same place. A
log has one listener, which receives every record in the order of its partition. Standalone workers
use logs of their own: in memory, or a file.

`FencedWriter` is for the leader of a cluster with exactly-once sources: one writer at a time, all
or nothing, so a deposed leader that does not know it yet cannot write any more (KIP-618).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.storage import config_records

KeyedRecord = config_records.KeyedRecord

OnRecorded = Callable[[ConnectError | None], None]
"""Told once per sent record: None when it is in the log, else why not. After an error it may be
there all the same: read to know. Runs on a thread of the log: post an event, no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLogRecord:
    """One record as it was read. `value` None deletes what `key` said before.

    `ours`: a worker of this make wrote it (`SharedLog.send`), not Java's. `wall_ms`: when, by its
    writer's clock; -1: not known.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    ours: bool = True
    wall_ms: int = -1


class LogListener(Protocol):
    """Hears the log, on its reading thread, one call after the other. Must not wait or raise."""

    def on_record(self, record: SharedLogRecord) -> None:
        """The next record of its partition. Superseded ones may have been compacted away."""

    def on_replayed(self) -> None:
        """All that was in the log when it was started (or started over) has been told."""

    def on_start_over(self) -> None:
        """Records that were told are no longer there: the topic was truncated, or deleted and made
        again. Forget everything; it is told again from the beginning, then `on_replayed`."""


class SharedLog(Protocol):
    """All but `start` and `stop` may be called from any thread, at once, except by the listener."""

    @property
    def name(self) -> str:
        """The topic's, or what stands for it in messages."""

    def start(self, listener: LogListener, timeout_s: float) -> None:
        """Make and check the topic; tell the listener all that is there, then go on telling.

        Returns after `on_replayed`. Raises `FatalError` for a topic that must not be used, for
        missing rights and refused credentials; `RetriableError` when time is up.
        """

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        """Hand over one record; never waits.

        One thread's records of one key are read in the order in which they were sent. Raises
        `RetriableError` when too many wait already, `FatalError` when it can never be written:
        then `on_recorded` is not called.
        """

    def read_to_end(self, timeout_s: float) -> None:
        """Wait until the listener has heard everything that is in the log by now.

        That is all that anybody's write was acknowledged of before this call, and all that was
        sent here before it. Raises `RetriableError` when time is up; the rest is still told later.
        `FatalError` when waiting is useless (missing rights, stopped).
        """

    def stop(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for what was sent, then let go: every `on_recorded` is called."""


class WritePrivilegeLost(FatalError):
    """Nothing was written: this writer was never claimed, failed before, or another was claimed."""


class FencedWriter(Protocol):
    """One thread at a time."""

    def claim(self, timeout_s: float) -> None:
        """Become the one writer: whoever was before cannot write any more.

        Raises `ConnectError` when that failed: then this is not the one.
        """

    def write(self, records: Sequence[KeyedRecord], timeout_s: float) -> None:
        """Write all of them or none. Raises `WritePrivilegeLost`: then `claim` again."""

    def stop(self) -> None:
        """Let go, without waiting."""


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """The record changed nothing, and somebody should hear of it.

    The reason names the key, never a value: values may hold secrets. Whoever read the record adds
    topic, partition and offset.
    """

    reason: str
