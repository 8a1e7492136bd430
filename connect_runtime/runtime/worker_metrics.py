"""All that is measured of one worker, to be shown: a source for `adapters.http.metrics_exporter`.

Connectors and tasks are shown from the moment they begin here until they stop here, and then not
at all. Any thread may call anything. Java: ConnectMetrics, WorkerMetricsGroup.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api import context
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids, metrics, sampled
from connect_runtime.builtin import version
from connect_runtime.core.state import status_records
from connect_runtime.core.task import (
    metric_groups,
    metric_names,
    plugin_families,
    worker_figures,
)
from connect_runtime.runtime import task_metrics

_LOG = logging.getLogger(__name__)
_State = status_records.State
_COMMIT = "unknown"
Said = Callable[[_State], None]
"""To be told of every status of a connector or task, in order; never waits."""
Source = Callable[[], Iterable[metric_groups.Reading]]
"""Reads what there is now; any thread, at once."""


@dataclass(slots=True)
class _Connector:
    about: Mapping[str, str]
    state: _State = _State.UNASSIGNED


@dataclass(slots=True)
class WorkerMetrics:
    """`worker_id`: what Java calls the client id of `app-info`. Invariants: the lock guards all
    that changes, but what a task measures of itself; `_added` is of what is shown."""

    worker_id: str
    clock: base_clock.Clock
    sampling: sampled.Sampling = field(default_factory=sampled.Sampling)
    rebalances: Callable[[], int] = lambda: 0
    """How many of its group's it took part in; any thread, at once."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _catalogue: metric_groups.Catalogue = field(init=False)
    _connector_starts: worker_figures.Startups = field(init=False)
    _task_starts: worker_figures.Startups = field(init=False)
    _connectors: dict[str, _Connector] = field(default_factory=dict)
    _tasks: dict[ids.ConnectorTaskId, task_metrics.TaskMetrics] = field(default_factory=dict)
    _others: list[Source] = field(default_factory=list)
    _added: dict[status_records.Subject, list[context.ReadMetrics]] = field(default_factory=dict)
    _complained: set[str] = field(default_factory=set)
    _begun_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._catalogue = metric_groups.Catalogue(metric_names.EVERY)
        self._connector_starts = worker_figures.Startups("connector", self.sampling)
        self._task_starts = worker_figures.Startups("task", self.sampling)
        self._begun_ms = self.clock.wall_ms()

    def about(self, task: ids.ConnectorTaskId, made_of: Mapping[str, str]) -> task_metrics.About:
        """For the metrics of a task that is being made."""
        return task_metrics.About(
            task=task, clock=self.clock, sampling=self.sampling, made_of=made_of
        )

    def add(self, other: Source) -> None:
        """Show what this reads, too."""
        with self._lock:
            self._others.append(other)

    def add_of(self, subject: status_records.Subject, read: context.ReadMetrics) -> None:
        """Show what a connector or task adds of its own, until it stops here."""
        with self._lock:
            if subject in self._connectors or subject in self._tasks:
                self._added.setdefault(subject, []).append(read)

    # connectors and tasks

    def not_begun(self, subject: status_records.Subject) -> None:
        """It could not even be made: its start has failed, and there is nothing to show."""
        self.end(subject)
        with self._lock:
            self._starts(subject).ended(self.clock.now_s(), well=False)

    def begin_connector(self, name: str, about: Mapping[str, str]) -> Said:
        """`about`: values of `metric_names.CONNECTOR` but its status."""
        shown, first = _Connector(about), worker_figures.FirstSaid()
        with self._lock:
            self._connectors[name] = shown
            self._added.pop(name, None)

        def said(state: _State) -> None:
            shown.state = state
            self._note_start(name, first.well(state))

        return said

    def begin_task(self, task: ids.ConnectorTaskId, measured: task_metrics.TaskMetrics) -> Said:
        first = worker_figures.FirstSaid()
        with self._lock:
            self._tasks[task] = measured
            self._added.pop(task, None)

        def said(state: _State) -> None:
            measured.said(state)
            self._note_start(task, first.well(state))

        return said

    def end(self, subject: status_records.Subject) -> None:
        """It does not run here any more; nothing happens if it never did."""
        with self._lock:
            self._added.pop(subject, None)
            if isinstance(subject, ids.ConnectorTaskId):
                self._tasks.pop(subject, None)
            else:
                self._connectors.pop(subject, None)

    def _note_start(self, subject: status_records.Subject, well: bool | None) -> None:
        if well is not None:
            with self._lock:
                self._starts(subject).ended(self.clock.now_s(), well=well)

    def _starts(self, subject: status_records.Subject) -> worker_figures.Startups:
        of_task = isinstance(subject, ids.ConnectorTaskId)
        return self._task_starts if of_task else self._connector_starts

    # reading

    @property
    def own(self) -> tuple[metrics.Family, ...]:
        """As of now, without what plugins add: of thousands of partitions that may be much."""
        return self._catalogue.families(self._readings())

    @property
    def published(self) -> tuple[metrics.Family, ...]:
        """As of now."""
        found = plugin_families.together(self.own, self._read_added())
        for name in sorted(found.refused):
            self._complain(
                f"metric {name}",
                "not all that plugins say of it can be shown: two give the same"
                " series, or it is declared otherwise",
            )
        return found.families

    def _read_added(self) -> list[metrics.Family]:
        with self._lock:
            sources = [(subject, read) for subject, all_ in self._added.items() for read in all_]
        found: list[metrics.Family] = []
        for subject, read in sources:
            try:
                found += read()
            except Exception as error:  # noqa: BLE001 - of plugins, which may raise anything
                self._complain(f"metrics of {subject}", f"reading them threw {error!r}")
        return found

    def _complain(self, of: str, what: str) -> None:
        """Once: it would be said again at every scrape."""
        with self._lock:
            if of in self._complained:
                return
            self._complained.add(of)
        _LOG.warning("%s: %s", of, what)

    def _readings(self) -> Iterable[metric_groups.Reading]:
        with self._lock:
            tasks, others = dict(self._tasks), tuple(self._others)
            yield from self._own()
        states: dict[str, list[_State]] = defaultdict(list)
        for task, measured in tasks.items():
            states[task.connector].append(measured.state)
            yield from measured.readings()
        for connector, found in states.items():
            yield metric_groups.Reading(
                group=metric_names.TASKS_OF_CONNECTOR,
                tags=(connector,),
                numbers=worker_figures.task_counts(found),
            )
        for other in others:
            yield from other()

    def _own(self) -> Iterable[metric_groups.Reading]:
        now_s = self.clock.now_s()
        yield metric_groups.Reading(
            group=metric_names.APP_INFO,
            tags=(self.worker_id,),
            numbers={"start-time-ms": float(self._begun_ms)},
            texts={"version": version.KAFKA, "commit-id": _COMMIT},
        )
        yield metric_groups.Reading(
            group=metric_names.WORKER,
            numbers={
                "connector-count": float(len(self._connectors)),
                "task-count": float(len(self._tasks)),
                **self._connector_starts.numbers(now_s),
                **self._task_starts.numbers(now_s),
            },
        )
        for name, shown in self._connectors.items():
            yield metric_groups.Reading(
                group=metric_names.CONNECTOR,
                tags=(name,),
                texts={**shown.about, "status": shown.state.value.lower()},
            )
