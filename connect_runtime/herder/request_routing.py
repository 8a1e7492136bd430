"""Decides whether this worker handles a request, forwards it to another worker, or refuses it.

Requests that depend on the present tasks and their owners are refused (409) while a rebalance is
pending. The order of the checks and the messages are Java's, because clients match on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.group.rebalance_rounds import AssignmentOwners
from connect_runtime.herder.herder_requests import (
    CheckHealth,
    DeleteConnector,
    DescribeConnector,
    FenceZombieTasks,
    ForwardRequest,
    HerderRequest,
    ModifyConnectorOffsets,
    PatchConnector,
    PutConnector,
    PutTaskConfigs,
    ReadConnectorOffsets,
    ReconfigureConnectorTasks,
    RequestRefused,
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
    StopConnector,
)
from connect_runtime.storage.cluster_config_state import ClusterConfigState, TargetState

BAD_REQUEST_STATUS = 400
NOT_FOUND_STATUS = 404
CONFLICT_STATUS = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingState:
    """How this worker stands when it is asked.

    `rebalance_pending`: a change of configuration was read that will cause a rebalance.
    `leader_url` is None, and `owners` too, while nobody leads; only the leader knows owners.
    """

    config: ClusterConfigState
    leads: bool
    leader_url: str | None
    assigned: ConnectorsAndTasks
    owners: AssignmentOwners | None
    rebalance_pending: bool


@dataclass(frozen=True, slots=True)
class HandleLocally:
    """Here and now."""


HANDLE_LOCALLY = HandleLocally()
RoutingDecision: TypeAlias = HandleLocally | ForwardRequest | RequestRefused

_REFUSED_WHILE_REBALANCE_PENDING = (
    DescribeConnector,
    RestartConnector,
    RestartTask,
    RestartConnectorAndTasks,
    ModifyConnectorOffsets,
)


def route_request(request: HerderRequest, standing: RoutingState) -> RoutingDecision:
    if standing.rebalance_pending and isinstance(request, _REFUSED_WHILE_REBALANCE_PENDING):
        return RequestRefused(
            CONFLICT_STATUS,
            "Cannot complete request momentarily due to stale configuration (typically caused by a"
            " concurrent config change)",
        )
    match request:
        case CheckHealth() | ReconfigureConnectorTasks():
            return HANDLE_LOCALLY
        case DescribeConnector() | ReadConnectorOffsets():
            return _require_connector(request.connector, standing)
        case PutConnector():
            return _route_put(request, standing)
        case StopConnector():
            name, what = request.connector, "transition connectors to the STOPPED state"
            return _route_to_leader_if_exists(
                name, standing, unknown=f"Unknown connector {name}", what=what
            )
        case RestartConnector():
            return _route_restart(request.connector, request.connector, standing=standing)
        case RestartTask():
            return _route_restart(request.task.connector, request.task, standing=standing)
        case RestartConnectorAndTasks():
            name, what = request.request.connector, "process restart requests"
            return _route_to_leader_if_exists(
                name, standing, unknown=f"Unknown connector: {name}", what=what
            )
        case _:
            return _route_leader_request(request, standing)


def _route_leader_request(
    request: PatchConnector
    | DeleteConnector
    | PutTaskConfigs
    | FenceZombieTasks
    | ModifyConnectorOffsets,
    standing: RoutingState,
) -> RoutingDecision:
    """What the leader does, for connectors that exist."""
    verdict = _require_leader(standing, _LEADER_REQUESTS[type(request)])
    if isinstance(verdict, HandleLocally):
        verdict = _require_connector(request.connector, standing)
    if not isinstance(verdict, HandleLocally):
        return verdict
    match request:
        case PutTaskConfigs():
            return check_task_configs_allowed(request, standing.config)
        case FenceZombieTasks() if not request.is_source:
            return RequestRefused(
                BAD_REQUEST_STATUS, f"Connector {request.connector} is not a source connector"
            )
    return HANDLE_LOCALLY


_LEADER_REQUESTS: dict[type, str] = {
    PatchConnector: "set connector configs",
    DeleteConnector: "delete connector configs",
    PutTaskConfigs: "write task configurations",
    FenceZombieTasks: "perform zombie fencing",
    ModifyConnectorOffsets: "process external offsets modification requests",
}


def _route_to_leader_if_exists(
    connector: str, standing: RoutingState, *, unknown: str, what: str
) -> RoutingDecision:
    if not standing.config.contains(connector):
        return RequestRefused(NOT_FOUND_STATUS, unknown)
    return _require_leader(standing, what)


def _require_connector(connector: str, standing: RoutingState) -> RoutingDecision:
    if standing.config.contains(connector):
        return HANDLE_LOCALLY
    return RequestRefused(NOT_FOUND_STATUS, f"Connector {connector} not found")


def _require_leader(standing: RoutingState, what: str) -> RoutingDecision:
    if standing.leads:
        return HANDLE_LOCALLY
    return ForwardRequest(standing.leader_url, f"Only the leader can {what}.")


def _route_put(request: PutConnector, standing: RoutingState) -> RoutingDecision:
    if request.invalid is not None:
        return RequestRefused(BAD_REQUEST_STATUS, request.invalid)
    verdict = _require_leader(standing, "set connector configs")
    if not isinstance(verdict, HandleLocally):
        return verdict
    if not request.replace and standing.config.contains(request.connector):
        return RequestRefused(CONFLICT_STATUS, f"Connector {request.connector} already exists")
    return HANDLE_LOCALLY


def _route_restart(connector: str, item: WorkItem, *, standing: RoutingState) -> RoutingDecision:
    if not standing.config.contains(connector):
        return RequestRefused(NOT_FOUND_STATUS, f"Unknown connector: {connector}")
    if isinstance(item, ConnectorTaskId) and standing.config.task_config(item) is None:
        return RequestRefused(NOT_FOUND_STATUS, f"Unknown task: {item}")
    if item in standing.assigned.items:
        return HANDLE_LOCALLY
    if standing.leads:
        url = None if standing.owners is None else standing.owners.url(item)
        what = "connector" if isinstance(item, str) else "task"
        return ForwardRequest(url, f"Cannot restart {what} since it is not assigned to this member")
    return ForwardRequest(standing.leader_url, "Only the leader can process restart requests.")


def check_task_configs_allowed(
    request: PutTaskConfigs, config: ClusterConfigState
) -> RoutingDecision:
    """A stopped connector has no tasks."""
    stopped = config.target_state(request.connector) is TargetState.STOPPED
    if request.configs and stopped:
        return RequestRefused(
            BAD_REQUEST_STATUS,
            "Cannot submit non-empty set of task configs for stopped connector"
            f" {request.connector}",
        )
    return HANDLE_LOCALLY


def check_offsets_modifiable(connector: str, config: ClusterConfigState) -> RoutingDecision:
    """Nobody must be using them; `config` is of the end of the topic, read for this request."""
    if not config.contains(connector):
        return RequestRefused(NOT_FOUND_STATUS, f"Connector {connector} not found")
    stopped = config.target_state(connector) is TargetState.STOPPED
    if not stopped or config.task_count(connector) != 0:
        return RequestRefused(
            BAD_REQUEST_STATUS,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can"
            " be done for the specified connector by issuing a 'PUT' request to the"
            f" '/connectors/{connector}/stop' endpoint",
        )
    return HANDLE_LOCALLY
