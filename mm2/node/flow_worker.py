"""Runs a flow's Connect worker on a separate thread: starts, monitors, restarts and stops it.

The leader of the group writes the connectors' configurations (Java: `MirrorHerder`). Failed
connectors and tasks are restarted after a delay.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent import futures

from connect_runtime.app.multi_worker_process import FleetMember, WorkerFleet
from connect_runtime.base import log_context
from connect_runtime.base.backoff import Backoff
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.group.connectors_and_tasks import WorkItem
from connect_runtime.herder.herder_interface import WorkerReply
from connect_runtime.herder.herder_requests import (
    ForwardRequest,
    HerderRequest,
    RequestRefused,
    RestartConnector,
    RestartTask,
)
from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.storage import config_topic
from mm2.config import flow_connector_configs
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.pause_and_throttle_overrides import OverrideKind
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus, RegistrySnapshot, TaskState
from mm2.node import connector_restarts
from mm2.node.config_publisher import ConfigPublisher
from mm2.node.connector_restarts import FailureTracker, RestartPlanner
from mm2.node.stored_config_resolver import StoredConfigResolver
from mm2.status import flow_status
from mm2.status.flow_status import FlowWorkerState, WorkerSnapshot
from mm2.status.process_health import FlowReadiness
from mm2.status.worker_snapshot_reader import WorkerSnapshotReader

POLL_INTERVAL_S = 0.2
MIN_START_DELAY_S, MAX_START_DELAY_S = 0.5, 10.0
CAUSE_WAIT_S = 2.0
STABLE_RUN_S = 60.0
"""A worker that ran for at least this many seconds counts as stable: the restart delay is reset
after it ends."""
_MAX_SHOWN_CONNECTORS = 3
Life = FlowWorkerState
_ENGINE_STARTING_TEXT = "Spark is starting; other nodes run the flow's tasks until it is ready"

_log = logging.getLogger(__name__)


class FlowWorker:
    """Runs a flow's Connect worker. `run` is the body of the flow's thread; all other methods are
    thread-safe."""

    def __init__(
        self,
        plan: FlowPlan,
        fleet: WorkerFleet,
        *,
        can_copy: Callable[[], bool],
        set_remote_tasks: Callable[[str, int], None],
        unreachable: Callable[[], str] = lambda: "",
        clock: Clock,
        rebalances: int = 0,
    ) -> None:
        """Create a flow worker without starting it.

        `can_copy` returns True once the engine is ready. The worker regularly passes the flow's
        name and the number of the flow's tasks on other nodes to `set_remote_tasks`. `unreachable`
        returns why a cluster of the flow is unreachable, or "" if both clusters are reachable.
        `rebalances` is the number of rebalances that the previous worker of the flow has counted.
        """
        self.plan = plan
        self._can_copy = can_copy
        self._want_spares = set_remote_tasks
        self._unreachable = unreachable
        self.stop_requested = threading.Event()
        self._fleet = fleet
        self._clock = clock
        self._state = Life.STARTING
        where = ",".join(plan.worker.access.bootstrap)
        self._connecting = f"connecting to {plan.ends.target} ({where})"
        self._reason = self._connecting
        self._trouble = ""
        self._logged = ""
        """Last logged start failure; cleared when the worker has joined its group."""
        self._member: FleetMember | None = None
        self._snapshot_reader = WorkerSnapshotReader()
        self._last_status: tuple[WorkerSnapshot | None, FlowStatus | None] = (None, None)
        self._started_tasks: Set[int] = set()
        """Numbers of the tasks on this node whose copy processes have already run. Thread-safe,
        because the set is always replaced as a whole."""
        self._resolver = StoredConfigResolver(plan)
        self._publisher = ConfigPublisher(plan)
        self._failures = FailureTracker(RestartPlanner(plan.restart_max))
        self._given_up = ""
        self._has_logged_ignored_connectors = False
        self._random = random.Random()  # noqa: S311 - jitter, not secrets
        self._rebalances: tuple[FleetMember | None, int] = (None, rebalances)
        """The current group member, and the rebalance count of the previous members. Thread-safe,
        because the pair is always replaced as a whole."""
        self._restart_replies: dict[str, futures.Future[WorkerReply]] = {}

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def has_ended(self) -> bool:
        return self._state in (Life.STOPPED, Life.FAILED)

    @property
    def is_group_member(self) -> bool:
        """True while the worker is a member of its group or joining it."""
        return self._member is not None

    @property
    def plugin_metrics(self) -> tuple[MetricFamily, ...]:
        """Metrics of the flow's Connect worker and of its plugins."""
        member = self._member
        return () if member is None else member.all_families

    @property
    def worker_metrics(self) -> tuple[MetricFamily, ...]:
        """Metrics of the flow's Connect worker, without those of its plugins."""
        member = self._member
        return () if member is None else member.own_metric_families

    @property
    def rebalance_count(self) -> int:
        """Number of rebalances in which this node has participated since the flow was
        configured."""
        member, before = self._rebalances
        return before + (0 if member is None else member.rebalance_count)

    @property
    def connector_overrides(self) -> Mapping[str, OverrideKind]:
        """The flow's connectors, except the source connector, that an operator paused or stopped;
        empty while unknown."""
        member = self._member
        return (
            {}
            if member is None
            else flow_status.find_connector_overrides(member.herder.get_config_state())
        )

    @property
    def readiness(self) -> FlowReadiness:
        """Readiness of the flow when `update_status` was last called."""
        member, (seen, made) = self._member, self._last_status
        joined = (
            self._state is Life.WORKING and member is not None and member.assignment_offset >= 0
        )
        if not self.plan.replicates_topics or seen is None or made is None:
            configured = serves = joined and self._publisher.has_written_configs
            reason = self._explain_unreachable_cluster() or self._reason
        else:
            configured = joined and seen.has_joined and seen.is_config_current
            missing = flow_status.explain_why_no_task_runs(seen, made, self._started_tasks)
            serves = configured and not missing
            reason = made.reason or (missing if configured else "")
        return FlowReadiness(
            flow=self.name, joined=joined, configured=configured, is_serving=serves, reason=reason
        )

    @property
    def has_applied_plan(self) -> bool:
        """True if the connectors are configured as planned, or if another node must configure
        them."""
        if self.has_ended:
            return True
        if (
            not self._publisher.has_written_configs
            or self._publisher.rejections
            or not self.plan.replicates_topics
        ):
            return self._publisher.has_written_configs
        return flow_status.is_configuration_applied(
            self._build_worker_snapshot(status_registry.REGISTRY.get_snapshot())
        )

    @property
    def ineffective_changes(self) -> Sequence[str]:
        """Reasons why changes in this node's file have no effect; empty if all changes took
        effect."""
        if self.has_ended:
            return ()
        elsewhere = self._publisher.other_leader_reason
        return (
            [elsewhere]
            if elsewhere
            else [f"{self.name}: {each}" for each in self._describe_rejections()]
        )

    def update_status(
        self, snapshot: RegistrySnapshot, before: FlowStatus | None, *, broken: str
    ) -> FlowStatus:
        """Return the current status of the flow. If the status has not changed, return the object
        `before`. `broken` is the reason why this node cannot copy any partition, or ""."""
        snapshot_now = self._build_worker_snapshot(snapshot, broken)
        last_snapshot, status = self._last_status
        if before is not None and before is status and snapshot_now == last_snapshot:
            return before  # avoids rebuilding the status of thousands of idle partitions
        status = flow_status.compute_flow_status(snapshot_now, before)
        self._started_tasks = {
            *(each.index for each in status.tasks if each.state is TaskState.RUNNING),
            *(self._started_tasks & {each.index for each in status.tasks}),
        }
        self._last_status = snapshot_now, status
        return status

    def _build_worker_snapshot(
        self, snapshot: RegistrySnapshot, broken: str = ""
    ) -> WorkerSnapshot:
        return self._snapshot_reader.read_snapshot(
            self._member,
            snapshot,
            life=self._state,
            reason=self._reason,
            given_up=broken or self._given_up,
            unreachable=self._explain_unreachable_cluster(),
            refused="; ".join(self._describe_rejections()),
            plan=self.plan,
        )

    def _explain_unreachable_cluster(self) -> str:
        """Return why a cluster of the flow is unreachable, followed by any other reason why the
        worker has not started; "" if both clusters are reachable."""
        reason = self._unreachable()
        return f"{reason}; {self._trouble}" if reason and self._trouble else reason

    def replace_plan(self, plan: FlowPlan) -> None:
        """Replace the flow's plan with a plan that has the same worker settings but different
        connector configurations."""
        self.plan = plan
        self._failures.restarts.max_restarts = plan.restart_max
        self._resolver.plan = plan
        self._publisher.replace_plan(plan)

    # Runs on the flow's thread

    def run(self, _: threading.Event) -> None:
        with log_context.bind_log_fields(flow=self.plan.name):
            self._run()

    def _run(self) -> None:
        backoff = Backoff(initial_s=MIN_START_DELAY_S, max_s=MAX_START_DELAY_S)
        try:
            while not self.stop_requested.is_set():
                member = self._start_member()
                if member is not None:
                    started_s = self._clock.now_s()
                    self._monitor_member(member)
                    if self._clock.now_s() - started_s >= STABLE_RUN_S:
                        backoff.reset()
                self.stop_requested.wait(backoff.next_delay_s(self._random))
        except FatalError as error:
            self._reason = self._find_fatal_error_cause(error)
            self._state = Life.FAILED
            _log.error("%s: %s", self.plan.name, self._reason)
        finally:
            if self._state is not Life.FAILED:
                self._state = Life.STOPPED

    def _find_fatal_error_cause(self, error: FatalError) -> str:
        """Return the cause of a fatal error.

        The Kafka library does not report why the cluster rejected a login or certificate. The
        cluster monitor, which connects to the same cluster, finds the cause within `CAUSE_WAIT_S`.
        """
        until_s = self._clock.now_s() + CAUSE_WAIT_S
        refused = isinstance(error, AuthenticationError)
        while refused and not self._unreachable() and self._clock.now_s() < until_s:
            if self.stop_requested.wait(POLL_INTERVAL_S):
                break
        return (self._unreachable() if refused else "") or str(error)

    def _start_member(self) -> FleetMember | None:
        """Start the flow's Connect worker. Return None if this failed with a transient error.
        Raises `FatalError` if a retry cannot help."""
        flow_ends = self.plan.ends
        try:
            member = self._fleet.create_member(
                dataclasses.replace(
                    self.plan.worker,
                    resolve_connector_config=self._resolver,
                    allowed_connectors=frozenset(self.plan.connectors),
                ),
                namespace=(flow_ends.source, flow_ends.target),
                prefix=flow_ends.rest_path,
                on_leading=self._publisher.notify_leadership,
                before_joining=self._wait_for_engine,
                on_trouble=self._set_start_failure_reason,
            )
            member.start()
        except RetriableError as error:
            self._reason = str(error)
            if not self.stop_requested.is_set() and not self._unreachable():
                self._log_message_once(logging.WARNING, f"the worker has not started: {error}")
            return None
        self._member, self._state = member, Life.WORKING
        if self._reason in (self._connecting, _ENGINE_STARTING_TEXT):
            self._reason = ""
        self._rebalances = (member, self.rebalance_count)
        return member

    def _wait_for_engine(self, among_others: Callable[[], bool]) -> None:
        """Wait until the engine is ready before joining a group that has other members.

        A rebalance assigns running tasks of other members to the new member, so the new member must
        be able to run them. Raises `RetriableError` if the worker is stopped while waiting.
        """
        if self._can_copy() or not self.plan.replicates_topics or not among_others():
            return
        while not self._can_copy():
            self._reason = _ENGINE_STARTING_TEXT
            if self.stop_requested.wait(POLL_INTERVAL_S):
                raise RetriableError("the worker was stopped before it joined its Connect group")

    def _set_start_failure_reason(self, text: str) -> None:
        """Set the reason why the worker cannot start; "" if nothing prevents it."""
        self._trouble = text
        self._reason = text or self._connecting

    def _log_message_once(self, level: int, text: str) -> None:
        """Log a line, unless it was already logged since the worker last joined its group."""
        if text != self._logged:
            self._logged = text
            _log.log(level, "%s: %s", self.plan.name, text)

    def _monitor_member(self, member: FleetMember) -> None:
        """Monitor the worker until it has ended or is requested to stop."""
        try:
            while not self.stop_requested.wait(POLL_INTERVAL_S) and not member.wait(
                0.0
            ):  # check for a stop first
                self._poll_member(member)
            if self.stop_requested.is_set():
                self._state, self._reason = Life.STOPPING, "its tasks are stopping"
            else:
                self._state, self._reason = Life.STARTING, f"the worker ended: {member.failure}"
                self._log_message_once(logging.ERROR, f"the worker ended: {member.failure}")
        finally:
            self._want_spares(self.name, 0)
            member.stop()
            self._member, self._rebalances = None, (None, self.rebalance_count)

    def _poll_member(self, member: FleetMember) -> None:
        now_s = self._clock.now_s()
        if self._reason and member.herder.is_ready():
            self._reason = self._trouble = self._logged = ""
        self._log_ignored_connectors_once(member)
        self._publisher.write_or_compare_configs(member, now_s)
        tasks = member.herder.get_config_state().tasks(flow_connector_configs.SOURCE_CONNECTOR)
        self._want_spares(self.name, len({*tasks} - {*member.assignment.items}))
        items = connector_restarts.list_started_work_items(
            member.assignment.items,
            member.started_connectors_and_tasks,
            config=member.herder.get_config_state(),
            plan=self.plan,
            is_leader=member.is_leader,
        )
        decision = self._failures.decide_restarts(items, now_s)
        self._given_up = decision.give_up_reason or self._explain_unconfigured_flow(member)
        for each in decision.due:
            _log.warning("%s: restarting %s: %s", self.plan.name, each.item, each.failure_reason)
            self._submit_restart_request(member, each.item)
        for name, reply in list(self._restart_replies.items()):
            if reply.done():
                del self._restart_replies[name]
                failed = reply.exception() is not None
                if not failed and isinstance(reply.result(), RequestRefused | ForwardRequest):
                    self._failures.restarts.record_restart_rejection(name, now_s)
                else:
                    self._failures.restarts.record_restart_result(name, failed=failed)

    def _log_ignored_connectors_once(self, member: FleetMember) -> None:
        ignored = member.herder.get_config_state().ignored_connectors
        if not ignored or self._has_logged_ignored_connectors:
            return
        self._has_logged_ignored_connectors = True
        _log.warning(
            "%s: ignoring %s%d stored connector(s) that are not the flow's, such as %s: the flow "
            "runs only %s. Run other connectors in a Connect worker (connect-distributed) with its "
            "own internal topics",
            self.plan.name,
            "at least " if len(ignored) >= config_topic.MAX_IGNORED_NAMES else "",
            len(ignored),
            ", ".join(repr(each) for each in sorted(ignored)[:_MAX_SHOWN_CONNECTORS]),
            ", ".join(self.plan.connectors),
        )

    def _explain_unconfigured_flow(self, member: FleetMember) -> str:
        """Return why the flow cannot run: its configuration was rejected and no earlier
        configuration exists; "" otherwise."""
        reason = self._publisher.rejections.get(flow_connector_configs.SOURCE_CONNECTOR, "")
        stored = member.herder.get_config_state().config(flow_connector_configs.SOURCE_CONNECTOR)
        return (
            (f"the flow's configuration was rejected: {reason}")
            if reason and stored is None
            else ""
        )

    def _describe_rejections(self) -> list[str]:
        return [
            f"{name} keeps its previous configuration, because the new configuration was rejected: "
            f"{reason}"
            for name, reason in self._publisher.rejections.items()
        ]

    def _submit_restart_request(self, member: FleetMember, item: WorkItem) -> None:
        request: HerderRequest = (
            RestartConnector(item) if isinstance(item, str) else RestartTask(item)
        )
        self._restart_replies[str(item)] = member.herder.submit_request(request)
