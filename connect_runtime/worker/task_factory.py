"""Builds tasks, each with the `TypeSpecificTask` that runs it, from configurations and the worker's
dependencies.

`ResolvedTaskConfigs` contains the configurations from which a task was built. Java restarts all
tasks of a connector if the configuration of one task changes. Here, `decide_reconfiguration`
restarts only tasks whose plugin classes, task configuration or worker-built parts (converters,
transformations and clients, KAFKA-9228) change. A pipeline task may accept a new task configuration
without a restart.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect_runtime.api.connector import Connector, SinkConnector
from connect_runtime.api.errors import ConfigError, ConnectError
from connect_runtime.api.plugin_context import (
    LeaderlessPeriod,
    PipelineProgress,
    PublishedTaskConfig,
)
from connect_runtime.api.task import PipelineTask, SinkTask, SourceTask, Task
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.config import (
    connector_client_settings,
    connector_config,
    connector_config_keys,
)
from connect_runtime.config.connector_config import ConnectorConfig, SinkConnectorConfig
from connect_runtime.config.worker_config import WorkerConfig
from connect_runtime.herder.worker_interface import (
    GroupMembership,
    StatusWriterInterface,
    TooManyTasksError,
)
from connect_runtime.plugins.plugin_aliases import Kind, PluginRegistry
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig
from connect_runtime.storage.offset_store import OffsetBackingStore, StoredOffsetReader
from connect_runtime.worker import plugin_instantiation, plugin_recommenders, record_conversion
from connect_runtime.worker.active_topics import ActiveTopics
from connect_runtime.worker.offset_commits import OffsetCommitTiming
from connect_runtime.worker.pipeline_task import WorkerPipelineTask, WorkerPipelineTaskDeps
from connect_runtime.worker.plugin_contexts import (
    ContextDeps,
    WorkerPipelineTaskContext,
    WorkerSinkTaskContext,
    WorkerSourceTaskContext,
)
from connect_runtime.worker.record_conversion import (
    FailFastOperator,
    RecordConversion,
    TaskConverters,
)
from connect_runtime.worker.sink_task import WorkerSinkTask, WorkerSinkTaskDeps
from connect_runtime.worker.source_task import WorkerSourceTask, WorkerSourceTaskDeps
from connect_runtime.worker.task_client_interfaces import TaskClientFactory
from connect_runtime.worker.task_metrics import (
    SinkTaskMetrics,
    SourceTaskMetrics,
    TaskMetrics,
    TaskMetricsInfo,
)
from connect_runtime.worker.worker_metrics import WorkerMetrics
from connect_runtime.worker.worker_task import TypeSpecificTask

_CLASS_KEYS = ("connector.class", "connector.plugin.version", "task.class")
_TASK_COUNT_KEYS = ("tasks.max", "tasks.max.enforce")
"""Keys that determine only the number of tasks. A change of these keys does not restart tasks."""


class ReconfigureDecision(enum.Enum):
    """How to apply a new configuration to a running task. With OFFER, the task decides whether to
    accept the configuration."""

    SAME = "same"
    OFFER = "offer"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTaskConfigs:
    """Resolved connector and task configurations from which a task was built."""

    connector: Mapping[str, str] = field(repr=False)
    task: Mapping[str, str] = field(repr=False)

    def get_plugin_classes(self) -> list[str | None]:
        """Return the class names and versions of the task's plugins."""
        return [each.get(name) for each in (self.connector, self.task) for name in _CLASS_KEYS]

    def get_worker_settings(self) -> dict[str, str]:
        """Return the settings that the worker uses to build the task's converters and clients."""
        return {name: each for name, each in self.connector.items() if name not in _TASK_COUNT_KEYS}


def decide_reconfiguration(
    before: ResolvedTaskConfigs, now: ResolvedTaskConfigs, *, is_pipeline: bool
) -> ReconfigureDecision:
    """Decide how to apply a new configuration (`now`) to a task that was built from `before`.

    `is_pipeline` is true for a pipeline task, for which the worker builds no converters or clients.
    """
    if before.get_plugin_classes() != now.get_plugin_classes():
        return ReconfigureDecision.RESTART
    if not is_pipeline and before.get_worker_settings() != now.get_worker_settings():
        return ReconfigureDecision.RESTART
    if before.task == now.task:
        return ReconfigureDecision.SAME
    return ReconfigureDecision.OFFER if is_pipeline else ReconfigureDecision.RESTART


_LOG = logging.getLogger(__name__)

ResolvedConfig = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeps:
    """Dependencies of a `Worker`, its connectors and its tasks."""

    config: WorkerConfig
    worker_id: str
    generation: Callable[[], int]
    """Returns the current generation of the worker's Connect group."""
    configs: Callable[[], ClusterConfigState]
    """Returns the latest state of the config topic."""
    installed: PluginRegistry
    clients: TaskClientFactory
    statuses: StatusWriterInterface
    offsets: OffsetBackingStore
    resolve: Callable[[RawConfig], Mapping[str, str | None]]
    """Resolves the `${…}` references of a configuration. Raises `ConnectError` if this fails."""
    membership: GroupMembership
    metrics: WorkerMetrics
    clock: Clock
    published_task_configs: Callable[[str], Mapping[int, Sequence[PublishedTaskConfig]]] = (
        lambda _: {}
    )
    """Returns the known configurations of each task of a connector in the config topic, oldest
    first. Used for `LastTaskRuns.configs`."""
    leaderless_period: Callable[[], LeaderlessPeriod | None] = lambda: None
    """Returns the period without a leader before this worker started; None if no such period is
    known. Used for `LastTaskRuns.leaderless_period`."""

    def resolve_plugin_config(self, config: RawConfig) -> ResolvedConfig:
        """Resolve the `${…}` references of a plugin's configuration, and remove keys without a
        value."""
        return {name: value for name, value in self.resolve(config).items() if value is not None}

    def load_converter_class(self, name: str) -> type:
        """Load the converter class named in a connector's configuration (`ClassLoader`)."""
        kinds = (Kind.CONVERTER, Kind.HEADER_CONVERTER)
        try:
            return self.installed.find_plugin_class(name, *kinds)
        except ConfigError as error:
            raise LookupError(str(error)) from error


def instantiate_connector(config: ResolvedConfig, deps: WorkerDeps) -> Connector:
    """Create an instance of the class that `connector.class` names. Raises the same errors as
    `create_connector`."""
    kinds = (Kind.SOURCE, Kind.SINK)
    name = config.get("connector.class", "")
    made: Connector = deps.installed.find_plugin_class(name, *kinds)()
    plugin_instantiation.check_plugin_version(
        made, name, config.get(plugin_recommenders.CONNECTOR_VERSION)
    )
    return made


def create_connector(config: ResolvedConfig, deps: WorkerDeps) -> tuple[Connector, ConnectorConfig]:
    """Create a connector without starting it. Return it with its parsed configuration.

    Raises `ConfigError`, and any exception that the connector's constructor raises.
    """
    made = instantiate_connector(config, deps)
    parse = (
        connector_config.parse_sink_config
        if isinstance(made, SinkConnector)
        else connector_config.parse_source_config
    )
    parsed = parse(config, load=deps.load_converter_class)
    refused = [
        text
        for key, text in parsed.unsupported_settings.items()
        if key not in made.self_applied_keys
    ]
    refused += connector_client_settings.find_refused_token_endpoints(deps.config, config).values()
    if refused:
        raise ConfigError(f"connector {parsed.name}: {' '.join(dict.fromkeys(refused))}")
    return made, parsed


def check_task_count(task_count: int, parsed: ConnectorConfig) -> None:
    """Raise `TooManyTasksError` if a connector has more tasks than `tasks.max`, unless this limit
    is not enforced, or more than `TASKS_MAX_LIMIT`."""
    if task_count > connector_config_keys.TASKS_MAX_LIMIT:
        raise TooManyTasksError(
            f"The connector {parsed.name} has generated {task_count} tasks; a connector may have "
            f"at most {connector_config_keys.TASKS_MAX_LIMIT} tasks, whatever its configuration."
        )
    if task_count <= parsed.tasks_max:
        return
    message = (
        f"The connector {parsed.name} has generated {task_count} tasks, which is greater than "
        f"{parsed.tasks_max}, the maximum number of tasks it is configured to create."
    )
    if parsed.enforce_tasks_max:
        raise TooManyTasksError(f"{message} Raise tasks.max, or set tasks.max.enforce to false.")
    _LOG.warning("%s All are started, because tasks.max.enforce is false.", message)


class TaskProps:
    """Callable that returns a task's configuration, with `${…}` references resolved at the time of
    the call."""

    def __init__(self, raw: RawConfig, around: WorkerDeps) -> None:
        self.raw = raw
        self._around = around

    def __call__(self) -> ResolvedConfig:
        return self._around.resolve_plugin_config(self.raw)


@dataclass(slots=True)
class BuiltTask:
    """A task with its `TypeSpecificTask` and metrics. `props` and `origin` change when the task is
    reconfigured."""

    task: Task
    body: TypeSpecificTask
    metrics: TaskMetrics
    props: TaskProps
    origin: ResolvedTaskConfigs


def build_task(
    task: ConnectorTaskId,
    *,
    connector_raw: RawConfig,
    task_raw: RawConfig,
    task_count: int,
    deps: WorkerDeps,
) -> BuiltTask:
    """Build one of the connector's `task_count` tasks. Raises `ConnectError`, and any exception
    that a plugin raises."""
    resolved, props = deps.resolve_plugin_config(connector_raw), TaskProps(task_raw, deps)
    plugin, parsed = create_connector(resolved, deps)
    check_task_count(task_count, parsed)
    refused = connector_client_settings.find_refused_token_endpoints(deps.config, props())
    if refused:
        raise ConfigError(f"task {task}: {' '.join(refused.values())}")
    instance: object = plugin.task_class()()
    builder = _TaskBuilder(
        task, plugin=plugin, connector_given=(resolved, parsed), props=props, around=deps
    )
    if isinstance(instance, SourceTask):
        return builder.build_source_task(instance)
    if isinstance(instance, SinkTask) and isinstance(parsed, SinkConnectorConfig):
        return builder.build_sink_task(instance, parsed)
    if isinstance(instance, PipelineTask):
        return builder.build_pipeline_task(instance)
    raise ConnectError(
        f"task_class of {parsed.connector_class} must return a subclass of SourceTask, "
        f"PipelineTask or (for a sink connector) SinkTask, not {type(instance).__name__}"
    )


class _TaskBuilder:
    """Builds one task with its `TypeSpecificTask` and metrics."""

    def __init__(
        self,
        task: ConnectorTaskId,
        *,
        plugin: Connector,
        connector_given: tuple[ResolvedConfig, ConnectorConfig],
        props: TaskProps,
        around: WorkerDeps,
    ) -> None:
        self._task = task
        self._plugin = plugin
        self._config, self._parsed = connector_given
        self._props = props
        self._around = around
        self._stopping = threading.Event()
        self._given_up = threading.Event()

    def build_source_task(self, instance: SourceTask) -> BuiltTask:
        around = self._around
        plan = connector_client_settings.build_source_producer_config(
            around.config, self._config, self._task
        )
        converters = self._load_converters()
        metrics = SourceTaskMetrics(self._build_task_metrics_info(instance, converters))
        body = WorkerSourceTask(
            WorkerSourceTaskDeps(
                task=instance,
                props=self._props,
                context=WorkerSourceTaskContext(
                    self._task,
                    self._build_context_deps(),
                    resolve=self._props,
                    offset_reader=self._build_offset_reader(),
                ),
                pipeline=_build_record_conversion(converters, metrics),
                make_producer=lambda: around.clients.create_producer(plan),
                offsets=around.offsets,
                timing=self._build_offset_commit_timing(),
                on_topic=self._build_active_topics().record_topic_use,
                metrics=metrics,
                stopping=self._stopping,
                given_up=self._given_up,
                clock=around.clock,
            )
        )
        return self._assemble_task(instance, body, metrics)

    def build_sink_task(self, instance: SinkTask, parsed: SinkConnectorConfig) -> BuiltTask:
        around = self._around
        plan = connector_client_settings.build_sink_consumer_config(
            around.config, self._config, self._task
        )
        converters = self._load_converters()
        metrics = SinkTaskMetrics(self._build_task_metrics_info(instance, converters))
        body = WorkerSinkTask(
            WorkerSinkTaskDeps(
                task=instance,
                props=self._props,
                topics=parsed.topics if parsed.topics_regex is None else parsed.topics_regex,
                context=WorkerSinkTaskContext(
                    self._task, self._build_context_deps(), resolve=self._props
                ),
                pipeline=_build_record_conversion(converters, metrics),
                make_consumer=lambda: around.clients.create_consumer(plan),
                timing=self._build_offset_commit_timing(),
                on_topic=self._build_active_topics().record_topic_use,
                metrics=metrics,
                stopping=self._stopping,
                given_up=self._given_up,
                clock=around.clock,
            )
        )
        return self._assemble_task(instance, body, metrics)

    def build_pipeline_task(self, instance: PipelineTask) -> BuiltTask:
        around = self._around
        metrics = SourceTaskMetrics(self._build_task_metrics_info(instance, None))

        def make_context(
            on_report: Callable[[PipelineProgress], None],
        ) -> WorkerPipelineTaskContext:
            return WorkerPipelineTaskContext(
                self._task,
                self._build_context_deps(),
                resolve=self._props,
                offset_reader=self._build_offset_reader(),
                stop_timeout_s=around.config.graceful_stop_s,
                worker=around.config.raw,
                membership=around.membership,
                last_runs=lambda: replace(
                    around.statuses.get_last_task_runs(self._task.connector),
                    configs=around.published_task_configs(self._task.connector),
                    leaderless_period=around.leaderless_period(),
                ),
                on_report=on_report,
            )

        body = WorkerPipelineTask(
            WorkerPipelineTaskDeps(
                task=instance,
                props=self._props,
                make_context=make_context,
                connector=self._task.connector,
                offsets=around.offsets,
                timing=self._build_offset_commit_timing(),
                metrics=metrics,
                stopping=self._stopping,
                given_up=self._given_up,
                clock=around.clock,
            )
        )
        return self._assemble_task(instance, body, metrics)

    def _build_context_deps(self) -> ContextDeps:
        around = self._around
        return ContextDeps(
            clock=around.clock,
            stopping=self._stopping,
            on_metrics=lambda read: around.metrics.add_plugin_metrics(self._task, read),
        )

    def _assemble_task(
        self, instance: Task, body: TypeSpecificTask, metrics: TaskMetrics
    ) -> BuiltTask:
        origin = ResolvedTaskConfigs(connector=self._config, task=self._props())
        return BuiltTask(instance, body, metrics, self._props, origin)

    def _load_converters(self) -> TaskConverters:
        return record_conversion.load_converters(
            self._config,
            worker=self._around.config,
            installed=self._around.installed,
            default=plugin_instantiation.get_default_converter(self._plugin),
        )

    def _build_task_metrics_info(
        self, instance: Task, converters: TaskConverters | None
    ) -> TaskMetricsInfo:
        """Collect the labels that identify the task in its metrics. Pipeline tasks have no
        converters (None)."""
        installed = self._around.installed
        made_of = {
            **plugin_instantiation.collect_connector_attributes(self._plugin, installed),
            "task-class": plugin_instantiation.get_task_class_name(self._plugin, installed),
            "task-version": plugin_instantiation.get_plugin_version(instance) or "",
        }
        if converters is not None:
            parts = {"key": converters.key, "value": converters.value, "header": converters.header}
            for part, converter in parts.items():
                found = plugin_instantiation.get_plugin_name(
                    type(converter), installed, *plugin_instantiation.CONVERTER_KINDS
                )
                made_of[f"{part}-converter-class"] = found
                made_of[f"{part}-converter-version"] = (
                    plugin_instantiation.get_plugin_version(converter) or ""
                )
        return self._around.metrics.build_task_metrics_info(self._task, made_of)

    def _build_offset_reader(self) -> StoredOffsetReader:
        return StoredOffsetReader(
            self._task.connector,
            offsets=self._around.offsets,
            abandoned=self._given_up,
            clock=self._around.clock,
        )

    def _build_offset_commit_timing(self) -> OffsetCommitTiming:
        config = self._around.config
        return OffsetCommitTiming(
            interval_s=config.flush_interval_s, timeout_s=config.flush_timeout_s
        )

    def _build_active_topics(self) -> ActiveTopics:
        around = self._around
        return ActiveTopics(
            self._task,
            statuses=around.statuses,
            clock=around.clock,
            tracked=around.config.topic_tracking,
        )


def _build_record_conversion(converters: TaskConverters, metrics: TaskMetrics) -> RecordConversion:
    return RecordConversion(converters, operator=FailFastOperator(metrics))
