"""One `mm2 run` process: flows, engine and control server wired together, started and stopped.

A composition root: it knows the concrete adapters and hands them to those who need them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from connect_runtime.system import clock as system_clock
from connect_runtime.system import threads
from mm2.app import connections, control_listener, operators
from mm2.app.settings import differences
from mm2.app.settings import settings as app_settings
from mm2.connectors import (
    flow_changes,
    flow_status,
    source_connector,
    source_flow,
    topic_refresh,
)
from mm2.core import flows
from mm2.core.copy import messages
from mm2.core.copy import setup as copy_setup
from mm2.core.topics import split
from mm2.formats import map_record
from mm2.pipeline import engine, inline
from mm2.pipeline.spark import engine as spark_engine
from mm2.pipeline.spark import settings as spark_settings

STOP_S = 2.7
"""An orderly stop, all in all: under the three seconds that it may take."""
ENGINE_STOP_S = 0.7
"""Of these the engine gets at least so much."""

_log = logging.getLogger(__name__)


class Appliance:
    """Runs the flows of one settings file until stopped. `throttle_bytes_s` 0: no limit."""

    def __init__(
        self,
        settings: app_settings.Settings,
        *,
        throttle_bytes_s: int = 0,
        now: base_clock.Clock | None = None,
    ) -> None:
        self._settings = settings
        self._throttle_bytes_s = throttle_bytes_s
        self._clock = now or system_clock.SystemClock()
        self._random = Random()  # noqa: S311 - jitter, not secrets
        self._owner = secrets.token_bytes(map_record.OWNER_BYTES)
        self._threads = threads.Threads(on_unasked_end=self._note_unasked_end)
        self._crashed = ""
        self._stopping = threading.Event()
        self._changing = False
        self.engine = self._make_engine()
        self._server = control_listener.listen(settings.spark, now=self._clock)
        self.flows = [self._make_flow(each) for each in settings.flows]

    # Life

    def start(self) -> None:
        """Everything begins in the background; `statuses` says how far it is."""
        self.engine.open()
        for each in self.flows:
            self._start_flow(each)

    def statuses(self) -> Sequence[flow_status.FlowStatus]:
        return [each.status for each in self.flows]

    @property
    def crashed(self) -> str:
        """A flow's thread ended by an error of ours: what it was, "" otherwise."""
        return self._crashed

    @property
    def ended(self) -> bool:
        if self._crashed:
            return True
        return not self._changing and all(each.ended for each in self.flows)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """In-flight batches are acknowledged and anchors written, then the engine ends."""
        self._stopping.set()
        for each in self.flows:
            each.stop_asked.set()
        until_s = self._clock.now_s() + timeout_s
        waiting = threading.Event()
        while not self.ended and self._clock.now_s() < until_s - ENGINE_STOP_S:
            waiting.wait(0.02)
        self._threads.stop_all(0.1)
        self._server.close(0.1)
        self.engine.stop(max(ENGINE_STOP_S, until_s - self._clock.now_s()))

    # Change

    @property
    def settings(self) -> app_settings.Settings:
        """What is in force."""
        return self._settings

    @property
    def settled(self) -> bool:
        """Has all that `apply` began come about, as far as that is ours to say?"""
        return all(each.settled or each.ended for each in self.flows)

    def apply(self, settings: app_settings.Settings, changes: differences.Changes) -> None:
        """Carry out `changes`, which lead to `settings`; from one thread at a time, not a flow's.

        Raises `ConnectError` when a new flow cannot be made, a flow's topics cannot be looked up,
        or one takes no change at present: then all flows go on, and `settings` are what they were.
        """
        old, self._settings = self._settings, differences.in_force(self._settings, settings)
        wanted = {flow.name: flow for flow in settings.flows}
        running = {each.flow.name: each for each in self.flows}
        steps = {each.flow: _possible(each.step, running.get(each.flow)) for each in changes.flows}
        made: dict[str, source_flow.SourceFlow] = {}
        asked: dict[str, flow_changes.Change] = {}
        try:
            for name, step in steps.items():
                if step in (differences.Step.START, differences.Step.RESTART):
                    made[name] = self._make_flow(wanted[name])
                elif step is not differences.Step.STOP:
                    asked[name] = self._change_of(wanted[name], step)
            for name in list(asked):
                running[name].change(asked[name])
                del asked[name]  # it is the flow's now
        except Exception:
            self._settings = old
            _discard(made.values(), asked.values())
            raise
        ending = (differences.Step.STOP, differences.Step.RESTART)
        self._exchange(
            [running[name] for name, step in steps.items() if step in ending],
            [made.get(name) or running[name] for name in wanted],
            begin=list(made.values()),
        )

    def _exchange(
        self,
        ending: Sequence[source_flow.SourceFlow],
        then: list[source_flow.SourceFlow],
        *,
        begin: Sequence[source_flow.SourceFlow],
    ) -> None:
        """End some flows in order, as `stop` does it for all; `then` are those there are."""
        self._changing = True
        try:
            for each in ending:
                each.stop_asked.set()
            until_s = self._clock.now_s() + STOP_S
            waiting = threading.Event()  # `_stopping` may be set already
            while not all(each.ended for each in ending) and self._clock.now_s() < until_s:
                waiting.wait(0.02)
            _tell_late(ending)
            self.flows = then
            if self._stopping.is_set():  # `stop` may have asked those that were there before
                for each in then:
                    each.stop_asked.set()
            for each in begin:
                self._start_flow(each)
        finally:
            self._changing = False

    def _change_of(self, flow: flows.Flow, step: differences.Step) -> flow_changes.Change:
        if step is differences.Step.LIVE:
            return flow_changes.Rebudget(budgets=self._capped(flow).budgets)
        return self._look_up(flow)

    def _look_up(self, flow: flows.Flow) -> flow_changes.Adopt:
        capped = self._capped(flow)
        connector = self._make_connector(self._settings, capped, stopped=self._stopping.is_set)
        try:
            plan = connector.plan(flow.admin_timeout_s)
        except errors.ConnectError:
            connector.close()
            raise
        return flow_changes.Adopt(flow=capped, connector=connector, plan=plan)

    def _start_flow(self, made: source_flow.SourceFlow) -> None:
        name = made.flow.name
        self._threads.start(f"flow {name}", made.run)
        # It may connect while a reload is under way that takes away this flow and its clusters.
        connect = functools.partial(
            self._make_connector, self._settings, stopped=made.stop_asked.is_set
        )
        refresh = topic_refresh.TopicRefresh(made, connect=connect, now=self._clock)
        self._threads.start(f"topics {name}", refresh.run)

    def _note_unasked_end(self, end: threads.UnaskedEnd) -> None:
        if end.error is not None:
            self._crashed = f"{end.name}: {end.error!r}"

    # Wiring

    def _make_engine(self) -> engine.CopyEngine:
        spark = self._settings.spark
        if spark.engine == "inline":
            return inline.InlineEngine(now=self._clock)
        return spark_engine.SparkEngine(self._spark_settings(spark), now=self._clock)

    def _spark_settings(self, spark: app_settings.SparkSettings) -> spark_settings.SparkSettings:
        return spark_settings.SparkSettings(
            master=spark.master,
            app_name=spark.app_name,
            conf=self._spark_conf(spark),
            ui=spark.ui,
            allow_insecure=spark.allow_insecure_spark,
            hidden_environment=self._settings.secret_environment,
            python=spark.python or sys.executable,
        )

    def _spark_conf(self, spark: app_settings.SparkSettings) -> Mapping[str, str]:
        """On a standalone cluster no process takes more cores than it has tasks."""
        if not spark.master.startswith("spark://"):
            return spark.conf
        tasks = sum(flow.tasks_max for flow in self._settings.flows)
        return {"spark.cores.max": str(tasks), **spark.conf}

    def _make_flow(self, flow: flows.Flow) -> source_flow.SourceFlow:
        capped = self._capped(flow)
        ledger = connections.ledger(
            self._settings, flow, client_id=f"mm2-{flow.name}-ledger", clock=self._clock
        )
        made = source_flow.SourceFlow(
            capped,
            connector=self._make_connector(
                self._settings, capped, stopped=lambda: made.stop_asked.is_set()
            ),
            ledger=ledger,
            run_in=self.engine,
            server=self._server,
            configure=functools.partial(self._configure, clients=self._settings.clients_of(flow)),
            opposite=connections.opposite(
                self._settings, flow, client_id=f"mm2-{flow.name}-opposite", clock=self._clock
            ),
            now=self._clock,
            random=self._random,
        )
        return made

    def _make_connector(
        self,
        settings: app_settings.Settings,
        flow: flows.Flow,
        *,
        stopped: Callable[[], bool],
    ) -> source_connector.SourceConnector:
        source, target = (
            make(settings, flow, client_id=f"mm2-{flow.name}-admin", clock=self._clock)
            for make in (connections.source_admin, connections.target_admin)
        )
        return source_connector.SourceConnector(
            flow,
            source=source,
            target=target,
            now=self._clock,
            pause=self._stopping.wait,
            stopped=stopped,
            operator=operators.of(settings, flow),
        )

    def _capped(self, flow: flows.Flow) -> flows.Flow:
        """What was said on the command line is the most that a flow may have."""
        given = [each for each in (flow.budgets.flow, self._throttle_bytes_s) if each]
        budgets = dataclasses.replace(flow.budgets, flow=min(given, default=0))
        return dataclasses.replace(flow, budgets=budgets)

    def _configure(
        self,
        flow: flows.Flow,
        plan: source_connector.SourcePlan,
        before: Sequence[messages.Configure],
        *,
        clients: app_settings.FlowClients,
    ) -> list[messages.Configure]:
        """What each task of the flow copies, and with what."""
        by_name = {ids.TopicPartition(each.topic, each.partition): each for each in plan.partitions}
        if before:
            held = [map(_partition, task.partitions) for task in before]
            shares = split.sticky(by_name, held, flow.tasks_max)
        else:
            shares = split.round_robin(by_name, flow.tasks_max)
        numbers = [task.task for task in before]
        free = (each for each in itertools.count() if each not in numbers)
        numbers += itertools.islice(free, len(shares) - len(numbers))
        budgets = split.budgets(flow.budgets, shares)
        return [
            messages.Configure(
                flow=flow.name,
                task=number,
                owner=self._owner,
                source=connections.copy_access(
                    clients.consumer, flow.source, client_id=f"mm2-{flow.name}-{number}"
                ),
                target=connections.copy_access(
                    clients.producer, flow.target, client_id=f"mm2-{flow.name}-{number}"
                ),
                partitions=tuple(by_name[each] for each in share),
                budget_bytes=flow.buffer_bytes,
                throttle_bytes_s=budget.flow,
                topic_throttles=budget.topics,
            )
            for number, share, budget in zip(numbers, shares, budgets, strict=True)
            if share
        ]


def _possible(step: differences.Step, running: source_flow.SourceFlow | None) -> differences.Step:
    """A flow that does not run yet, or no more, cannot be changed as it runs."""
    as_it_runs = (differences.Step.LIVE, differences.Step.TOPICS)
    if step not in as_it_runs or running is None:
        return step
    ready = running.status.state is flow_status.FlowState.RUNNING
    return step if ready else differences.Step.RESTART


def _tell_late(ending: Iterable[source_flow.SourceFlow]) -> None:
    for each in ending:
        if not each.ended:
            _log.warning(
                "%s has not ended within %.1f s (%s): it does once its clusters have answered. "
                "What takes its place begins all the same: of two owners the later one fences "
                "the other",
                each.flow.name,
                STOP_S,
                each.status.reason or each.status.state.value,
            )


def _discard(made: Iterable[source_flow.SourceFlow], asked: Iterable[flow_changes.Change]) -> None:
    """What was made for a change that does not come about."""
    for flow in made:
        flow.stop_asked.set()
        flow.run(flow.stop_asked)  # one that is stopped before it began closes what it has
    for change in asked:
        if isinstance(change, flow_changes.Adopt):
            change.connector.close()


def _partition(where: copy_setup.PartitionSetup) -> ids.TopicPartition:
    return ids.TopicPartition(where.topic, where.partition)
