"""Handles queued requests one after the other: routes each, carries it out and replies."""

from __future__ import annotations

from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import (
    herder_state,
    request_routing,
    restart_plan,
    task_reconfiguration,
    zombie_fencing,
)
from connect_runtime.herder.herder_actions import (
    ConfigWrite,
    FenceZombieProducers,
    HandleOffsetsRequest,
    HerderAction,
    RemoveConnectorConfig,
    SendReply,
    ValidateAndPutConnector,
    WriteConnectorConfig,
    WriteLogLine,
    WriteRestartRequest,
    WriteTargetState,
    WriteTaskConfigs,
    WriteTaskCount,
)
from connect_runtime.herder.herder_events import ConnectorStateReached
from connect_runtime.herder.herder_requests import (
    ConnectorDescription,
    DeleteConnector,
    DescribeConnector,
    FenceZombieTasks,
    HerderReply,
    ModifyConnectorOffsets,
    PatchConnector,
    PutConnector,
    PutConnectorResult,
    PutTaskConfigs,
    QueuedRequest,
    ReadConnectorOffsets,
    ReconfigureConnectorTasks,
    RequestAccepted,
    RequestRefused,
    RestartAccepted,
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
    StopConnector,
)
from connect_runtime.herder.herder_state import HerderScript, HerderState
from connect_runtime.herder.request_routing import HandleLocally
from connect_runtime.herder.zombie_fencing import (
    FencePreviousProducers,
    FencingNotNeeded,
    RecordTaskCount,
)
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState

INTERNAL_ERROR_STATUS = 500
SHUTTING_DOWN_MESSAGE = "Worker is shutting down"
NO_TICKET = -1
"""The ticket of what nobody asked for: what is said to it may be dropped."""


def handle_request(m: HerderState, waiting: QueuedRequest) -> HerderScript[None]:
    """Carry one request out, and answer it if anybody asked."""
    if isinstance(waiting.request, ReconfigureConnectorTasks):
        yield from task_reconfiguration.run_reconfiguration(m, waiting.request)
        return
    reply = yield from _handle_now(m, waiting)
    if reply is not None and waiting.ticket is not None:
        yield SendReply(waiting.ticket, reply)


def _handle_now(m: HerderState, waiting: QueuedRequest) -> HerderScript[HerderReply | None]:
    """None: somebody else answers."""
    verdict = request_routing.route_request(waiting.request, m.standing())
    if not isinstance(verdict, HandleLocally):
        return verdict
    match waiting.request:
        case DescribeConnector(name):
            return _describe_connector(m, name)
        case PutConnector() as request:
            return (yield from _put_connector(m, request))
        case DeleteConnector(name):
            return _build_write_reply(
                (yield from herder_state.write_config(m, RemoveConnectorConfig(name)))
            )
        case StopConnector(name):
            return (yield from _stop_connector(m, name))
        case RestartConnectorAndTasks() as request:
            return (yield from _restart_connector_and_tasks(m, request))
        case PutTaskConfigs(connector=name, configs=configs):
            write = WriteTaskConfigs(connector=name, configs=configs)
            return _build_write_reply((yield from herder_state.write_config(m, write)))
        case RestartTask() as request:
            return (yield from _restart_task(m, request))
        case _:
            return (yield from _handle_deferred(m, waiting))


def _handle_deferred(m: HerderState, waiting: QueuedRequest) -> HerderScript[HerderReply | None]:
    """Requests that others answer, or this worker when something else has happened."""
    ticket = NO_TICKET if waiting.ticket is None else waiting.ticket
    match waiting.request:
        case PatchConnector() as request:
            yield ValidateAndPutConnector(
                ticket=ticket, connector=request.connector, config=_apply_patch(m, request)
            )
            return None
        case RestartConnector(name):
            return (yield from _restart_connector(m, name, waiting.ticket))
        case FenceZombieTasks(connector=name):
            return (yield from _fence_zombie_tasks(m, name, ticket))
        case ReadConnectorOffsets() as request:
            yield HandleOffsetsRequest(ticket=ticket, request=request)
            return None
        case ModifyConnectorOffsets() as request:
            return (yield from _modify_offsets(m, request, ticket))
        case _:  # a check of health: it came round
            return RequestAccepted()


def _build_write_reply(failure: str | None) -> HerderReply:
    return RequestAccepted() if failure is None else _build_failure(failure)


def _build_failure(reason: str) -> RequestRefused:
    return RequestRefused(INTERNAL_ERROR_STATUS, reason)


def _describe_connector(m: HerderState, name: str) -> HerderReply:
    config = m.seen.config.config(name)
    assert config is not None, name
    entry = m.seen.config.entries[name]
    numbers = range(m.seen.config.task_count(name))
    return ConnectorDescription(
        connector=name,
        config=config,
        task_configs=tuple(entry.task_configs.get(number) for number in numbers),
    )


def _put_connector(m: HerderState, request: PutConnector) -> HerderScript[HerderReply]:
    created = not m.seen.config.contains(request.connector)
    tasks = tuple(m.seen.config.tasks(request.connector))
    failure = yield from herder_state.write_config(
        m,
        WriteConnectorConfig(
            connector=request.connector, config=request.config, target_state=request.target_state
        ),
    )
    if failure is not None:
        return _build_failure(failure)
    return PutConnectorResult(
        connector=request.connector, config=request.config, tasks=tasks, created=created
    )


def _apply_patch(m: HerderState, request: PatchConnector) -> RawConfig:
    config = dict(m.seen.config.config(request.connector) or {})
    config.update(request.patch)
    removed = {name for name, value in request.patch.items() if value is None}
    return {name: value for name, value in config.items() if name not in removed}


def _stop_connector(m: HerderState, name: str) -> HerderScript[HerderReply]:
    """First it gives up its tasks: a running connector without any is less of a surprise, should
    the second write fail, than a stopped one with tasks."""
    writes: tuple[ConfigWrite, ...] = (
        WriteTaskConfigs(connector=name, configs=()),
        WriteTargetState(connector=name, state=TargetState.STOPPED),
    )
    for write in writes:
        failure = yield from herder_state.write_config(m, write)
        if failure is not None:
            return _build_failure(failure)
    if not (yield from herder_state.read_config_topic(m)):
        yield WriteLogLine(
            f"{name} is stopped, but the config topic was not read in time", warns=True
        )
    return RequestAccepted()


def _restart_connector_and_tasks(
    m: HerderState, request: RestartConnectorAndTasks
) -> HerderScript[HerderReply]:
    failure = yield from herder_state.write_config(m, WriteRestartRequest(request.request))
    if failure is not None:
        return _build_failure(failure)
    plan = restart_plan.plan_restart(request.request, m.seen.statuses)
    if plan is None:
        name = request.request.connector
        return RequestRefused(
            request_routing.NOT_FOUND_STATUS, f"Status for connector {name} not found"
        )
    return RestartAccepted(plan)


def _restart_connector(
    m: HerderState, name: str, ticket: int | None
) -> HerderScript[HerderReply | None]:
    ours = ConnectorsAndTasks(connectors=(name,))
    yield from herder_state.stop_items(m, ours, for_good=False)
    if ticket is not None:
        m.restarting.setdefault(name, []).append(ticket)
    started = yield from herder_state.start_items(m, ours)
    if not started.failed:
        return None
    if ticket is not None:
        m.restarting[name].remove(ticket)
    return _build_failure(f"Failed to start connector: {name}: {started.failed[0][1]}")


def _restart_task(m: HerderState, request: RestartTask) -> HerderScript[HerderReply]:
    ours = ConnectorsAndTasks(tasks=(request.task,))
    yield from herder_state.stop_items(m, ours, for_good=False)
    started = yield from herder_state.start_items(m, ours)
    if started.failed:
        return _build_failure(f"Failed to start task: {request.task}: {started.failed[0][1]}")
    return RequestAccepted()


def _fence_zombie_tasks(m: HerderState, name: str, ticket: int) -> HerderScript[HerderReply | None]:
    if not (yield from herder_state.read_config_topic(m)):
        return _build_failure(
            "Failed to read to end of config topic before performing zombie fencing"
        )
    match zombie_fencing.plan_fencing(m.seen.config, name):
        case FencingNotNeeded():
            return RequestAccepted()
        case RecordTaskCount(tasks):
            write = WriteTaskCount(connector=name, tasks=tasks)
            return _build_write_reply((yield from herder_state.write_config(m, write)))
        case FencePreviousProducers() as plan:
            yield FenceZombieProducers(
                ticket=ticket,
                connector=name,
                producers=plan.producers,
                tasks=plan.tasks,
                generation=plan.generation,
            )
            return None


def _modify_offsets(
    m: HerderState, request: ModifyConnectorOffsets, ticket: int
) -> HerderScript[HerderReply | None]:
    if not (yield from herder_state.read_config_topic(m)):
        return _build_failure(
            "Failed to read to end of config topic before modifying connector offsets"
        )
    verdict = request_routing.check_offsets_modifiable(request.connector, m.seen.config)
    if not isinstance(verdict, HandleLocally):
        return verdict
    yield HandleOffsetsRequest(ticket=ticket, request=request)
    return None


def handle_connector_state_reached(
    m: HerderState, event: ConnectorStateReached
) -> list[HerderAction]:
    """A connector started, paused, stopped, or failed to: who waited for that is answered.

    A started one is asked for its task configs; its askers are answered after that.
    """
    waiting = tuple(m.restarting.pop(event.connector, ()))
    if event.error is not None:
        reply: HerderReply = _build_failure(
            f"Failed to start connector: {event.connector}: {event.error}"
        )
    elif event.state is TargetState.STARTED:
        task_reconfiguration.schedule_reconfiguration(m, event.connector, waiting=waiting)
        return []
    else:
        reply = RequestAccepted()
    return [SendReply(ticket, reply) for ticket in waiting]


def refuse_all_requests(m: HerderState) -> HerderScript[None]:
    """The end: nobody is left without an answer."""
    tickets: list[int] = []
    for each in m.queue.take_all():
        if isinstance(each.request, ReconfigureConnectorTasks):
            tickets += each.request.waiting
        elif each.ticket is not None:
            tickets.append(each.ticket)
    for waiting in m.restarting.values():
        tickets += waiting
    m.restarting.clear()
    for ticket in tickets:
        yield SendReply(ticket, _build_failure(SHUTTING_DOWN_MESSAGE))
