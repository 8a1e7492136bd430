"""Executes the herder's blocking actions on its thread, each with its own deadline.

Connectors generate task configs on separate threads, because connector code may raise any exception
or never return. A call that hangs blocks the herder only once.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, field

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.herder import session_keys
from connect_runtime.herder.herder_actions import (
    BlockingAction,
    ConfigWrite,
    FenceConfigWriters,
    FlushStatuses,
    GenerateTaskConfigs,
    ReadConfigTopic,
    ReconfigureRunningTasks,
    RemoveConnectorConfig,
    StartConnectorsAndTasks,
    StopConnectorsAndTasks,
    WriteConfigTopic,
    WriteConnectorConfig,
    WriteRestartRequest,
    WriteSessionKey,
    WriteTargetState,
    WriteTaskConfigs,
    WriteTaskCount,
)
from connect_runtime.herder.herder_events import (
    ActionFailed,
    ActionOutcome,
    ActionSucceeded,
    ActionTimedOut,
    ConnectorNotRunning,
    ConnectorsAndTasksStarted,
    RunningTasksReconfigured,
    TaskConfigsGenerated,
)
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.herder.worker_interface import (
    ConfiguredTask,
    TooManyTasksError,
    WorkerInterface,
)
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    RawConfig,
    SessionKey,
    TargetState,
)
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.internal_topic_log import WritePrivilegeLost
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.supervised_threads import ThreadPool

_LOG = logging.getLogger(__name__)

GENERATE_TIMEOUT_S = 30.0
"""Time limit for a connector to return its task configs. After a timeout, the request is retried
later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AppliedConfig:
    """Connector configuration from which the current tasks were generated, with `${…}` references
    unresolved (`raw`) and resolved."""

    generation: int | None
    raw: RawConfig = field(repr=False)
    resolved: object = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GeneratedTaskConfigs:
    configs: Sequence[RawConfig] = field(repr=False)
    applied: _AppliedConfig | None
    """Connector configuration from which the current tasks were generated; None if unknown. The
    generator caches this value."""
    is_applied: bool
    """True if the tasks are already running with the connector's current configuration."""


@dataclass(slots=True, kw_only=True)
class _TaskConfigsCall:
    """A call to a connector's `task_configs` that exceeded its time limit."""

    answer: futures.Future[_GeneratedTaskConfigs | None]
    outdated: bool = False
    """True if the connector requested another reconfiguration after the call began."""


class TaskConfigGenerator:
    """Lets connectors generate their task configs. Used by the herder's thread only.

    Invariant: at most one call per started connector is in progress.
    """

    def __init__(
        self,
        worker: WorkerInterface,
        *,
        calls: ThreadPool,
        resolve: Callable[[RawConfig], object],
    ) -> None:
        """Create the generator. `resolve` replaces `${…}` references in a configuration."""
        self._worker = worker
        self._calls = calls
        self._resolve = resolve
        self._pending: dict[str, _TaskConfigsCall] = {}
        self._applied: dict[str, _AppliedConfig] = {}

    def forget_pending_call(self, name: str) -> None:
        """Forget a connector's unfinished `task_configs` call, because the connector is being
        started again."""
        self._pending.pop(name, None)

    def mark_pending_call_outdated(self, name: str) -> None:
        """Mark a connector's unfinished `task_configs` call as outdated, because the connector
        requested another reconfiguration."""
        if name in self._pending:
            self._pending[name].outdated = True

    def generate_task_configs(self, name: str, view: ClusterConfigState) -> ActionOutcome:
        """Let a connector generate its task configs, and return the outcome.

        Raises `RetriableError` if the thread pool is full.
        """
        self._forget_removed_connectors(view)
        config = view.config(name)
        if config is None:
            return ConnectorNotRunning()
        call, timeout_s = self._pending.pop(name, None), 0.0
        if call is None or (call.outdated and call.answer.done()):
            answer = self._calls.submit(self._prepare_task_configs_call(name, config, view))
            call, timeout_s = _TaskConfigsCall(answer=answer), GENERATE_TIMEOUT_S
        if futures.wait([call.answer], timeout=timeout_s).done:
            return self._build_task_configs_outcome(name, call.answer)
        self._pending[name] = call
        return ActionFailed(
            reason=f"connector {name} did not return task configs within {GENERATE_TIMEOUT_S:g} s"
        )

    def _prepare_task_configs_call(
        self, name: str, config: RawConfig, view: ClusterConfigState
    ) -> Callable[[], _GeneratedTaskConfigs | None]:
        known, raw, generation = (
            self._applied.get(name),
            view.applied_config(name),
            view.task_config_generation(name),
        )

        def call_connector_task_configs() -> _GeneratedTaskConfigs | None:
            configs = self._worker.connector_task_configs(name, config)
            if configs is None:
                return None
            if raw is None:
                return _GeneratedTaskConfigs(configs=configs, applied=None, is_applied=False)
            if known is not None and known.generation == generation and known.raw == raw:
                applied: _AppliedConfig | None = known
            else:
                applied = self._resolve_applied_config(raw, generation)
            now = self._resolve(config)
            is_applied = applied is not None and applied.resolved == now
            return _GeneratedTaskConfigs(configs=configs, applied=applied, is_applied=is_applied)

        return call_connector_task_configs

    def _resolve_applied_config(
        self, raw: RawConfig, generation: int | None
    ) -> _AppliedConfig | None:
        """Resolve the configuration that the current tasks were generated from. Return None if a
        reference can no longer be resolved."""
        try:
            return _AppliedConfig(generation=generation, raw=raw, resolved=self._resolve(raw))
        except ConnectError as error:
            _LOG.info("the applied connector configuration cannot be resolved: %s", error)
            return None

    def _build_task_configs_outcome(
        self, name: str, future: futures.Future[_GeneratedTaskConfigs | None]
    ) -> ActionOutcome:
        error = future.exception()
        if error is not None:
            return _build_task_configs_failure(name, error)
        answer = future.result()
        if answer is None:
            return ConnectorNotRunning()
        if answer.applied is not None:
            self._applied[name] = answer.applied
        return TaskConfigsGenerated(configs=answer.configs, config_applied=answer.is_applied)

    def _forget_removed_connectors(self, view: ClusterConfigState) -> None:
        """Drop resolved configurations of removed connectors, because they contain secrets."""
        for name in [name for name in self._applied if not view.has_connector(name)]:
            del self._applied[name]


def _build_task_configs_failure(name: str, error: BaseException) -> ActionFailed:
    """Convert the error of a failed `task_configs` call to an outcome. The error of a connector
    must not stop the herder."""
    if isinstance(error, ConnectError):
        lasting = isinstance(error, TooManyTasksError)
        if lasting:
            _LOG.error("%s", error)
        return ActionFailed(reason=str(error), is_permanent=lasting)
    _LOG.error("connector %s failed to generate task configs", name, exc_info=error)
    return ActionFailed(reason=f"connector {name} failed to generate task configs: {error!r}")


STATUS_FLUSH_TIMEOUT_S = 10.0
"""Time limit of a status flush, long enough for the election of a new partition leader.

Writes that remain unacknowledged are retried.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingActionDeps:
    """Dependencies of `BlockingActionRunner`."""

    configs: ConfigBackingStore
    statuses: StatusBackingStore
    worker: WorkerInterface
    thread_pool: ThreadPool
    session_key_settings: SessionKeySettings
    resolve: Callable[[RawConfig], object]
    """Replaces `${…}` references in a configuration."""


class BlockingActionRunner:
    """Executes blocking actions. Used by the herder's thread only."""

    def __init__(self, deps: BlockingActionDeps) -> None:
        self._deps = deps
        self._connectors = TaskConfigGenerator(
            deps.worker, calls=deps.thread_pool, resolve=deps.resolve
        )

    def execute_action(self, action: BlockingAction) -> ActionOutcome:
        """Execute an action and return its outcome. Raises only on a programming error."""
        deps = self._deps
        try:
            match action:
                case ReadConfigTopic(timeout_s):
                    return self._read_config_topic(timeout_s)
                case FenceConfigWriters():
                    deps.configs.claim_write_privileges()
                case WriteConfigTopic(write):
                    self._write_config(write)
                case FlushStatuses():
                    return self._flush_statuses()
                case _:
                    return self._execute_worker_action(action)
        except WritePrivilegeLost as error:
            return ActionFailed(reason=str(error), is_fenced=True)
        except ConnectError as error:
            return ActionFailed(reason=str(error))
        return ActionSucceeded()

    def _execute_worker_action(
        self,
        action: StopConnectorsAndTasks
        | StartConnectorsAndTasks
        | ReconfigureRunningTasks
        | GenerateTaskConfigs,
    ) -> ActionOutcome:
        deps = self._deps
        match action:
            case StopConnectorsAndTasks(what):
                deps.worker.stop_connectors_and_tasks(what)
                return ActionSucceeded()
            case StartConnectorsAndTasks(what):
                return self._start_connectors_and_tasks(what)
            case ReconfigureRunningTasks(tasks):
                return self._reconfigure_running_tasks(tasks)
            case GenerateTaskConfigs(name):
                return self._connectors.generate_task_configs(name, deps.configs.snapshot())

    def record_reconfiguration_request(self, connector: str) -> None:
        """Record that a connector requested a reconfiguration of its tasks."""
        self._connectors.mark_pending_call_outdated(connector)

    def stop_all_work(self) -> None:
        """Stop all connectors and tasks, because the herder is shutting down."""
        self._deps.worker.close()

    def _read_config_topic(self, timeout_s: float) -> ActionOutcome:
        try:
            self._deps.configs.refresh(timeout_s)
        except ConnectError as error:
            _LOG.warning("%s", error)
            return ActionTimedOut()
        return ActionSucceeded()

    def _flush_statuses(self) -> ActionOutcome:
        """Wait until all written statuses are acknowledged. Log a failure, because the herder does
        not retry the flush."""
        try:
            self._deps.statuses.wait_for_writes(STATUS_FLUSH_TIMEOUT_S)
        except ConnectError as error:
            _LOG.warning("no longer waiting for unacknowledged statuses: %s", error)
            return ActionFailed(reason=str(error))
        return ActionSucceeded()

    def _write_config(self, write: ConfigWrite) -> None:
        configs = self._deps.configs
        match write:
            case WriteConnectorConfig(connector=name, config=config, target_state=state):
                configs.put_connector(name, config, target_state=state)
            case RemoveConnectorConfig(name):
                configs.remove_connector(name)
            case WriteTaskConfigs(connector=name, configs=task_configs):
                configs.put_task_configs(name, task_configs)
            case WriteTargetState(connector=name, state=state):
                configs.put_target_state(name, state)
            case WriteRestartRequest(request):
                configs.put_restart_request(request)
            case WriteSessionKey(created_ms=created_ms):
                configs.put_session_key(self._generate_session_key(created_ms))
            case WriteTaskCount(connector=name, tasks=tasks):
                configs.put_fencing_count(name, tasks)

    def _generate_session_key(self, created_ms: int) -> SessionKey:
        settings = self._deps.session_key_settings
        entropy = secrets.token_bytes(settings.key_bytes)
        return session_keys.build_session_key(settings, entropy=entropy, wall_ms=created_ms)

    def _start_connectors_and_tasks(self, what: ConnectorsAndTasks) -> ActionOutcome:
        view = self._deps.configs.snapshot()
        failed: list[tuple[WorkItem, str]] = []
        for item in what.items:
            name = item if isinstance(item, str) else item.connector
            if not self._deps.configs.is_connector_allowed(name):
                continue  # assigned by a leader that allows it, such as a Java worker
            try:
                self._start_connector_or_task(item, view)
            except ConnectError as error:
                _LOG.error("failed to start %s: %s", item, error)
                failed.append((item, str(error)))
        return ConnectorsAndTasksStarted(tuple(failed))

    def _reconfigure_running_tasks(self, tasks: Sequence[ConnectorTaskId]) -> ActionOutcome:
        view = self._deps.configs.snapshot()
        configured: dict[ConnectorTaskId, ConfiguredTask] = {}
        for task in tasks:
            config, of_task = view.config(task.connector), view.task_config(task)
            if view.has_connector_or_task(task) and config is not None and of_task is not None:
                configured[task] = ConfiguredTask(connector=config, config=of_task)
        to_restart = self._deps.worker.try_reconfigure_tasks(configured)
        return RunningTasksReconfigured(to_restart | (set(tasks) - configured.keys()))

    def _start_connector_or_task(self, item: WorkItem, view: ClusterConfigState) -> None:
        name = item if isinstance(item, str) else item.connector
        config, state = view.config(name), view.target_state(name)
        if config is None:
            raise FatalError(f"connector {name} no longer exists")
        state = state or TargetState.STARTED
        if isinstance(item, str):
            self._connectors.forget_pending_call(name)
            self._deps.worker.start_connector(name, config, state)
            return
        task_config = view.task_config(item)
        if task_config is None:
            raise FatalError(f"task {item} no longer exists")
        self._deps.worker.start_task(
            item,
            connector=config,
            config=task_config,
            state=state,
            tasks=view.task_count(name),
        )
