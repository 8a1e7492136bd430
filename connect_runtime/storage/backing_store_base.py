"""Common parts of the three backing stores: building a topic's state from its records, and writing
records and waiting for their acknowledgement."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import (
    SharedLog,
    SharedLogRecord,
    SkippedRecord,
)

_LOG = logging.getLogger(__name__)

Change = TypeVar("Change")
Change_co = TypeVar("Change_co", covariant=True)


class TopicState(Protocol[Change_co]):
    """State of a topic, built by applying the topic's records one by one, in order."""

    def apply_record(
        self, key: bytes | None, value: bytes | None, *, offset: int
    ) -> Change_co | SkippedRecord | None: ...


AnyTopicState = TypeVar("AnyTopicState", bound=TopicState[Any])


def _ignore_replay(_before: object, _now: object) -> None:
    """Do nothing after a replay."""


def _apply_record(
    fold: TopicState[Change], record: SharedLogRecord
) -> Change | SkippedRecord | None:
    """Apply a record to a topic state that does not depend on the record's writer or time."""
    return fold.apply_record(record.key, record.value, offset=record.offset)


class TopicStateListener(Generic[AnyTopicState, Change]):
    """Implements `LogListener`: applies each record of a log to a topic state. Hold `lock` while
    reading `state`.

    Invariant: `state` includes all records received so far, except while the log is read again from
    its beginning. During this time, `state` remains the old state, so that readers never see a
    partial state. It is replaced by the new state once the replay is complete.
    """

    def __init__(
        self,
        *,
        create_fold: Callable[[], AnyTopicState],
        on_change: Callable[[Change], None],
        on_replayed: Callable[[AnyTopicState | None, AnyTopicState], None] = _ignore_replay,
        apply_record: Callable[
            [AnyTopicState, SharedLogRecord], Change | SkippedRecord | None
        ] = _apply_record,
    ) -> None:
        """Create a listener with an empty topic state.

        `create_fold` creates an empty topic state, and `apply_record` applies a record to it.
        `on_change` is called with each change, after the record was applied. `on_replayed` is
        called after each replay, with the previous state (None the first time) and the new state,
        while the lock is held. `on_change` and `on_replayed` are called on the log's thread.
        """
        self.lock = threading.RLock()
        self.state = create_fold()
        self._make = create_fold
        self._on_change = on_change
        self._on_replayed = on_replayed
        self._apply = apply_record
        self._replayed_once = False
        self._rebuilding: AnyTopicState | None = None

    def on_record(self, record: SharedLogRecord) -> None:
        """Apply the next record to the topic state. This and the following methods are documented
        in `LogListener`."""
        with self.lock:
            fold = self.state if self._rebuilding is None else self._rebuilding
            change = self._apply(fold, record)
        if isinstance(change, SkippedRecord):
            _LOG.warning(
                "skipping the record of %s-%d at offset %d: %s",
                record.topic,
                record.partition,
                record.offset,
                change.reason,
            )
        elif change is not None:
            self._on_change(change)

    def on_replay_completed(self) -> None:
        with self.lock:
            before = self.state if self._replayed_once else None
            if self._rebuilding is not None:
                self.state, self._rebuilding = self._rebuilding, None
            self._replayed_once = True
            self._on_replayed(before, self.state)

    def on_log_reset(self) -> None:
        with self.lock:
            self._rebuilding = self._make()


def write_records(log: SharedLog, records: Sequence[KeyedRecord], timeout_s: float) -> None:
    """Send records to a log in this order and wait for all acknowledgements.

    Raises the first failure, or `RetriableError` after the timeout. The records may have been
    written nevertheless.
    """
    answers: list[ConnectError | None] = []
    changed = threading.Condition()

    def add_write_result(error: ConnectError | None) -> None:
        with changed:
            answers.append(error)
            changed.notify_all()

    for record in records:
        log.send(record, on_recorded=add_write_result)
    with changed:
        if not changed.wait_for(lambda: len(answers) == len(records), timeout=timeout_s):
            missing = len(records) - len(answers)
            raise RetriableError(
                f"writing to {log.name}: {missing} of "
                f"{plurals.format_count(len(records), 'record')} "
                f"{plurals.conjugate_verb(missing, 'were')} not acknowledged within "
                f"{timeout_s:.0f} s; they may still have been written"
            )
        failed = [error for error in answers if error is not None]
    if failed:
        raise failed[0]
