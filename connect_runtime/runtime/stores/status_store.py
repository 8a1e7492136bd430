"""What connectors and tasks are doing: the status topic, folded, and the writes to it.

A status that could not be written is tried again as long as nothing newer was said, by us or by
others (`core.state.status_writes`). Java: KafkaStatusBackingStore.
"""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass

from connect_runtime.api import context
from connect_runtime.base import amounts, errors
from connect_runtime.base import clock as base_clock
from connect_runtime.core.state import (
    skipped,
    status_log,
    status_records,
    status_writes,
    task_runs,
)
from connect_runtime.ports import shared_log
from connect_runtime.runtime.stores import folded_log
from connect_runtime.system import outstanding, threads

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.3
_IDLE_S = 1.0
_STOP_S = 5.0
_TELL_S = 60.0
"""Between two log lines about statuses that are refused again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retry:
    """A record that was refused; `ticket` None is worth trying for ever."""

    record: shared_log.Record
    ticket: status_writes.WriteTicket | None
    number: int


class StatusStore:
    """Any thread may ask and write. Nothing is visible before it was read back.

    Invariant: every write that was begun and has not ended in `_outstanding` is with the log, or
    in `_retries`.
    """

    def __init__(self, log: shared_log.SharedLog, *, clock: base_clock.Clock) -> None:
        self._log = log
        self._clock = clock
        self._view: folded_log.FoldedLog[status_log.StatusLog, status_log.Change] = (
            folded_log.FoldedLog(make=status_log.StatusLog, on_change=self._changed, take=_take)
        )
        self._writes = status_writes.StatusWrites()
        self._outstanding = outstanding.Outstanding()
        self._retries: list[_Retry] = []
        self._refused = threading.Event()
        self._tell_at_s = -math.inf
        self._threads = threads.Threads(on_unasked_end=self._on_unasked_end)

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
        self._threads.stop_all(_STOP_S)
        self._log.stop(max(0.0, end_s - self._clock.now_s()))

    def snapshot(self) -> status_log.Statuses:
        """What was said, as far as it was read."""
        with self._view.lock:
            return self._view.fold.snapshot()

    def last_runs(self, connector: str) -> context.LastRuns:
        """See `ports.worker.Statuses`."""
        with self._view.lock:
            runs = self._view.fold.runs
            return context.LastRuns(ours=runs.ours(connector), others=runs.others(connector))

    def refresh(self, timeout_s: float) -> None:
        """Read to the end as of now. Raises as `SharedLog.read_to_end`."""
        self._log.read_to_end(timeout_s)

    def put(
        self, subject: status_records.Subject, status: status_records.Status, *, safe: bool = False
    ) -> None:
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
            self._send(status_records.status(subject, status), ticket)

    def put_topic(self, topic: status_records.TopicStatus) -> None:
        """Say that a connector uses a topic. Never waits."""
        self._send(status_records.topic(topic), None)

    def knows_topic(self, connector: str, topic: str) -> bool:
        """See `ports.worker.Statuses`."""
        return self.snapshot().topic(connector, topic) is not None

    def forget_topics(self, connector: str) -> None:
        """Of a connector that is gone, or was asked to (`PUT …/topics/reset`). Never waits."""
        for topic in self.snapshot().topics(connector):
            key = status_records.TopicKey(topic.topic, topic.connector)
            self._send(status_records.topic_removal(key), None)

    def flush(self, timeout_s: float) -> None:
        """Wait until all that was written before is acknowledged, or no longer worth it.

        Raises `RetriableError` when time is up.
        """
        if not self._outstanding.wait(timeout_s):
            raise errors.RetriableError(
                f"writing to {self._log.name}: "
                f"{amounts.counted(len(self._outstanding), 'status', 'were')} not acknowledged "
                f"within {timeout_s:.0f} s"
            )

    def _send(self, record: shared_log.Record, ticket: status_writes.WriteTicket | None) -> None:
        """With the lock held, whoever sends: a log that tells its listener at once takes it behind
        its own, and two threads that took the two in different order would never end."""
        with self._view.lock:
            self._hand_over(_Retry(record=record, ticket=ticket, number=self._outstanding.begin()))

    def _hand_over(self, retry: _Retry) -> None:
        try:
            self._log.send(retry.record, on_recorded=lambda error: self._on_recorded(retry, error))
        except errors.ConnectError as error:
            self._on_recorded(retry, error)

    def _on_recorded(self, retry: _Retry, error: errors.ConnectError | None) -> None:
        if isinstance(error, errors.RetriableError):
            with self._view.lock:
                self._retries.append(retry)
                self._tell(error)
            self._refused.set()
            return
        if error is not None:
            _LOG.error("%s is lost: %s", (retry.record.key or b"").decode(), error)
        self._outstanding.end(retry.number)

    def _tell(self, error: errors.RetriableError) -> None:
        now_s = self._clock.now_s()
        if now_s >= self._tell_at_s:
            self._tell_at_s = now_s + _TELL_S
            _LOG.warning("statuses are written again until they are recorded: %s", error)

    def _try_again(self, stop: threading.Event) -> None:
        while not stop.is_set():
            if not self._refused.wait(_IDLE_S) or stop.wait(_RETRY_S):
                continue
            with self._view.lock:
                due, self._retries = self._retries, []
                self._refused.clear()
                for each in due:
                    if self._is_worth_it(each):
                        self._hand_over(each)
                    else:
                        self._outstanding.end(each.number)

    def _is_worth_it(self, retry: _Retry) -> bool:
        if retry.ticket is None:
            return True
        return self._writes.may_retry(retry.ticket, known=self._view.fold.snapshot())

    def _changed(self, change: status_log.Change) -> None:
        with self._view.lock:
            self._writes.observe(change)

    def _on_unasked_end(self, ended: threads.UnaskedEnd) -> None:
        _LOG.error("the thread that %s ended: %s", ended.name, ended.error, exc_info=ended.error)


def _take(
    fold: status_log.StatusLog, record: shared_log.LogRecord
) -> status_log.Change | skipped.Skipped | None:
    author = task_runs.Author(ours=record.ours, wall_ms=record.wall_ms)
    return fold.apply(record.key, record.value, offset=record.offset, author=author)
