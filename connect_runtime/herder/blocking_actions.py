"""Executes the herder's blocking actions on its thread, each within its own deadline.

Connectors generate task configs on separate threads, because their code may raise anything or
never return. A call that hangs blocks the herder once, not again.
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
    OfferTaskConfigs,
    ReadConfigTopic,
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
    ActionDone,
    ActionFailed,
    ActionOutcome,
    ActionTimedOut,
    ConnectorNotRunning,
    TaskConfigsGenerated,
    TaskConfigsOffered,
    WorkStarted,
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
from connect_runtime.storage.shared_log import WritePrivilegeLost
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.threads import ThreadPool

_LOG = logging.getLogger(__name__)

GENERATE_TIMEOUT_S = 30.0
"""A connector that takes longer to say what its tasks are is asked again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AppliedConfig:
    """What the tasks of this generation were made from, and what it stood for when first seen."""

    generation: int | None
    raw: RawConfig = field(repr=False)
    resolved: object = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GeneratedConfigs:
    configs: Sequence[RawConfig] = field(repr=False)
    applied: _AppliedConfig | None
    is_applied: bool


@dataclass(slots=True, kw_only=True)
class _PendingCall:
    """One that has not returned in time; `outdated`: the connector has wished for more since."""

    answer: futures.Future[_GeneratedConfigs | None]
    outdated: bool = False


class TaskConfigGenerator:
    """For the herder's thread alone. `resolve` fills in `${…}`.

    Invariant: at most one call of a connector is under way, for each time that it was started.
    """

    def __init__(
        self,
        worker: WorkerInterface,
        *,
        calls: ThreadPool,
        resolve: Callable[[RawConfig], object],
    ) -> None:
        self._worker = worker
        self._calls = calls
        self._resolve = resolve
        self._late: dict[str, _PendingCall] = {}
        self._applied: dict[str, _AppliedConfig] = {}

    def started(self, name: str) -> None:
        """What it said before it was started (again) is of no interest."""
        self._late.pop(name, None)

    def wished(self, name: str) -> None:
        """What it is saying now may be of before this wish."""
        if name in self._late:
            self._late[name].outdated = True

    def generate(self, name: str, view: ClusterConfigState) -> ActionOutcome:
        """The answer to `GenerateTaskConfigs`. Raises `RetriableError` when too many calls wait."""
        self._forget_removed(view)
        config = view.config(name)
        if config is None:
            return ConnectorNotRunning()
        call, timeout_s = self._late.pop(name, None), 0.0
        if call is None or (call.outdated and call.answer.done()):
            answer = self._calls.submit(self._question(name, config, view))
            call, timeout_s = _PendingCall(answer=answer), GENERATE_TIMEOUT_S
        if futures.wait([call.answer], timeout=timeout_s).done:
            return self._outcome(name, call.answer)
        self._late[name] = call
        return ActionFailed(
            reason=f"connector {name} has not said what its tasks are for {GENERATE_TIMEOUT_S:g} s"
        )

    def _question(
        self, name: str, config: RawConfig, view: ClusterConfigState
    ) -> Callable[[], _GeneratedConfigs | None]:
        known, raw, generation = (
            self._applied.get(name),
            view.applied_config(name),
            view.generation(name),
        )

        def ask() -> _GeneratedConfigs | None:
            configs = self._worker.task_configs(name, config)
            if configs is None:
                return None
            if raw is None:
                return _GeneratedConfigs(configs=configs, applied=None, is_applied=False)
            if known is not None and known.generation == generation and known.raw == raw:
                applied: _AppliedConfig | None = known
            else:
                applied = self._filled_in(raw, generation)
            now = self._resolve(config)
            is_applied = applied is not None and applied.resolved == now
            return _GeneratedConfigs(configs=configs, applied=applied, is_applied=is_applied)

        return ask

    def _filled_in(self, raw: RawConfig, generation: int | None) -> _AppliedConfig | None:
        """None where it refers to what is not there any more: another one takes its place."""
        try:
            return _AppliedConfig(generation=generation, raw=raw, resolved=self._resolve(raw))
        except ConnectError as error:
            _LOG.info("what tasks were made from cannot be told any more: %s", error)
            return None

    def _outcome(self, name: str, said: futures.Future[_GeneratedConfigs | None]) -> ActionOutcome:
        error = said.exception()
        if error is not None:
            return _build_generation_failure(name, error)
        answer = said.result()
        if answer is None:
            return ConnectorNotRunning()
        if answer.applied is not None:
            self._applied[name] = answer.applied
        return TaskConfigsGenerated(configs=answer.configs, config_applied=answer.is_applied)

    def _forget_removed(self, view: ClusterConfigState) -> None:
        """What configurations stand for is secret."""
        for name in [name for name in self._applied if not view.contains(name)]:
            del self._applied[name]


def _build_generation_failure(name: str, error: BaseException) -> ActionFailed:
    """Whatever it is, it is not the herder that is at fault."""
    if isinstance(error, ConnectError):
        lasting = isinstance(error, TooManyTasksError)
        if lasting:
            _LOG.error("%s", error)
        return ActionFailed(reason=str(error), lasting=lasting)
    _LOG.error("connector %s threw when asked what its tasks are", name, exc_info=error)
    return ActionFailed(reason=f"connector {name} threw when asked what its tasks are: {error!r}")


STATUS_FLUSH_TIMEOUT_S = 10.0
"""Enough for a broker that was elected anew; what is not acknowledged then is still tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingActionDeps:
    """What questions are answered with. `resolve` is `task_bodies.Surroundings.resolved`."""

    configs: ConfigBackingStore
    statuses: StatusBackingStore
    worker: WorkerInterface
    calls: ThreadPool
    keys: SessionKeySettings
    resolve: Callable[[RawConfig], object]


class BlockingActionRunner:
    """For the herder's thread alone."""

    def __init__(self, hands: BlockingActionDeps) -> None:
        self._hands = hands
        self._connectors = TaskConfigGenerator(
            hands.worker, calls=hands.calls, resolve=hands.resolve
        )

    def answer(self, question: BlockingAction) -> ActionOutcome:
        """What came of it; raises nothing that is not a mistake of ours."""
        hands = self._hands
        try:
            match question:
                case ReadConfigTopic(timeout_s):
                    return self._read(timeout_s)
                case FenceConfigWriters():
                    hands.configs.claim_writes()
                case WriteConfigTopic(write):
                    self._write(write)
                case FlushStatuses():
                    return self._flush()
                case _:
                    return self._answer_for_worker(question)
        except WritePrivilegeLost as error:
            return ActionFailed(reason=str(error), fenced=True)
        except ConnectError as error:
            return ActionFailed(reason=str(error))
        return ActionDone()

    def _answer_for_worker(
        self,
        question: StopConnectorsAndTasks
        | StartConnectorsAndTasks
        | OfferTaskConfigs
        | GenerateTaskConfigs,
    ) -> ActionOutcome:
        hands = self._hands
        match question:
            case StopConnectorsAndTasks(what):
                hands.worker.stop(what)
                return ActionDone()
            case StartConnectorsAndTasks(what):
                return self._start(what)
            case OfferTaskConfigs(tasks):
                return self._renew(tasks)
            case GenerateTaskConfigs(name):
                return self._connectors.generate(name, hands.configs.snapshot())

    def wished(self, connector: str) -> None:
        """It says that its task configs would be others now."""
        self._connectors.wished(connector)

    def stop_all(self) -> None:
        """The end: stop whatever runs still."""
        self._hands.worker.close()

    def _read(self, timeout_s: float) -> ActionOutcome:
        try:
            self._hands.configs.refresh(timeout_s)
        except ConnectError as error:
            _LOG.warning("%s", error)
            return ActionTimedOut()
        return ActionDone()

    def _flush(self) -> ActionOutcome:
        """Nobody waits longer for it: so it is told here."""
        try:
            self._hands.statuses.flush(STATUS_FLUSH_TIMEOUT_S)
        except ConnectError as error:
            _LOG.warning("going on before others can know what has stopped: %s", error)
            return ActionFailed(reason=str(error))
        return ActionDone()

    def _write(self, write: ConfigWrite) -> None:
        configs = self._hands.configs
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
                configs.put_restart(request)
            case WriteSessionKey(created_ms=created_ms):
                configs.put_session_key(self._new_key(created_ms))
            case WriteTaskCount(connector=name, tasks=tasks):
                configs.put_fencing_count(name, tasks)

    def _new_key(self, created_ms: int) -> SessionKey:
        settings = self._hands.keys
        entropy = secrets.token_bytes(settings.key_bytes)
        return session_keys.generate_key(settings, entropy=entropy, wall_ms=created_ms)

    def _start(self, what: ConnectorsAndTasks) -> ActionOutcome:
        view = self._hands.configs.snapshot()
        failed: list[tuple[WorkItem, str]] = []
        for item in what.items:
            try:
                self._begin(item, view)
            except ConnectError as error:
                _LOG.error("%s was not started: %s", item, error)
                failed.append((item, str(error)))
        return WorkStarted(tuple(failed))

    def _renew(self, tasks: Sequence[ConnectorTaskId]) -> ActionOutcome:
        view = self._hands.configs.snapshot()
        configured: dict[ConnectorTaskId, ConfiguredTask] = {}
        for task in tasks:
            config, of_task = view.config(task.connector), view.task_config(task)
            if view.has(task) and config is not None and of_task is not None:
                configured[task] = ConfiguredTask(connector=config, config=of_task)
        left = self._hands.worker.renew_tasks(configured)
        return TaskConfigsOffered(left | (set(tasks) - configured.keys()))

    def _begin(self, item: WorkItem, view: ClusterConfigState) -> None:
        name = item if isinstance(item, str) else item.connector
        config, state = view.config(name), view.target_state(name)
        if config is None:
            raise FatalError(f"connector {name} is configured no more")
        state = state or TargetState.STARTED
        if isinstance(item, str):
            self._connectors.started(name)
            self._hands.worker.start_connector(name, config, state)
            return
        task_config = view.task_config(item)
        if task_config is None:
            raise FatalError(f"task {item} is configured no more")
        self._hands.worker.start_task(
            item,
            connector=config,
            config=task_config,
            state=state,
            tasks=view.task_count(name),
        )
