"""Whether this worker answers a request now, another one does, or nobody.

Only some requests mind a rebalance that is about to come (409): those that need the tasks and
their owners to be as they are. Order of the checks and texts are Java's, clients match on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.core.assignment import leader, work
from connect_runtime.core.herder import requests
from connect_runtime.core.state import cluster_config

BAD_REQUEST = 400
NOT_FOUND = 404
CONFLICT = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How this worker stands when it is asked.

    `rebalance_pending`: a change of configuration was read that will cause a rebalance.
    `leader_url` is None, and `owners` too, while nobody leads; only the leader knows owners.
    """

    config: cluster_config.ClusterConfig
    leads: bool
    leader_url: str | None
    assigned: work.Work
    owners: leader.Owners | None
    rebalance_pending: bool


@dataclass(frozen=True, slots=True)
class Proceed:
    """Here and now."""


PROCEED = Proceed()
Verdict: TypeAlias = Proceed | requests.Forward | requests.Refused

_MIND_REBALANCES = (
    requests.Describe,
    requests.RestartConnector,
    requests.RestartTask,
    requests.RestartAll,
    requests.ModifyOffsets,
)


def judge(request: requests.Request, standing: Standing) -> Verdict:
    if standing.rebalance_pending and isinstance(request, _MIND_REBALANCES):
        return requests.Refused(
            CONFLICT,
            "Cannot complete request momentarily due to stale configuration (typically caused by a"
            " concurrent config change)",
        )
    match request:
        case requests.CheckHealth() | requests.Reconfigure():
            return PROCEED
        case requests.Describe() | requests.ReadOffsets():
            return _known(request.connector, standing)
        case requests.PutConnector():
            return _put(request, standing)
        case requests.StopConnector():
            name, what = request.connector, "transition connectors to the STOPPED state"
            return _leaders_if_known(name, standing, unknown=f"Unknown connector {name}", what=what)
        case requests.RestartConnector():
            return _restart(request.connector, request.connector, standing=standing)
        case requests.RestartTask():
            return _restart(request.task.connector, request.task, standing=standing)
        case requests.RestartAll():
            name, what = request.request.connector, "process restart requests"
            return _leaders_if_known(
                name, standing, unknown=f"Unknown connector: {name}", what=what
            )
        case _:
            return _leaders(request, standing)


def _leaders(
    request: requests.PatchConnector
    | requests.DeleteConnector
    | requests.PutTaskConfigs
    | requests.FenceTasks
    | requests.ModifyOffsets,
    standing: Standing,
) -> Verdict:
    """What the leader does, for connectors that exist."""
    verdict = _by_leader(standing, _LEADERS[type(request)])
    if isinstance(verdict, Proceed):
        verdict = _known(request.connector, standing)
    if not isinstance(verdict, Proceed):
        return verdict
    match request:
        case requests.PutTaskConfigs():
            return may_publish(request, standing.config)
        case requests.FenceTasks() if not request.is_source:
            return requests.Refused(
                BAD_REQUEST, f"Connector {request.connector} is not a source connector"
            )
    return PROCEED


_LEADERS: dict[type, str] = {
    requests.PatchConnector: "set connector configs",
    requests.DeleteConnector: "delete connector configs",
    requests.PutTaskConfigs: "write task configurations",
    requests.FenceTasks: "perform zombie fencing",
    requests.ModifyOffsets: "process external offsets modification requests",
}


def _leaders_if_known(connector: str, standing: Standing, *, unknown: str, what: str) -> Verdict:
    if not standing.config.contains(connector):
        return requests.Refused(NOT_FOUND, unknown)
    return _by_leader(standing, what)


def _known(connector: str, standing: Standing) -> Verdict:
    if standing.config.contains(connector):
        return PROCEED
    return requests.Refused(NOT_FOUND, f"Connector {connector} not found")


def _by_leader(standing: Standing, what: str) -> Verdict:
    if standing.leads:
        return PROCEED
    return requests.Forward(standing.leader_url, f"Only the leader can {what}.")


def _put(request: requests.PutConnector, standing: Standing) -> Verdict:
    if request.invalid is not None:
        return requests.Refused(BAD_REQUEST, request.invalid)
    verdict = _by_leader(standing, "set connector configs")
    if not isinstance(verdict, Proceed):
        return verdict
    if not request.replace and standing.config.contains(request.connector):
        return requests.Refused(CONFLICT, f"Connector {request.connector} already exists")
    return PROCEED


def _restart(connector: str, item: work.Item, *, standing: Standing) -> Verdict:
    if not standing.config.contains(connector):
        return requests.Refused(NOT_FOUND, f"Unknown connector: {connector}")
    if isinstance(item, ids.ConnectorTaskId) and standing.config.task_config(item) is None:
        return requests.Refused(NOT_FOUND, f"Unknown task: {item}")
    if item in standing.assigned.items:
        return PROCEED
    if standing.leads:
        url = None if standing.owners is None else standing.owners.url(item)
        what = "connector" if isinstance(item, str) else "task"
        return requests.Forward(
            url, f"Cannot restart {what} since it is not assigned to this member"
        )
    return requests.Forward(standing.leader_url, "Only the leader can process restart requests.")


def may_publish(request: requests.PutTaskConfigs, config: cluster_config.ClusterConfig) -> Verdict:
    """A stopped connector has no tasks."""
    stopped = config.target_state(request.connector) is cluster_config.TargetState.STOPPED
    if request.configs and stopped:
        return requests.Refused(
            BAD_REQUEST,
            "Cannot submit non-empty set of task configs for stopped connector"
            f" {request.connector}",
        )
    return PROCEED


def may_modify_offsets(connector: str, config: cluster_config.ClusterConfig) -> Verdict:
    """Nobody must be using them; `config` is of the end of the topic, read for this request."""
    if not config.contains(connector):
        return requests.Refused(NOT_FOUND, f"Connector {connector} not found")
    stopped = config.target_state(connector) is cluster_config.TargetState.STOPPED
    if not stopped or config.task_count(connector) != 0:
        return requests.Refused(
            BAD_REQUEST,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can"
            " be done for the specified connector by issuing a 'PUT' request to the"
            f" '/connectors/{connector}/stop' endpoint",
        )
    return PROCEED
