"""The herder's state machine: what to start and stop, what to write, whom to reply to.

Like Java's tick thread it does one thing at a time: first a rebalance, then the leader's duties,
then requests, then restarts, then changed configurations. While a blocking action is outstanding,
events are only recorded. The driver executes actions in order and reports `ActionCompleted` for a
blocking one. Standalone workers run the same machine, with a group of one member.

A reconfigured connector is restarted in place, without a rebalance; new and removed connectors
and new task configs need one. Unlike in Java, tasks whose configuration is unchanged, or that
accept the new one, keep running.
"""

from __future__ import annotations

from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import (
    herder_actions,
    herder_state,
    leader_duties,
    rebalance,
    request_service,
    restart_plan,
    task_reconfiguration,
)
from connect_runtime.herder.herder_actions import (
    ApplyTargetState,
    BlockingAction,
    CloseGroup,
    FlushStatuses,
    HerderAction,
    OfferTaskConfigs,
    PublishRestarting,
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
    EventSnapshot,
    HerderEvent,
    HerderShutdownRequested,
    JoinRequested,
    RequestSubmitted,
    StoresLoaded,
    TaskConfigsForwarded,
    TaskConfigsOffered,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_requests import (
    HerderQueueFullError,
    RequestRefused,
    RestartConnector,
)
from connect_runtime.herder.herder_state import (
    HerderScript,
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
    TasksCommitted,
)


def record_change(m: HerderState, change: ConfigChange) -> None:
    """Remember what is to be done about a change."""
    changes = m.changes
    match change:
        case ConnectorConfigured(connector, created):
            changes.rebalance = changes.rebalance or created
            if not created or m.config.contains(connector):  # removed and made again in between
                changes.connectors.add(connector)
        case ConnectorRemoved(_, existed):
            changes.rebalance = changes.rebalance or existed
        case TasksCommitted(_, tasks):
            changes.rebalance = True
            changes.tasks.update(tasks)
        case TargetStateChanged(connector):
            changes.states.add(connector)
        case RestartRequested(request):
            known = changes.restarts.get(request.connector)
            changes.restarts[request.connector] = restart_plan.choose_broader_request(
                known, request
            )
        case LoggerLevelSet():
            changes.levels.append(change)
        case SessionKeyChanged():
            pass  # whoever needs the key takes it from the newest view


def apply_logger_levels(m: HerderState) -> HerderScript[None]:
    levels, m.changes.levels = m.changes.levels, []
    for each in levels:
        yield SetLoggerLevel(each.namespace, each.level)


def run_requested_restarts(m: HerderState) -> HerderScript[None]:
    """This worker's part of what somebody asked to be restarted."""
    wanted, m.changes.restarts = m.changes.restarts, {}
    for _, request in sorted(wanted.items()):
        plan = restart_plan.plan_restart(request, m.seen.statuses)
        configured = ConnectorsAndTasks.of(
            item for item in m.running.items if m.seen.config.has(item)
        )
        ours = connectors_and_tasks.NO_WORK if plan is None else plan.own(configured)
        if not ours:
            continue
        yield WriteLogLine(f"{plan}; here {ours}")
        yield from herder_state.stop_items(m, ours, for_good=False)
        yield PublishRestarting(ours)
        yield from herder_state.start_items(m, ours)


def apply_config_changes(m: HerderState) -> HerderScript[bool]:
    """Act on changed configurations; False: a rebalance was asked for.

    Under the eager protocol that is all: everything stops for a rebalance anyway.
    """
    if not m.changes.any_configs():
        return True
    m.config = m.seen.config
    changes = m.changes
    m.changes = PendingConfigChanges(restarts=changes.restarts, levels=changes.levels)
    if not (m.eager and changes.rebalance):
        yield from _restart_connectors(m, changes.connectors)
        yield from _apply_target_states(m, changes.states)
        yield from _offer_task_configs(m, {task.connector for task in changes.tasks})
    if changes.rebalance:
        yield from herder_state.rejoin_group(m, "connectors or task configs have changed")
        return False
    return True


def _restart_connectors(m: HerderState, names: set[str]) -> HerderScript[None]:
    ours = tuple(name for name in m.running.connectors if name in names)
    remaining = tuple(name for name in ours if m.config.contains(name))
    yield from herder_state.stop_items(m, ConnectorsAndTasks(connectors=ours), for_good=False)
    yield from herder_state.start_items(m, ConnectorsAndTasks(connectors=remaining))


def _apply_target_states(m: HerderState, names: set[str]) -> HerderScript[None]:
    for name in sorted(names):
        state = m.config.target_state(name)
        if m.config.contains(name) and state is not None:
            yield ApplyTargetState(connector=name, state=state)


def _offer_task_configs(m: HerderState, connectors: set[str]) -> HerderScript[None]:
    """Tasks that cannot go on start again after the rebalance, wherever they are then."""
    ours = tuple(task for task in m.running.tasks if task.connector in connectors)
    known = tuple(task for task in ours if task not in m.to_restart)
    outcome = (yield OfferTaskConfigs(known)) if known else None
    left = outcome.left if isinstance(outcome, TaskConfigsOffered) else frozenset(known)
    ending = tuple(task for task in known if task in left)
    yield from herder_state.stop_items(m, ConnectorsAndTasks(tasks=ending), for_good=False)
    m.to_restart.update(ending)


QUEUE_FULL_STATUS = 503


class DistributedHerder:
    """Invariants: at most one question is outstanding; nothing is decided by a round after
    another was asked for; after `Close` nothing is said any more."""

    def __init__(self, settings: HerderSettings, seen: EventSnapshot) -> None:
        self._memory = HerderState(settings=settings, seen=seen)
        self._script: HerderScript[bool] | None = None
        self._question: BlockingAction | None = None
        self._sleeps_until_s: float | None = None
        self._forwarded: list[TaskConfigsForwarded] = []
        self._stirred = False
        self._closed = False

    @property
    def question(self) -> BlockingAction | None:
        """What is to be answered."""
        return self._question

    @property
    def closed(self) -> bool:
        return self._closed

    def wake_at_s(self) -> float | None:
        """When to tell `TimePassed` at the latest; None while only other events matter."""
        m = self._memory
        if self._question is not None or self._closed or not m.begun:
            return None
        times = [self._sleeps_until_s]
        if m.joined and self._script is None:
            times += [m.queue.next_at_s, m.due_s]
            if m.leads and m.signs:
                times.append(leader_duties.compute_key_rotation_time_s(m))
        return min((each for each in times if each is not None), default=None)

    def step(self, event: HerderEvent, seen: EventSnapshot) -> list[HerderAction]:
        """Take an event in, say what to do."""
        if self._closed:
            return []
        self._memory.seen = seen
        said: list[HerderAction] = []
        outcome: ActionOutcome | None = None
        if isinstance(event, ActionCompleted):
            assert self._question is not None, event
            self._question, outcome = None, event.outcome
        else:
            self._stirred = True
            if not self._note(event):
                said += self._told(event)
        if self._question is None:
            self._go_on(outcome, said)
        return said

    def _note(self, event: HerderEvent) -> bool:
        """Remember what the group and the config topic say; False for anybody else."""
        m = self._memory
        match event:
            case StoresLoaded():
                m.begun, m.config = True, m.seen.config
            case ConfigRecordRead(change):
                record_change(m, change)
            case JoinRequested(stop):
                m.join_asked = stop
            case AssignmentReceived():
                m.arrived = event
            case CoordinatorLost(reason):
                m.lost, m.arrived, m.join_asked = reason, None, None
            case HerderShutdownRequested():
                m.closing = True
            case _:
                return False
        return True

    def _told(self, event: HerderEvent) -> list[HerderAction]:
        """What the worker, the leader and askers say."""
        match event:
            case ConnectorStateReached():
                return request_service.handle_connector_state_reached(self._memory, event)
            case TaskReconfigurationRequested(connector):
                task_reconfiguration.schedule_reconfiguration(self._memory, connector)
            case TaskConfigsForwarded():
                self._forwarded.append(event)
            case RequestSubmitted():
                return self._submitted(event)
        return []

    def _submitted(self, event: RequestSubmitted) -> list[HerderAction]:
        m = self._memory
        reply: RequestRefused
        if m.closing:
            reply = RequestRefused(
                request_service.INTERNAL_ERROR_STATUS, request_service.SHUTTING_DOWN_MESSAGE
            )
        else:
            if event.ticket is None and isinstance(event.request, RestartConnector):
                m.queue.drop_scheduled_restart(event.request.connector)
            try:
                at_s = m.seen.now_s + event.delay_s
                m.queue.add(event.request, ticket=event.ticket, at_s=at_s)
            except HerderQueueFullError as error:
                reply = RequestRefused(QUEUE_FULL_STATUS, f"{error}; try again later")
            else:
                return []
        return [] if event.ticket is None else [SendReply(event.ticket, reply)]

    def _go_on(self, outcome: ActionOutcome | None, said: list[HerderAction]) -> None:
        """Run the script until it asks or sleeps; then, if anything stirred, the next one."""
        if not self._awake():
            return
        while self._script is not None or self._stirred:
            if self._script is None:
                self._stirred = False
                self._script = self._tick()
            try:
                next_one = self._script.send(outcome)
            except StopIteration as ended:
                self._script = None
                self._stirred = self._stirred or ended.value
                outcome = None
                continue
            outcome = None
            if isinstance(next_one, SleepUntil):
                self._sleeps_until_s = next_one.until_s
                if not self._awake():
                    return
                continue
            said.append(next_one)
            if isinstance(next_one, CloseGroup):
                self._script, self._closed = None, True
                return
            if isinstance(next_one, herder_actions.BLOCKING_ACTIONS):
                self._question = next_one
                return

    def _awake(self) -> bool:
        """A sleep ends when its time has come, or when nothing is worth waiting for any more."""
        if self._sleeps_until_s is None:
            return True
        m = self._memory
        if m.closing or m.lost is not None:
            assert self._script is not None
            self._script.close()
            self._script, self._stirred = None, True
        elif m.seen.now_s < self._sleeps_until_s:
            return False
        self._sleeps_until_s = None
        return True

    def _tick(self) -> HerderScript[bool]:
        """Once round. True: come round again at once."""
        m = self._memory
        if not m.begun and not m.closing:
            return False
        yield from apply_logger_levels(m)
        yield from self._heed_group()
        if m.closing:
            yield from self._close()
            return False
        if not m.can_read and not (yield from rebalance.sync_config_topic(m)):
            return True
        if m.left:
            yield from herder_state.rejoin_group(m, "the config topic can be read again")
        if m.join_asked is not None:
            stop, m.join_asked = m.join_asked, None
            yield from rebalance.prepare_to_join(m, stop)
        if not m.joined:
            return False
        return (yield from self._tick_joined())

    def _heed_group(self) -> HerderScript[None]:
        m = self._memory
        if m.lost is not None:
            reason, m.lost = m.lost, None
            yield from rebalance.handle_coordinator_loss(m, reason)
        if m.arrived is not None:
            arrived, m.arrived = m.arrived, None
            yield from rebalance.accept_assignment(m, arrived)

    def _tick_joined(self) -> HerderScript[bool]:
        m = self._memory
        if not (yield from rebalance.apply_assignment(m)):
            return not m.can_read
        if not (yield from leader_duties.perform_due_duties(m)):
            return True
        yield from self._serve()
        yield from run_requested_restarts(m)
        yield from apply_config_changes(m)
        return not m.can_read or (m.write_lost and m.leads)

    def _serve(self) -> HerderScript[None]:
        m = self._memory
        told, self._forwarded = self._forwarded, []
        for event in told:
            yield from task_reconfiguration.handle_forward_result(m, event)
        while not self._disturbed() and (waiting := m.queue.take_due(m.seen.now_s)) is not None:
            yield from request_service.handle_request(m, waiting)

    def _disturbed(self) -> bool:
        """Something more urgent came up than the next request."""
        m = self._memory
        return (
            m.closing
            or m.lost is not None
            or m.join_asked is not None
            or not m.can_read
            or (m.write_lost and m.leads)
        )

    def _close(self) -> HerderScript[None]:
        m = self._memory
        yield from herder_state.stop_items(m, m.running)
        yield from request_service.refuse_all_requests(m)
        m.round, m.joined = None, False
        yield FlushStatuses()
        yield CloseGroup()

    def check_invariants(self) -> None:
        self._memory.check_invariants()
        assert self._question is None or self._script is not None
        assert self._sleeps_until_s is None or self._script is not None
