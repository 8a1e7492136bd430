"""Restart plan of a connector and its tasks (KIP-745): what is restarted, given their statuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.status_records import RunState, RunStatus
from connect_runtime.storage.status_topic import StatusSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlan:
    """`connector` and `tasks` say how the connector stands, RESTARTING what is restarted."""

    request: RestartRequest
    connector: RunStatus
    tasks: Mapping[ConnectorTaskId, RunStatus]

    @property
    def restarts_connector(self) -> bool:
        return self.connector.state is RunState.RESTARTING

    def restarted_tasks(self) -> tuple[ConnectorTaskId, ...]:
        """By number."""
        restarting = RunState.RESTARTING
        return tuple(task for task, each in self.tasks.items() if each.state is restarting)

    def own(self, assigned: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """What of it a worker with this assignment has to restart."""
        name = self.request.connector
        connectors = (name,) if self.restarts_connector and name in assigned.connectors else ()
        ours = frozenset(assigned.tasks)
        tasks = tuple(each for each in self.restarted_tasks() if each in ours)
        return ConnectorsAndTasks(connectors=connectors, tasks=tasks)

    def __str__(self) -> str:
        what = f"{len(self.restarted_tasks())} of {plurals.format_count(len(self.tasks), 'task')}"
        connector = "the connector and " if self.restarts_connector else ""
        return f"restart {connector}{what} of {self.request.connector}"


def plan_restart(request: RestartRequest, statuses: StatusSnapshot) -> RestartPlan | None:
    """None where the connector has no status: there is nothing to say what to restart."""
    connector = statuses.connector(request.connector)
    if connector is None:
        return None
    tasks = statuses.tasks(request.connector)
    return RestartPlan(
        request=request,
        connector=_mark_restarting(connector, wanted=_matches_request(request, connector)),
        tasks={
            task: _mark_restarting(
                each, wanted=request.include_tasks and _matches_request(request, each)
            )
            for task, each in tasks.items()
        },
    )


def _matches_request(request: RestartRequest, status: RunStatus) -> bool:
    return not request.only_failed or status.state is RunState.FAILED


def _mark_restarting(status: RunStatus, *, wanted: bool) -> RunStatus:
    if not wanted:
        return status
    return dataclasses.replace(status, state=RunState.RESTARTING)


def choose_broader_request(known: RestartRequest | None, request: RestartRequest) -> RestartRequest:
    """Which of two requests for one connector is carried out: the one that restarts more."""
    return known if known is not None and known.impact >= request.impact else request
