"""Commits a source task's offsets now and then, without ever holding the task up.

What could not be stored, or not in time, is tried again together with newer offsets. Java:
SourceTaskOffsetCommitter, which has one thread for all tasks, so that one can delay the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.core.task import submitted_offsets
from connect_runtime.runtime import task_metrics
from connect_runtime.runtime.stores import offset_store

_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Attempt:
    taken: submitted_offsets.CommittableOffsets
    begun_s: float
    ends_s: float
    answered: bool = False
    error: errors.ConnectError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """`offset.flush.interval.ms` and `offset.flush.timeout.ms`."""

    interval_s: float
    timeout_s: float


class OffsetCommits:
    """For the task's thread. Invariant: what was taken and is not stored is in `_pending`, or in
    the one attempt under way."""

    def __init__(
        self,
        connector: str,
        *,
        offsets: offset_store.Offsets,
        take: Callable[[], submitted_offsets.CommittableOffsets],
        timing: Timing,
        metrics: task_metrics.TaskMetrics,
        clock: base_clock.Clock,
    ) -> None:
        self._connector = connector
        self._offsets = offsets
        self._take = take
        self._timing = timing
        self._metrics = metrics
        self._clock = clock
        self._pending = submitted_offsets.NOTHING
        self._attempt: _Attempt | None = None
        self._due_s = clock.now_s() + timing.interval_s
        self._lock = threading.Lock()

    def tick(self) -> bool:
        """To be called often; True: a commit is done, or there was nothing to.

        Raises `BadOffset` for offsets that can never be stored.
        """
        now_s = self._clock.now_s()
        if self._attempt is not None:
            return self._settle(self._attempt, now_s)
        if now_s < self._due_s:
            return False
        self._due_s = now_s + self._timing.interval_s
        self._pending = self._pending.then(self._take())
        if not self._pending.offsets:
            self._metrics.commit_ended(took_s=0.0)
            return True
        attempt = _Attempt(self._pending, now_s, now_s + self._timing.timeout_s)
        self._offsets.write(
            self._connector,
            attempt.taken.offsets,
            on_done=lambda error: self._answer(attempt, error),
        )
        self._attempt, self._pending = attempt, submitted_offsets.NOTHING
        return self._settle(attempt, now_s)

    def finish(self) -> None:
        """All that may be committed by now; waits. Raises what went wrong."""
        attempt, self._attempt = self._attempt, None
        before = submitted_offsets.NOTHING if attempt is None else attempt.taken
        last = before.then(self._pending).then(self._take())
        begun_s, took_s = self._clock.now_s(), None
        try:
            if last.offsets:
                offset_store.commit(
                    self._offsets, self._connector, last.offsets, timeout_s=self._timing.timeout_s
                )
            took_s = self._clock.now_s() - begun_s
        finally:
            self._metrics.commit_ended(took_s=took_s)

    def _answer(self, attempt: _Attempt, error: errors.ConnectError | None) -> None:
        with self._lock:
            attempt.answered, attempt.error = True, error

    def _settle(self, attempt: _Attempt, now_s: float) -> bool:
        with self._lock:
            answered, error = attempt.answered, attempt.error
        if answered and error is None:
            self._attempt = None
            self._metrics.commit_ended(took_s=now_s - attempt.begun_s)
            return True
        if not answered and now_s < attempt.ends_s:
            return False
        self._attempt, self._pending = None, attempt.taken
        self._metrics.commit_ended(took_s=None)
        _LOG.error(
            "offsets of %s were not committed and are tried again with the next ones: %s",
            self._connector,
            error or f"not acknowledged within {self._timing.timeout_s:.1f} s",
        )
        return False
