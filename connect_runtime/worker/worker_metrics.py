"""Metrics of one worker, including connector, task and plugin metrics.

The metrics of a connector or task are exposed from its start on this worker until its stop. If two
plugins provide the same series, the first one is exposed. Metrics of the worker itself take
precedence over plugin metrics with the same name. Thread-safe. Java: ConnectMetrics,
WorkerMetricsGroup, Worker.ConnectorStatusMetricsGroup.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api import plugin_context
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from connect_runtime.plugins import compatible_kafka_version
from connect_runtime.storage.status_records import RunState, StatusSubject
from connect_runtime.worker import connect_metrics_registry
from connect_runtime.worker.connect_metrics_registry import ConnectMetricsRegistry, MetricReading
from connect_runtime.worker.task_metrics import TaskMetrics, TaskMetricsInfo

_State = RunState


class StartupStats:
    """Startup statistics of all connectors, or of all tasks (`what` is "connector" or "task")."""

    def __init__(self, what: str, sampling: SampleWindows) -> None:
        self._what = what
        self._outcomes = WindowedStat(sampling)
        self._attempts = 0

    def record_startup(self, now_s: float, *, well: bool) -> None:
        """Record a completed startup. `well` is true if the startup succeeded."""
        self._attempts += 1
        self._outcomes.observe(1.0 if well else 0.0, now_s)

    def compute_attributes(self, now_s: float) -> dict[str, float]:
        outcomes = self._outcomes.compute_statistics(now_s)
        values = {
            "attempts-total": float(self._attempts),
            "success-total": outcomes.total,
            "success-percentage": outcomes.share_of_ones,
            "failure-total": self._attempts - outcomes.total,
            "failure-percentage": outcomes.share_of_zeros,
        }
        return {f"{self._what}-startup-{name}": value for name, value in values.items()}


class StartupOutcome:
    """Derives the outcome of a connector or task startup from the states it publishes.

    A startup succeeds with RUNNING, or fails if FAILED comes first. PAUSED does not decide the
    outcome. Java: WorkerMetricsGroup's listeners.
    """

    def __init__(self) -> None:
        self._ended = False

    def decide_startup_outcome(self, state: _State) -> bool | None:
        """Return True if this state completes the startup, False if it fails the startup, None if
        it does not decide the outcome."""
        if self._ended or state not in (_State.RUNNING, _State.FAILED):
            return None
        self._ended = True
        return state is _State.RUNNING


def count_tasks_by_state(states: Iterable[_State]) -> dict[str, float]:
    """Return the task count attributes of one connector, by state. Tasks are never STOPPED."""
    counts = Counter(states)
    named = {
        f"connector-{state.value.lower()}-task-count": float(counts[state])
        for state in _State
        if state is not _State.STOPPED
    }
    return {"connector-total-task-count": float(counts.total()), **named}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedMetricFamilies:
    """Merged metric families of the worker and its plugins."""

    families: tuple[MetricFamily, ...]
    """Metric families, sorted by name."""
    dropped_names: frozenset[str]
    """Names of plugin metrics from which at least one series was dropped."""


def merge_plugin_families(
    own: Iterable[MetricFamily], added: Iterable[MetricFamily]
) -> MergedMetricFamilies:
    """Merge plugin metric families (`added`) into the worker's own. Invalid families and duplicate
    series are dropped."""
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
    return MergedMetricFamilies(
        families=tuple(family for _, family in sorted(shown.items())),
        dropped_names=frozenset(refused),
    )


def _is_valid_family(family: MetricFamily) -> bool:
    """Return True if every series of the family has a string for each label and a numeric value."""
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
"""Called with every published state of a connector or task, in order. Must not block."""
ReadMetrics = Callable[[], Iterable[MetricReading]]
"""Returns current metric readings. Called on any thread; must return immediately."""


@dataclass(slots=True)
class _ConnectorEntry:
    about: Mapping[str, str]
    state: _State = _State.UNASSIGNED


@dataclass(slots=True)
class WorkerMetrics:
    """Metrics of one worker.

    Invariant: `_lock` guards all mutable state except the values that the tasks record themselves.
    """

    worker_id: str
    """Worker id, exposed as the client id of Java's metric group `app-info`."""
    clock: Clock
    sampling: SampleWindows = field(default_factory=SampleWindows)
    rebalances: Callable[[], int] = lambda: 0
    """Returns the number of completed rebalances. May be called on any thread; must return
    immediately."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _catalogue: ConnectMetricsRegistry = field(init=False)
    _connector_starts: StartupStats = field(init=False)
    _task_starts: StartupStats = field(init=False)
    _connectors: dict[str, _ConnectorEntry] = field(default_factory=dict)
    _tasks: dict[ConnectorTaskId, TaskMetrics] = field(default_factory=dict)
    _others: list[ReadMetrics] = field(default_factory=list)
    _added: dict[StatusSubject, list[plugin_context.ReadMetrics]] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)
    _begun_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._catalogue = ConnectMetricsRegistry(connect_metrics_registry.ALL_GROUPS)
        self._connector_starts = StartupStats("connector", self.sampling)
        self._task_starts = StartupStats("task", self.sampling)
        self._begun_ms = self.clock.wall_ms()

    def build_task_metrics_info(
        self, task: ConnectorTaskId, made_of: Mapping[str, str]
    ) -> TaskMetricsInfo:
        """Build the id and info attributes under which the metrics of a new task are exposed."""
        return TaskMetricsInfo(task=task, clock=self.clock, sampling=self.sampling, made_of=made_of)

    def add_metric_readings(self, other: ReadMetrics) -> None:
        """Expose additional metric readings. `other` returns them, and is called each time the
        metrics are read."""
        with self._lock:
            self._others.append(other)

    def add_plugin_metrics(self, subject: StatusSubject, read: plugin_context.ReadMetrics) -> None:
        """Expose metrics of a connector or task plugin until the connector or task stops on this
        worker."""
        with self._lock:
            if subject in self._connectors or subject in self._tasks:
                self._added.setdefault(subject, []).append(read)

    # Connectors and tasks

    def record_failed_start(self, subject: StatusSubject) -> None:
        """Record a failed startup: the connector or task could not be created."""
        self.remove_connector_or_task(subject)
        with self._lock:
            self._get_startup_stats(subject).record_startup(self.clock.now_s(), well=False)

    def add_connector(self, name: str, about: Mapping[str, str]) -> OnStatus:
        """Expose the metrics of a started connector. Return the callback for its status changes.

        `about` contains the values of the attributes in `connect_metrics_registry.CONNECTOR`,
        except the status.
        """
        shown, first = _ConnectorEntry(about), StartupOutcome()
        with self._lock:
            self._connectors[name] = shown
            self._added.pop(name, None)

        def record_status_change(state: _State) -> None:
            shown.state = state
            self._record_startup(name, first.decide_startup_outcome(state))

        return record_status_change

    def add_task(self, task: ConnectorTaskId, measured: TaskMetrics) -> OnStatus:
        """Expose the metrics of a started task. Return the callback for its status changes."""
        first = StartupOutcome()
        with self._lock:
            self._tasks[task] = measured
            self._added.pop(task, None)

        def record_status_change(state: _State) -> None:
            measured.record_state(state)
            self._record_startup(task, first.decide_startup_outcome(state))

        return record_status_change

    def remove_connector_or_task(self, subject: StatusSubject) -> None:
        """Remove the metrics of a connector or task that has stopped. Unknown connectors and tasks
        are ignored."""
        with self._lock:
            self._added.pop(subject, None)
            if isinstance(subject, ConnectorTaskId):
                self._tasks.pop(subject, None)
            else:
                self._connectors.pop(subject, None)

    def _record_startup(self, subject: StatusSubject, well: bool | None) -> None:
        if well is not None:
            with self._lock:
                self._get_startup_stats(subject).record_startup(self.clock.now_s(), well=well)

    def _get_startup_stats(self, subject: StatusSubject) -> StartupStats:
        of_task = isinstance(subject, ConnectorTaskId)
        return self._task_starts if of_task else self._connector_starts

    # Reading

    @property
    def worker_families(self) -> tuple[MetricFamily, ...]:
        """Current metric families of the worker, without the potentially numerous plugin
        metrics."""
        return self._catalogue.build_families(self._collect_readings())

    @property
    def all_families(self) -> tuple[MetricFamily, ...]:
        """Current metric families of the worker and its plugins."""
        found = merge_plugin_families(self.worker_families, self._read_plugin_families())
        for name in sorted(found.dropped_names):
            self._log_warning_once(
                f"metric {name}",
                "dropped plugin series that are invalid, already exist, or belong to a metric with "
                "a different declaration",
            )
        return found.families

    def _read_plugin_families(self) -> list[MetricFamily]:
        with self._lock:
            sources = [(subject, read) for subject, all_ in self._added.items() for read in all_]
        found: list[MetricFamily] = []
        for subject, read in sources:
            try:
                found += read()
            except Exception as error:  # noqa: BLE001 - of plugins, which may raise anything
                self._log_warning_once(
                    f"metrics of {subject}", (f"failed to read plugin metrics: {error!r}")
                )
        return found

    def _log_warning_once(self, of: str, what: str) -> None:
        """Log each warning only once, because it would otherwise repeat at every scrape."""
        with self._lock:
            if of in self._warned:
                return
            self._warned.add(of)
        _LOG.warning("%s: %s", of, what)

    def _collect_readings(self) -> Iterable[MetricReading]:
        with self._lock:
            tasks, others = dict(self._tasks), tuple(self._others)
            yield from self._read_worker_metrics()
        states: dict[str, list[_State]] = defaultdict(list)
        for task, measured in tasks.items():
            states[task.connector].append(measured.state)
            yield from measured.get_metric_readings()
        for connector, found in states.items():
            yield MetricReading(
                group=connect_metrics_registry.TASKS_OF_CONNECTOR,
                tags=(connector,),
                numbers=count_tasks_by_state(found),
            )
        for other in others:
            yield from other()

    def _read_worker_metrics(self) -> Iterable[MetricReading]:
        now_s = self.clock.now_s()
        yield MetricReading(
            group=connect_metrics_registry.APP_INFO,
            tags=(self.worker_id,),
            numbers={"start-time-ms": float(self._begun_ms)},
            texts={"version": compatible_kafka_version.KAFKA_VERSION, "commit-id": _COMMIT_ID},
        )
        yield MetricReading(
            group=connect_metrics_registry.WORKER,
            numbers={
                "connector-count": float(len(self._connectors)),
                "task-count": float(len(self._tasks)),
                **self._connector_starts.compute_attributes(now_s),
                **self._task_starts.compute_attributes(now_s),
            },
        )
        for name, shown in self._connectors.items():
            yield MetricReading(
                group=connect_metrics_registry.CONNECTOR,
                tags=(name,),
                texts={**shown.about, "status": shown.state.value.lower()},
            )
