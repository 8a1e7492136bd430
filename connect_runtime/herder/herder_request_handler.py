"""Handles the herder's queued requests in order: routes and executes each request, and replies."""

from __future__ import annotations

from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import (
    herder_request_routing,
    herder_requests,
    herder_state,
    restart_plan,
    task_config_publishing,
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
from connect_runtime.herder.herder_request_routing import HandleRequestLocally
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
    RequestRefused,
    RequestSucceeded,
    RestartAccepted,
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
    StopConnector,
)
from connect_runtime.herder.herder_state import HerderProcedure, HerderState
from connect_runtime.herder.zombie_fencing import (
    FencePreviousProducers,
    FencingNotNeeded,
    RecordTaskCount,
)
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState

INTERNAL_ERROR_STATUS = 500
SHUTTING_DOWN_MESSAGE = "Worker is shutting down"
NO_TICKET = -1
"""Ticket (the number that assigns a reply to its request) of requests that the herder makes itself.
Replies with this ticket are discarded."""


def handle_request(herder: HerderState, queued: QueuedRequest) -> HerderProcedure[None]:
    """Execute one queued request, and send its reply if the request has a ticket."""
    if isinstance(queued.request, ReconfigureConnectorTasks):
        yield from task_config_publishing.reconfigure_connector_tasks(herder, queued.request)
        return
    reply = yield from _execute_request(herder, queued)
    if reply is not None and queued.ticket is not None:
        yield SendReply(queued.ticket, reply)


def _execute_request(
    herder: HerderState, waiting: QueuedRequest
) -> HerderProcedure[HerderReply | None]:
    """Execute a request and return its reply; None if the reply is sent later or by another
    thread."""
    decision = herder_request_routing.route_request(waiting.request, herder.build_routing_state())
    if not isinstance(decision, HandleRequestLocally):
        return decision
    match waiting.request:
        case DescribeConnector(name):
            return _describe_connector(herder, name)
        case PutConnector() as request:
            return (yield from _put_connector(herder, request))
        case DeleteConnector(name):
            return _build_config_write_reply(
                (yield from herder_state.write_to_config_topic(herder, RemoveConnectorConfig(name)))
            )
        case StopConnector(name):
            return (yield from _stop_connector(herder, name))
        case RestartConnectorAndTasks() as request:
            return (yield from _restart_connector_and_tasks(herder, request))
        case PutTaskConfigs(connector=name, configs=configs):
            write = WriteTaskConfigs(connector=name, configs=configs)
            return _build_config_write_reply(
                (yield from herder_state.write_to_config_topic(herder, write))
            )
        case RestartTask() as request:
            return (yield from _restart_task(herder, request))
        case _:
            return (yield from _start_deferred_request(herder, waiting))


def _start_deferred_request(
    herder: HerderState, waiting: QueuedRequest
) -> HerderProcedure[HerderReply | None]:
    """Start a request whose reply is sent by another thread or after a later event."""
    ticket = NO_TICKET if waiting.ticket is None else waiting.ticket
    match waiting.request:
        case PatchConnector() as request:
            config = _apply_config_patch(herder, request)
            too_many = herder_requests.explain_too_many_config_keys(config)
            refused = (
                f"the configuration {too_many}"
                if too_many
                else herder_requests.explain_conflicting_name(request.connector, config)
            )
            if refused:
                return RequestRefused(herder_request_routing.BAD_REQUEST_STATUS, refused)
            yield ValidateAndPutConnector(ticket=ticket, connector=request.connector, config=config)
            return None
        case RestartConnector(name):
            return (yield from _restart_connector(herder, name, waiting.ticket))
        case FenceZombieTasks(connector=name):
            return (yield from _fence_zombie_tasks(herder, name, ticket))
        case ReadConnectorOffsets() as request:
            yield HandleOffsetsRequest(ticket=ticket, request=request)
            return None
        case ModifyConnectorOffsets() as request:
            return (yield from _modify_offsets(herder, request, ticket))
        case _:  # CheckHealth: the loop is alive
            return RequestSucceeded()


def _build_config_write_reply(failure: str | None) -> HerderReply:
    return RequestSucceeded() if failure is None else _build_refusal(failure)


def _build_refusal(reason: str) -> RequestRefused:
    return RequestRefused(INTERNAL_ERROR_STATUS, reason)


def _describe_connector(herder: HerderState, name: str) -> HerderReply:
    config = herder.snapshot.config.config(name)
    assert config is not None, name
    entry = herder.snapshot.config.entries[name]
    numbers = range(herder.snapshot.config.task_count(name))
    return ConnectorDescription(
        connector=name,
        config=config,
        task_configs=tuple(entry.task_configs.get(number) for number in numbers),
    )


def _put_connector(herder: HerderState, request: PutConnector) -> HerderProcedure[HerderReply]:
    created = not herder.snapshot.config.has_connector(request.connector)
    tasks = tuple(herder.snapshot.config.tasks(request.connector))
    failure = yield from herder_state.write_to_config_topic(
        herder,
        WriteConnectorConfig(
            connector=request.connector, config=request.config, target_state=request.target_state
        ),
    )
    if failure is not None:
        return _build_refusal(failure)
    return PutConnectorResult(
        connector=request.connector, config=request.config, tasks=tasks, created=created
    )


def _apply_config_patch(herder: HerderState, request: PatchConnector) -> RawConfig:
    config = dict(herder.snapshot.config.config(request.connector) or {})
    config.update(request.patch)
    removed = {name for name, value in request.patch.items() if value is None}
    kept = {name: value for name, value in config.items() if name not in removed}
    return kept | {"name": request.connector} if "name" in removed else kept


def _stop_connector(herder: HerderState, name: str) -> HerderProcedure[HerderReply]:
    """Remove the task configs, then set the target state. If the second write fails, a running
    connector without tasks is easier to understand than a stopped connector with tasks."""
    writes: tuple[ConfigWrite, ...] = (
        WriteTaskConfigs(connector=name, configs=()),
        WriteTargetState(connector=name, state=TargetState.STOPPED),
    )
    for write in writes:
        failure = yield from herder_state.write_to_config_topic(herder, write)
        if failure is not None:
            return _build_refusal(failure)
    if not (yield from herder_state.read_config_topic(herder)):
        yield WriteLogLine(
            f"connector {name} is stopped, but reading the config topic timed out", is_warning=True
        )
    return RequestSucceeded()


def _restart_connector_and_tasks(
    herder: HerderState, request: RestartConnectorAndTasks
) -> HerderProcedure[HerderReply]:
    failure = yield from herder_state.write_to_config_topic(
        herder, WriteRestartRequest(request.request)
    )
    if failure is not None:
        return _build_refusal(failure)
    plan = restart_plan.plan_restart(request.request, herder.snapshot.statuses)
    if plan is None:
        name = request.request.connector
        return RequestRefused(
            herder_request_routing.NOT_FOUND_STATUS, f"Status for connector {name} not found"
        )
    return RestartAccepted(plan)


def _restart_connector(
    herder: HerderState, name: str, ticket: int | None
) -> HerderProcedure[HerderReply | None]:
    items = ConnectorsAndTasks(connectors=(name,))
    yield from herder_state.stop_connectors_and_tasks(herder, items, for_good=False)
    if ticket is not None:
        herder.restart_tickets.setdefault(name, []).append(ticket)
    started = yield from herder_state.start_connectors_and_tasks(herder, items)
    if not started.failed:
        return None
    if ticket is not None:
        herder.restart_tickets[name].remove(ticket)
    return _build_refusal(f"Failed to start connector: {name}: {started.failed[0][1]}")


def _restart_task(herder: HerderState, request: RestartTask) -> HerderProcedure[HerderReply]:
    items = ConnectorsAndTasks(tasks=(request.task,))
    yield from herder_state.stop_connectors_and_tasks(herder, items, for_good=False)
    started = yield from herder_state.start_connectors_and_tasks(herder, items)
    if started.failed:
        return _build_refusal(f"Failed to start task: {request.task}: {started.failed[0][1]}")
    return RequestSucceeded()


def _fence_zombie_tasks(
    herder: HerderState, name: str, ticket: int
) -> HerderProcedure[HerderReply | None]:
    if not (yield from herder_state.read_config_topic(herder)):
        return _build_refusal(
            "Failed to read to end of config topic before performing zombie fencing"
        )
    match zombie_fencing.plan_producer_fencing(herder.snapshot.config, name):
        case FencingNotNeeded():
            return RequestSucceeded()
        case RecordTaskCount(tasks):
            write = WriteTaskCount(connector=name, tasks=tasks)
            return _build_config_write_reply(
                (yield from herder_state.write_to_config_topic(herder, write))
            )
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
    herder: HerderState, request: ModifyConnectorOffsets, ticket: int
) -> HerderProcedure[HerderReply | None]:
    if not (yield from herder_state.read_config_topic(herder)):
        return _build_refusal(
            "Failed to read to end of config topic before modifying connector offsets"
        )
    decision = herder_request_routing.check_offsets_modifiable(
        request.connector, herder.snapshot.config
    )
    if not isinstance(decision, HandleRequestLocally):
        return decision
    yield HandleOffsetsRequest(ticket=ticket, request=request)
    return None


def handle_connector_state_reached(
    herder: HerderState, event: ConnectorStateReached
) -> list[HerderAction]:
    """Reply to the requests that are waiting for a connector to start, pause, stop or fail.

    If the connector has started, its task configs are generated before the replies are sent.
    """
    waiting = tuple(herder.restart_tickets.pop(event.connector, ()))
    if event.error is not None:
        reply: HerderReply = _build_refusal(
            f"Failed to start connector: {event.connector}: {event.error}"
        )
    elif event.state is TargetState.STARTED:
        task_config_publishing.schedule_reconfiguration(herder, event.connector, waiting=waiting)
        return []
    else:
        reply = RequestSucceeded()
    return [SendReply(ticket, reply) for ticket in waiting]


def refuse_all_requests(herder: HerderState) -> HerderProcedure[None]:
    """Refuse all pending requests, because the worker is shutting down."""
    tickets: list[int] = []
    for each in herder.queue.pop_all_requests():
        if isinstance(each.request, ReconfigureConnectorTasks):
            tickets += each.request.tickets
        elif each.ticket is not None:
            tickets.append(each.ticket)
    for waiting in herder.restart_tickets.values():
        tickets += waiting
    herder.restart_tickets.clear()
    for ticket in tickets:
        yield SendReply(ticket, _build_refusal(SHUTTING_DOWN_MESSAGE))
