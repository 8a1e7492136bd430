"""Metrics of one worker: its own, those of its connectors and tasks, and those that plugins add.

Connectors and tasks have metrics from their start here until their stop. Two metrics that claim the
same series cannot both be exposed: the first wins, the worker's own before those of plugins. Any
thread may call anything. Java: ConnectMetrics, WorkerMetricsGroup,
Worker.ConnectorStatusMetricsGroup.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api import plugin_context
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.base.timing import Clock
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from connect_runtime.plugins import kafka_version
from connect_runtime.storage.status_records import RunState, StatusSubject
from connect_runtime.worker import metrics_registry
from connect_runtime.worker.metrics_registry import ConnectMetricsRegistry, MetricReading
from connect_runtime.worker.task_metrics import TaskMetrics, TaskMetricsIdentity

_State = RunState


class StartupStats:
    """Of connectors, or of tasks (`what`)."""

    def __init__(self, what: str, sampling: SampleWindows) -> None:
        self._what = what
        self._outcomes = WindowedStat(sampling)
        self._attempts = 0

    def ended(self, now_s: float, *, well: bool) -> None:
        """It runs, or it failed before it ever ran."""
        self._attempts += 1
        self._outcomes.observe(1.0 if well else 0.0, now_s)

    def numbers(self, now_s: float) -> dict[str, float]:
        outcomes = self._outcomes.figures(now_s)
        values = {
            "attempts-total": float(self._attempts),
            "success-total": outcomes.total,
            "success-percentage": outcomes.share,
            "failure-total": self._attempts - outcomes.total,
            "failure-percentage": outcomes.share_of_zeros,
        }
        return {f"{self._what}-startup-{name}": value for name, value in values.items()}


class StartupOutcome:
    """Whether a start has ended, going by what a connector or task says of itself in order.

    It succeeded when RUNNING is said; it failed when FAILED is said first. PAUSED before either
    is no end. It ends once. Java: WorkerMetricsGroup's listeners.
    """

    def __init__(self) -> None:
        self._ended = False

    def well(self, state: _State) -> bool | None:
        """Whether it ended well with this; None: it did not end with this."""
        if self._ended or state not in (_State.RUNNING, _State.FAILED):
            return None
        self._ended = True
        return state is _State.RUNNING


def count_tasks_by_state(states: Iterable[_State]) -> dict[str, float]:
    """Of one connector's tasks on this worker; STOPPED is no state of tasks."""
    counts = Counter(states)
    named = {
        f"connector-{state.value.lower()}-task-count": float(counts[state])
        for state in _State
        if state is not _State.STOPPED
    }
    return {"connector-total-task-count": float(counts.total()), **named}


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginMetricFamilies:
    """`families` in order of names; `refused` says of which metrics something is missing."""

    families: tuple[MetricFamily, ...]
    refused: frozenset[str]


def merge_families(
    own: Iterable[MetricFamily], added: Iterable[MetricFamily]
) -> PluginMetricFamilies:
    """`own` is right by itself; of `added` each may be anything."""
    shown = {each.metric.name: each for each in own}
    declared_here = frozenset(shown)
    refused: set[str] = set()
    for family in added:
        name = family.metric.name
        known = shown.get(name)
        other = known is not None and (known.metric != family.metric or name in declared_here)
        if other or not _is_valid_family(family):
            refused.add(name)
            continue
        before = {} if known is None else known.series
        if before.keys() & family.series.keys():
            refused.add(name)
        shown[name] = MetricFamily(metric=family.metric, series={**family.series, **before})
    return PluginMetricFamilies(
        families=tuple(family for _, family in sorted(shown.items())), refused=frozenset(refused)
    )


def _is_valid_family(family: MetricFamily) -> bool:
    """Every series has a text for each label, and a number."""
    labels = len(family.metric.labels)
    return all(
        len(values) == labels
        and all(isinstance(each, str) for each in values)
        and isinstance(number, (int, float))
        for values, number in family.series.items()
    )


_LOG = logging.getLogger(__name__)
_COMMIT_ID = "unknown"
OnStatus = Callable[[_State], None]
"""To be told of every status of a connector or task, in order; never waits."""
ReadMetrics = Callable[[], Iterable[MetricReading]]
"""Reads what there is now; any thread, at once."""


@dataclass(slots=True)
class _ConnectorEntry:
    about: Mapping[str, str]
    state: _State = _State.UNASSIGNED


@dataclass(slots=True)
class WorkerMetrics:
    """`worker_id`: what Java calls the client id of `app-info`. Invariants: the lock guards all
    that changes, but what a task measures of itself; `_added` is of what is shown."""

    worker_id: str
    clock: Clock
    sampling: SampleWindows = field(default_factory=SampleWindows)
    rebalances: Callable[[], int] = lambda: 0
    """How many of its group's it took part in; any thread, at once."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _catalogue: ConnectMetricsRegistry = field(init=False)
    _connector_starts: StartupStats = field(init=False)
    _task_starts: StartupStats = field(init=False)
    _connectors: dict[str, _ConnectorEntry] = field(default_factory=dict)
    _tasks: dict[ConnectorTaskId, TaskMetrics] = field(default_factory=dict)
    _others: list[ReadMetrics] = field(default_factory=list)
    _added: dict[StatusSubject, list[plugin_context.ReadMetrics]] = field(default_factory=dict)
    _complained: set[str] = field(default_factory=set)
    _begun_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._catalogue = ConnectMetricsRegistry(metrics_registry.ALL_GROUPS)
        self._connector_starts = StartupStats("connector", self.sampling)
        self._task_starts = StartupStats("task", self.sampling)
        self._begun_ms = self.clock.wall_ms()

    def about(self, task: ConnectorTaskId, made_of: Mapping[str, str]) -> TaskMetricsIdentity:
        """For the metrics of a task that is being made."""
        return TaskMetricsIdentity(
            task=task, clock=self.clock, sampling=self.sampling, made_of=made_of
        )

    def add(self, other: ReadMetrics) -> None:
        """Show what this reads, too."""
        with self._lock:
            self._others.append(other)

    def add_of(self, subject: StatusSubject, read: plugin_context.ReadMetrics) -> None:
        """Show what a connector or task adds of its own, until it stops here."""
        with self._lock:
            if subject in self._connectors or subject in self._tasks:
                self._added.setdefault(subject, []).append(read)

    # connectors and tasks

    def not_begun(self, subject: StatusSubject) -> None:
        """It could not even be made: its start has failed, and there is nothing to show."""
        self.end(subject)
        with self._lock:
            self._starts(subject).ended(self.clock.now_s(), well=False)

    def begin_connector(self, name: str, about: Mapping[str, str]) -> OnStatus:
        """`about`: values of `metrics_registry.CONNECTOR` but its status."""
        shown, first = _ConnectorEntry(about), StartupOutcome()
        with self._lock:
            self._connectors[name] = shown
            self._added.pop(name, None)

        def said(state: _State) -> None:
            shown.state = state
            self._note_start(name, first.well(state))

        return said

    def begin_task(self, task: ConnectorTaskId, measured: TaskMetrics) -> OnStatus:
        first = StartupOutcome()
        with self._lock:
            self._tasks[task] = measured
            self._added.pop(task, None)

        def said(state: _State) -> None:
            measured.said(state)
            self._note_start(task, first.well(state))

        return said

    def end(self, subject: StatusSubject) -> None:
        """It does not run here any more; nothing happens if it never did."""
        with self._lock:
            self._added.pop(subject, None)
            if isinstance(subject, ConnectorTaskId):
                self._tasks.pop(subject, None)
            else:
                self._connectors.pop(subject, None)

    def _note_start(self, subject: StatusSubject, well: bool | None) -> None:
        if well is not None:
            with self._lock:
                self._starts(subject).ended(self.clock.now_s(), well=well)

    def _starts(self, subject: StatusSubject) -> StartupStats:
        of_task = isinstance(subject, ConnectorTaskId)
        return self._task_starts if of_task else self._connector_starts

    # reading

    @property
    def own(self) -> tuple[MetricFamily, ...]:
        """As of now, without what plugins add: of thousands of partitions that may be much."""
        return self._catalogue.families(self._readings())

    @property
    def published(self) -> tuple[MetricFamily, ...]:
        """As of now."""
        found = merge_families(self.own, self._read_added())
        for name in sorted(found.refused):
            self._complain(
                f"metric {name}",
                "not all that plugins say of it can be shown: two give the same"
                " series, or it is declared otherwise",
            )
        return found.families

    def _read_added(self) -> list[MetricFamily]:
        with self._lock:
            sources = [(subject, read) for subject, all_ in self._added.items() for read in all_]
        found: list[MetricFamily] = []
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

    def _readings(self) -> Iterable[MetricReading]:
        with self._lock:
            tasks, others = dict(self._tasks), tuple(self._others)
            yield from self._own()
        states: dict[str, list[_State]] = defaultdict(list)
        for task, measured in tasks.items():
            states[task.connector].append(measured.state)
            yield from measured.readings()
        for connector, found in states.items():
            yield MetricReading(
                group=metrics_registry.TASKS_OF_CONNECTOR,
                tags=(connector,),
                numbers=count_tasks_by_state(found),
            )
        for other in others:
            yield from other()

    def _own(self) -> Iterable[MetricReading]:
        now_s = self.clock.now_s()
        yield MetricReading(
            group=metrics_registry.APP_INFO,
            tags=(self.worker_id,),
            numbers={"start-time-ms": float(self._begun_ms)},
            texts={"version": kafka_version.KAFKA_VERSION, "commit-id": _COMMIT_ID},
        )
        yield MetricReading(
            group=metrics_registry.WORKER,
            numbers={
                "connector-count": float(len(self._connectors)),
                "task-count": float(len(self._tasks)),
                **self._connector_starts.numbers(now_s),
                **self._task_starts.numbers(now_s),
            },
        )
        for name, shown in self._connectors.items():
            yield MetricReading(
                group=metrics_registry.CONNECTOR,
                tags=(name,),
                texts={**shown.about, "status": shown.state.value.lower()},
            )
