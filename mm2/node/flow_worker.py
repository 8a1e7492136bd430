"""One flow's Connect worker on its own thread: started, watched, started again, stopped.

As the group's leader it writes the connectors' configurations (Java: `MirrorHerder`); failed
connectors and tasks are restarted after a delay.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent import futures

from connect_runtime.app.multi_worker import FleetMember, WorkerFleet
from connect_runtime.base import log_context
from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.base.timing import Clock
from connect_runtime.group.connectors_and_tasks import WorkItem
from connect_runtime.herder.herder_api import WorkerReply
from connect_runtime.herder.herder_requests import (
    ForwardRequest,
    HerderRequest,
    RequestRefused,
    RestartConnector,
    RestartTask,
)
from connect_runtime.kafka.client_errors import AuthenticationError
from mm2.config import flow_plan
from mm2.config.flow_plan import FlowPlan
from mm2.config.operator_overrides import OverrideKind
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus, RegistrySnapshot, TaskState
from mm2.node import restarts
from mm2.node.config_publisher import ConfigPublisher
from mm2.node.restarts import FailureTracker, RestartPlanner
from mm2.status import flow_state
from mm2.status.flow_state import FlowWorkerState, WorkerSnapshot
from mm2.status.process_health import FlowReadiness
from mm2.status.worker_snapshot_reader import WorkerSnapshotReader

POLL_INTERVAL_S = 0.2
MIN_START_DELAY_S, MAX_START_DELAY_S = 0.5, 10.0
CAUSE_WAIT_S = 2.0
STABLE_RUN_S = 60.0
"""A worker that lived so long had begun well: when it ends, the next one is begun soon."""
Life = FlowWorkerState
_ENGINE_STARTING_TEXT = "Spark starts; until then the flow's other nodes have its work"

_log = logging.getLogger(__name__)


class FlowWorker:
    """`run` is its thread's body; the rest may be used by any."""

    def __init__(
        self,
        plan: FlowPlan,
        home: WorkerFleet,
        *,
        can_copy: Callable[[], bool],
        want_spares: Callable[[str, int], None],
        unreachable: Callable[[], str] = lambda: "",
        clock: Clock,
        rebalances: int = 0,
    ) -> None:
        """`can_copy`: is the engine up? `want_spares` is told how many tasks of the flow run
        elsewhere, again and again. `unreachable` returns why a cluster of the flow cannot be
        reached, "" while all answer. `rebalances`: so many the one counted that this one
        follows."""
        self.plan = plan
        self._can_copy = can_copy
        self._want_spares = want_spares
        self._unreachable = unreachable
        self.stop_asked = threading.Event()
        self._fleet = home
        self._clock = clock
        self._life = Life.STARTING
        where = ",".join(plan.worker.access.bootstrap)
        self._connecting = f"connecting to {plan.ends.target} ({where})"
        self._reason = self._connecting
        self._trouble = ""
        self._logged = ""
        """The last failure to start, until the worker is part of its group."""
        self._member: FleetMember | None = None
        self._view = WorkerSnapshotReader()
        self._made: tuple[WorkerSnapshot | None, FlowStatus | None] = (None, None)
        self._begun: Set[int] = set()
        """Tasks of this node whose copies have run; replaced whole."""
        self._writes = ConfigPublisher(plan)
        self._failures = FailureTracker(RestartPlanner(plan.restart_max))
        self._given_up = ""
        self._random = random.Random()  # noqa: S311 - jitter, not secrets
        self._rebalances: tuple[FleetMember | None, int] = (None, rebalances)
        """The member that counts, and what those before it have counted; replaced whole."""
        self._asked: dict[str, futures.Future[WorkerReply]] = {}

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def ended(self) -> bool:
        return self._life in (Life.STOPPED, Life.FAILED)

    @property
    def joined(self) -> bool:
        """Is its worker in its group, or about to be?"""
        return self._member is not None

    @property
    def published(self) -> tuple[MetricFamily, ...]:
        """What its worker measures, and the plugins in it."""
        member = self._member
        return () if member is None else member.published

    @property
    def own_metrics(self) -> tuple[MetricFamily, ...]:
        """What its worker measures of itself."""
        member = self._member
        return () if member is None else member.own_metrics

    @property
    def rebalances(self) -> int:
        """How many of its group's this node took part in since the flow is in its file."""
        member, before = self._rebalances
        return before + (0 if member is None else member.rebalances)

    @property
    def held(self) -> Mapping[str, OverrideKind]:
        """`holds.Holds.beside`, also of a flow that does not mirror; nothing while it is not
        known."""
        member = self._member
        return {} if member is None else flow_state.find_connector_overrides(member.herder.config())

    @property
    def standing(self) -> FlowReadiness:
        """As of the last `status`."""
        member, (seen, made) = self._member, self._made
        joined = self._life is Life.WORKING and member is not None and member.assigned_offset >= 0
        if not self.plan.shown or seen is None or made is None:
            configured = serves = joined and self._writes.settled
            reason = self._unreachable_reason() or self._reason
        else:
            configured = joined and seen.met and seen.current
            missing = flow_state.explain_not_serving(seen, made, self._begun)
            serves = configured and not missing
            reason = made.reason or (missing if configured else "")
        return FlowReadiness(
            flow=self.name, joined=joined, configured=configured, serves=serves, reason=reason
        )

    @property
    def settled(self) -> bool:
        """Are the connectors configured as this node's plan says, or is that not for it to do?"""
        if self.ended:
            return True
        if not self._writes.settled or self._writes.refused or not self.plan.shown:
            return self._writes.settled
        return flow_state.is_configuration_applied(self._see(status_registry.REGISTRY.seen()))

    @property
    def not_in_force(self) -> Sequence[str]:
        """Why its file changes nothing here, none where it does, or would change nothing."""
        if self.ended:
            return ()
        elsewhere = self._writes.led_elsewhere
        return [elsewhere] if elsewhere else [f"{self.name}: {each}" for each in self._refusals()]

    def status(
        self, snapshot: RegistrySnapshot, before: FlowStatus | None, *, broken: str
    ) -> FlowStatus:
        """`before` itself where nothing has changed. `broken`: why nothing can be copied here."""
        seen = self._see(snapshot, broken)
        known, made = self._made
        if before is not None and before is made and seen == known:
            return before  # thousands of partitions at rest are not put together again
        made = flow_state.compute_flow_status(seen, before)
        self._begun = {
            *(each.index for each in made.tasks if each.state is TaskState.RUNNING),
            *(self._begun & {each.index for each in made.tasks}),
        }
        self._made = seen, made
        return made

    def _see(self, snapshot: RegistrySnapshot, broken: str = "") -> WorkerSnapshot:
        return self._view.see(
            self._member,
            snapshot,
            life=self._life,
            reason=self._reason,
            given_up=broken or self._given_up,
            unreachable=self._unreachable_reason(),
            refused="; ".join(self._refusals()),
            plan=self.plan,
        )

    def _unreachable_reason(self) -> str:
        """With what else keeps the worker from starting."""
        found = self._unreachable()
        return f"{found}; {self._trouble}" if found and self._trouble else found

    def configure(self, plan: FlowPlan) -> None:
        """Its connectors are others now, its worker is not; whoever leads writes them."""
        self.plan = plan
        self._failures.restarts.most = plan.restart_max
        self._writes.change(plan)

    # Its thread

    def run(self, _: threading.Event) -> None:
        with log_context.bind_fields(flow=self.plan.name):
            self._run()

    def _run(self) -> None:
        pauses = Backoff(initial_s=MIN_START_DELAY_S, max_s=MAX_START_DELAY_S)
        try:
            while not self.stop_asked.is_set():
                member = self._begin()
                if member is not None:
                    began_s = self._clock.now_s()
                    self._attend(member)
                    if self._clock.now_s() - began_s >= STABLE_RUN_S:
                        pauses.reset()
                self.stop_asked.wait(pauses.next_delay_s(self._random))
        except FatalError as error:
            self._reason = self._cause_of(error)
            self._life = Life.FAILED
            _log.error("%s: %s", self.plan.name, self._reason)
        finally:
            if self._life is not Life.FAILED:
                self._life = Life.STOPPED

    def _cause_of(self, error: FatalError) -> str:
        """Of a refused login or certificate the Kafka library does not tell the cause, which the
        watch of the clusters is about to find."""
        until_s = self._clock.now_s() + CAUSE_WAIT_S
        refused = isinstance(error, AuthenticationError)
        while refused and not self._unreachable() and self._clock.now_s() < until_s:
            if self.stop_asked.wait(POLL_INTERVAL_S):
                break
        return (self._unreachable() if refused else "") or str(error)

    def _begin(self) -> FleetMember | None:
        """None: not now. Raises `FatalError` where trying again is of no use."""
        ends = self.plan.ends
        try:
            member = self._fleet.member(
                self.plan.worker,
                namespace=(ends.source, ends.target),
                prefix=ends.rest_path,
                on_leading=self._writes.lead,
                before_joining=self._await_engine,
                on_trouble=self._note_trouble,
            )
            member.start()
        except RetriableError as error:
            self._reason = str(error)
            if not self.stop_asked.is_set() and not self._unreachable():
                self._log_once(logging.WARNING, f"its worker has not started: {error}")
            return None
        self._member, self._life = member, Life.WORKING
        if self._reason in (self._connecting, _ENGINE_STARTING_TEXT):
            self._reason = ""
        self._rebalances = (member, self.rebalances)
        return member

    def _await_engine(self, among_others: Callable[[], bool]) -> None:
        """Who joins is given a part of the work, and others stop theirs: not before it can be done.

        Raises `RetriableError` when it is to stop meanwhile.
        """
        if self._can_copy() or not self.plan.shown or not among_others():
            return
        while not self._can_copy():
            self._reason = _ENGINE_STARTING_TEXT
            if self.stop_asked.wait(POLL_INTERVAL_S):
                raise RetriableError("asked to stop before it joined the group")

    def _note_trouble(self, text: str) -> None:
        """What keeps the worker from starting; "": that is over."""
        self._trouble = text
        self._reason = text or self._connecting

    def _log_once(self, level: int, text: str) -> None:
        """Not again until the worker has been part of its group."""
        if text != self._logged:
            self._logged = text
            _log.log(level, "%s: %s", self.plan.name, text)

    def _attend(self, member: FleetMember) -> None:
        """Until it has ended, or is to end."""
        try:
            while not self.stop_asked.wait(POLL_INTERVAL_S) and not member.wait(
                0.0
            ):  # stops are in a hurry
                self._tick(member)
            if self.stop_asked.is_set():
                self._life, self._reason = Life.STOPPING, "its tasks stop"
            else:
                self._life, self._reason = Life.STARTING, f"its worker ended: {member.failure}"
                self._log_once(logging.ERROR, f"its worker ended: {member.failure}")
        finally:
            self._want_spares(self.name, 0)
            member.stop()
            self._member, self._rebalances = None, (None, self.rebalances)

    def _tick(self, member: FleetMember) -> None:
        now_s = self._clock.now_s()
        if self._reason and member.herder.ready():
            self._reason = self._trouble = self._logged = ""
        self._writes.look(member, now_s)
        tasks = member.herder.config().tasks(flow_plan.SOURCE_CONNECTOR)
        self._want_spares(self.name, len({*tasks} - {*member.assigned.items}))
        found = restarts.list_running_items(
            member.assigned.items,
            member.begun,
            config=member.herder.config(),
            plan=self.plan,
            leads=member.leads,
        )
        verdict = self._failures.look(found, now_s)
        self._given_up = verdict.given_up or self._never_configured(member)
        for each in verdict.due:
            _log.warning("%s: %s is started again: %s", self.plan.name, each.item, each.reason)
            self._restart(member, each.item)
        for name, asked in list(self._asked.items()):
            if asked.done():
                del self._asked[name]
                failed = asked.exception() is not None
                if not failed and isinstance(asked.result(), RequestRefused | ForwardRequest):
                    self._failures.restarts.refused(name, now_s)
                else:
                    self._failures.restarts.restarted(name, failed=failed)

    def _never_configured(self, member: FleetMember) -> str:
        """Without a configuration from before nothing of the flow can go on."""
        reason = self._writes.refused.get(flow_plan.SOURCE_CONNECTOR, "")
        stored = member.herder.config().config(flow_plan.SOURCE_CONNECTOR)
        return f"its configuration is refused: {reason}" if reason and stored is None else ""

    def _refusals(self) -> list[str]:
        return [
            f"{name} stays as it was, since its configuration is refused: {reason}"
            for name, reason in self._writes.refused.items()
        ]

    def _restart(self, member: FleetMember, item: WorkItem) -> None:
        request: HerderRequest = (
            RestartConnector(item) if isinstance(item, str) else RestartTask(item)
        )
        self._asked[str(item)] = member.herder.submit(request)
