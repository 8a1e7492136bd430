"""What is measured of one task, told by those who run it and read by whoever shows it.

Any thread may call anything: `core.task.task_figures` under a lock that is held for microseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids, sampled
from connect_runtime.core.state import status_records
from connect_runtime.core.task import metric_groups, metric_names, task_figures

Trouble = task_figures.Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A task, and what it is made of (`metric_names.TASK.lasting`)."""

    task: ids.ConnectorTaskId
    clock: base_clock.Clock
    sampling: sampled.Sampling
    made_of: Mapping[str, str] = field(default_factory=dict)


class TaskMetrics:
    """Of any task."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._tags = (about.task.connector, str(about.task.task))
        self._clock = about.clock
        self._lock = threading.Lock()
        self._figures = task_figures.TaskFigures(about.sampling, about.clock.now_s())
        self._errors = task_figures.ErrorFigures()

    @property
    def state(self) -> status_records.State:
        """As it said last."""
        with self._lock:
            return self._figures.state

    def said(self, state: status_records.State) -> None:
        with self._lock:
            self._figures.entered(state, self._clock.now_s())

    def commit_ended(self, *, took_s: float | None) -> None:
        """See `task_figures.TaskFigures`."""
        with self._lock:
            self._figures.commit_ended(took_s=took_s, now_s=self._clock.now_s())

    def happened(self, *troubles: Trouble) -> None:
        """To one record."""
        with self._lock:
            for each in troubles:
                self._errors.happened(each, self._clock.wall_ms())

    def readings(self) -> list[metric_groups.Reading]:
        with self._lock:
            return [
                metric_groups.Reading(
                    group=metric_names.TASK,
                    tags=self._tags,
                    numbers=self._figures.numbers(self._clock.now_s()),
                    texts={"status": self._figures.state.value.lower()},
                    lasting=self._about.made_of,
                ),
                self._reading(metric_names.TASK_ERRORS, self._errors.numbers()),
            ]

    def _reading(
        self, group: metric_groups.Group, numbers: Mapping[str, float]
    ) -> metric_groups.Reading:
        return metric_groups.Reading(group=group, tags=self._tags, numbers=numbers)


class SourceTaskMetrics(TaskMetrics):
    """Of a source task, or of one that moves its records itself."""

    def __init__(self, about: About) -> None:
        super().__init__(about)
        self._source = task_figures.SourceFigures(about.sampling)

    def polled(self, size: int, *, took_s: float) -> None:
        """See `task_figures.SourceFigures`; so for all below."""
        with self._lock:
            now_s = self._clock.now_s()
            self._source.polled(size, took_s=took_s, now_s=now_s)
            self._figures.batch(size, now_s)

    def written(self) -> None:
        with self._lock:
            self._source.written(self._clock.now_s())

    def left_out(self) -> None:
        with self._lock:
            self._source.left_out(self._clock.now_s())

    def moved(self, size: int) -> None:
        with self._lock:
            self._source.moved(size, self._clock.now_s())

    def readings(self) -> list[metric_groups.Reading]:
        found = super().readings()
        with self._lock:
            numbers = self._source.numbers(self._clock.now_s())
        return [*found, self._reading(metric_names.SOURCE_TASK, numbers)]


class SinkTaskMetrics(TaskMetrics):
    """Of a sink task."""

    def __init__(self, about: About) -> None:
        super().__init__(about)
        self._sink = task_figures.SinkFigures(about.sampling)

    def assigned(self, positions: task_figures.Offsets) -> None:
        """See `task_figures.SinkFigures`; so for all below."""
        with self._lock:
            self._sink.assigned(positions, self._clock.now_s())

    def gone(self, partitions: frozenset[ids.TopicPartition]) -> None:
        with self._lock:
            self._sink.gone(partitions, self._clock.now_s())

    def read(self, size: int, ends: task_figures.Offsets) -> None:
        with self._lock:
            self._sink.read(size, ends, self._clock.now_s())

    def put(self, size: int, *, took_s: float) -> None:
        with self._lock:
            now_s = self._clock.now_s()
            self._sink.put(size, took_s=took_s, now_s=now_s)
            self._figures.batch(size, now_s)

    def commit_begun(self, sequence: int) -> None:
        with self._lock:
            self._sink.commit_begun(sequence)

    def commit_completed(self, offsets: task_figures.Offsets, *, took_s: float) -> None:
        """Besides `commit_ended`, which it tells."""
        self.commit_ended(took_s=took_s)
        with self._lock:
            self._sink.commit_completed(offsets, self._clock.now_s())

    def commit_skipped(self) -> None:
        with self._lock:
            self._sink.commit_skipped(self._clock.now_s())

    def readings(self) -> list[metric_groups.Reading]:
        found = super().readings()
        with self._lock:
            numbers = self._sink.numbers(self._clock.now_s())
        return [*found, self._reading(metric_names.SINK_TASK, numbers)]
