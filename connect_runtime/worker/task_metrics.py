"""Metrics of one task, recorded as events and read as Java's attributes.

The `...Stats` classes contain the values of the groups TASK, SOURCE_TASK, SINK_TASK and
TASK_ERRORS. Times are recorded in seconds and reported in milliseconds. The `...Metrics` classes
guard the statistics with a lock, so that any thread may use them. Java: TaskMetricsGroup,
SourceTaskMetricsGroup, SinkTaskMetricsGroup, ErrorHandlingMetrics.
"""

from __future__ import annotations

import enum
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker import connect_metrics_registry
from connect_runtime.worker.connect_metrics_registry import MetricGroup, MetricReading


@dataclass(slots=True)
class StateDurations:
    """Time that a task has spent in each state, including its current state."""

    state: RunState | None = None
    _since_s: float = 0.0
    _spent_s: dict[RunState, float] = field(default_factory=dict)

    def enter_state(self, state: RunState, now_s: float) -> None:
        """Record that the task has entered a state. The first call starts the measurement."""
        if state is self.state:
            return
        if self.state is not None:
            self._spent_s[self.state] = self._get_time_in_state(self.state, now_s)
        self.state, self._since_s = state, now_s

    def _get_time_in_state(self, state: RunState, now_s: float) -> float:
        running_s = now_s - self._since_s if state is self.state else 0.0
        return self._spent_s.get(state, 0.0) + running_s

    def compute_state_ratio(self, state: RunState, now_s: float) -> float:
        """Return the fraction of time spent in `state`; 0 before the first state."""
        total_s = sum(self._spent_s.values()) + (now_s - self._since_s if self.state else 0.0)
        return 0.0 if total_s == 0 else self._get_time_in_state(state, now_s) / total_s


_State = RunState
_MS = 1000.0
OffsetsByTopicPartition = Mapping[TopicPartition, int]


class TaskStats:
    """Statistics common to all tasks. The initial state is UNASSIGNED."""

    def __init__(self, sampling: SampleWindows, now_s: float) -> None:
        self._times = StateDurations()
        self._times.enter_state(_State.UNASSIGNED, now_s)
        self._commits_ms = WindowedStat(sampling)
        self._outcomes = WindowedStat(sampling)
        self._batches = WindowedStat(sampling)

    @property
    def state(self) -> _State:
        assert self._times.state is not None, "the initial state is recorded at creation"
        return self._times.state

    def record_state(self, state: _State, now_s: float) -> None:
        self._times.enter_state(state, now_s)

    def record_commit(self, *, took_s: float | None, now_s: float) -> None:
        """Record an offset commit, even if it had no offsets. `took_s` is its duration, or None if
        it failed."""
        self._outcomes.observe(0.0 if took_s is None else 1.0, now_s)
        if took_s is not None:
            self._commits_ms.observe(took_s * _MS, now_s)

    def record_batch(self, size: int, now_s: float) -> None:
        """Record the size of a batch that was polled from a source task or put to a sink task."""
        self._batches.observe(size, now_s)

    def compute_attributes(self, now_s: float) -> dict[str, float]:
        commits, outcomes = (
            self._commits_ms.compute_statistics(now_s),
            self._outcomes.compute_statistics(now_s),
        )
        batches = self._batches.compute_statistics(now_s)
        return {
            "running-ratio": self._times.compute_state_ratio(_State.RUNNING, now_s),
            "pause-ratio": self._times.compute_state_ratio(_State.PAUSED, now_s),
            "offset-commit-max-time-ms": commits.max,
            "offset-commit-avg-time-ms": commits.avg,
            "offset-commit-success-percentage": outcomes.share_of_ones,
            "offset-commit-failure-percentage": outcomes.share_of_zeros,
            "batch-size-max": batches.max,
            "batch-size-avg": batches.avg,
        }


class SourceTaskStats:
    """Statistics of a source task.

    Invariant: `_active` is the number of polled records that are neither acknowledged nor skipped;
    it is never negative.
    """

    def __init__(self, sampling: SampleWindows) -> None:
        self._polled = WindowedStat(sampling)
        self._polls_ms = WindowedStat(sampling)
        self._written = WindowedStat(sampling)
        self._actives = WindowedStat(sampling)
        self._active = 0

    def record_poll(self, size: int, *, took_s: float, now_s: float) -> None:
        """Record a poll that returned `size` records."""
        self._polled.observe(size, now_s)
        self._polls_ms.observe(took_s * _MS, now_s)
        self._add_active_records(size, now_s)

    def count_acknowledged_record(self, now_s: float) -> None:
        """Count a record that Kafka has acknowledged."""
        self._written.observe(1.0, now_s)
        self._add_active_records(-1, now_s)

    def count_skipped_record(self, now_s: float) -> None:
        """Count a polled record that was filtered or skipped, so it is not written."""
        self._add_active_records(-1, now_s)

    def record_pipeline_progress(self, size: int, now_s: float) -> None:
        """Record that a pipeline task has written `size` more records to the target."""
        self._polled.observe(size, now_s)
        self._written.observe(size, now_s)

    def _add_active_records(self, change: int, now_s: float) -> None:
        self._active = max(0, self._active + change)
        self._actives.observe(self._active, now_s)

    def compute_attributes(self, now_s: float) -> dict[str, float]:
        polled, written = (
            self._polled.compute_statistics(now_s),
            self._written.compute_statistics(now_s),
        )
        polls, actives = (
            self._polls_ms.compute_statistics(now_s),
            self._actives.compute_statistics(now_s),
        )
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


class SinkTaskStats:
    """Statistics of a sink task.

    Invariants: only assigned partitions are tracked; `_active` is the total number of their
    uncommitted records.
    """

    def __init__(self, sampling: SampleWindows) -> None:
        self._read = WindowedStat(sampling)
        self._sent = WindowedStat(sampling)
        self._puts_ms = WindowedStat(sampling)
        self._completed = WindowedStat(sampling)
        self._skipped = WindowedStat(sampling)
        self._actives = WindowedStat(sampling)
        self._sequence = 0
        self._active = 0
        self._consumed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    def record_assignment(self, positions: OffsetsByTopicPartition, now_s: float) -> None:
        """Add assigned partitions with their positions. If a partition is already assigned, reset
        its position."""
        for each, offset in positions.items():
            self._active -= self._count_uncommitted_records(each)
            self._consumed[each] = self._committed[each] = offset
        self._actives.observe(self._active, now_s)

    def record_revocation(self, partitions: frozenset[TopicPartition], now_s: float) -> None:
        """Stop tracking revoked partitions."""
        for each in partitions & self._consumed.keys():
            self._active -= self._count_uncommitted_records(each)
            del self._consumed[each], self._committed[each]
        self._actives.observe(self._active, now_s)

    def count_consumed_records(
        self, size: int, ends: OffsetsByTopicPartition, now_s: float
    ) -> None:
        """Record that the task has read `size` records, up to the next offset of each partition
        (`ends`)."""
        self._read.observe(size, now_s)
        self._advance_offsets(self._consumed, ends, now_s)

    def record_put(self, size: int, *, took_s: float, now_s: float) -> None:
        """Record a successful `put` of `size` records to the task."""
        self._sent.observe(size, now_s)
        self._puts_ms.observe(took_s * _MS, now_s)

    def record_commit_start(self, sequence: int) -> None:
        """Record the start of an offset commit and its sequence number."""
        self._sequence = sequence

    def record_commit_completion(self, offsets: OffsetsByTopicPartition, now_s: float) -> None:
        """Record a successful offset commit and the committed offsets."""
        self._completed.observe(1.0, now_s)
        self._advance_offsets(self._committed, offsets, now_s)

    def record_superseded_commit(self, now_s: float) -> None:
        """Count an offset commit that completed only after a newer commit began."""
        self._skipped.observe(1.0, now_s)

    def _advance_offsets(
        self, marks: dict[TopicPartition, int], offsets: OffsetsByTopicPartition, now_s: float
    ) -> None:
        for each, offset in offsets.items():
            if each in marks:
                before = self._count_uncommitted_records(each)
                marks[each] = offset
                self._active += self._count_uncommitted_records(each) - before
        self._actives.observe(self._active, now_s)

    def _count_uncommitted_records(self, partition: TopicPartition) -> int:
        """Return the number of uncommitted records of a partition. Never negative, not even after a
        rewind."""
        end = self._consumed.get(partition)
        return 0 if end is None else max(0, end - self._committed[partition])

    def compute_attributes(self, now_s: float) -> dict[str, float]:
        read, sent = self._read.compute_statistics(now_s), self._sent.compute_statistics(now_s)
        completed, skipped = (
            self._completed.compute_statistics(now_s),
            self._skipped.compute_statistics(now_s),
        )
        puts, actives = (
            self._puts_ms.compute_statistics(now_s),
            self._actives.compute_statistics(now_s),
        )
        return {
            "sink-record-read-rate": read.rate,
            "sink-record-read-total": read.total,
            "sink-record-send-rate": sent.rate,
            "sink-record-send-total": sent.total,
            "sink-record-lag-max": float(
                max(map(self._count_uncommitted_records, self._consumed), default=0)
            ),
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
        assert self._active == sum(map(self._count_uncommitted_records, self._consumed)), (
            self._active
        )


class RecordError(enum.Enum):
    """Kind of error event during record processing. The enum value is the Java metric attribute
    that counts such events."""

    FAILURE = "total-record-failures"
    ERROR = "total-record-errors"
    SKIPPED = "total-records-skipped"
    RETRY = "total-retries"
    LOGGED = "total-errors-logged"
    DEAD_LETTER = "deadletterqueue-produce-requests"
    DEAD_LETTER_FAILURE = "deadletterqueue-produce-failures"


@dataclass(slots=True)
class TaskErrorStats:
    """Error counts common to all tasks."""

    _counts: Counter[RecordError] = field(default_factory=Counter)
    _last_failure_ms: int = 0

    def record_error(self, trouble: RecordError, wall_ms: int) -> None:
        self._counts[trouble] += 1
        if trouble is RecordError.FAILURE:
            self._last_failure_ms = wall_ms

    def compute_attributes(self) -> dict[str, float]:
        return {
            **{each.value: float(self._counts[each]) for each in RecordError},
            "last-error-timestamp": float(self._last_failure_ms),
        }


RecordErrorKind = RecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMetricsInfo:
    """A task's id and the values of its info attributes
    (`connect_metrics_registry.TASK.info_attributes`)."""

    task: ConnectorTaskId
    clock: Clock
    sampling: SampleWindows
    made_of: Mapping[str, str] = field(default_factory=dict)


class TaskMetrics:
    """Thread-safe metrics common to all tasks."""

    def __init__(self, about: TaskMetricsInfo) -> None:
        self._about = about
        self._tags = (about.task.connector, str(about.task.task))
        self._clock = about.clock
        self._lock = threading.Lock()
        self._stats = TaskStats(about.sampling, about.clock.now_s())
        self._errors = TaskErrorStats()

    @property
    def state(self) -> RunState:
        """The task's last published state."""
        with self._lock:
            return self._stats.state

    def record_state(self, state: RunState) -> None:
        """Record the state that the task has published."""
        with self._lock:
            self._stats.record_state(state, self._clock.now_s())

    def record_commit(self, *, took_s: float | None) -> None:
        """Record an offset commit. `took_s` is its duration, or None if it failed."""
        with self._lock:
            self._stats.record_commit(took_s=took_s, now_s=self._clock.now_s())

    def record_errors(self, *troubles: RecordErrorKind) -> None:
        """Count the error events that occurred while processing one record."""
        with self._lock:
            for each in troubles:
                self._errors.record_error(each, self._clock.wall_ms())

    def get_metric_readings(self) -> list[MetricReading]:
        with self._lock:
            return [
                MetricReading(
                    group=connect_metrics_registry.TASK,
                    tags=self._tags,
                    numbers=self._stats.compute_attributes(self._clock.now_s()),
                    texts={"status": self._stats.state.value.lower()},
                    info=self._about.made_of,
                ),
                self._build_reading(
                    connect_metrics_registry.TASK_ERRORS, self._errors.compute_attributes()
                ),
            ]

    def _build_reading(self, group: MetricGroup, numbers: Mapping[str, float]) -> MetricReading:
        return MetricReading(group=group, tags=self._tags, numbers=numbers)


class SourceTaskMetrics(TaskMetrics):
    """Thread-safe metrics of a source task or pipeline task."""

    def __init__(self, about: TaskMetricsInfo) -> None:
        super().__init__(about)
        self._source = SourceTaskStats(about.sampling)

    def record_poll(self, size: int, *, took_s: float) -> None:
        """Record a poll of the source task. The other methods are documented in
        `SourceTaskStats`."""
        with self._lock:
            now_s = self._clock.now_s()
            self._source.record_poll(size, took_s=took_s, now_s=now_s)
            self._stats.record_batch(size, now_s)

    def count_acknowledged_record(self) -> None:
        with self._lock:
            self._source.count_acknowledged_record(self._clock.now_s())

    def count_skipped_record(self) -> None:
        with self._lock:
            self._source.count_skipped_record(self._clock.now_s())

    def record_pipeline_progress(self, size: int) -> None:
        with self._lock:
            self._source.record_pipeline_progress(size, self._clock.now_s())

    def get_metric_readings(self) -> list[MetricReading]:
        found = super().get_metric_readings()
        with self._lock:
            numbers = self._source.compute_attributes(self._clock.now_s())
        return [*found, self._build_reading(connect_metrics_registry.SOURCE_TASK, numbers)]


class SinkTaskMetrics(TaskMetrics):
    """Thread-safe metrics of a sink task."""

    def __init__(self, about: TaskMetricsInfo) -> None:
        super().__init__(about)
        self._sink = SinkTaskStats(about.sampling)

    def record_assignment(self, positions: OffsetsByTopicPartition) -> None:
        """Record newly assigned partitions. The other methods are documented in `SinkTaskStats`."""
        with self._lock:
            self._sink.record_assignment(positions, self._clock.now_s())

    def record_revocation(self, partitions: frozenset[TopicPartition]) -> None:
        with self._lock:
            self._sink.record_revocation(partitions, self._clock.now_s())

    def count_consumed_records(self, size: int, ends: OffsetsByTopicPartition) -> None:
        with self._lock:
            self._sink.count_consumed_records(size, ends, self._clock.now_s())

    def record_put(self, size: int, *, took_s: float) -> None:
        with self._lock:
            now_s = self._clock.now_s()
            self._sink.record_put(size, took_s=took_s, now_s=now_s)
            self._stats.record_batch(size, now_s)

    def record_commit_start(self, sequence: int) -> None:
        with self._lock:
            self._sink.record_commit_start(sequence)

    def record_commit_completion(self, offsets: OffsetsByTopicPartition, *, took_s: float) -> None:
        """Record a successful offset commit, also in the metrics common to all tasks
        (`record_commit`)."""
        self.record_commit(took_s=took_s)
        with self._lock:
            self._sink.record_commit_completion(offsets, self._clock.now_s())

    def record_superseded_commit(self) -> None:
        with self._lock:
            self._sink.record_superseded_commit(self._clock.now_s())

    def get_metric_readings(self) -> list[MetricReading]:
        found = super().get_metric_readings()
        with self._lock:
            numbers = self._sink.compute_attributes(self._clock.now_s())
        return [*found, self._build_reading(connect_metrics_registry.SINK_TASK, numbers)]
