"""What the config topic brings: noted as it comes, acted on between requests.

A connector that was configured anew is restarted where it runs, without a rebalance. New and
removed connectors, and task configs, need one. Other than in Java, of a connector whose task
configs were published those tasks go on to which they make no difference, or which take them up.
"""

from __future__ import annotations

from connect_runtime.core.assignment import work
from connect_runtime.core.herder import events, instructions, memory, restart_plan
from connect_runtime.core.state import config_log


def note(m: memory.Memory, change: config_log.Change) -> None:
    """Remember what is to be done about a change."""
    changes = m.changes
    match change:
        case config_log.ConnectorConfigured(connector, created):
            changes.rebalance = changes.rebalance or created
            if not created or m.config.contains(connector):  # removed and made again in between
                changes.connectors.add(connector)
        case config_log.ConnectorRemoved(_, existed):
            changes.rebalance = changes.rebalance or existed
        case config_log.TasksCommitted(_, tasks):
            changes.rebalance = True
            changes.tasks.update(tasks)
        case config_log.TargetStateChanged(connector):
            changes.states.add(connector)
        case config_log.RestartRequested(request):
            known = changes.restarts.get(request.connector)
            changes.restarts[request.connector] = restart_plan.stronger(known, request)
        case config_log.LoggerLevelSet():
            changes.levels.append(change)
        case config_log.SessionKeyChanged():
            pass  # whoever needs the key takes it from the newest view


def set_levels(m: memory.Memory) -> memory.Script[None]:
    levels, m.changes.levels = m.changes.levels, []
    for each in levels:
        yield instructions.SetLoggerLevel(each.namespace, each.level)


def restart(m: memory.Memory) -> memory.Script[None]:
    """This worker's part of what somebody asked to be restarted."""
    wanted, m.changes.restarts = m.changes.restarts, {}
    for _, request in sorted(wanted.items()):
        plan = restart_plan.plan(request, m.seen.statuses)
        configured = work.Work.of(item for item in m.running.items if m.seen.config.has(item))
        ours = work.NO_WORK if plan is None else plan.own(configured)
        if not ours:
            continue
        yield instructions.Note(f"{plan}; here {ours}")
        yield from memory.stop(m, ours, for_good=False)
        yield instructions.SayRestarting(ours)
        yield from memory.start(m, ours)


def take_up(m: memory.Memory) -> memory.Script[bool]:
    """Act on changed configurations; False: a rebalance was asked for.

    Under the eager protocol that is all: everything stops for a rebalance anyway.
    """
    if not m.changes.any_configs():
        return True
    m.config = m.seen.config
    changes = m.changes
    m.changes = memory.Changes(restarts=changes.restarts, levels=changes.levels)
    if not (m.eager and changes.rebalance):
        yield from _restart_connectors(m, changes.connectors)
        yield from _set_states(m, changes.states)
        yield from _renew_tasks(m, {task.connector for task in changes.tasks})
    if changes.rebalance:
        yield from memory.rejoin(m, "connectors or task configs have changed")
        return False
    return True


def _restart_connectors(m: memory.Memory, names: set[str]) -> memory.Script[None]:
    ours = tuple(name for name in m.running.connectors if name in names)
    remaining = tuple(name for name in ours if m.config.contains(name))
    yield from memory.stop(m, work.Work(connectors=ours), for_good=False)
    yield from memory.start(m, work.Work(connectors=remaining))


def _set_states(m: memory.Memory, names: set[str]) -> memory.Script[None]:
    for name in sorted(names):
        state = m.config.target_state(name)
        if m.config.contains(name) and state is not None:
            yield instructions.SetTargetState(connector=name, state=state)


def _renew_tasks(m: memory.Memory, connectors: set[str]) -> memory.Script[None]:
    """Tasks that cannot go on start again after the rebalance, wherever they are then."""
    ours = tuple(task for task in m.running.tasks if task.connector in connectors)
    known = tuple(task for task in ours if task not in m.to_restart)
    outcome = (yield instructions.RenewTasks(known)) if known else None
    left = outcome.left if isinstance(outcome, events.Renewed) else frozenset(known)
    ending = tuple(task for task in known if task in left)
    yield from memory.stop(m, work.Work(tasks=ending), for_good=False)
    m.to_restart.update(ending)
