"""Plans the restart of a connector and its tasks (KIP-745), based on their statuses."""

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
    """Plan for restarting a connector and its tasks. Contains their statuses; the status RESTARTING
    marks each connector or task to restart."""

    request: RestartRequest
    connector: RunStatus
    tasks: Mapping[ConnectorTaskId, RunStatus]

    @property
    def restarts_connector(self) -> bool:
        return self.connector.state is RunState.RESTARTING

    def list_tasks_to_restart(self) -> tuple[ConnectorTaskId, ...]:
        """Return the tasks to restart, in order."""
        restarting = RunState.RESTARTING
        return tuple(task for task, each in self.tasks.items() if each.state is restarting)

    def select_assigned_connectors_and_tasks(
        self, assigned: ConnectorsAndTasks
    ) -> ConnectorsAndTasks:
        """Return the connectors and tasks of this plan that a worker with the given assignment
        must restart."""
        name = self.request.connector
        connectors = (name,) if self.restarts_connector and name in assigned.connectors else ()
        own_tasks = frozenset(assigned.tasks)
        tasks = tuple(each for each in self.list_tasks_to_restart() if each in own_tasks)
        return ConnectorsAndTasks(connectors=connectors, tasks=tasks)

    def __str__(self) -> str:
        count = len(self.list_tasks_to_restart())
        what = f"{count} of {plurals.format_count(len(self.tasks), 'task')}"
        connector = "the connector and " if self.restarts_connector else ""
        return f"restart {connector}{what} of {self.request.connector}"


def plan_restart(request: RestartRequest, statuses: StatusSnapshot) -> RestartPlan | None:
    """Plan the restart of a connector and its tasks. Return None if the connector has no status
    yet."""
    connector = statuses.connector(request.connector)
    if connector is None:
        return None
    tasks = statuses.tasks(request.connector)
    return RestartPlan(
        request=request,
        connector=_mark_status_restarting(
            connector, restarts=_is_restart_requested(request, connector)
        ),
        tasks={
            task: _mark_status_restarting(
                each, restarts=request.include_tasks and _is_restart_requested(request, each)
            )
            for task, each in tasks.items()
        },
    )


def _is_restart_requested(request: RestartRequest, status: RunStatus) -> bool:
    return not request.only_failed or status.state is RunState.FAILED


def _mark_status_restarting(status: RunStatus, *, restarts: bool) -> RunStatus:
    if not restarts:
        return status
    return dataclasses.replace(status, state=RunState.RESTARTING)


def choose_broader_request(
    pending: RestartRequest | None, request: RestartRequest
) -> RestartRequest:
    """Compare two restart requests for the same connector, and return the one that restarts
    more."""
    return (
        pending if pending is not None and pending.impact_rank >= request.impact_rank else request
    )
