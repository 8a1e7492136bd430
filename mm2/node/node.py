"""One `mm2 run` process: a Connect worker for each flow, the data plane, the REST servers.

The composition root: it knows the concrete parts and passes them to those that need them.
Nodes that run the same file form one group per flow and share its work. Workers that do not
stop in time at a reload are waited for again when the process ends (`GracefulShutdown`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from connect_runtime.app.internal_rest import InternalRestSettings
from connect_runtime.app.multi_worker import WorkerFleet
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.base.timing import Clock
from connect_runtime.rest.audit_log import AuditedRequest
from connect_runtime.rest.mounted_pages import PagesByPath
from connect_runtime.system.clock import SystemClock
from connect_runtime.system.threads import ThreadDied, ThreadGroup
from mm2.config import config_diff, flow_plan
from mm2.config.config_diff import ReloadPlan
from mm2.config.flow_plan import FlowPlan, FlowSelection
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.operator_overrides import OverrideKind
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus
from mm2.copier import data_plane
from mm2.copier.data_plane import DataPlane
from mm2.copier.engine import CopyEngine, EngineState
from mm2.kafka import operator_access
from mm2.node.flow_worker import FlowWorker
from mm2.status.operator_log import OperatorLog
from mm2.status.process_health import FlowReadiness
from mm2.ui import site

POLL_INTERVAL_S = 0.02

_log = logging.getLogger(__name__)


class StoppableWorker(Protocol):
    """`mm2.node.flow_worker.FlowWorker`."""

    @property
    def name(self) -> str: ...

    @property
    def stop_asked(self) -> threading.Event: ...

    @property
    def ended(self) -> bool: ...

    @property
    def joined(self) -> bool: ...


class GracefulShutdown:
    """Used by one thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ending: list[StoppableWorker] = []

    @property
    def left(self) -> Sequence[StoppableWorker]:
        """Those that have not ended yet."""
        self._ending = [each for each in self._ending if not each.ended]
        return self._ending

    def ask(self, workers: Iterable[StoppableWorker]) -> None:
        """They are to end, from now on."""
        for each in workers:
            each.stop_asked.set()
            self._ending.append(each)

    def wait(self, until_s: float) -> None:
        """For all that were asked, now or earlier; each that is late is logged, unless it never
        joined its group."""
        self.wait_for(lambda: not self.left, until_s)
        for each in self.left:
            if each.joined:
                _log.warning(
                    "%s did not stop in time: this process no longer waits for it. Whoever copies "
                    "its partitions next fences it",
                    each.name,
                )

    def wait_for(self, done: Callable[[], bool], until_s: float) -> None:
        """Until then, or until it is so."""
        waiting = threading.Event()
        while not done() and self._clock.now_s() < until_s:
            waiting.wait(POLL_INTERVAL_S)


STOP_TIMEOUT_S = 2.7
"""An orderly stop, all in all: under the three seconds that it may take."""
ENGINE_STOP_TIMEOUT_S = 0.7
"""Of these the engine gets at least so much."""
REST_CLOSE_TIMEOUT_S = 1
"""How long answers of the REST servers may take to end, in whole seconds."""
OPERATOR_LOG_TIMEOUT_S = 1.0
"""How long the end then waits until operators' last actions are recorded; mostly they are."""


class FleetFactory(Protocol):
    """As `WorkerFleet`."""

    def __call__(
        self,
        internal: InternalRestSettings | None,
        *,
        served: PagesByPath,
        on_change: Callable[[AuditedRequest], None],
    ) -> WorkerFleet: ...


class Mm2Node:
    """Runs the flows of one settings file until stopped.

    Raises `SettingsError` for what is wrong with the settings of a flow's worker.
    """

    def __init__(
        self,
        settings: Mm2Settings,
        *,
        choice: FlowSelection = flow_plan.ALL_FLOWS,
        environment: Mapping[str, str],
        now: Clock | None = None,
        make_fleet: FleetFactory = WorkerFleet,
        served: PagesByPath | None = None,
    ) -> None:
        """`served` are pages that the REST servers have beside the workers; they may come later."""
        self._settings = settings
        self._choice = choice
        self._environment = environment
        self._clock = now or SystemClock()
        self._threads = ThreadGroup(on_unasked_end=self._note_unasked_end)
        self._crashed = ""
        self._stopping = threading.Event()
        self._changing = False
        self._broken = ""
        plans = flow_plan.plan_flows(settings, choice, environment=environment)
        self._served = served if served is not None else {}
        self.action_log = OperatorLog(lambda: self._settings, now=self._clock)
        """Takes what operators had done in this process; closed by `stop`."""
        self._fleet = make_fleet(
            flow_plan.plan_rest(settings, environment=environment),
            served=self._served,
            on_change=self.action_log.log_change,
        )
        self._plane: DataPlane | None = None
        self.unreachable: Callable[[str], str] = lambda _: ""
        """By a flow's name: why a cluster of it does not answer, "" while both do. Set before
        `start` by whoever watches the clusters."""
        self._workers = [self._make_worker(plan) for plan in plans]
        self._endings = GracefulShutdown(self._clock)
        self._shown: dict[str, FlowStatus] = {}
        operator_access.set_config_file(settings.file)

    # Life

    def start(self) -> None:
        """Everything begins in the background; `statuses` says how far it is. Raises `ConnectError`
        where the data plane or the REST servers cannot listen."""
        self._plane = data_plane.acquire(
            data_plane.choose_engine_settings(self._settings), self._clock
        )
        self._fleet.open()
        if site.PAGE_PATH in self._served:
            _log.info("the status page is at %s%s", self._fleet.front_url, site.PAGE_PATH)
        for each in self._workers:
            self._start_worker(each)

    @property
    def engine(self) -> CopyEngine:
        """Once started."""
        assert self._plane is not None, "start comes first"
        return self._plane.engine

    @property
    def engine_ready(self) -> bool:
        """Could copies run now? At any time."""
        plane = self._plane
        return plane is not None and plane.engine.state is EngineState.READY

    @property
    def api(self) -> Mapping[str, object]:
        """Where, and as whom, the REST API of each flow can be asked, once started."""
        loopback = self._fleet.loopback
        return {
            "url": loopback.url,
            "user": loopback.user,
            "password": loopback.password,
            "flows": {each.plan.name: each.plan.ends.rest_path for each in self._workers},
        }

    def published(self) -> Mapping[str, tuple[MetricFamily, ...]]:
        """What each flow's worker and its plugins measure, by the flow's name."""
        return {each.plan.name: each.published for each in self._workers}

    def own_metrics(self) -> Mapping[str, tuple[MetricFamily, ...]]:
        """What each flow's worker measures of itself, by the flow's name."""
        return {each.plan.name: each.own_metrics for each in self._workers}

    def rebalances(self) -> Mapping[str, int]:
        """By flow, of its group: how many this node took part in."""
        return {each.plan.name: each.rebalances for each in self._workers}

    def held(self) -> Mapping[str, Mapping[str, OverrideKind]]:
        """By flow and name: connectors beside the source's that an operator holds."""
        return {each.plan.name: each.held for each in self._workers}

    def standings(self) -> Sequence[FlowReadiness]:
        """How far each flow's worker is, as of the last `statuses`."""
        return [each.standing for each in self._workers]

    @property
    def slots(self) -> tuple[int, int] | None:
        """Of Spark: used, and free; None without it, and until it has told."""
        if self._plane is None or self._settings.spark.engine != "spark":
            return None
        seen = self._plane.engine.slots()
        return (seen.used, max(0, seen.total - seen.used)) if seen.total else None

    def statuses(self) -> Sequence[FlowStatus]:
        """Of the flows that mirror, in the file's order."""
        snapshot = status_registry.REGISTRY.seen()
        workers = {each.plan.name: each for each in self._workers if each.plan.shown}
        before = self._shown
        shown: dict[str, FlowStatus] = {}
        if self._plane is not None and not self._stopping.is_set():
            self._broken = self._broken or self._plane.failure
        for flow in self._settings.flows:
            worker = workers.get(flow.name)
            if worker is not None:
                shown[flow.name] = worker.status(
                    snapshot, before.get(flow.name), broken=self._broken
                )
        self._shown = shown  # whole: several threads look
        return list(shown.values())

    @property
    def crashed(self) -> str:
        """A flow's thread ended by an error of ours: what it was, "" otherwise."""
        return self._crashed

    @property
    def ended(self) -> bool:
        """Did nothing go on any more when the flows were looked at last?"""
        if self._crashed:
            return True
        statuses = self._shown.values() or self.statuses()
        return not self._changing and all(each.final for each in statuses)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """In-flight batches are acknowledged and anchors written, then the engine ends, while the
        workers leave their groups."""
        self._stopping.set()
        until_s = self._clock.now_s() + timeout_s
        self._endings.ask(self._workers)
        self._endings.wait_for(self._copies_ended, until_s - ENGINE_STOP_TIMEOUT_S)
        if self._plane is not None:
            self._plane.release()
            data_plane.close(max(ENGINE_STOP_TIMEOUT_S, until_s - self._clock.now_s()))
        self._endings.wait(until_s)
        self._threads.stop_all(0.1)
        self._fleet.close(REST_CLOSE_TIMEOUT_S)
        self.action_log.close(OPERATOR_LOG_TIMEOUT_S)

    # Change

    @property
    def settings(self) -> Mm2Settings:
        """What is in force."""
        return self._settings

    @property
    def settled(self) -> bool:
        """Has all that `apply` began come about, as far as that is ours to say?"""
        return all(each.settled for each in self._workers)

    @property
    def not_in_force(self) -> Sequence[str]:
        """Of flows for which this node's file changes nothing: which, and why. Another node has to
        write it, or it is refused."""
        return [line for each in self._workers for line in each.not_in_force]

    def apply(self, settings: Mm2Settings, changes: ReloadPlan) -> None:
        """Carry out what leads to `settings`; from one thread at a time. Flows whose worker is
        another than before are stopped and begun, others are configured anew by their leader.

        Raises `ConnectError` when a worker's settings cannot be used: then nothing changes.
        """
        after = config_diff.merge_running_settings(self._settings, settings)
        plans = {
            each.name: each
            for each in flow_plan.plan_flows(after, self._choice, environment=self._environment)
        }
        known = {each.plan.name: each for each in self._workers}
        running = {name: each for name, each in known.items() if not each.ended}
        changing = config_diff.plan_worker_changes(
            {name: worker.plan.worker_props for name, worker in running.items()},
            {name: plan.worker_props for name, plan in plans.items()},
        )
        fresh = {
            name: self._make_worker(plans[name], before=known.get(name)) for name in changing.begins
        }
        self._changing = True
        try:
            self._endings.ask(running[name] for name in changing.ends)
            self._endings.wait(self._clock.now_s() + STOP_TIMEOUT_S)
            self._settings = after
            self._workers = [fresh.get(name) or running[name] for name in plans]
            for name in changing.goes_on:
                running[name].configure(plans[name])
            for worker in fresh.values():
                if not self._stopping.is_set():
                    self._start_worker(worker)
        finally:
            self._changing = False

    def _copies_ended(self) -> bool:
        mine = {each.name for each in self._endings.left}
        return mine.isdisjoint(
            name for name, tasks in status_registry.REGISTRY.seen().tasks.items() if tasks
        )

    # Wiring

    def _make_worker(self, plan: FlowPlan, before: FlowWorker | None = None) -> FlowWorker:
        return FlowWorker(
            plan,
            self._fleet,
            can_copy=lambda: self.engine.warm,
            want_spares=self._want_spares,
            unreachable=lambda: self.unreachable(plan.name),
            clock=self._clock,
            rebalances=0 if before is None else before.rebalances,
        )

    def _want_spares(self, flow: str, count: int) -> None:
        if self._plane is not None and not self._stopping.is_set():
            self._plane.spares.want(flow, count)

    def _start_worker(self, made: FlowWorker) -> None:
        for line in made.plan.worker.warnings:
            _log.warning("%s: %s", made.plan.name, line)
        self._threads.start(f"flow {made.plan.name}", made.run)

    def _note_unasked_end(self, end: ThreadDied) -> None:
        if end.error is not None:
            self._crashed = f"{end.name}: {end.error!r}"
