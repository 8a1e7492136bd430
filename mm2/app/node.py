"""One `mm2 run` process: a Connect worker for each flow, the data plane, the servers in front.

A composition root: it knows the concrete parts and hands them to those who need them. Several nodes
that run the same file form a group for each flow, and share its work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from connect_runtime.app import fleet
from connect_runtime.app.settings import internal_rest
from connect_runtime.base import clock as base_clock
from connect_runtime.base import metrics
from connect_runtime.ports import pages
from connect_runtime.rest import change_log
from connect_runtime.system import clock as system_clock
from connect_runtime.system import threads
from mm2.app import (
    endings,
    engine_choice,
    flow_plan,
    flow_worker,
    operator_log,
    worker_changes,
)
from mm2.app.settings import differences
from mm2.app.settings import settings as app_settings
from mm2.app.ui import site
from mm2.connectors import board, flow_status, operators
from mm2.core import health
from mm2.core import holds as holding
from mm2.pipeline import data_plane, engine

STOP_S = 2.7
"""An orderly stop, all in all: under the three seconds that it may take."""
ENGINE_STOP_S = 0.7
"""Of these the engine gets at least so much."""
CLOSE_S = 1
"""How long answers of the REST servers may take to end, in whole seconds."""
RECORD_S = 1.0
"""How long the end then waits until operators' last actions are recorded; mostly they are."""


class MakeFleet(Protocol):
    """As `fleet.Fleet`."""

    def __call__(
        self,
        internal: internal_rest.InternalRest | None,
        *,
        served: pages.Pages,
        on_change: Callable[[change_log.Change], None],
    ) -> fleet.Fleet: ...


_log = logging.getLogger(__name__)


class Node:
    """Runs the flows of one settings file until stopped.

    Raises `SettingsError` for what is wrong with the settings of a flow's worker.
    """

    def __init__(
        self,
        settings: app_settings.Settings,
        *,
        choice: flow_plan.Choice = flow_plan.EVERYTHING,
        environment: Mapping[str, str],
        now: base_clock.Clock | None = None,
        make_fleet: MakeFleet = fleet.Fleet,
        served: pages.Pages | None = None,
    ) -> None:
        """`served` are pages that the REST servers have beside the workers; they may come later."""
        self._settings = settings
        self._choice = choice
        self._environment = environment
        self._clock = now or system_clock.SystemClock()
        self._threads = threads.Threads(on_unasked_end=self._note_unasked_end)
        self._crashed = ""
        self._stopping = threading.Event()
        self._changing = False
        self._broken = ""
        plans = flow_plan.plans(settings, choice, environment=environment)
        self._served = served if served is not None else {}
        self.action_log = operator_log.OperatorLog(lambda: self._settings, now=self._clock)
        """Takes what operators had done in this process; closed by `stop`."""
        self._fleet = make_fleet(
            flow_plan.rest(settings, environment=environment),
            served=self._served,
            on_change=self.action_log.log_change,
        )
        self._plane: data_plane.DataPlane | None = None
        self.unreachable: Callable[[str], str] = lambda _: ""
        """By a flow's name: why a cluster of it does not answer, "" while both do. Set before
        `start` by whoever watches the clusters."""
        self._workers = [self._make_worker(plan) for plan in plans]
        self._endings = endings.Endings(self._clock)
        self._shown: dict[str, flow_status.FlowStatus] = {}
        operators.use_file(settings.file)

    # Life

    def start(self) -> None:
        """Everything begins in the background; `statuses` says how far it is. Raises `ConnectError`
        where the data plane or the REST servers cannot listen."""
        self._plane = data_plane.acquire(engine_choice.of(self._settings), self._clock)
        self._fleet.open()
        if site.PAGE in self._served:
            _log.info("the status page is at %s%s", self._fleet.front_url, site.PAGE)
        for each in self._workers:
            self._start_worker(each)

    @property
    def engine(self) -> engine.CopyEngine:
        """Once started."""
        assert self._plane is not None, "start comes first"
        return self._plane.engine

    @property
    def engine_ready(self) -> bool:
        """Could copies run now? At any time."""
        plane = self._plane
        return plane is not None and plane.engine.state is engine.EngineState.READY

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

    def published(self) -> Mapping[str, tuple[metrics.Family, ...]]:
        """What each flow's worker and its plugins measure, by the flow's name."""
        return {each.plan.name: each.published for each in self._workers}

    def own_metrics(self) -> Mapping[str, tuple[metrics.Family, ...]]:
        """What each flow's worker measures of itself, by the flow's name."""
        return {each.plan.name: each.own_metrics for each in self._workers}

    def rebalances(self) -> Mapping[str, int]:
        """By flow, of its group: how many this node took part in."""
        return {each.plan.name: each.rebalances for each in self._workers}

    def held(self) -> Mapping[str, Mapping[str, holding.By]]:
        """By flow and name: connectors beside the source's that an operator holds."""
        return {each.plan.name: each.held for each in self._workers}

    def standings(self) -> Sequence[health.Standing]:
        """How far each flow's worker is, as of the last `statuses`."""
        return [each.standing for each in self._workers]

    @property
    def slots(self) -> tuple[int, int] | None:
        """Of Spark: used, and free; None without it, and until it has told."""
        if self._plane is None or self._settings.spark.engine != "spark":
            return None
        seen = self._plane.engine.slots()
        return (seen.used, max(0, seen.total - seen.used)) if seen.total else None

    def statuses(self) -> Sequence[flow_status.FlowStatus]:
        """Of the flows that mirror, in the file's order."""
        snapshot = board.BOARD.seen()
        workers = {each.plan.name: each for each in self._workers if each.plan.shown}
        before = self._shown
        shown: dict[str, flow_status.FlowStatus] = {}
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

    def stop(self, timeout_s: float = STOP_S) -> None:
        """In-flight batches are acknowledged and anchors written, then the engine ends, while the
        workers leave their groups."""
        self._stopping.set()
        until_s = self._clock.now_s() + timeout_s
        self._endings.ask(self._workers)
        self._endings.wait_for(self._copies_ended, until_s - ENGINE_STOP_S)
        if self._plane is not None:
            self._plane.release()
            data_plane.close(max(ENGINE_STOP_S, until_s - self._clock.now_s()))
        self._endings.wait(until_s)
        self._threads.stop_all(0.1)
        self._fleet.close(CLOSE_S)
        self.action_log.close(RECORD_S)

    # Change

    @property
    def settings(self) -> app_settings.Settings:
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

    def apply(self, settings: app_settings.Settings, changes: differences.Changes) -> None:
        """Carry out what leads to `settings`; from one thread at a time. Flows whose worker is
        another than before are stopped and begun, others are configured anew by their leader.

        Raises `ConnectError` when a worker's settings cannot be used: then nothing changes.
        """
        after = differences.in_force(self._settings, settings)
        plans = {
            each.name: each
            for each in flow_plan.plans(after, self._choice, environment=self._environment)
        }
        known = {each.plan.name: each for each in self._workers}
        running = {name: each for name, each in known.items() if not each.ended}
        changing = worker_changes.plan(
            {name: worker.plan.worker_props for name, worker in running.items()},
            {name: plan.worker_props for name, plan in plans.items()},
        )
        fresh = {
            name: self._make_worker(plans[name], before=known.get(name)) for name in changing.begins
        }
        self._changing = True
        try:
            self._endings.ask(running[name] for name in changing.ends)
            self._endings.wait(self._clock.now_s() + STOP_S)
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
        return mine.isdisjoint(name for name, tasks in board.BOARD.seen().tasks.items() if tasks)

    # Wiring

    def _make_worker(
        self, plan: flow_plan.FlowPlan, before: flow_worker.FlowWorker | None = None
    ) -> flow_worker.FlowWorker:
        return flow_worker.FlowWorker(
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

    def _start_worker(self, made: flow_worker.FlowWorker) -> None:
        for line in made.plan.worker.warnings:
            _log.warning("%s: %s", made.plan.name, line)
        self._threads.start(f"flow {made.plan.name}", made.run)

    def _note_unasked_end(self, end: threads.UnaskedEnd) -> None:
        if end.error is not None:
            self._crashed = f"{end.name}: {end.error!r}"
