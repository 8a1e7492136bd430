"""Starts and stops the connectors and tasks of this process, each on its own thread.

A plugin failure is published as the status of its connector or task and affects no other plugin. A
plugin that does not stop in time is abandoned; its later statuses are ignored. Java: Worker.

`StartedConnectorsAndTasks` records the configuration and the last status of each connector and task
that this worker has started. The status topic contains the same statuses, but only after a delay,
and without the configurations.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api.connector import Connector
from connect_runtime.api.errors import ConnectError
from connect_runtime.api.plugin_context import OffsetReader
from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import task_config_publishing
from connect_runtime.herder.worker_interface import (
    ConfiguredTask,
    TooManyTasksError,
    WorkerListener,
)
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState
from connect_runtime.storage.offset_store import StoredOffsetReader
from connect_runtime.storage.status_records import RunState, RunStatus, StatusSubject
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.worker import (
    plugin_instantiation,
    running_task_reconfiguration,
    task_factory,
    worker_task,
)
from connect_runtime.worker.config_provider_secret_masking import HideValues, ProvidedValues
from connect_runtime.worker.pipeline_task import WorkerPipelineTask
from connect_runtime.worker.plugin_contexts import ContextDeps, WorkerConnectorContext
from connect_runtime.worker.running_task_reconfiguration import RunningTask, TaskReconfiguration
from connect_runtime.worker.task_factory import ResolvedTaskConfigs, WorkerDeps
from connect_runtime.worker.worker_connector import WorkerConnector, WorkerConnectorDeps
from connect_runtime.worker.worker_metrics import OnStatus
from connect_runtime.worker.worker_task import TaskStatusWriter, WorkerTask


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedConnectorOrTask:
    """The most recent start of a connector or task on this worker, with its last status."""

    config: RawConfig = field(repr=False)
    """Configuration of the connector or task, with unresolved `${…}` references."""
    times: int = 1
    """Number of times that the connector or task was started on this worker."""
    state: RunState | None = None
    """Last published state; None before the first status."""
    trace: str | None = None
    """Stack trace if the connector or task failed; otherwise None."""


class StartedConnectorsAndTasks:
    """The last start and status of each connector and task of this worker. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[StatusSubject, StartedConnectorOrTask] = {}

    def record_start(self, subject: StatusSubject, config: RawConfig) -> None:
        """Record an attempt to start a connector or task with this configuration."""
        with self._lock:
            before = self._items.get(subject)
            times = 1 if before is None else before.times + 1
            self._items[subject] = StartedConnectorOrTask(config=config, times=times)

    def record_reconfiguration(self, subject: StatusSubject, config: RawConfig) -> None:
        """Record a new configuration that a connector or task accepted without a restart."""
        with self._lock:
            self._items[subject] = dataclasses.replace(self._items[subject], config=config)

    def record_status(self, subject: StatusSubject, state: RunState, trace: str | None) -> None:
        """Record the published status of a connector or task."""
        with self._lock:
            self._items[subject] = dataclasses.replace(
                self._items[subject], state=state, trace=trace
            )

    def snapshot(self) -> Mapping[StatusSubject, StartedConnectorOrTask]:
        """Return the last start and status of each connector and task. Connectors and tasks that no
        longer run on this worker are UNASSIGNED."""
        with self._lock:
            return dict(self._items)


_LOG = logging.getLogger(__name__)
_CONNECTOR_STOP_TIMEOUT_S = 5.0
_TASK_CLASS_KEY = "task.class"
_SINK_TOPIC_KEYS = ("topics", "topics.regex")


class Worker:
    """Implements `WorkerInterface`. Must be used by one thread only.

    Invariant: every running connector and task that was not abandoned is in `_connectors` or
    `_tasks`.
    """

    def __init__(self, deps: WorkerDeps, listener: WorkerListener) -> None:
        self._deps = deps
        self._listener = listener
        self.started_items = StartedConnectorsAndTasks()
        self._connectors: dict[str, WorkerConnector] = {}
        self._tasks: dict[ConnectorTaskId, RunningTask] = {}
        self._threads = ThreadGroup(on_unexpected_end=_log_thread_death)

    def start_connector(self, name: str, config: RawConfig, state: TargetState) -> None:
        """Start a connector. This and the following methods are documented in `WorkerInterface`."""
        assert name not in self._connectors, f"connector {name} is already running"
        self.started_items.record_start(name, config)
        provided, deps = self._build_deps_with_provided_values()
        try:
            made, _ = task_factory.create_connector(deps.resolve_plugin_config(config), deps)
            run = WorkerConnector(
                name,
                self._build_connector_deps(
                    name, made, config, deps, hide=provided.hide_provided_values
                ),
            )
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            failure = self._publish_start_failure(name, error, provided)
            raise failure from failure.__cause__
        self._connectors[name] = run
        run.start(self._threads, state)

    def start_task(
        self,
        task: ConnectorTaskId,
        *,
        connector: RawConfig,
        config: RawConfig,
        state: TargetState,
        tasks: int,
    ) -> None:
        assert task not in self._tasks, f"task {task} is already running"
        self.started_items.record_start(task, config)
        provided, deps = self._build_deps_with_provided_values()
        try:
            made = task_factory.build_task(
                task, connector_raw=connector, task_raw=config, task_count=tasks, deps=deps
            )
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            failure = self._publish_start_failure(task, error, provided)
            raise failure from failure.__cause__
        run = WorkerTask(
            task,
            body=made.body,
            target=state,
            write_status=self._build_status_writer(
                task,
                plugin_instantiation.get_plugin_version(made.task),
                said=self._deps.metrics.add_task(task, made.metrics),
            ),
            hide=provided.hide_provided_values,
        )
        if isinstance(made.body, WorkerPipelineTask):
            made.body.on_status_changed = run.republish_status
        self._tasks[task] = RunningTask(run, made)
        run.start(self._threads)

    def try_reconfigure_tasks(
        self, configured: Mapping[ConnectorTaskId, ConfiguredTask]
    ) -> frozenset[ConnectorTaskId]:
        running = {task: each for task, each in self._tasks.items() if task in configured}
        absent = configured.keys() - running.keys()
        wanted = [
            TaskReconfiguration(
                running_task=each,
                raw_config=configured[task].config,
                new_origin=self._resolve_task_configs(configured[task]),
            )
            for task, each in running.items()
        ]
        begun_anew = running_task_reconfiguration.reconfigure_tasks(wanted) | absent
        for task in configured.keys() - begun_anew:
            self.started_items.record_reconfiguration(task, configured[task].config)
        return begun_anew

    def _resolve_task_configs(self, configured: ConfiguredTask) -> ResolvedTaskConfigs | None:
        """Resolve the references in a task's configurations. Return None if this fails; restarting
        the task then reports the error."""
        resolved = self._deps.resolve_plugin_config
        try:
            return ResolvedTaskConfigs(
                connector=resolved(configured.connector), task=resolved(configured.config)
            )
        except ConnectError:
            return None

    def set_target_state(self, connector: str, state: TargetState) -> None:
        run = self._connectors.get(connector)
        if run is not None:
            run.request_target_state(state)
        for task, each in self._tasks.items():
            if task.connector == connector:
                each.worker_task.set_target_state(state)

    def stop_connectors_and_tasks(self, items: ConnectorsAndTasks) -> None:
        clock = self._deps.clock
        runs: list[WorkerConnector | WorkerTask] = []
        runs += [
            self._connectors.pop(each) for each in items.connectors if each in self._connectors
        ]
        runs += [self._tasks.pop(each).worker_task for each in items.tasks if each in self._tasks]
        for run in runs:
            run.request_stop()
        now_s = clock.now_s()
        ends = {
            WorkerConnector: Deadline.after(_CONNECTOR_STOP_TIMEOUT_S, now_s=now_s),
            WorkerTask: Deadline.after(self._deps.config.graceful_stop_s, now_s=now_s),
        }
        for run in sorted(runs, key=lambda each: ends[type(each)]):
            if not run.join(ends[type(run)].remaining_s(clock.now_s())):
                run.abandon()
        for run in runs:
            self._deps.metrics.remove_connector_or_task(run.subject)

    def list_started_connectors_and_tasks(self) -> ConnectorsAndTasks:
        return ConnectorsAndTasks(connectors=tuple(self._connectors), tasks=tuple(self._tasks))

    def connector_task_configs(
        self, connector: str, config: RawConfig
    ) -> Sequence[RawConfig] | None:
        run = self._connectors.get(connector)
        if run is None or not run.is_running():
            return None
        provided, deps = self._build_deps_with_provided_values()
        try:
            made, parsed = task_factory.create_connector(deps.resolve_plugin_config(config), deps)
            answer = run.call_task_configs(parsed.tasks_max)
        except ConnectError as error:
            shown = provided.hide_provided_values_in_error(error)
            raise shown from shown.__cause__
        except Exception as error:
            text = f"task_configs of {connector} failed: {error}"
            raise ConnectError(provided.hide_provided_values(text)) from error
        generated = _require_sequence(connector, answer)
        try:  # before any work or memory in proportion to the number of tasks
            task_factory.check_task_count(len(generated), parsed)
        except TooManyTasksError as error:
            run.mark_failed(error)
            raise
        checked = _require_task_configs(connector, generated)
        shared = {
            _TASK_CLASS_KEY: plugin_instantiation.get_task_class_name(made, self._deps.installed),
            **{name: config[name] for name in _SINK_TOPIC_KEYS if config.get(name) is not None},
        }
        return task_config_publishing.restore_provider_references(
            [{**each, **shared} for each in checked], config
        )

    def close(self) -> None:
        self.stop_connectors_and_tasks(self.list_started_connectors_and_tasks())

    def _build_deps_with_provided_values(self) -> tuple[ProvidedValues, WorkerDeps]:
        """Return new `ProvidedValues` and the dependencies of one connector or task.

        The `resolve` function of the dependencies records the values that config providers return
        in the `ProvidedValues`, which hide these values in error messages.
        """
        provided = ProvidedValues(self._deps.resolve)
        return provided, dataclasses.replace(self._deps, resolve=provided.resolve_config)

    def _build_connector_deps(
        self, name: str, made: Connector, config: RawConfig, deps: WorkerDeps, *, hide: HideValues
    ) -> WorkerConnectorDeps:
        stopping, given_up = threading.Event(), threading.Event()
        reader: OffsetReader = StoredOffsetReader(
            name, offsets=deps.offsets, abandoned=given_up, clock=deps.clock
        )

        def make_context(on_error: Callable[[Exception], None]) -> WorkerConnectorContext:
            return WorkerConnectorContext(
                ContextDeps(
                    clock=deps.clock,
                    stopping=stopping,
                    on_metrics=lambda read: deps.metrics.add_plugin_metrics(name, read),
                ),
                offset_reader=reader,
                published=lambda: task_config_publishing.get_published_configs(
                    deps.configs(), name
                ),
                on_reconfiguration=lambda: self._listener.on_reconfiguration_requested(name),
                on_error=on_error,
            )

        return WorkerConnectorDeps(
            connector=made,
            props=lambda: deps.resolve_plugin_config(config),
            make_context=make_context,
            write_status=self._build_status_writer(
                name,
                plugin_instantiation.get_plugin_version(made),
                said=deps.metrics.add_connector(
                    name, plugin_instantiation.collect_connector_attributes(made, deps.installed)
                ),
            ),
            on_target_state_reached=lambda state, error: self._listener.on_target_state_reached(
                name, state, error
            ),
            hide=hide,
            stopping=stopping,
            given_up=given_up,
        )

    def _build_status_writer(
        self,
        subject: StatusSubject,
        version: str | None,
        *,
        said: OnStatus,
    ) -> TaskStatusWriter:
        deps = self._deps

        def write_status(state: RunState, trace: str | None, *, safe: bool) -> None:
            status = RunStatus(
                state=state,
                worker_id=deps.worker_id,
                generation=deps.generation(),
                trace=trace,
                version=version,
            )
            self.started_items.record_status(subject, state, trace)
            deps.statuses.put(subject, status, safe=safe)
            said(state)
            kind = "connector" if isinstance(subject, str) else "task"
            _LOG.info("%s %s is %s", kind, subject, state.value)

        return write_status

    def _publish_start_failure(
        self, subject: StatusSubject, error: BaseException, provided: ProvidedValues
    ) -> ConnectError:
        """Publish FAILED for a connector or task that could not be created, and return the error to
        raise."""
        trace = worker_task.format_exception_trace(error, hide=provided.hide_provided_values)
        write_status = self._build_status_writer(
            subject,
            None,
            said=lambda _: self._deps.metrics.record_failed_start(subject),
        )
        write_status(RunState.FAILED, trace, safe=False)
        if isinstance(error, ConnectError):
            return provided.hide_provided_values_in_error(error)
        failure = ConnectError(f"failed to start {subject}: {type(error).__name__}: {error}")
        failure.__cause__ = error
        return provided.hide_provided_values_in_error(failure)


def _require_sequence(name: str, answer: object) -> Sequence[object]:
    if isinstance(answer, (str, bytes)) or not isinstance(answer, Sequence):
        raise ConnectError(
            f"task_configs of {name} must return a sequence of mappings, not "
            f"{type(answer).__name__}"
        )
    return answer


def _require_task_configs(name: str, generated: Sequence[object]) -> list[Mapping[str, str | None]]:
    checked: list[Mapping[str, str | None]] = []
    for config in generated:
        if not isinstance(config, Mapping) or not all(
            isinstance(key, str) and (value is None or isinstance(value, str))
            for key, value in config.items()
        ):
            raise ConnectError(f"task_configs of {name} must return mappings of strings to strings")
        checked.append(config)
    return checked


def _log_thread_death(ended: UnexpectedThreadEnd) -> None:
    """Log the error of a thread that ended unexpectedly. A failed task publishes its own status."""
    if ended.error is not None:
        _LOG.error("%s ended: %s", ended.name, ended.error, exc_info=ended.error)
