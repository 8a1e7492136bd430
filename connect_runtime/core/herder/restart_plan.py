"""What a restart request comes to, given who is doing what: KIP-745."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.base import amounts, ids
from connect_runtime.core.assignment import work
from connect_runtime.core.state import config_records, status_log, status_records


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlan:
    """`connector` and `tasks` say how the connector stands, RESTARTING what is restarted."""

    request: config_records.RestartRequest
    connector: status_records.Status
    tasks: Mapping[ids.ConnectorTaskId, status_records.Status]

    @property
    def restarts_connector(self) -> bool:
        return self.connector.state is status_records.State.RESTARTING

    def restarted_tasks(self) -> tuple[ids.ConnectorTaskId, ...]:
        """By number."""
        restarting = status_records.State.RESTARTING
        return tuple(task for task, each in self.tasks.items() if each.state is restarting)

    def own(self, assigned: work.Work) -> work.Work:
        """What of it a worker with this assignment has to restart."""
        name = self.request.connector
        connectors = (name,) if self.restarts_connector and name in assigned.connectors else ()
        ours = frozenset(assigned.tasks)
        tasks = tuple(each for each in self.restarted_tasks() if each in ours)
        return work.Work(connectors=connectors, tasks=tasks)

    def __str__(self) -> str:
        what = f"{len(self.restarted_tasks())} of {amounts.counted(len(self.tasks), 'task')}"
        connector = "the connector and " if self.restarts_connector else ""
        return f"restart {connector}{what} of {self.request.connector}"


def plan(
    request: config_records.RestartRequest, statuses: status_log.Statuses
) -> RestartPlan | None:
    """None where the connector has no status: there is nothing to say what to restart."""
    connector = statuses.connector(request.connector)
    if connector is None:
        return None
    tasks = statuses.tasks(request.connector)
    return RestartPlan(
        request=request,
        connector=_restarted(connector, wanted=_fits(request, connector)),
        tasks={
            task: _restarted(each, wanted=request.include_tasks and _fits(request, each))
            for task, each in tasks.items()
        },
    )


def _fits(request: config_records.RestartRequest, status: status_records.Status) -> bool:
    return not request.only_failed or status.state is status_records.State.FAILED


def _restarted(status: status_records.Status, *, wanted: bool) -> status_records.Status:
    if not wanted:
        return status
    return dataclasses.replace(status, state=status_records.State.RESTARTING)


def stronger(
    known: config_records.RestartRequest | None, request: config_records.RestartRequest
) -> config_records.RestartRequest:
    """Which of two requests for one connector is carried out: the one that restarts more."""
    return known if known is not None and known.impact >= request.impact else request
