"""Port: the two durable topics of one flow on its target, as one ordered, readable log.

Everything that a flow must not forget is a record here: the offset map with its anchors and eras
in `mm2-offset-map.<alias>.internal`, receipts in `mm2-receipts.<alias>.internal` (`<alias>` is
the source's). Both have one partition and are compacted. What keys and values mean is
`mm2.formats`' business.

One thread owns a log and makes every call. Callbacks run inside `poll` and `close`, never
elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base import errors
from mm2.core import naming

OnRecorded = Callable[[errors.ConnectError | None], None]
"""Told once per appended record: None when it is on the target (acknowledged by all in-sync
replicas), else why not. After an error it may or may not be there: read to know."""


class LogTopic(enum.Enum):
    """Which of the two topics."""

    MAP = "map"
    RECEIPTS = "receipts"


def topic_names(source_alias: str) -> Mapping[LogTopic, str]:
    """The topics' names on the target."""
    return {
        LogTopic.MAP: naming.map_topic(source_alias),
        LogTopic.RECEIPTS: naming.receipts_topic(source_alias),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record as it was read. `value` None is a tombstone: it deletes its key."""

    topic: LogTopic
    offset: int
    key: bytes
    value: bytes | None


class FlowLog(Protocol):
    """Appends in order, tells when appended is recorded, reads to the end as seen when asked."""

    def open(self, timeout_s: float) -> None:
        """Create what is missing, check what is there, connect.

        Opening again after a failure starts over: still pending callbacks are told an error by
        this call, and the next `read_to_end` begins at the beginning.

        Raises `FatalError` when a topic has other than one partition or is not compacted, when
        rights are missing or credentials refused; `RetriableError` when time is up.
        """

    def append(
        self, topic: LogTopic, key: bytes, value: bytes | None, *, on_recorded: OnRecorded
    ) -> None:
        """Hand over one record; never waits. It is sent by a later `poll`, or by `close`, and
        `on_recorded` comes from a later one.

        Per topic, the order of calls is the order in the log. No record overtakes a failed one
        unnoticed: the first failure breaks the log, all that was handed over behind it fails
        too, and `append` raises until `open` is called again. There is no time limit: while the
        target is away the record waits, and its callback with it.

        Raises `FlowLogFullError` (nothing was taken; `poll` and try again) when the bound of
        unacknowledged records or bytes is reached, `FlowLogBrokenError` after a failure.
        """

    def poll(self, timeout_s: float) -> int:
        """Send what was appended, run due callbacks; wait up to `timeout_s` for the first. Returns
        how many ran.

        Must be called regularly, also while nothing is pending: it carries the library's log.
        """

    @property
    def pending(self) -> int:
        """Records handed over whose callback has not run yet."""

    def read_to_end(self, timeout_s: float) -> list[LogRecord]:
        """Everything that anybody appended since the last read, in log order per topic.

        The ends are asked of the leaders now: whatever was acknowledged to anybody before this
        call is included. Records superseded within their topic may have been compacted away.
        The first call after `open` starts at the beginning.

        Raises `RetriableError` when time is up; what was read so far comes with the next call.
        `LogTruncatedError` when the log lost records that were read: forget them and `open`.
        """

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for pending records, then let go; runs every callback left."""
