"""Commits a source task's offsets periodically without blocking the task.

Offsets that could not be stored in time are committed again together with newer offsets. In Java,
SourceTaskOffsetCommitter uses one thread for all tasks, so one task can delay the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.storage import offset_store
from connect_runtime.storage.offset_store import OffsetBackingStore
from connect_runtime.worker import submitted_offsets
from connect_runtime.worker.submitted_offsets import CommittableOffsets
from connect_runtime.worker.task_metrics import TaskMetrics

_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _CommitAttempt:
    """An offset commit of a source task that is in progress."""

    taken: CommittableOffsets
    begun_s: float
    ends_s: float
    answered: bool = False
    error: ConnectError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTiming:
    """The settings `offset.flush.interval.ms` and `offset.flush.timeout.ms`, converted to
    seconds."""

    interval_s: float
    timeout_s: float


class SourceOffsetCommitter:
    """Commits a source task's offsets on the task's thread.

    Invariant: committable offsets that are not stored yet are in `_pending` or in the commit
    attempt in progress.
    """

    def __init__(
        self,
        connector: str,
        *,
        offsets: OffsetBackingStore,
        take_committable: Callable[[], CommittableOffsets],
        timing: OffsetCommitTiming,
        metrics: TaskMetrics,
        clock: Clock,
    ) -> None:
        self._connector = connector
        self._offsets = offsets
        self._take = take_committable
        self._timing = timing
        self._metrics = metrics
        self._clock = clock
        self._pending = submitted_offsets.NOTHING_COMMITTABLE
        self._attempt: _CommitAttempt | None = None
        self._due_s = clock.now_s() + timing.interval_s
        self._lock = threading.Lock()

    def commit_if_due(self) -> bool:
        """Begin an offset commit if one is due, or check the commit in progress. Return True if a
        commit completed, even one without offsets.

        Never blocks; call often. Raises `InvalidSourceOffset` for offsets that can never be stored.
        """
        now_s = self._clock.now_s()
        if self._attempt is not None:
            return self._check_commit_attempt(self._attempt, now_s)
        if now_s < self._due_s:
            return False
        self._due_s = now_s + self._timing.interval_s
        self._pending = self._pending.merge_newer_offsets(self._take())
        if not self._pending.offsets:
            self._metrics.record_commit(took_s=0.0)
            return True
        attempt = _CommitAttempt(self._pending, now_s, now_s + self._timing.timeout_s)
        self._offsets.write_offsets(
            self._connector,
            attempt.taken.offsets,
            on_done=lambda error: self._record_commit_result(attempt, error),
        )
        self._attempt, self._pending = attempt, submitted_offsets.NOTHING_COMMITTABLE
        return self._check_commit_attempt(attempt, now_s)

    def commit_all(self) -> None:
        """Commit all committable offsets and wait until they are stored. Raises an error if the
        commit fails."""
        attempt, self._attempt = self._attempt, None
        before = submitted_offsets.NOTHING_COMMITTABLE if attempt is None else attempt.taken
        last = before.merge_newer_offsets(self._pending).merge_newer_offsets(self._take())
        begun_s, took_s = self._clock.now_s(), None
        try:
            if last.offsets:
                offset_store.commit_offsets(
                    self._offsets, self._connector, last.offsets, timeout_s=self._timing.timeout_s
                )
            took_s = self._clock.now_s() - begun_s
        finally:
            self._metrics.record_commit(took_s=took_s)

    def _record_commit_result(self, attempt: _CommitAttempt, error: ConnectError | None) -> None:
        with self._lock:
            attempt.answered, attempt.error = True, error

    def _check_commit_attempt(self, attempt: _CommitAttempt, now_s: float) -> bool:
        with self._lock:
            answered, error = attempt.answered, attempt.error
        if answered and error is None:
            self._attempt = None
            self._metrics.record_commit(took_s=now_s - attempt.begun_s)
            return True
        if not answered and now_s < attempt.ends_s:
            return False
        self._attempt, self._pending = None, attempt.taken
        self._metrics.record_commit(took_s=None)
        _LOG.error(
            "failed to commit offsets of %s, retrying with the next commit: %s",
            self._connector,
            error or f"not acknowledged within {self._timing.timeout_s:.1f} s",
        )
        return False
