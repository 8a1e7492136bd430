"""A single `mm2 run` process: a Connect worker for each flow, the data plane, the REST servers.

This is the composition root: it creates the components and connects them. Nodes that run the same
file form one Connect group per flow and share the flow's tasks. If a worker did not stop in time
during a reload, the process waits for it again when the process exits (`GracefulShutdown`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from connect_runtime.app.internal_rest_settings import InternalRestSettings
from connect_runtime.app.multi_worker_process import WorkerFleet
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.rest.audit_log import AuditedRequest
from connect_runtime.rest.http_pages import PagesByPath
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_diff, flow_connector_configs
from mm2.config.config_diff import ReloadPlan
from mm2.config.flow_connector_configs import FlowPlan, FlowSelection
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.pause_and_throttle_overrides import OverrideKind
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus
from mm2.copier import shared_copy_engine
from mm2.copier.copy_engine import CopyEngine, EngineState
from mm2.copier.shared_copy_engine import DataPlane
from mm2.kafka import suggested_command_arguments
from mm2.node.flow_worker import FlowWorker
from mm2.status.operator_action_log import OperatorLog
from mm2.status.process_health import FlowReadiness
from mm2.ui import page_routes

POLL_INTERVAL_S = 0.02

_log = logging.getLogger(__name__)


class StoppableWorker(Protocol):
    """The part of `FlowWorker` that `GracefulShutdown` needs."""

    @property
    def name(self) -> str: ...

    @property
    def stop_requested(self) -> threading.Event: ...

    @property
    def has_ended(self) -> bool: ...

    @property
    def is_group_member(self) -> bool: ...


class GracefulShutdown:
    """Stops flow workers and waits until they have ended. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ending: list[StoppableWorker] = []

    @property
    def unfinished_workers(self) -> Sequence[StoppableWorker]:
        """Workers that were requested to stop and have not ended yet."""
        self._ending = [each for each in self._ending if not each.has_ended]
        return self._ending

    def request_stop(self, workers: Iterable[StoppableWorker]) -> None:
        """Request the workers to stop, without waiting until they have ended."""
        for each in workers:
            each.stop_requested.set()
            self._ending.append(each)

    def wait_for_workers(self, until_s: float) -> None:
        """Wait until all stopping workers have ended or the time `until_s` is reached.

        Workers that have not ended in time are logged, unless they never joined their group.
        """
        self.wait_for_condition(lambda: not self.unfinished_workers, until_s)
        for each in self.unfinished_workers:
            if each.is_group_member:
                _log.warning(
                    "%s did not stop in time, and this process no longer waits for it. The next "
                    "owner of its partitions will fence it",
                    each.name,
                )

    def wait_for_condition(self, done: Callable[[], bool], until_s: float) -> None:
        """Wait until `done` returns True or the time `until_s` is reached."""
        waiting = threading.Event()
        while not done() and self._clock.now_s() < until_s:
            waiting.wait(POLL_INTERVAL_S)


STOP_TIMEOUT_S = 2.7
"""Total time for an orderly stop of the node in seconds, below the documented limit of three
seconds."""
ENGINE_STOP_TIMEOUT_S = 0.7
"""Minimum part of `STOP_TIMEOUT_S` that is reserved for stopping the engine."""
REST_CLOSE_TIMEOUT_S = 1
"""Time limit for in-progress REST responses at shutdown, in whole seconds."""
OPERATOR_LOG_TIMEOUT_S = 1.0
"""Maximum time in seconds for which the process waits at exit until pending operator actions are
recorded on the target clusters."""


class WorkerFleetFactory(Protocol):
    """Signature of the factory that creates the flow workers of a node; implemented by
    `WorkerFleet`."""

    def __call__(
        self,
        internal: InternalRestSettings | None,
        *,
        pages: PagesByPath,
        on_change: Callable[[AuditedRequest], None],
    ) -> WorkerFleet: ...


class Mm2Node:
    """Runs the flows of a configuration until stopped.

    Raises `SettingsError` if the settings of a flow's worker are invalid.
    """

    def __init__(
        self,
        settings: Mm2Settings,
        *,
        selection: FlowSelection = flow_connector_configs.ALL_FLOWS,
        environment: Mapping[str, str],
        clock: Clock | None = None,
        create_fleet: WorkerFleetFactory = WorkerFleet,
        pages: PagesByPath | None = None,
    ) -> None:
        """Create a node without starting it.

        `pages` are additional pages of the loopback server; more pages may be added later.
        """
        self._settings = settings
        self._selection = selection
        self._environment = environment
        self._clock = clock or SystemClock()
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)
        self._crashed = ""
        self._stopping = threading.Event()
        self._is_reloading = False
        self._plane_failure = ""
        plans = flow_connector_configs.plan_flows(settings, selection, environment=environment)
        self._pages = pages if pages is not None else {}
        self.action_log = OperatorLog(lambda: self._settings, now=self._clock)
        """Logs operator actions on this process's flows, and records them; closed by `stop`."""
        self._fleet = create_fleet(
            flow_connector_configs.plan_rest_server(settings, environment=environment),
            pages=self._pages,
            on_change=self.action_log.log_operator_request,
        )
        self._plane: DataPlane | None = None
        self.explain_unreachable: Callable[[str], str] = lambda _: ""
        """Returns why a cluster of a flow is unreachable, or "" if both clusters are reachable. Set
        before `start`."""
        self._workers = [self._create_worker(plan) for plan in plans]
        self._shutdown = GracefulShutdown(self._clock)
        self._shown: dict[str, FlowStatus] = {}
        suggested_command_arguments.set_config_file(settings.file)

    # Lifecycle

    def start(self) -> None:
        """Start the node's flows in the background; `statuses` reports the progress.

        Raises `ConnectError` if the data plane or the REST servers cannot listen.
        """
        self._plane = shared_copy_engine.acquire(
            shared_copy_engine.choose_engine_settings(self._settings), self._clock
        )
        self._fleet.open()
        if page_routes.PAGE_PATH in self._pages:
            _log.info(
                ("the status page is available at %s%s"),
                self._fleet.loopback_api.url,
                page_routes.PAGE_PATH,
            )
        for each in self._workers:
            self._start_worker(each)

    @property
    def engine(self) -> CopyEngine:
        """The copy engine. Available only after `start`."""
        assert self._plane is not None, "call start first"
        return self._plane.engine

    @property
    def is_engine_ready(self) -> bool:
        """True if copy processes could run now. May be called before `start`."""
        plane = self._plane
        return plane is not None and plane.engine.state is EngineState.READY

    @property
    def rest_api(self) -> Mapping[str, object]:
        """Address and credentials of each flow's REST API. Available only after `start`."""
        loopback = self._fleet.loopback_api
        return {
            "url": loopback.url,
            "user": loopback.user,
            "password": loopback.password,
            "flows": {each.plan.name: each.plan.ends.rest_path for each in self._workers},
        }

    def plugin_metrics(self) -> Mapping[str, tuple[MetricFamily, ...]]:
        """Return the metrics of each flow's worker and of the worker's plugins, by flow."""
        return {each.plan.name: each.plugin_metrics for each in self._workers}

    def worker_metrics(self) -> Mapping[str, tuple[MetricFamily, ...]]:
        """Return the metrics of each flow's worker, without those of its plugins, by flow."""
        return {each.plan.name: each.worker_metrics for each in self._workers}

    def rebalance_counts(self) -> Mapping[str, int]:
        """Return the number of group rebalances in which this node has participated, by flow."""
        return {each.plan.name: each.rebalance_count for each in self._workers}

    def connector_overrides(self) -> Mapping[str, Mapping[str, OverrideKind]]:
        """Return the connectors other than the source connector that an operator paused or stopped,
        by flow and connector name."""
        return {each.plan.name: each.connector_overrides for each in self._workers}

    def readiness(self) -> Sequence[FlowReadiness]:
        """Return the readiness of each flow's worker as of the last call of `statuses`."""
        return [each.readiness for each in self._workers]

    @property
    def slot_usage(self) -> tuple[int, int] | None:
        """Spark's used and free task slots; None without Spark, or while they are unknown."""
        if self._plane is None or self._settings.spark.engine != "spark":
            return None
        usage = self._plane.engine.get_slot_usage()
        return (usage.used, max(0, usage.total - usage.used)) if usage.total else None

    def statuses(self) -> Sequence[FlowStatus]:
        """Return the status of each flow that replicates, in the order of the configuration
        file."""
        snapshot = status_registry.REGISTRY.get_snapshot()
        workers = {each.plan.name: each for each in self._workers if each.plan.replicates_topics}
        previous = self._shown
        shown: dict[str, FlowStatus] = {}
        if self._plane is not None and not self._stopping.is_set():
            self._plane_failure = self._plane_failure or self._plane.failure
        for flow in self._settings.flows:
            worker = workers.get(flow.name)
            if worker is not None:
                shown[flow.name] = worker.update_status(
                    snapshot, previous.get(flow.name), broken=self._plane_failure
                )
        self._shown = shown  # replaced as a whole: several threads read it
        return list(shown.values())

    @property
    def crash_reason(self) -> str:
        """Error of the flow thread that last ended unexpectedly; "" if none did."""
        return self._crashed

    @property
    def has_ended(self) -> bool:
        """True if no flow was running at the last call of `statuses`."""
        if self._crashed:
            return True
        statuses = self._shown.values() or self.statuses()
        return not self._is_reloading and all(each.is_final for each in statuses)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop all flows. The engine stops after in-flight batches have been acknowledged and the
        flows' resume points stored. Meanwhile the workers leave their groups."""
        self._stopping.set()
        until_s = self._clock.now_s() + timeout_s
        self._shutdown.request_stop(self._workers)
        self._shutdown.wait_for_condition(
            self._have_copy_processes_ended, until_s - ENGINE_STOP_TIMEOUT_S
        )
        if self._plane is not None:
            self._plane.release_reference()
            shared_copy_engine.close(max(ENGINE_STOP_TIMEOUT_S, until_s - self._clock.now_s()))
        self._shutdown.wait_for_workers(until_s)
        self._threads.stop_all(0.1)
        self._fleet.close(REST_CLOSE_TIMEOUT_S)
        self.action_log.close(OPERATOR_LOG_TIMEOUT_S)

    # Reload

    @property
    def settings(self) -> Mm2Settings:
        """Settings of the node that are in effect."""
        return self._settings

    @property
    def has_applied_changes(self) -> bool:
        """True once this node has completed its part of all changes passed to `apply_changes`."""
        return all(each.has_applied_plan for each in self._workers)

    @property
    def ineffective_changes(self) -> Sequence[str]:
        """Flows for which changes in this node's file have no effect, with the reason.

        Either another node must write the configuration, or it was rejected.
        """
        return [line for each in self._workers for line in each.ineffective_changes]

    def apply_changes(self, settings: Mm2Settings, changes: ReloadPlan) -> None:
        """Apply a reloaded configuration. `settings` is the new configuration, and `changes` are
        its differences from the current one. Call from one thread at a time.

        Flows with changed worker settings are stopped and started again. The configurations of the
        other flows are written by the leaders of their groups. Raises `ConnectError` if a worker's
        settings are invalid; nothing is changed in this case.
        """
        after = config_diff.merge_running_settings(self._settings, settings)
        plans = {
            each.name: each
            for each in flow_connector_configs.plan_flows(
                after, self._selection, environment=self._environment
            )
        }
        workers = {each.plan.name: each for each in self._workers}
        running = {name: each for name, each in workers.items() if not each.has_ended}
        worker_changes = config_diff.plan_worker_changes(
            {name: worker.plan.worker_props for name, worker in running.items()},
            {name: plan.worker_props for name, plan in plans.items()},
        )
        new_workers = {
            name: self._create_worker(plans[name], before=workers.get(name))
            for name in worker_changes.started
        }
        self._is_reloading = True
        try:
            self._shutdown.request_stop(running[name] for name in worker_changes.stopped)
            self._shutdown.wait_for_workers(self._clock.now_s() + STOP_TIMEOUT_S)
            self._settings = after
            self._workers = [new_workers.get(name) or running[name] for name in plans]
            for name in worker_changes.kept:
                running[name].replace_plan(plans[name])
            for worker in new_workers.values():
                if not self._stopping.is_set():
                    self._start_worker(worker)
        finally:
            self._is_reloading = False

    def _have_copy_processes_ended(self) -> bool:
        stopping = {each.name for each in self._shutdown.unfinished_workers}
        return stopping.isdisjoint(
            name for name, tasks in status_registry.REGISTRY.get_snapshot().tasks.items() if tasks
        )

    # Wiring

    def _create_worker(self, plan: FlowPlan, before: FlowWorker | None = None) -> FlowWorker:
        return FlowWorker(
            plan,
            self._fleet,
            can_copy=lambda: self.engine.is_warm,
            set_remote_tasks=self._set_remote_task_count,
            unreachable=lambda: self.explain_unreachable(plan.name),
            clock=self._clock,
            rebalances=0 if before is None else before.rebalance_count,
        )

    def _set_remote_task_count(self, flow: str, count: int) -> None:
        if self._plane is not None and not self._stopping.is_set():
            self._plane.standby_copies.set_remote_task_count(flow, count)

    def _start_worker(self, worker: FlowWorker) -> None:
        for line in worker.plan.worker.warnings:
            _log.warning("%s: %s", worker.plan.name, line)
        self._threads.start(f"flow {worker.plan.name}", worker.run)

    def _handle_thread_death(self, end: UnexpectedThreadEnd) -> None:
        if end.error is not None:
            self._crashed = f"{end.name}: {end.error!r}"
