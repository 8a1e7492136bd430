"""Puts together what a task is run with, from what is configured and what the worker has."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from connect_runtime.api import connector, context, errors
from connect_runtime.api import task as tasks
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config
from connect_runtime.core.task import (
    client_settings,
    connector_config,
    plugin_keys,
    renewal,
    worker_config,
)
from connect_runtime.ports import clients, plugins
from connect_runtime.ports import worker as port
from connect_runtime.runtime import (
    contexts,
    offset_commits,
    pipeline_task,
    plugin_answers,
    plugin_facts,
    record_pipeline,
    sink_context,
    sink_task,
    source_task,
    task_metrics,
    task_run,
    topics_in_use,
    worker_metrics,
)
from connect_runtime.runtime.stores import offset_reader, offset_store

_LOG = logging.getLogger(__name__)

Resolved = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a worker runs its plugins with.

    `resolve` fills `${…}` in, as of now, and raises `ConnectError`; `generation` is the group's;
    `configs` is the newest view; `metrics` is this worker's alone; `given` (to tasks of a
    connector) and `quiet` as in `LastRuns`.
    """

    config: worker_config.WorkerConfig
    worker_id: str
    generation: Callable[[], int]
    configs: Callable[[], cluster_config.ClusterConfig]
    installed: plugins.Plugins
    clients: clients.Clients
    statuses: port.Statuses
    offsets: offset_store.Offsets
    resolve: Callable[[cluster_config.RawConfig], Mapping[str, str | None]]
    membership: port.Membership
    metrics: worker_metrics.WorkerMetrics
    clock: base_clock.Clock
    given: Callable[[str], Mapping[int, Sequence[context.TaskGiven]]] = lambda _: {}
    quiet: Callable[[], context.Quiet | None] = lambda: None

    def resolved(self, config: cluster_config.RawConfig) -> Resolved:
        """For a plugin, to whom a null is as good as nothing."""
        return {name: value for name, value in self.resolve(config).items() if value is not None}

    def load(self, name: str) -> type:
        """As `config_types.LoadClass` for a connector's converters."""
        kinds = (plugins.Kind.CONVERTER, plugins.Kind.HEADER_CONVERTER)
        try:
            return self.installed.find(name, *kinds)
        except errors.ConfigError as error:
            raise LookupError(str(error)) from error


def instance(config: Resolved, around: Surroundings) -> connector.Connector:
    """Of the connector's class, whatever else is configured. Raises as `new_connector`."""
    kinds = (plugins.Kind.SOURCE, plugins.Kind.SINK)
    name = config.get("connector.class", "")
    made: connector.Connector = around.installed.find(name, *kinds)()
    plugin_answers.check_version(made, name, config.get(plugin_keys.CONNECTOR_VERSION))
    return made


def new_connector(
    config: Resolved, around: Surroundings
) -> tuple[connector.Connector, connector_config.ConnectorConfig]:
    """An instance, not started. Raises `ConfigError`, and whatever its making does."""
    made = instance(config, around)
    parse = (
        connector_config.sink
        if isinstance(made, connector.SinkConnector)
        else connector_config.source
    )
    parsed = parse(config, load=around.load)
    refused = [text for key, text in parsed.not_offered.items() if key not in made.carries_out]
    refused += client_settings.refused_endpoints(around.config, config).values()
    if refused:
        raise errors.ConfigError(f"connector {parsed.name}: {' '.join(dict.fromkeys(refused))}")
    return made, parsed


def check_number(found: int, parsed: connector_config.ConnectorConfig) -> None:
    """Raises `TooManyTasks` where it has that many tasks, and that is not allowed."""
    if found <= parsed.tasks_max:
        return
    told = (
        f"The connector {parsed.name} has generated {found} tasks, which is greater than "
        f"{parsed.tasks_max}, the maximum number of tasks it is configured to create."
    )
    if parsed.enforce_tasks_max:
        raise port.TooManyTasks(f"{told} Raise tasks.max, or set tasks.max.enforce to false.")
    _LOG.warning("%s tasks.max.enforce is false: they are started all the same", told)


class TaskProps:
    """A task's configuration: written as in `raw`, filled in as of the call."""

    def __init__(self, raw: cluster_config.RawConfig, around: Surroundings) -> None:
        self.raw = raw
        self._around = around

    def __call__(self) -> Resolved:
        return self._around.resolved(self.raw)


@dataclass(slots=True)
class Made:
    """A task, the body that runs it, what is measured of it; `props` and `origin` say what it is
    made from, and become others when it takes up another configuration."""

    task: tasks.Task
    body: task_run.Body
    metrics: task_metrics.TaskMetrics
    props: TaskProps
    origin: renewal.Origin


def make(
    task: ids.ConnectorTaskId,
    *,
    connector_raw: cluster_config.RawConfig,
    task_raw: cluster_config.RawConfig,
    of: int,
    around: Surroundings,
) -> Made:
    """One `of` so many. Raises `ConnectError`, and whatever a plugin does when it is made."""
    resolved, props = around.resolved(connector_raw), TaskProps(task_raw, around)
    plugin, parsed = new_connector(resolved, around)
    check_number(of, parsed)
    refused = client_settings.refused_endpoints(around.config, props())
    if refused:
        raise errors.ConfigError(f"task {task}: {' '.join(refused.values())}")
    instance: object = plugin.task_class()()
    maker = _Maker(
        task, plugin=plugin, connector_given=(resolved, parsed), props=props, around=around
    )
    if isinstance(instance, tasks.SourceTask):
        return maker.source(instance)
    if isinstance(instance, tasks.SinkTask) and isinstance(parsed, connector_config.SinkConfig):
        return maker.sink(instance, parsed)
    if isinstance(instance, tasks.PipelineTask):
        return maker.pipeline(instance)
    raise errors.ConnectError(
        f"task_class of {parsed.connector_class} must return a class of tasks of its kind, not "
        f"{type(instance).__name__}"
    )


class _Maker:
    """Of one task's body."""

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        *,
        plugin: connector.Connector,
        connector_given: tuple[Resolved, connector_config.ConnectorConfig],
        props: TaskProps,
        around: Surroundings,
    ) -> None:
        self._task = task
        self._plugin = plugin
        self._config, self._parsed = connector_given
        self._props = props
        self._around = around
        self._stopping = threading.Event()
        self._given_up = threading.Event()

    def source(self, instance: tasks.SourceTask) -> Made:
        around = self._around
        plan = client_settings.source_producer(around.config, self._config, self._task)
        converters = self._converters()
        metrics = task_metrics.SourceTaskMetrics(self._about(instance, converters))
        body = source_task.SourceTaskBody(
            source_task.SourceParts(
                task=instance,
                props=self._props,
                context=contexts.SourceTaskContext(
                    self._task,
                    self._basics(),
                    resolve=self._props,
                    offset_reader=self._reader(),
                ),
                pipeline=_pipeline(converters, metrics),
                make_producer=lambda: around.clients.producer(plan),
                offsets=around.offsets,
                timing=self._timing(),
                on_topic=self._topics().used,
                metrics=metrics,
                stopping=self._stopping,
                given_up=self._given_up,
                clock=around.clock,
            )
        )
        return self._made(instance, body, metrics)

    def sink(self, instance: tasks.SinkTask, parsed: connector_config.SinkConfig) -> Made:
        around = self._around
        plan = client_settings.sink_consumer(around.config, self._config, self._task)
        converters = self._converters()
        metrics = task_metrics.SinkTaskMetrics(self._about(instance, converters))
        body = sink_task.SinkTaskBody(
            sink_task.SinkParts(
                task=instance,
                props=self._props,
                topics=parsed.topics if parsed.topics_regex is None else parsed.topics_regex,
                context=sink_context.SinkTaskContext(
                    self._task, self._basics(), resolve=self._props
                ),
                pipeline=_pipeline(converters, metrics),
                make_consumer=lambda: around.clients.consumer(plan),
                timing=self._timing(),
                on_topic=self._topics().used,
                metrics=metrics,
                stopping=self._stopping,
                given_up=self._given_up,
                clock=around.clock,
            )
        )
        return self._made(instance, body, metrics)

    def pipeline(self, instance: tasks.PipelineTask) -> Made:
        around = self._around
        metrics = task_metrics.SourceTaskMetrics(self._about(instance, None))

        def make_context(
            on_report: Callable[[context.PipelineProgress], None],
        ) -> contexts.PipelineTaskContext:
            return contexts.PipelineTaskContext(
                self._task,
                self._basics(),
                resolve=self._props,
                offset_reader=self._reader(),
                stop_timeout_s=around.config.graceful_stop_s,
                worker=around.config.raw,
                membership=around.membership,
                last_runs=lambda: replace(
                    around.statuses.last_runs(self._task.connector),
                    given=around.given(self._task.connector),
                    quiet=around.quiet(),
                ),
                on_report=on_report,
            )

        body = pipeline_task.PipelineTaskBody(
            pipeline_task.PipelineParts(
                task=instance,
                props=self._props,
                make_context=make_context,
                connector=self._task.connector,
                offsets=around.offsets,
                timing=self._timing(),
                metrics=metrics,
                stopping=self._stopping,
                given_up=self._given_up,
                clock=around.clock,
            )
        )
        return self._made(instance, body, metrics)

    def _basics(self) -> contexts.Basics:
        around = self._around
        return contexts.Basics(
            clock=around.clock,
            stopping=self._stopping,
            on_metrics=lambda read: around.metrics.add_of(self._task, read),
        )

    def _made(
        self, instance: tasks.Task, body: task_run.Body, metrics: task_metrics.TaskMetrics
    ) -> Made:
        origin = renewal.Origin(connector=self._config, task=self._props())
        return Made(instance, body, metrics, self._props, origin)

    def _converters(self) -> record_pipeline.Converters:
        return record_pipeline.converters(
            self._config,
            worker=self._around.config,
            installed=self._around.installed,
            default=plugin_facts.default_converter(self._plugin),
        )

    def _about(
        self, instance: tasks.Task, converters: record_pipeline.Converters | None
    ) -> task_metrics.About:
        """What the metrics say that it is made of; without converters of its own, none."""
        installed = self._around.installed
        made_of = {
            **plugin_facts.of_connector(self._plugin, installed),
            "task-class": plugin_facts.task_name(self._plugin, installed),
            "task-version": plugin_facts.version(instance) or "",
        }
        if converters is not None:
            parts = {"key": converters.key, "value": converters.value, "header": converters.header}
            for part, converter in parts.items():
                found = plugin_facts.name(type(converter), installed, *plugin_facts.CONVERTERS)
                made_of[f"{part}-converter-class"] = found
                made_of[f"{part}-converter-version"] = plugin_facts.version(converter) or ""
        return self._around.metrics.about(self._task, made_of)

    def _reader(self) -> offset_reader.StoredOffsets:
        return offset_reader.StoredOffsets(
            self._task.connector,
            offsets=self._around.offsets,
            given_up=self._given_up,
            clock=self._around.clock,
        )

    def _timing(self) -> offset_commits.Timing:
        config = self._around.config
        return offset_commits.Timing(
            interval_s=config.flush_interval_s, timeout_s=config.flush_timeout_s
        )

    def _topics(self) -> topics_in_use.TopicsInUse:
        around = self._around
        return topics_in_use.TopicsInUse(
            self._task,
            statuses=around.statuses,
            clock=around.clock,
            tracked=around.config.topic_tracking,
        )


def _pipeline(
    converters: record_pipeline.Converters, metrics: task_metrics.TaskMetrics
) -> record_pipeline.RecordPipeline:
    return record_pipeline.RecordPipeline(converters, operator=record_pipeline.Intolerant(metrics))
