"""The herder's state machine: decides what to start, stop and write, and replies to requests.

Like Java's tick thread, it does one thing at a time, in this order: rebalance, leader duties,
requests, restarts, changed configurations. While a blocking action is in progress, events are only
recorded. `HerderLoop` executes the actions in order and reports the outcome of a blocking action
with `ActionCompleted`. Standalone workers use the same state machine, with a group of one member.

A reconfigured connector is restarted in place, without a rebalance. New connectors, removed
connectors and new task configs require a rebalance. Unlike in Java, tasks keep running if their
configuration is unchanged or if they accept the new one.
"""

from __future__ import annotations

from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import (
    herder_actions,
    herder_request_handler,
    herder_state,
    leader_duties,
    rebalance_handler,
    restart_plan,
    task_config_publishing,
)
from connect_runtime.herder.herder_actions import (
    ApplyTargetState,
    BlockingAction,
    FlushStatuses,
    HerderAction,
    LeaveGroupPermanently,
    PublishRestartingStatuses,
    ReconfigureRunningTasks,
    SendReply,
    SetLoggerLevel,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import (
    ActionCompleted,
    ActionOutcome,
    AssignmentReceived,
    ConfigRecordRead,
    ConnectorStateReached,
    CoordinatorLost,
    HerderEvent,
    HerderShutdownRequested,
    JoinRequested,
    RequestSubmitted,
    RunningTasksReconfigured,
    StoresLoaded,
    StoreSnapshot,
    TaskConfigsForwarded,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_requests import (
    HerderQueueFullError,
    RequestRefused,
    RestartConnector,
)
from connect_runtime.herder.herder_state import (
    HerderProcedure,
    HerderSettings,
    HerderState,
    PendingConfigChanges,
    SleepUntil,
)
from connect_runtime.storage.config_topic import (
    ConfigChange,
    ConnectorConfigured,
    ConnectorRemoved,
    LoggerLevelSet,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TaskConfigsCommitted,
)


def record_config_change(herder: HerderState, change: ConfigChange) -> None:
    """Add a config topic change to the changes that the herder has yet to handle."""
    changes = herder.changes
    match change:
        case ConnectorConfigured(connector, created):
            changes.needs_rebalance = changes.needs_rebalance or created
            if not created or herder.applied_config.has_connector(
                connector
            ):  # recreated since the last tick
                changes.connectors.add(connector)
        case ConnectorRemoved(_, existed):
            changes.needs_rebalance = changes.needs_rebalance or existed
        case TaskConfigsCommitted(_, tasks):
            changes.needs_rebalance = True
            changes.tasks.update(tasks)
        case TargetStateChanged(connector):
            changes.states.add(connector)
        case RestartRequested(request):
            pending = changes.restarts.get(request.connector)
            changes.restarts[request.connector] = restart_plan.choose_broader_request(
                pending, request
            )
        case LoggerLevelSet():
            changes.levels.append(change)
        case SessionKeyChanged():
            pass  # the key is always read from the newest config state


def apply_logger_levels(herder: HerderState) -> HerderProcedure[None]:
    """Set the logger levels that were written to the config topic."""
    levels, herder.changes.levels = herder.changes.levels, []
    for each in levels:
        yield SetLoggerLevel(each.namespace, each.level)


def run_requested_restarts(herder: HerderState) -> HerderProcedure[None]:
    """Restart this worker's connectors and tasks for which restart requests were read from the
    config topic."""
    wanted, herder.changes.restarts = herder.changes.restarts, {}
    for _, request in sorted(wanted.items()):
        plan = restart_plan.plan_restart(request, herder.snapshot.statuses)
        configured = ConnectorsAndTasks.from_items(
            item
            for item in herder.running.items
            if herder.snapshot.config.has_connector_or_task(item)
        )
        own_items = (
            connectors_and_tasks.NO_WORK
            if plan is None
            else plan.select_assigned_connectors_and_tasks(configured)
        )
        if not own_items:
            continue
        yield WriteLogLine(f"{plan}; on this worker: {own_items}")
        yield from herder_state.stop_connectors_and_tasks(herder, own_items, for_good=False)
        yield PublishRestartingStatuses(own_items)
        yield from herder_state.start_connectors_and_tasks(herder, own_items)


def apply_config_changes(herder: HerderState) -> HerderProcedure[bool]:
    """Apply changed configurations. Return False if they require a rebalance.

    Under the eager protocol, a required rebalance is enough: it stops all work and starts it with
    the changed configurations.
    """
    if not herder.changes.has_config_changes():
        return True
    herder.applied_config = herder.snapshot.config
    changes = herder.changes
    herder.changes = PendingConfigChanges(restarts=changes.restarts, levels=changes.levels)
    if not (herder.uses_eager_protocol and changes.needs_rebalance):
        yield from _restart_connectors(herder, changes.connectors)
        yield from _apply_target_states(herder, changes.states)
        yield from _reconfigure_running_tasks(herder, {task.connector for task in changes.tasks})
    if changes.needs_rebalance:
        yield from herder_state.request_group_rejoin(
            herder, "connectors or task configs have changed"
        )
        return False
    return True


def _restart_connectors(herder: HerderState, names: set[str]) -> HerderProcedure[None]:
    own_items = tuple(name for name in herder.running.connectors if name in names)
    remaining = tuple(name for name in own_items if herder.applied_config.has_connector(name))
    yield from herder_state.stop_connectors_and_tasks(
        herder, ConnectorsAndTasks(connectors=own_items), for_good=False
    )
    yield from herder_state.start_connectors_and_tasks(
        herder, ConnectorsAndTasks(connectors=remaining)
    )


def _apply_target_states(herder: HerderState, names: set[str]) -> HerderProcedure[None]:
    for name in sorted(names):
        state = herder.applied_config.target_state(name)
        if herder.applied_config.has_connector(name) and state is not None:
            yield ApplyTargetState(connector=name, state=state)


def _reconfigure_running_tasks(herder: HerderState, connectors: set[str]) -> HerderProcedure[None]:
    """Pass changed configurations to running tasks. Tasks that do not accept their new
    configuration are stopped now and restarted after the rebalance."""
    own_items = tuple(task for task in herder.running.tasks if task.connector in connectors)
    running = tuple(task for task in own_items if task not in herder.tasks_to_restart)
    outcome = (yield ReconfigureRunningTasks(running)) if running else None
    to_restart = (
        outcome.to_restart if isinstance(outcome, RunningTasksReconfigured) else frozenset(running)
    )
    refusing = tuple(task for task in running if task in to_restart)
    yield from herder_state.stop_connectors_and_tasks(
        herder, ConnectorsAndTasks(tasks=refusing), for_good=False
    )
    herder.tasks_to_restart.update(refusing)


QUEUE_FULL_STATUS = 503


class DistributedHerder:
    """State machine of the herder. Call `process_event` for each event.

    Invariants: at most one blocking action is in progress; after a rebalance was requested, the
    herder ignores the previous assignment; no action follows `LeaveGroupPermanently`.
    """

    def __init__(self, settings: HerderSettings, seen: StoreSnapshot) -> None:
        self._state = HerderState(settings=settings, snapshot=seen)
        self._script: HerderProcedure[bool] | None = None
        self._blocking_action: BlockingAction | None = None
        self._sleeps_until_s: float | None = None
        self._forward_results: list[TaskConfigsForwarded] = []
        self._has_new_events = False
        self._closed = False

    @property
    def pending_blocking_action(self) -> BlockingAction | None:
        """The blocking action that the herder waits for: the caller runs it and then passes
        `ActionCompleted` to the herder. None if there is none."""
        return self._blocking_action

    @property
    def is_closed(self) -> bool:
        return self._closed

    def get_next_tick_s(self) -> float | None:
        """Return the time at which the next `HerderTick` is due; None if the herder only waits for
        other events."""
        herder = self._state
        if self._blocking_action is not None or self._closed or not herder.stores_loaded:
            return None
        times = [self._sleeps_until_s]
        if herder.is_joined and self._script is None:
            times += [herder.queue.next_due_s, herder.rejoin_due_s]
            if herder.is_leader and herder.signs_requests:
                times.append(leader_duties.compute_key_rotation_time_s(herder))
        return min((each for each in times if each is not None), default=None)

    def process_event(self, event: HerderEvent, snapshot: StoreSnapshot) -> list[HerderAction]:
        """Process an event and return the actions to execute, in order."""
        if self._closed:
            return []
        self._state.snapshot = snapshot
        actions: list[HerderAction] = []
        outcome: ActionOutcome | None = None
        if isinstance(event, ActionCompleted):
            assert self._blocking_action is not None, event
            self._blocking_action, outcome = None, event.outcome
        else:
            self._has_new_events = True
            if not self._record_event(event):
                actions += self._handle_event(event)
        if self._blocking_action is None:
            self._run_procedures(outcome, actions)
        return actions

    def _record_event(self, event: HerderEvent) -> bool:
        """Store an event in the herder's state for the next iteration. Return False for events that
        `_handle_event` handles."""
        herder = self._state
        match event:
            case StoresLoaded():
                herder.stores_loaded, herder.applied_config = True, herder.snapshot.config
            case ConfigRecordRead(change):
                record_config_change(herder, change)
            case JoinRequested(stop):
                herder.requested_stop = stop
            case AssignmentReceived():
                herder.new_assignment = event
            case CoordinatorLost(reason):
                herder.coordinator_loss, herder.new_assignment, herder.requested_stop = (
                    reason,
                    None,
                    None,
                )
            case HerderShutdownRequested():
                herder.is_closing = True
            case _:
                return False
        return True

    def _handle_event(self, event: HerderEvent) -> list[HerderAction]:
        """Handle an event from the worker, the leader or a caller."""
        match event:
            case ConnectorStateReached():
                return herder_request_handler.handle_connector_state_reached(self._state, event)
            case TaskReconfigurationRequested(connector):
                task_config_publishing.schedule_reconfiguration(self._state, connector)
            case TaskConfigsForwarded():
                self._forward_results.append(event)
            case RequestSubmitted():
                return self._enqueue_request(event)
        return []

    def _enqueue_request(self, event: RequestSubmitted) -> list[HerderAction]:
        herder = self._state
        reply: RequestRefused
        if herder.is_closing:
            reply = RequestRefused(
                herder_request_handler.INTERNAL_ERROR_STATUS,
                herder_request_handler.SHUTTING_DOWN_MESSAGE,
            )
        else:
            if event.ticket is None and isinstance(event.request, RestartConnector):
                herder.queue.drop_scheduled_restart(event.request.connector)
            try:
                at_s = herder.snapshot.now_s + event.delay_s
                herder.queue.add_request(event.request, ticket=event.ticket, due_s=at_s)
            except HerderQueueFullError as error:
                reply = RequestRefused(QUEUE_FULL_STATUS, f"{error}; retry later")
            else:
                return []
        return [] if event.ticket is None else [SendReply(event.ticket, reply)]

    def _run_procedures(self, outcome: ActionOutcome | None, actions: list[HerderAction]) -> None:
        """Run the current `HerderProcedure` until it blocks or sleeps. When it ends, start the next
        iteration (`_tick`) if new events have arrived."""
        if not self._can_resume_procedure():
            return
        while self._script is not None or self._has_new_events:
            if self._script is None:
                self._has_new_events = False
                self._script = self._tick()
            try:
                action = self._script.send(outcome)
            except StopIteration as ended:
                self._script = None
                self._has_new_events = self._has_new_events or ended.value
                outcome = None
                continue
            outcome = None
            if isinstance(action, SleepUntil):
                self._sleeps_until_s = action.until_s
                if not self._can_resume_procedure():
                    return
                continue
            actions.append(action)
            if isinstance(action, LeaveGroupPermanently):
                self._script, self._closed = None, True
                return
            if isinstance(action, herder_actions.BLOCKING_ACTIONS):
                self._blocking_action = action
                return

    def _can_resume_procedure(self) -> bool:
        """Return True unless the current `HerderProcedure` is sleeping. A shutdown request or the
        loss of the coordinator cancels a sleeping script."""
        if self._sleeps_until_s is None:
            return True
        herder = self._state
        if herder.is_closing or herder.coordinator_loss is not None:
            assert self._script is not None
            self._script.close()
            self._script, self._has_new_events = None, True
        elif herder.snapshot.now_s < self._sleeps_until_s:
            return False
        self._sleeps_until_s = None
        return True

    def _tick(self) -> HerderProcedure[bool]:
        """Run one iteration of the herder's loop. Return True if the next iteration must follow
        immediately."""
        herder = self._state
        if not herder.stores_loaded and not herder.is_closing:
            return False
        yield from apply_logger_levels(herder)
        yield from self._handle_group_events()
        if herder.is_closing:
            yield from self._shut_down()
            return False
        if not herder.is_config_topic_readable and not (
            yield from rebalance_handler.sync_config_topic(herder)
        ):
            return True
        if herder.has_left:
            yield from herder_state.request_group_rejoin(
                herder, "the config topic can be read again"
            )
        if herder.requested_stop is not None:
            stop, herder.requested_stop = herder.requested_stop, None
            yield from rebalance_handler.prepare_to_join_group(herder, stop)
        if not herder.is_joined:
            return False
        return (yield from self._run_tick_as_group_member())

    def _handle_group_events(self) -> HerderProcedure[None]:
        herder = self._state
        if herder.coordinator_loss is not None:
            reason, herder.coordinator_loss = herder.coordinator_loss, None
            yield from rebalance_handler.handle_coordinator_loss(herder, reason)
        if herder.new_assignment is not None:
            arrived, herder.new_assignment = herder.new_assignment, None
            yield from rebalance_handler.accept_assignment(herder, arrived)

    def _run_tick_as_group_member(self) -> HerderProcedure[bool]:
        herder = self._state
        if not (yield from rebalance_handler.apply_assignment(herder)):
            return not herder.is_config_topic_readable
        if not (yield from leader_duties.perform_due_leader_duties(herder)):
            return True
        yield from self._handle_requests()
        yield from run_requested_restarts(herder)
        yield from apply_config_changes(herder)
        return not herder.is_config_topic_readable or (
            herder.lost_write_privilege and herder.is_leader
        )

    def _handle_requests(self) -> HerderProcedure[None]:
        herder = self._state
        forward_results, self._forward_results = self._forward_results, []
        for event in forward_results:
            yield from task_config_publishing.handle_forward_result(herder, event)
        while (
            not self._has_urgent_event()
            and (waiting := herder.queue.pop_due_request(herder.snapshot.now_s)) is not None
        ):
            yield from herder_request_handler.handle_request(herder, waiting)

    def _has_urgent_event(self) -> bool:
        """Return True if an event that is more urgent than the next request has arrived."""
        herder = self._state
        return (
            herder.is_closing
            or herder.coordinator_loss is not None
            or herder.requested_stop is not None
            or not herder.is_config_topic_readable
            or (herder.lost_write_privilege and herder.is_leader)
        )

    def _shut_down(self) -> HerderProcedure[None]:
        herder = self._state
        yield from herder_state.stop_connectors_and_tasks(herder, herder.running)
        yield from herder_request_handler.refuse_all_requests(herder)
        herder.last_rebalance, herder.is_joined = None, False
        yield FlushStatuses()
        yield LeaveGroupPermanently()

    def check_invariants(self) -> None:
        self._state.check_invariants()
        assert self._blocking_action is None or self._script is not None
        assert self._sleeps_until_s is None or self._script is not None
