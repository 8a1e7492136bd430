"""Decides whether this worker handles a request, forwards it to another worker, or refuses it.

Requests that depend on the current tasks and their owners are refused (409) while a rebalance is
pending. The checks have the same order and the same messages as in Java, because clients match on
the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.group.leader_assignment import AssignmentOwners
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
    """State of this worker on which request routing depends."""

    config: ClusterConfigState
    is_leader: bool
    leader_url: str | None
    """URL of the leader; None if no leader is known."""
    assigned: ConnectorsAndTasks
    owners: AssignmentOwners | None
    """Worker that runs each connector and task; None if this worker is not the leader."""
    rebalance_pending: bool
    """True if a configuration change was read that will cause a rebalance."""


@dataclass(frozen=True, slots=True)
class HandleRequestLocally:
    """This worker handles the request now."""


HANDLE_LOCALLY = HandleRequestLocally()
RoutingDecision: TypeAlias = HandleRequestLocally | ForwardRequest | RequestRefused

_REFUSED_WHILE_REBALANCE_PENDING = (
    DescribeConnector,
    RestartConnector,
    RestartTask,
    RestartConnectorAndTasks,
    ModifyConnectorOffsets,
)


def route_request(request: HerderRequest, state: RoutingState) -> RoutingDecision:
    """Decide whether a request is handled locally, forwarded or refused."""
    if state.rebalance_pending and isinstance(request, _REFUSED_WHILE_REBALANCE_PENDING):
        return RequestRefused(
            CONFLICT_STATUS,
            "Cannot complete request momentarily due to stale configuration (typically caused by a"
            " concurrent config change)",
        )
    match request:
        case CheckHealth() | ReconfigureConnectorTasks():
            return HANDLE_LOCALLY
        case DescribeConnector() | ReadConnectorOffsets():
            return _require_connector(request.connector, state)
        case PutConnector():
            return _route_put_connector(request, state)
        case StopConnector():
            name, what = request.connector, "transition connectors to the STOPPED state"
            return _require_connector_and_leader(
                name, state, unknown=f"Unknown connector {name}", what=what
            )
        case RestartConnector():
            return _route_restart(request.connector, request.connector, state=state)
        case RestartTask():
            return _route_restart(request.task.connector, request.task, state=state)
        case RestartConnectorAndTasks():
            name, what = request.request.connector, "process restart requests"
            return _require_connector_and_leader(
                name, state, unknown=f"Unknown connector: {name}", what=what
            )
        case _:
            return _route_leader_request(request, state)


def _route_leader_request(
    request: PatchConnector
    | DeleteConnector
    | PutTaskConfigs
    | FenceZombieTasks
    | ModifyConnectorOffsets,
    state: RoutingState,
) -> RoutingDecision:
    """Route a request for an existing connector that only the leader may handle."""
    decision = _require_leader(state, _LEADER_REQUESTS[type(request)])
    if isinstance(decision, HandleRequestLocally):
        decision = _require_connector(request.connector, state)
    if not isinstance(decision, HandleRequestLocally):
        return decision
    match request:
        case PutTaskConfigs():
            return check_task_configs_request_allowed(request, state.config)
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


def _require_connector_and_leader(
    connector: str, state: RoutingState, *, unknown: str, what: str
) -> RoutingDecision:
    if not state.config.has_connector(connector):
        return RequestRefused(NOT_FOUND_STATUS, unknown)
    return _require_leader(state, what)


def _require_connector(connector: str, state: RoutingState) -> RoutingDecision:
    if state.config.has_connector(connector):
        return HANDLE_LOCALLY
    return RequestRefused(NOT_FOUND_STATUS, f"Connector {connector} not found")


def _require_leader(state: RoutingState, what: str) -> RoutingDecision:
    if state.is_leader:
        return HANDLE_LOCALLY
    return ForwardRequest(state.leader_url, f"Only the leader can {what}.")


def _route_put_connector(request: PutConnector, state: RoutingState) -> RoutingDecision:
    if request.invalid is not None:
        return RequestRefused(BAD_REQUEST_STATUS, request.invalid)
    decision = _require_leader(state, "set connector configs")
    if not isinstance(decision, HandleRequestLocally):
        return decision
    if not request.replace and state.config.has_connector(request.connector):
        return RequestRefused(CONFLICT_STATUS, f"Connector {request.connector} already exists")
    return HANDLE_LOCALLY


def _route_restart(connector: str, item: WorkItem, *, state: RoutingState) -> RoutingDecision:
    if not state.config.has_connector(connector):
        return RequestRefused(NOT_FOUND_STATUS, f"Unknown connector: {connector}")
    if isinstance(item, ConnectorTaskId) and state.config.task_config(item) is None:
        return RequestRefused(NOT_FOUND_STATUS, f"Unknown task: {item}")
    if item in state.assigned.items:
        return HANDLE_LOCALLY
    if state.is_leader:
        url = None if state.owners is None else state.owners.get_owner_url(item)
        what = "connector" if isinstance(item, str) else "task"
        return ForwardRequest(url, f"Cannot restart {what} since it is not assigned to this member")
    return ForwardRequest(state.leader_url, "Only the leader can process restart requests.")


def check_task_configs_request_allowed(
    request: PutTaskConfigs, config: ClusterConfigState
) -> RoutingDecision:
    """Refuse a request that sets task configs of a stopped connector."""
    stopped = config.target_state(request.connector) is TargetState.STOPPED
    if request.configs and stopped:
        return RequestRefused(
            BAD_REQUEST_STATUS,
            "Cannot submit non-empty set of task configs for stopped connector"
            f" {request.connector}",
        )
    return HANDLE_LOCALLY


def check_offsets_modifiable(connector: str, config: ClusterConfigState) -> RoutingDecision:
    """Refuse offset changes unless the connector is stopped and has no tasks.

    `config` must include all records that the config topic contained at the time of the request.
    """
    if not config.has_connector(connector):
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
