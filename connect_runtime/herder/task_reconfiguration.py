"""Task reconfiguration: generates a connector's task configs and publishes them if they changed.

Publishing costs a rebalance and a restart of the connector's tasks, so an unchanged set is not
published. Configs are compared as written, because `${...}` may resolve differently from one
moment to the next.

A failed attempt is retried without limit, with growing delays: a connector that requested a
reconfiguration does not request it again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from connect_runtime.base import config_placeholders
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder import herder_state, session_keys
from connect_runtime.herder.herder_actions import (
    ForwardTaskConfigs,
    GenerateTaskConfigs,
    SendReply,
    WriteLogLine,
    WriteTaskConfigs,
)
from connect_runtime.herder.herder_events import (
    ActionFailed,
    TaskConfigsForwarded,
    TaskConfigsGenerated,
)
from connect_runtime.herder.herder_requests import ReconfigureConnectorTasks, RequestAccepted
from connect_runtime.herder.herder_state import ForwardedTaskConfigs, HerderScript, HerderState
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig, TargetState

RETRY_INITIAL_DELAY_S = 0.25
RETRY_MAX_DELAY_S = 60.0
_RETRY_MAX_DOUBLINGS = 16
"""Beyond it only the bound speaks."""


def have_task_configs_changed(
    view: ClusterConfigState,
    connector: str,
    configs: Sequence[RawConfig],
    *,
    config_applied: bool,
) -> bool:
    """Do the tasks of `connector` have to be told these `configs`, and be restarted?

    `config_applied`: with the tasks' last configs, the connector's own counted as it does now,
    everything in it resolved. If not, converters, transforms or clients may have changed, which
    task configs do not show (KAFKA-9228).
    """
    if view.task_count(connector) != len(configs):
        return True
    for number, config in enumerate(configs):
        known = view.task_config(ConnectorTaskId(connector, number))
        if known is None or dict(known) != dict(config):
            return True
    return not config_applied


def get_published_configs(view: ClusterConfigState, connector: str) -> list[dict[str, str]]:
    """The connector's task configs as they were committed last, in order; none where they are not
    complete. What is null is left out."""
    known = [view.task_config(task) or {} for task in view.tasks(connector)]
    return [{name: value for name, value in each.items() if value is not None} for each in known]


def find_provider_references(config: RawConfig) -> dict[str, str]:
    """The properties that refer to providers, as they are written."""
    return {
        name: value
        for name, value in config.items()
        if value is not None and any(config_placeholders.find_placeholders(value))
    }


def restore_provider_references(
    configs: Iterable[Mapping[str, str | None]], config: RawConfig
) -> list[RawConfig]:
    """Task configs as they are written: where the connector's own `config` refers to a provider,
    so do they, and no secret gets into the config topic that was not there before."""
    references = find_provider_references(config)
    return [{name: references.get(name, value) for name, value in each.items()} for each in configs]


def compute_retry_delay_s(attempts: int) -> float:
    """The wait before the next try, after so many failed ones (1 and up); without jitter."""
    assert attempts >= 1, attempts
    return min(
        RETRY_INITIAL_DELAY_S * 2.0 ** min(attempts - 1, _RETRY_MAX_DOUBLINGS), RETRY_MAX_DELAY_S
    )


def schedule_reconfiguration(
    m: HerderState, connector: str, *, waiting: tuple[int, ...] = ()
) -> None:
    """Ask this connector soon; what waited to be tried again is done with by that."""
    for each in m.queue.take_reconfigurations(connector):
        waiting += each.waiting
    request = ReconfigureConnectorTasks(connector=connector, asked_s=m.seen.now_s, waiting=waiting)
    m.queue.add(request, ticket=None, at_s=m.seen.now_s)


def run_reconfiguration(m: HerderState, request: ReconfigureConnectorTasks) -> HerderScript[None]:
    """Ask the connector, publish what changed, answer who waits."""
    failure = yield from _generate_and_publish(m, dataclasses.replace(request, waiting=()))
    if failure is not None:
        yield from _schedule_retry(m, request, failure)
    for ticket in request.waiting:
        yield SendReply(ticket, RequestAccepted())


def _generate_and_publish(
    m: HerderState, request: ReconfigureConnectorTasks
) -> HerderScript[str | None]:
    """Why it is to be tried again, if it is."""
    name = request.connector
    started = m.seen.config.target_state(name) is TargetState.STARTED
    if name not in m.running.connectors or not started:
        return None
    outcome = yield GenerateTaskConfigs(name)
    match outcome:
        case TaskConfigsGenerated(configs=configs, config_applied=applied):
            if not have_task_configs_changed(m.seen.config, name, configs, config_applied=applied):
                return None
            return (yield from _publish_task_configs(m, request, outcome))
        case ActionFailed(lasting=False) as failed:
            return failed.reason
        case _:
            return None


def _publish_task_configs(
    m: HerderState, request: ReconfigureConnectorTasks, generated: TaskConfigsGenerated
) -> HerderScript[str | None]:
    name, configs = request.connector, generated.configs
    if m.leads:
        write = WriteTaskConfigs(connector=name, configs=configs)
        return (yield from herder_state.write_config(m, write))
    if m.leader_url is None:
        return "nobody knows the leader's URL"
    m.last_token += 1
    m.forwarded[m.last_token] = ForwardedTaskConfigs(request=request)
    yield ForwardTaskConfigs(
        token=m.last_token, connector=name, configs=configs, leader_url=m.leader_url
    )
    return None


def handle_forward_result(m: HerderState, event: TaskConfigsForwarded) -> HerderScript[None]:
    """The leader answered, or nobody did."""
    known = m.forwarded.pop(event.token, None)
    if known is not None and event.error is not None:
        yield from _schedule_retry(m, known.request, event.error, status=event.status)


def _schedule_retry(
    m: HerderState, request: ReconfigureConnectorTasks, reason: str, *, status: int | None = None
) -> HerderScript[None]:
    failed = request.failed + 1
    delay_s = compute_retry_delay_s(failed)
    renewed = status == session_keys.FORBIDDEN_STATUS
    fresh = m.seen.now_s <= request.asked_s + session_keys.KEY_CHANGE_GRACE_S
    if not (renewed and fresh):  # else the session key was changed just then
        yield WriteLogLine(
            f"the task configs of {request.connector} were not published, trying again in"
            f" {delay_s:g} s: {reason}",
            warns=True,
        )
    later = dataclasses.replace(request, failed=failed, waiting=())
    m.queue.add(later, ticket=None, at_s=m.seen.now_s + delay_s)
