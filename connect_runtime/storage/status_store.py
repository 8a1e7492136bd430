"""Backing store of connector and task statuses: the folded status topic, and writes to it.

A status that could not be written is retried until this or another worker reports a newer one.
Java: KafkaStatusBackingStore.
"""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass

from connect_runtime.api.plugin_context import LastTaskRuns
from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Clock
from connect_runtime.storage import status_records
from connect_runtime.storage.shared_log import (
    KeyedRecord,
    SharedLog,
    SharedLogRecord,
    SkippedRecord,
)
from connect_runtime.storage.status_records import (
    RunStatus,
    StatusSubject,
    TopicStatus,
    TopicStatusKey,
)
from connect_runtime.storage.status_topic import (
    StatusChange,
    StatusSnapshot,
    StatusTopicFold,
    StatusWriteGuard,
    StatusWriter,
    StatusWriteTicket,
)
from connect_runtime.storage.topic_fold import FoldedTopic
from connect_runtime.system.threads import PendingWork, ThreadDied, ThreadGroup

_LOG = logging.getLogger(__name__)
_RETRY_DELAY_S = 0.3
_IDLE_WAIT_S = 1.0
_STOP_TIMEOUT_S = 5.0
_LOG_INTERVAL_S = 60.0
"""Between two log lines about statuses that are refused again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingRetry:
    """A record that was refused; `ticket` None is worth trying for ever."""

    record: KeyedRecord
    ticket: StatusWriteTicket | None
    number: int


class StatusBackingStore:
    """Any thread may ask and write. Nothing is visible before it was read back.

    Invariant: every write that was begun and has not ended in `_outstanding` is with the log, or
    in `_retries`.
    """

    def __init__(self, log: SharedLog, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._view: FoldedTopic[StatusTopicFold, StatusChange] = FoldedTopic(
            make=StatusTopicFold, on_change=self._changed, take=_apply_status_record
        )
        self._writes = StatusWriteGuard()
        self._outstanding = PendingWork()
        self._retries: list[_PendingRetry] = []
        self._refused = threading.Event()
        self._tell_at_s = -math.inf
        self._threads = ThreadGroup(on_unasked_end=self._on_unasked_end)

    def start(self, timeout_s: float) -> None:
        """Read all statuses. Raises as `SharedLog.start`."""
        self._log.start(self._view, timeout_s)
        self._threads.start(f"tries {self._log.name} again", self._try_again)

    def stop(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for what was written, then give up on it."""
        end_s = self._clock.now_s() + timeout_s
        self._outstanding.wait(timeout_s)
        self._tell_at_s = math.inf
        self._refused.set()
        self._threads.stop_all(_STOP_TIMEOUT_S)
        self._log.stop(max(0.0, end_s - self._clock.now_s()))

    def snapshot(self) -> StatusSnapshot:
        """What was said, as far as it was read."""
        with self._view.lock:
            return self._view.fold.snapshot()

    def last_runs(self, connector: str) -> LastTaskRuns:
        """See `ports.worker.Statuses`."""
        with self._view.lock:
            runs = self._view.fold.runs
            return LastTaskRuns(ours=runs.ours(connector), others=runs.others(connector))

    def refresh(self, timeout_s: float) -> None:
        """Read to the end as of now. Raises as `SharedLog.read_to_end`."""
        self._log.read_to_end(timeout_s)

    def put(self, subject: StatusSubject, status: RunStatus, *, safe: bool = False) -> None:
        """Say what a connector or task is doing; DESTROYED forgets it. Never waits.

        A `safe` one gives way to what another worker said in a newer generation: for what a worker
        says of what it does not run any more.
        """
        with self._view.lock:
            known = self._view.fold.snapshot()
            ticket = self._writes.admit(subject, status, safe=safe, known=known)
            if ticket is None:
                _LOG.debug("%s: a newer word of another worker stands", subject)
                return
            self._send(status_records.encode_status(subject, status), ticket)

    def put_topic(self, topic: TopicStatus) -> None:
        """Say that a connector uses a topic. Never waits."""
        self._send(status_records.encode_topic_status(topic), None)

    def knows_topic(self, connector: str, topic: str) -> bool:
        """See `ports.worker.Statuses`."""
        return self.snapshot().topic(connector, topic) is not None

    def forget_topics(self, connector: str) -> None:
        """Of a connector that is gone, or was asked to (`PUT …/topics/reset`). Never waits."""
        for topic in self.snapshot().topics(connector):
            key = TopicStatusKey(topic.topic, topic.connector)
            self._send(status_records.encode_topic_removal(key), None)

    def flush(self, timeout_s: float) -> None:
        """Wait until all that was written before is acknowledged, or no longer worth it.

        Raises `RetriableError` when time is up.
        """
        if not self._outstanding.wait(timeout_s):
            raise RetriableError(
                f"writing to {self._log.name}: "
                f"{plurals.format_count(len(self._outstanding), 'status', 'were')} not "
                "acknowledged "
                f"within {timeout_s:.0f} s"
            )

    def _send(self, record: KeyedRecord, ticket: StatusWriteTicket | None) -> None:
        """With the lock held, whoever sends: a log that tells its listener at once takes it behind
        its own, and two threads that took the two in different order would never end."""
        with self._view.lock:
            self._hand_over(
                _PendingRetry(record=record, ticket=ticket, number=self._outstanding.begin())
            )

    def _hand_over(self, retry: _PendingRetry) -> None:
        try:
            self._log.send(retry.record, on_recorded=lambda error: self._on_recorded(retry, error))
        except ConnectError as error:
            self._on_recorded(retry, error)

    def _on_recorded(self, retry: _PendingRetry, error: ConnectError | None) -> None:
        if isinstance(error, RetriableError):
            with self._view.lock:
                self._retries.append(retry)
                self._tell(error)
            self._refused.set()
            return
        if error is not None:
            _LOG.error("%s is lost: %s", (retry.record.key or b"").decode(), error)
        self._outstanding.end(retry.number)

    def _tell(self, error: RetriableError) -> None:
        now_s = self._clock.now_s()
        if now_s >= self._tell_at_s:
            self._tell_at_s = now_s + _LOG_INTERVAL_S
            _LOG.warning("statuses are written again until they are recorded: %s", error)

    def _try_again(self, stop: threading.Event) -> None:
        while not stop.is_set():
            if not self._refused.wait(_IDLE_WAIT_S) or stop.wait(_RETRY_DELAY_S):
                continue
            with self._view.lock:
                due, self._retries = self._retries, []
                self._refused.clear()
                for each in due:
                    if self._is_worth_it(each):
                        self._hand_over(each)
                    else:
                        self._outstanding.end(each.number)

    def _is_worth_it(self, retry: _PendingRetry) -> bool:
        if retry.ticket is None:
            return True
        return self._writes.may_retry(retry.ticket, known=self._view.fold.snapshot())

    def _changed(self, change: StatusChange) -> None:
        with self._view.lock:
            self._writes.observe(change)

    def _on_unasked_end(self, ended: ThreadDied) -> None:
        _LOG.error("the thread that %s ended: %s", ended.name, ended.error, exc_info=ended.error)


def _apply_status_record(
    fold: StatusTopicFold, record: SharedLogRecord
) -> StatusChange | SkippedRecord | None:
    author = StatusWriter(ours=record.ours, wall_ms=record.wall_ms)
    return fold.apply(record.key, record.value, offset=record.offset, author=author)
