"""Requests, one after the other: admitted, carried out, answered."""

from __future__ import annotations

from connect_runtime.core.assignment import work
from connect_runtime.core.herder import (
    admission,
    events,
    fencing,
    instructions,
    memory,
    reconfiguration,
    requests,
    restart_plan,
)
from connect_runtime.core.state import cluster_config

FAILURE = 500
CLOSING = "Worker is shutting down"
NOBODY = -1
"""The ticket of what nobody asked for: what is said to it may be dropped."""


def serve(m: memory.Memory, waiting: requests.Waiting) -> memory.Script[None]:
    """Carry one request out, and answer it if anybody asked."""
    if isinstance(waiting.request, requests.Reconfigure):
        yield from reconfiguration.attempt(m, waiting.request)
        return
    reply = yield from _reply(m, waiting)
    if reply is not None and waiting.ticket is not None:
        yield instructions.Answer(waiting.ticket, reply)


def _reply(m: memory.Memory, waiting: requests.Waiting) -> memory.Script[requests.Reply | None]:
    """None: somebody else answers."""
    verdict = admission.judge(waiting.request, m.standing())
    if not isinstance(verdict, admission.Proceed):
        return verdict
    match waiting.request:
        case requests.Describe(name):
            return _describe(m, name)
        case requests.PutConnector() as request:
            return (yield from _put(m, request))
        case requests.DeleteConnector(name):
            return _accepted((yield from memory.write(m, instructions.RemoveConnector(name))))
        case requests.StopConnector(name):
            return (yield from _stop(m, name))
        case requests.RestartAll() as request:
            return (yield from _restart_all(m, request))
        case requests.PutTaskConfigs(connector=name, configs=configs):
            write = instructions.WriteTaskConfigs(connector=name, configs=configs)
            return _accepted((yield from memory.write(m, write)))
        case requests.RestartTask() as request:
            return (yield from _restart_task(m, request))
        case _:
            return (yield from _reply_later(m, waiting))


def _reply_later(
    m: memory.Memory, waiting: requests.Waiting
) -> memory.Script[requests.Reply | None]:
    """Requests that others answer, or this worker when something else has happened."""
    ticket = NOBODY if waiting.ticket is None else waiting.ticket
    match waiting.request:
        case requests.PatchConnector() as request:
            yield instructions.ValidateAndPut(
                ticket=ticket, connector=request.connector, config=_patched(m, request)
            )
            return None
        case requests.RestartConnector(name):
            return (yield from _restart_connector(m, name, waiting.ticket))
        case requests.FenceTasks(connector=name):
            return (yield from _fence(m, name, ticket))
        case requests.ReadOffsets() as request:
            yield instructions.AnswerByWorker(ticket=ticket, request=request)
            return None
        case requests.ModifyOffsets() as request:
            return (yield from _modify_offsets(m, request, ticket))
        case _:  # a check of health: it came round
            return requests.Accepted()


def _accepted(failure: str | None) -> requests.Reply:
    return requests.Accepted() if failure is None else _failed(failure)


def _failed(reason: str) -> requests.Refused:
    return requests.Refused(FAILURE, reason)


def _describe(m: memory.Memory, name: str) -> requests.Reply:
    config = m.seen.config.config(name)
    assert config is not None, name
    entry = m.seen.config.entries[name]
    numbers = range(m.seen.config.task_count(name))
    return requests.Description(
        connector=name,
        config=config,
        task_configs=tuple(entry.task_configs.get(number) for number in numbers),
    )


def _put(m: memory.Memory, request: requests.PutConnector) -> memory.Script[requests.Reply]:
    created = not m.seen.config.contains(request.connector)
    tasks = tuple(m.seen.config.tasks(request.connector))
    failure = yield from memory.write(
        m,
        instructions.WriteConnector(
            connector=request.connector, config=request.config, target_state=request.target_state
        ),
    )
    if failure is not None:
        return _failed(failure)
    return requests.Put(
        connector=request.connector, config=request.config, tasks=tasks, created=created
    )


def _patched(m: memory.Memory, request: requests.PatchConnector) -> cluster_config.RawConfig:
    config = dict(m.seen.config.config(request.connector) or {})
    config.update(request.patch)
    removed = {name for name, value in request.patch.items() if value is None}
    return {name: value for name, value in config.items() if name not in removed}


def _stop(m: memory.Memory, name: str) -> memory.Script[requests.Reply]:
    """First it gives up its tasks: a running connector without any is less of a surprise, should
    the second write fail, than a stopped one with tasks."""
    writes: tuple[instructions.ConfigWrite, ...] = (
        instructions.WriteTaskConfigs(connector=name, configs=()),
        instructions.WriteTargetState(connector=name, state=cluster_config.TargetState.STOPPED),
    )
    for write in writes:
        failure = yield from memory.write(m, write)
        if failure is not None:
            return _failed(failure)
    if not (yield from memory.read_configs(m)):
        yield instructions.Note(
            f"{name} is stopped, but the config topic was not read in time", warns=True
        )
    return requests.Accepted()


def _restart_all(m: memory.Memory, request: requests.RestartAll) -> memory.Script[requests.Reply]:
    failure = yield from memory.write(m, instructions.WriteRestart(request.request))
    if failure is not None:
        return _failed(failure)
    plan = restart_plan.plan(request.request, m.seen.statuses)
    if plan is None:
        name = request.request.connector
        return requests.Refused(admission.NOT_FOUND, f"Status for connector {name} not found")
    return requests.Restarting(plan)


def _restart_connector(
    m: memory.Memory, name: str, ticket: int | None
) -> memory.Script[requests.Reply | None]:
    ours = work.Work(connectors=(name,))
    yield from memory.stop(m, ours, for_good=False)
    if ticket is not None:
        m.restarting.setdefault(name, []).append(ticket)
    started = yield from memory.start(m, ours)
    if not started.failed:
        return None
    if ticket is not None:
        m.restarting[name].remove(ticket)
    return _failed(f"Failed to start connector: {name}: {started.failed[0][1]}")


def _restart_task(m: memory.Memory, request: requests.RestartTask) -> memory.Script[requests.Reply]:
    ours = work.Work(tasks=(request.task,))
    yield from memory.stop(m, ours, for_good=False)
    started = yield from memory.start(m, ours)
    if started.failed:
        return _failed(f"Failed to start task: {request.task}: {started.failed[0][1]}")
    return requests.Accepted()


def _fence(m: memory.Memory, name: str, ticket: int) -> memory.Script[requests.Reply | None]:
    if not (yield from memory.read_configs(m)):
        return _failed("Failed to read to end of config topic before performing zombie fencing")
    match fencing.plan(m.seen.config, name):
        case fencing.NothingToFence():
            return requests.Accepted()
        case fencing.OnlyRecord(tasks):
            write = instructions.WriteFencingCount(connector=name, tasks=tasks)
            return _accepted((yield from memory.write(m, write)))
        case fencing.Fence() as plan:
            yield instructions.FenceProducers(
                ticket=ticket,
                connector=name,
                producers=plan.producers,
                tasks=plan.tasks,
                generation=plan.generation,
            )
            return None


def _modify_offsets(
    m: memory.Memory, request: requests.ModifyOffsets, ticket: int
) -> memory.Script[requests.Reply | None]:
    if not (yield from memory.read_configs(m)):
        return _failed("Failed to read to end of config topic before modifying connector offsets")
    verdict = admission.may_modify_offsets(request.connector, m.seen.config)
    if not isinstance(verdict, admission.Proceed):
        return verdict
    yield instructions.AnswerByWorker(ticket=ticket, request=request)
    return None


def reached(m: memory.Memory, event: events.ConnectorReached) -> list[instructions.Instruction]:
    """A connector started, paused, stopped, or failed to: who waited for that is answered.

    A started one is asked for its task configs; its askers are answered after that.
    """
    waiting = tuple(m.restarting.pop(event.connector, ()))
    if event.error is not None:
        reply: requests.Reply = _failed(
            f"Failed to start connector: {event.connector}: {event.error}"
        )
    elif event.state is cluster_config.TargetState.STARTED:
        reconfiguration.ask(m, event.connector, waiting=waiting)
        return []
    else:
        reply = requests.Accepted()
    return [instructions.Answer(ticket, reply) for ticket in waiting]


def refuse_all(m: memory.Memory) -> memory.Script[None]:
    """The end: nobody is left without an answer."""
    tickets: list[int] = []
    for each in m.queue.take_all():
        if isinstance(each.request, requests.Reconfigure):
            tickets += each.request.waiting
        elif each.ticket is not None:
            tickets.append(each.ticket)
    for waiting in m.restarting.values():
        tickets += waiting
    m.restarting.clear()
    for ticket in tickets:
        yield instructions.Answer(ticket, _failed(CLOSING))
