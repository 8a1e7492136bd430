"""Task reconfiguration: generates a connector's task configs and publishes them if they changed.

Publishing causes a rebalance and restarts the connector's tasks, so unchanged task configs are not
published. Configs are compared as written, because `${...}` references may resolve to different
values at different times.

A failed attempt is retried without limit, with growing delays, because a connector does not repeat
its request.
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
from connect_runtime.herder.herder_requests import ReconfigureConnectorTasks, RequestSucceeded
from connect_runtime.herder.herder_state import ForwardedTaskConfigs, HerderProcedure, HerderState
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig, TargetState

RETRY_INITIAL_DELAY_S = 0.25
RETRY_MAX_DELAY_S = 60.0
_RETRY_MAX_DOUBLINGS = 16
"""Maximum number of delay doublings, to prevent overflow. `RETRY_MAX_DELAY_S` is reached long
before."""


def have_task_configs_changed(
    view: ClusterConfigState,
    connector: str,
    configs: Sequence[RawConfig],
    *,
    config_applied: bool,
) -> bool:
    """Return True if the generated task configs (`configs`) differ from the published ones.

    Also return True if `config_applied` is False: the running tasks were not generated from the
    connector's current configuration. The configuration of its converters, transforms or clients
    may have changed without a change of its task configs (KAFKA-9228).
    """
    if view.task_count(connector) != len(configs):
        return True
    for number, config in enumerate(configs):
        published = view.task_config(ConnectorTaskId(connector, number))
        if published is None or dict(published) != dict(config):
            return True
    return not config_applied


def get_published_configs(view: ClusterConfigState, connector: str) -> list[dict[str, str]]:
    """Return the connector's last committed task configs, in task order, without null values.

    Returns an empty list if some task configs are missing.
    """
    published = [view.task_config(task) or {} for task in view.tasks(connector)]
    return [
        {name: value for name, value in each.items() if value is not None} for each in published
    ]


def find_provider_references(config: RawConfig) -> dict[str, str]:
    """Return the properties whose values contain `${…}` references, unresolved."""
    return {
        name: value
        for name, value in config.items()
        if value is not None and any(config_placeholders.find_placeholders(value))
    }


def restore_provider_references(
    configs: Iterable[Mapping[str, str | None]], config: RawConfig
) -> list[RawConfig]:
    """Return task configs with the `${…}` references of the connector's `config` restored.

    This keeps resolved secrets out of the config topic.
    """
    references = find_provider_references(config)
    return [{name: references.get(name, value) for name, value in each.items()} for each in configs]


def compute_retry_delay_s(attempts: int) -> float:
    """Return the retry delay after `attempts` failed attempts (at least 1), without jitter."""
    assert attempts >= 1, attempts
    return min(
        RETRY_INITIAL_DELAY_S * 2.0 ** min(attempts - 1, _RETRY_MAX_DOUBLINGS), RETRY_MAX_DELAY_S
    )


def schedule_reconfiguration(
    herder: HerderState, connector: str, *, waiting: tuple[int, ...] = ()
) -> None:
    """Schedule an immediate reconfiguration of a connector's tasks.

    It replaces pending retries. Callers that are waiting for a retry receive the result of the new
    reconfiguration.
    """
    for each in herder.queue.pop_reconfigurations(connector):
        waiting += each.tickets
    request = ReconfigureConnectorTasks(
        connector=connector, first_due_s=herder.snapshot.now_s, tickets=waiting
    )
    herder.queue.add_request(request, ticket=None, due_s=herder.snapshot.now_s)


def reconfigure_connector_tasks(
    herder: HerderState, request: ReconfigureConnectorTasks
) -> HerderProcedure[None]:
    """Generate a connector's task configs, publish them if they changed, and reply to the
    callers that wait for them."""
    failure = yield from _generate_and_publish_task_configs(
        herder, dataclasses.replace(request, tickets=())
    )
    if failure is not None:
        yield from _schedule_retry(herder, request, failure)
    for ticket in request.tickets:
        yield SendReply(ticket, RequestSucceeded())


def _generate_and_publish_task_configs(
    herder: HerderState, request: ReconfigureConnectorTasks
) -> HerderProcedure[str | None]:
    """Generate task configs, and publish them if they changed. Return the reason for a retry, or
    None on success."""
    name = request.connector
    started = herder.snapshot.config.target_state(name) is TargetState.STARTED
    if name not in herder.running.connectors or not started:
        return None
    outcome = yield GenerateTaskConfigs(name)
    match outcome:
        case TaskConfigsGenerated(configs=configs, config_applied=applied):
            if not have_task_configs_changed(
                herder.snapshot.config, name, configs, config_applied=applied
            ):
                return None
            return (yield from _publish_task_configs(herder, request, outcome))
        case ActionFailed(is_permanent=False) as failed:
            return failed.reason
        case _:
            return None


def _publish_task_configs(
    herder: HerderState, request: ReconfigureConnectorTasks, generated: TaskConfigsGenerated
) -> HerderProcedure[str | None]:
    name, configs = request.connector, generated.configs
    if herder.is_leader:
        write = WriteTaskConfigs(connector=name, configs=configs)
        return (yield from herder_state.write_to_config_topic(herder, write))
    if herder.leader_url is None:
        return "the leader's URL is unknown"
    herder.last_forward_token += 1
    herder.forwarded_task_configs[herder.last_forward_token] = ForwardedTaskConfigs(request=request)
    yield ForwardTaskConfigs(
        token=herder.last_forward_token,
        connector=name,
        configs=configs,
        leader_url=herder.leader_url,
    )
    return None


def handle_forward_result(
    herder: HerderState, event: TaskConfigsForwarded
) -> HerderProcedure[None]:
    """Schedule a retry if forwarding task configs to the leader failed."""
    published = herder.forwarded_task_configs.pop(event.token, None)
    if published is not None and event.error is not None:
        yield from _schedule_retry(herder, published.request, event.error, status=event.status)


def _schedule_retry(
    herder: HerderState,
    request: ReconfigureConnectorTasks,
    reason: str,
    *,
    status: int | None = None,
) -> HerderProcedure[None]:
    failed = request.failed_attempts + 1
    delay_s = compute_retry_delay_s(failed)
    is_forbidden = status == session_keys.FORBIDDEN_STATUS
    is_recent = herder.snapshot.now_s <= request.first_due_s + session_keys.KEY_CHANGE_GRACE_S
    if not (is_forbidden and is_recent):  # otherwise the session key was probably rotated meanwhile
        yield WriteLogLine(
            f"failed to publish task configs of {request.connector}, retrying in {delay_s:g} s:"
            f" {reason}",
            is_warning=True,
        )
    later = dataclasses.replace(request, failed_attempts=failed, tickets=())
    herder.queue.add_request(later, ticket=None, due_s=herder.snapshot.now_s + delay_s)
