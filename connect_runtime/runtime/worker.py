"""Runs connectors and tasks of this process, each on a thread of its own.

What a plugin does wrong ends in the status of its connector or task, and nowhere else; one that
does not stop in time is left to itself, and says nothing any more. Java: Worker.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from connect_runtime.api import connector, context, errors
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import ids
from connect_runtime.core.assignment import work
from connect_runtime.core.herder import task_configs
from connect_runtime.core.state import cluster_config, status_records
from connect_runtime.core.task import renewal
from connect_runtime.ports import worker as port
from connect_runtime.runtime import (
    begun,
    connector_run,
    contexts,
    pipeline_task,
    plugin_facts,
    task_bodies,
    task_renewal,
    task_run,
    traces,
    worker_metrics,
)
from connect_runtime.runtime.stores import offset_reader
from connect_runtime.system import threads

_LOG = logging.getLogger(__name__)
_CONNECTOR_STOP_S = 5.0
_TASK_CLASS = "task.class"
_OF_SINKS = ("topics", "topics.regex")


class Worker:
    """Implements `ports.worker.Worker`; for one thread. Invariant: what runs is in `_connectors`
    or `_tasks`, unless it was given up on."""

    def __init__(self, around: task_bodies.Surroundings, listener: port.Listener) -> None:
        self._around = around
        self._listener = listener
        self.begun = begun.Beginnings()
        self._connectors: dict[str, connector_run.ConnectorRun] = {}
        self._tasks: dict[ids.ConnectorTaskId, task_renewal.Running] = {}
        self._threads = threads.Threads(on_unasked_end=_on_unasked_end)

    def start_connector(
        self, name: str, config: cluster_config.RawConfig, state: cluster_config.TargetState
    ) -> None:
        """See `ports.worker.Worker`; so for all below."""
        assert name not in self._connectors, f"{name} runs already"
        self.begun.begin(name, config)
        try:
            made, _ = task_bodies.new_connector(self._around.resolved(config), self._around)
            run = connector_run.ConnectorRun(name, self._connector_parts(name, made, config))
        except BaseException as error:  # plugins may raise anything
            raise self._failed(name, error) from error
        self._connectors[name] = run
        run.start(self._threads, state)

    def start_task(
        self,
        task: ids.ConnectorTaskId,
        *,
        connector: cluster_config.RawConfig,
        config: cluster_config.RawConfig,
        state: cluster_config.TargetState,
        tasks: int,
    ) -> None:
        assert task not in self._tasks, f"{task} runs already"
        self.begun.begin(task, config)
        try:
            made = task_bodies.make(
                task,
                connector_raw=connector,
                task_raw=config,
                of=tasks,
                around=self._around,
            )
        except BaseException as error:  # plugins may raise anything
            raise self._failed(task, error) from error
        run = task_run.TaskRun(
            task,
            body=made.body,
            target=state,
            say=self._say(
                task,
                plugin_facts.version(made.task),
                said=self._around.metrics.begin_task(task, made.metrics),
            ),
        )
        if isinstance(made.body, pipeline_task.PipelineTaskBody):
            made.body.on_shown = run.show_again
        self._tasks[task] = task_renewal.Running(run, made)
        run.start(self._threads)

    def renew_tasks(
        self, configured: Mapping[ids.ConnectorTaskId, port.TaskConfigured]
    ) -> frozenset[ids.ConnectorTaskId]:
        running = {task: each for task, each in self._tasks.items() if task in configured}
        absent = configured.keys() - running.keys()
        wanted = [
            task_renewal.Wanted(
                of=each, raw=configured[task].config, now=self._origin(configured[task])
            )
            for task, each in running.items()
        ]
        begun_anew = task_renewal.renew(wanted) | absent
        for task in configured.keys() - begun_anew:
            self.begun.renew(task, configured[task].config)
        return begun_anew

    def _origin(self, configured: port.TaskConfigured) -> renewal.Origin | None:
        """None: it would not start, either, and then says why."""
        resolved = self._around.resolved
        try:
            return renewal.Origin(
                connector=resolved(configured.connector), task=resolved(configured.config)
            )
        except errors.ConnectError:
            return None

    def set_target_state(self, connector: str, state: cluster_config.TargetState) -> None:
        run = self._connectors.get(connector)
        if run is not None:
            run.wish(state)
        for task, each in self._tasks.items():
            if task.connector == connector:
                each.run.set_target_state(state)

    def stop(self, gone: work.Work) -> None:
        clock = self._around.clock
        runs: list[connector_run.ConnectorRun | task_run.TaskRun] = []
        runs += [self._connectors.pop(each) for each in gone.connectors if each in self._connectors]
        runs += [self._tasks.pop(each).run for each in gone.tasks if each in self._tasks]
        for run in runs:
            run.ask_stop()
        now_s = clock.now_s()
        ends = {
            connector_run.ConnectorRun: base_deadline.Deadline.after(
                _CONNECTOR_STOP_S, now_s=now_s
            ),
            task_run.TaskRun: base_deadline.Deadline.after(
                self._around.config.graceful_stop_s, now_s=now_s
            ),
        }
        for run in sorted(runs, key=lambda each: ends[type(each)]):
            if not run.join(ends[type(run)].left_s(clock.now_s())):
                run.give_up()
        for run in runs:
            self._around.metrics.end(run.subject)

    def running(self) -> work.Work:
        return work.Work(connectors=tuple(self._connectors), tasks=tuple(self._tasks))

    def task_configs(
        self, connector: str, config: cluster_config.RawConfig
    ) -> Sequence[cluster_config.RawConfig] | None:
        run = self._connectors.get(connector)
        if run is None or not run.is_running():
            return None
        made, parsed = task_bodies.new_connector(self._around.resolved(config), self._around)
        try:
            answer = run.task_configs(parsed.tasks_max)
        except errors.ConnectError:
            raise
        except Exception as error:
            raise errors.ConnectError(f"task_configs of {connector} threw: {error}") from error
        checked = _checked(connector, answer)
        try:
            task_bodies.check_number(len(checked), parsed)
        except port.TooManyTasks as error:
            run.fail(error)
            raise
        shared = {
            _TASK_CLASS: plugin_facts.task_name(made, self._around.installed),
            **{name: config[name] for name in _OF_SINKS if config.get(name) is not None},
        }
        return task_configs.keep_references([{**each, **shared} for each in checked], config)

    def close(self) -> None:
        self.stop(self.running())

    def _connector_parts(
        self, name: str, made: connector.Connector, config: cluster_config.RawConfig
    ) -> connector_run.ConnectorParts:
        around = self._around
        stopping, given_up = threading.Event(), threading.Event()
        reader: context.OffsetReader = offset_reader.StoredOffsets(
            name, offsets=around.offsets, given_up=given_up, clock=around.clock
        )

        def make_context(on_error: Callable[[Exception], None]) -> contexts.ConnectorContext:
            return contexts.ConnectorContext(
                contexts.Basics(
                    clock=around.clock,
                    stopping=stopping,
                    on_metrics=lambda read: around.metrics.add_of(name, read),
                ),
                offset_reader=reader,
                published=lambda: task_configs.published(around.configs(), name),
                on_reconfiguration=lambda: self._listener.on_reconfiguration_wanted(name),
                on_error=on_error,
            )

        return connector_run.ConnectorParts(
            connector=made,
            props=lambda: around.resolved(config),
            make_context=make_context,
            say=self._say(
                name,
                plugin_facts.version(made),
                said=around.metrics.begin_connector(
                    name, plugin_facts.of_connector(made, around.installed)
                ),
            ),
            on_reached=lambda state, error: self._listener.on_reached(name, state, error),
            stopping=stopping,
            given_up=given_up,
        )

    def _say(
        self,
        subject: status_records.Subject,
        version: str | None,
        *,
        said: worker_metrics.Said,
    ) -> task_run.Say:
        around = self._around

        def say(state: status_records.State, trace: str | None, *, safe: bool) -> None:
            status = status_records.Status(
                state=state,
                worker_id=around.worker_id,
                generation=around.generation(),
                trace=trace,
                version=version,
            )
            self.begun.said(subject, state, trace)
            around.statuses.put(subject, status, safe=safe)
            said(state)
            kind = "connector" if isinstance(subject, str) else "task"
            _LOG.info("%s %s is %s", kind, subject, state.value)

        return say

    def _failed(self, subject: status_records.Subject, error: BaseException) -> errors.ConnectError:
        """It could not even be begun."""
        trace = traces.of(error)
        say = self._say(subject, None, said=lambda _failed: self._around.metrics.not_begun(subject))
        say(status_records.State.FAILED, trace, safe=False)
        if isinstance(error, errors.ConnectError):
            return error
        return errors.ConnectError(f"starting {subject}: {type(error).__name__}: {error}")


def _checked(name: str, answer: object) -> list[Mapping[str, str | None]]:
    if isinstance(answer, (str, bytes)) or not isinstance(answer, Sequence):
        raise errors.ConnectError(
            f"task_configs of {name} must return a sequence of mappings, not "
            f"{type(answer).__name__}"
        )
    for config in answer:
        if not isinstance(config, Mapping) or not all(
            isinstance(key, str) and (value is None or isinstance(value, str))
            for key, value in config.items()
        ):
            raise errors.ConnectError(
                f"task_configs of {name} must return mappings of text to text"
            )
    return list(answer)


def _on_unasked_end(ended: threads.UnaskedEnd) -> None:
    """Tasks end by themselves when they fail, which their status says."""
    if ended.error is not None:
        _LOG.error("%s ended: %s", ended.name, ended.error, exc_info=ended.error)
