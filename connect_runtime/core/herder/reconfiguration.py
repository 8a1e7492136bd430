"""Task configs: asked of a connector that runs here, and published by the leader if they changed.

What fails is tried again without end, ever more slowly: a connector that believes it has told its
tasks, and has not, would never say it again.
"""

from __future__ import annotations

import dataclasses

from connect_runtime.core.herder import (
    events,
    instructions,
    memory,
    requests,
    session_keys,
    task_configs,
)
from connect_runtime.core.state import cluster_config


def ask(m: memory.Memory, connector: str, *, waiting: tuple[int, ...] = ()) -> None:
    """Ask this connector soon; what waited to be tried again is done with by that."""
    for each in m.queue.take_reconfigurations(connector):
        waiting += each.waiting
    request = requests.Reconfigure(connector=connector, asked_s=m.seen.now_s, waiting=waiting)
    m.queue.add(request, ticket=None, at_s=m.seen.now_s)


def attempt(m: memory.Memory, request: requests.Reconfigure) -> memory.Script[None]:
    """Ask the connector, publish what changed, answer who waits."""
    failure = yield from _attempt(m, dataclasses.replace(request, waiting=()))
    if failure is not None:
        yield from _again(m, request, failure)
    for ticket in request.waiting:
        yield instructions.Answer(ticket, requests.Accepted())


def _attempt(m: memory.Memory, request: requests.Reconfigure) -> memory.Script[str | None]:
    """Why it is to be tried again, if it is."""
    name = request.connector
    started = m.seen.config.target_state(name) is cluster_config.TargetState.STARTED
    if name not in m.running.connectors or not started:
        return None
    outcome = yield instructions.GenerateTaskConfigs(name)
    match outcome:
        case events.Generated(configs=configs, config_applied=applied):
            if not task_configs.changed(m.seen.config, name, configs, config_applied=applied):
                return None
            return (yield from _publish(m, request, outcome))
        case events.Failed(lasting=False) as failed:
            return failed.reason
        case _:
            return None


def _publish(
    m: memory.Memory, request: requests.Reconfigure, generated: events.Generated
) -> memory.Script[str | None]:
    name, configs = request.connector, generated.configs
    if m.leads:
        write = instructions.WriteTaskConfigs(connector=name, configs=configs)
        return (yield from memory.write(m, write))
    if m.leader_url is None:
        return "nobody knows the leader's URL"
    m.last_token += 1
    m.forwarded[m.last_token] = memory.Forwarded(request=request)
    yield instructions.ForwardTaskConfigs(
        token=m.last_token, connector=name, configs=configs, leader_url=m.leader_url
    )
    return None


def forwarded(m: memory.Memory, event: events.TaskConfigsForwarded) -> memory.Script[None]:
    """The leader answered, or nobody did."""
    known = m.forwarded.pop(event.token, None)
    if known is not None and event.error is not None:
        yield from _again(m, known.request, event.error, status=event.status)


def _again(
    m: memory.Memory, request: requests.Reconfigure, reason: str, *, status: int | None = None
) -> memory.Script[None]:
    failed = request.failed + 1
    delay_s = task_configs.retry_delay_s(failed)
    renewed = status == session_keys.FORBIDDEN
    fresh = m.seen.now_s <= request.asked_s + session_keys.KEY_CHANGE_GRACE_S
    if not (renewed and fresh):  # else the session key was changed just then
        yield instructions.Note(
            f"the task configs of {request.connector} were not published, trying again in"
            f" {delay_s:g} s: {reason}",
            warns=True,
        )
    later = dataclasses.replace(request, failed=failed, waiting=())
    m.queue.add(later, ticket=None, at_s=m.seen.now_s + delay_s)
