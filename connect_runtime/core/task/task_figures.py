"""What is measured of one task, as folds: observed as it happens, read as Java's attributes.

`numbers` gives the values of `metric_names`' groups TASK, SOURCE_TASK, SINK_TASK and TASK_ERRORS.
Times come in as seconds and are shown in milliseconds. Java: WorkerTask.TaskMetricsGroup,
AbstractWorkerSourceTask.SourceTaskMetricsGroup, WorkerSinkTask.SinkTaskMetricsGroup,
ErrorHandlingMetrics.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import ids, sampled
from connect_runtime.core.state import status_records
from connect_runtime.core.task import state_times

_State = status_records.State
_MS = 1000.0
Offsets = Mapping[ids.TopicPartition, int]


class TaskFigures:
    """Of any task. Time begins when it is made: the task is UNASSIGNED until it says otherwise."""

    def __init__(self, sampling: sampled.Sampling, now_s: float) -> None:
        self._times = state_times.StateTimes()
        self._times.enter(_State.UNASSIGNED, now_s)
        self._commits_ms = sampled.Sampled(sampling)
        self._outcomes = sampled.Sampled(sampling)
        self._batches = sampled.Sampled(sampling)

    @property
    def state(self) -> _State:
        assert self._times.state is not None, "it has one from the beginning"
        return self._times.state

    def entered(self, state: _State, now_s: float) -> None:
        self._times.enter(state, now_s)

    def commit_ended(self, *, took_s: float | None, now_s: float) -> None:
        """`took_s` None: it failed. Nothing to commit is a commit, too."""
        self._outcomes.observe(0.0 if took_s is None else 1.0, now_s)
        if took_s is not None:
            self._commits_ms.observe(took_s * _MS, now_s)

    def batch(self, size: int, now_s: float) -> None:
        """Polled, or put."""
        self._batches.observe(size, now_s)

    def numbers(self, now_s: float) -> dict[str, float]:
        commits, outcomes = self._commits_ms.figures(now_s), self._outcomes.figures(now_s)
        batches = self._batches.figures(now_s)
        return {
            "running-ratio": self._times.ratio(_State.RUNNING, now_s),
            "pause-ratio": self._times.ratio(_State.PAUSED, now_s),
            "offset-commit-max-time-ms": commits.max,
            "offset-commit-avg-time-ms": commits.avg,
            "offset-commit-success-percentage": outcomes.share,
            "offset-commit-failure-percentage": outcomes.share_of_zeros,
            "batch-size-max": batches.max,
            "batch-size-avg": batches.avg,
        }


class SourceFigures:
    """Of a source task. Invariant: `_active` is what was polled and is not settled, never < 0."""

    def __init__(self, sampling: sampled.Sampling) -> None:
        self._polled = sampled.Sampled(sampling)
        self._polls_ms = sampled.Sampled(sampling)
        self._written = sampled.Sampled(sampling)
        self._actives = sampled.Sampled(sampling)
        self._active = 0

    def polled(self, size: int, *, took_s: float, now_s: float) -> None:
        """The task returned records, if only an empty list of them."""
        self._polled.observe(size, now_s)
        self._polls_ms.observe(took_s * _MS, now_s)
        self._count(size, now_s)

    def written(self, now_s: float) -> None:
        """Kafka has one more."""
        self._written.observe(1.0, now_s)
        self._count(-1, now_s)

    def left_out(self, now_s: float) -> None:
        """One was dropped by transforms, or because of an error."""
        self._count(-1, now_s)

    def moved(self, size: int, now_s: float) -> None:
        """The task moves its records itself, and so many more are where they belong."""
        self._polled.observe(size, now_s)
        self._written.observe(size, now_s)

    def _count(self, change: int, now_s: float) -> None:
        self._active = max(0, self._active + change)
        self._actives.observe(self._active, now_s)

    def numbers(self, now_s: float) -> dict[str, float]:
        polled, written = self._polled.figures(now_s), self._written.figures(now_s)
        polls, actives = self._polls_ms.figures(now_s), self._actives.figures(now_s)
        return {
            "source-record-poll-rate": polled.rate,
            "source-record-poll-total": polled.total,
            "source-record-write-rate": written.rate,
            "source-record-write-total": written.total,
            "poll-batch-max-time-ms": polls.max,
            "poll-batch-avg-time-ms": polls.avg,
            "source-record-active-count": float(self._active),
            "source-record-active-count-max": actives.max,
            "source-record-active-count-avg": actives.avg,
        }


class SinkFigures:
    """Of a sink task. Invariants: of a partition that is not assigned nothing is kept; `_active` is
    the sum of what is behind, which is kept so that a batch costs no more than its partitions."""

    def __init__(self, sampling: sampled.Sampling) -> None:
        self._read = sampled.Sampled(sampling)
        self._sent = sampled.Sampled(sampling)
        self._puts_ms = sampled.Sampled(sampling)
        self._completed = sampled.Sampled(sampling)
        self._skipped = sampled.Sampled(sampling)
        self._actives = sampled.Sampled(sampling)
        self._sequence = 0
        self._active = 0
        self._consumed: dict[ids.TopicPartition, int] = {}
        self._committed: dict[ids.TopicPartition, int] = {}

    def assigned(self, positions: Offsets, now_s: float) -> None:
        """These partitions are the task's, besides others it has, and go on from here."""
        for each, offset in positions.items():
            self._active -= self._behind(each)
            self._consumed[each] = self._committed[each] = offset
        self._actives.observe(self._active, now_s)

    def gone(self, partitions: frozenset[ids.TopicPartition], now_s: float) -> None:
        for each in partitions & self._consumed.keys():
            self._active -= self._behind(each)
            del self._consumed[each], self._committed[each]
        self._actives.observe(self._active, now_s)

    def read(self, size: int, ends: Offsets, now_s: float) -> None:
        """So many records were read, up to these offsets (of the next record)."""
        self._read.observe(size, now_s)
        self._move(self._consumed, ends, now_s)

    def put(self, size: int, *, took_s: float, now_s: float) -> None:
        """The task took them."""
        self._sent.observe(size, now_s)
        self._puts_ms.observe(took_s * _MS, now_s)

    def commit_begun(self, sequence: int) -> None:
        self._sequence = sequence

    def commit_completed(self, offsets: Offsets, now_s: float) -> None:
        self._completed.observe(1.0, now_s)
        self._move(self._committed, offsets, now_s)

    def commit_skipped(self, now_s: float) -> None:
        """Its answer came when a newer one had begun."""
        self._skipped.observe(1.0, now_s)

    def _move(self, marks: dict[ids.TopicPartition, int], offsets: Offsets, now_s: float) -> None:
        for each, offset in offsets.items():
            if each in marks:
                before = self._behind(each)
                marks[each] = offset
                self._active += self._behind(each) - before
        self._actives.observe(self._active, now_s)

    def _behind(self, partition: ids.TopicPartition) -> int:
        """Tasks may rewind, and commit what they like: nothing is negative here."""
        end = self._consumed.get(partition)
        return 0 if end is None else max(0, end - self._committed[partition])

    def numbers(self, now_s: float) -> dict[str, float]:
        read, sent = self._read.figures(now_s), self._sent.figures(now_s)
        completed, skipped = self._completed.figures(now_s), self._skipped.figures(now_s)
        puts, actives = self._puts_ms.figures(now_s), self._actives.figures(now_s)
        return {
            "sink-record-read-rate": read.rate,
            "sink-record-read-total": read.total,
            "sink-record-send-rate": sent.rate,
            "sink-record-send-total": sent.total,
            "sink-record-lag-max": float(max(map(self._behind, self._consumed), default=0)),
            "sink-record-active-count": float(self._active),
            "sink-record-active-count-max": actives.max,
            "sink-record-active-count-avg": actives.avg,
            "partition-count": float(len(self._consumed)),
            "offset-commit-seq-no": float(self._sequence),
            "offset-commit-completion-rate": completed.rate,
            "offset-commit-completion-total": completed.total,
            "offset-commit-skip-rate": skipped.rate,
            "offset-commit-skip-total": skipped.total,
            "put-batch-max-time-ms": puts.max,
            "put-batch-avg-time-ms": puts.avg,
        }

    def check_invariants(self) -> None:
        assert self._consumed.keys() == self._committed.keys()
        assert self._active == sum(map(self._behind, self._consumed)), self._active


class Trouble(enum.Enum):
    """What may happen to a record; the value is Java's attribute."""

    FAILURE = "total-record-failures"
    ERROR = "total-record-errors"
    SKIPPED = "total-records-skipped"
    RETRY = "total-retries"
    LOGGED = "total-errors-logged"
    DEAD_LETTER = "deadletterqueue-produce-requests"
    DEAD_LETTER_FAILURE = "deadletterqueue-produce-failures"


@dataclass(slots=True)
class ErrorFigures:
    """Of any task."""

    _counts: Counter[Trouble] = field(default_factory=Counter)
    _last_failure_ms: int = 0

    def happened(self, trouble: Trouble, wall_ms: int) -> None:
        self._counts[trouble] += 1
        if trouble is Trouble.FAILURE:
            self._last_failure_ms = wall_ms

    def numbers(self) -> dict[str, float]:
        return {
            **{each.value: float(self._counts[each]) for each in Trouble},
            "last-error-timestamp": float(self._last_failure_ms),
        }
