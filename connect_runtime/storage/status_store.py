"""Backing store of connector and task statuses: writes to the status topic and applies its records
in order.

A failed write of a status is retried until this or another worker reports a newer status. Java:
KafkaStatusBackingStore.
"""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass

from connect_runtime.api.plugin_context import LastTaskRuns
from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.storage import status_records
from connect_runtime.storage.backing_store_base import TopicStateListener
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import (
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
    AdmittedStatusWrite,
    StatusChange,
    StatusRecordOrigin,
    StatusSnapshot,
    StatusTopicState,
    StatusWriteGuard,
)
from connect_runtime.system.supervised_threads import (
    PendingOperations,
    ThreadGroup,
    UnexpectedThreadEnd,
)

_LOG = logging.getLogger(__name__)
_RETRY_DELAY_S = 0.3
_IDLE_WAIT_S = 1.0
_STOP_TIMEOUT_S = 5.0
_LOG_INTERVAL_S = 60.0
"""Minimum interval between log messages about failed status writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingRetry:
    """A record of the status topic to write again after a failure.

    A connector or task status has a ticket, and is retried while `StatusWriteGuard.may_retry`
    permits it. A topic status has no ticket, and is retried until it is written.
    """

    record: KeyedRecord
    ticket: AdmittedStatusWrite | None
    number: int


class StatusBackingStore:
    """Reads and writes the statuses of the cluster's connectors and tasks. Thread-safe.

    Writes are visible only after they were read back. Invariant: every write in `_outstanding` is
    either queued in the log or in `_retries`.
    """

    def __init__(self, log: SharedLog, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._view: TopicStateListener[StatusTopicState, StatusChange] = TopicStateListener(
            create_fold=StatusTopicState,
            on_change=self._on_status_change,
            apply_record=_apply_status_record,
        )
        self._writes = StatusWriteGuard()
        self._outstanding = PendingOperations()
        self._retries: list[_PendingRetry] = []
        self._refused = threading.Event()
        self._next_log_s = -math.inf
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)

    def start(self, timeout_s: float) -> None:
        """Read all statuses from the status topic. Raises the same errors as `SharedLog.start`."""
        self._log.start(self._view, timeout_s)
        self._threads.start(f"tries {self._log.name} again", self._run_retries)

    def stop(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for pending status writes, then drop them."""
        end_s = self._clock.now_s() + timeout_s
        self._outstanding.wait_for_earlier_operations(timeout_s)
        self._next_log_s = math.inf
        self._refused.set()
        self._threads.stop_all(_STOP_TIMEOUT_S)
        self._log.stop(max(0.0, end_s - self._clock.now_s()))

    def snapshot(self) -> StatusSnapshot:
        """Return the statuses as read so far."""
        with self._view.lock:
            return self._view.state.snapshot()

    def get_last_task_runs(self, connector: str) -> LastTaskRuns:
        """Return the last run of each task of a connector: which worker ran the task, and since
        when."""
        with self._view.lock:
            runs = self._view.state.runs
            return LastTaskRuns(
                own_start_ms=runs.get_python_task_start_times(connector),
                foreign=runs.get_java_task_runs(connector),
            )

    def refresh(self, timeout_s: float) -> None:
        """Read the status topic to its current end. Raises the same errors as
        `SharedLog.read_to_end`."""
        self._log.read_to_end(timeout_s)

    def put(self, subject: StatusSubject, status: RunStatus, *, safe: bool = False) -> None:
        """Write the status of a connector or task asynchronously. DESTROYED deletes the status.

        A `safe` status is for a connector or task that the worker no longer runs. It is dropped if
        another worker has reported a status in a newer generation.
        """
        with self._view.lock:
            known = self._view.state.snapshot()
            ticket = self._writes.admit_write(subject, status, safe=safe, known=known)
            if ticket is None:
                _LOG.debug(
                    "status of %s is not written: another worker has reported a newer status",
                    subject,
                )
                return
            self._send_record(status_records.encode_status(subject, status), ticket)

    def put_topic_status(self, topic: TopicStatus) -> None:
        """Record asynchronously that a connector uses a topic."""
        self._send_record(status_records.encode_topic_status(topic), None)

    def is_topic_recorded(self, connector: str, topic: str) -> bool:
        """Return True if the topic is recorded as used by the connector."""
        return self.snapshot().topic(connector, topic) is not None

    def delete_active_topics(self, connector: str) -> None:
        """Delete the active topics of a connector asynchronously, because the connector was deleted
        or its topics were reset (`PUT …/topics/reset`)."""
        for topic in self.snapshot().topics(connector):
            key = TopicStatusKey(topic.topic, topic.connector)
            self._send_record(status_records.encode_topic_removal(key), None)

    def wait_for_writes(self, timeout_s: float) -> None:
        """Wait until all earlier status writes are acknowledged or dropped.

        Raises `RetriableError` after the timeout.
        """
        if not self._outstanding.wait_for_earlier_operations(timeout_s):
            raise RetriableError(
                f"writing to {self._log.name}: "
                f"{plurals.format_count(len(self._outstanding), 'status', 'were')} not "
                "acknowledged "
                f"within {timeout_s:.0f} s"
            )

    def _send_record(self, record: KeyedRecord, ticket: AdmittedStatusWrite | None) -> None:
        """Send a record to the log while holding this store's lock.

        All threads must acquire the store's lock before the log's lock to avoid deadlocks: a log
        such as `MemoryLog` holds its own lock when `send` calls the listener, and the listener
        acquires the store's lock.
        """
        with self._view.lock:
            self._send_record_to_log(
                _PendingRetry(
                    record=record, ticket=ticket, number=self._outstanding.begin_operation()
                )
            )

    def _send_record_to_log(self, retry: _PendingRetry) -> None:
        try:
            self._log.send(
                retry.record, on_recorded=lambda error: self._on_record_written(retry, error)
            )
        except ConnectError as error:
            self._on_record_written(retry, error)

    def _on_record_written(self, retry: _PendingRetry, error: ConnectError | None) -> None:
        if isinstance(error, RetriableError):
            with self._view.lock:
                self._retries.append(retry)
                self._log_write_failure(error)
            self._refused.set()
            return
        if error is not None:
            _LOG.error(
                "record %s is lost, because it cannot be written: %s",
                (retry.record.key or b"").decode(),
                error,
            )
        self._outstanding.end_operation(retry.number)

    def _log_write_failure(self, error: RetriableError) -> None:
        now_s = self._clock.now_s()
        if now_s >= self._next_log_s:
            self._next_log_s = now_s + _LOG_INTERVAL_S
            _LOG.warning("failed to write statuses, retrying: %s", error)

    def _run_retries(self, stop: threading.Event) -> None:
        while not stop.is_set():
            if not self._refused.wait(_IDLE_WAIT_S) or stop.wait(_RETRY_DELAY_S):
                continue
            with self._view.lock:
                due, self._retries = self._retries, []
                self._refused.clear()
                for each in due:
                    if self._may_retry_write(each):
                        self._send_record_to_log(each)
                    else:
                        self._outstanding.end_operation(each.number)

    def _may_retry_write(self, retry: _PendingRetry) -> bool:
        if retry.ticket is None:
            return True
        return self._writes.may_retry(retry.ticket, known=self._view.state.snapshot())

    def _on_status_change(self, change: StatusChange) -> None:
        with self._view.lock:
            self._writes.discard_writes_of_removed_status(change)

    def _handle_thread_death(self, ended: UnexpectedThreadEnd) -> None:
        _LOG.error("the thread that %s ended: %s", ended.name, ended.error, exc_info=ended.error)


def _apply_status_record(
    fold: StatusTopicState, record: SharedLogRecord
) -> StatusChange | SkippedRecord | None:
    author = StatusRecordOrigin(is_own=record.is_own, wall_ms=record.wall_ms)
    return fold.apply_record(record.key, record.value, offset=record.offset, author=author)
