"""What a flow's worker and the board show of it, read and counted for `flow_statuses`."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.app import fleet_member
from connect_runtime.base import errors
from connect_runtime.core.state import cluster_config, status_records
from mm2.app import flow_plan, flow_statuses
from mm2.connectors import board
from mm2.core.topics import assigned

_NO_TASKS: Mapping[int, board.TaskShown] = {}


class FlowView:
    """Counts a configuration once, since it is looked at several times a second."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._config: cluster_config.ClusterConfig | None = None
        self._configured: Mapping[int, int] = {}
        self._changed_at = -1

    def see(
        self,
        member: fleet_member.Member | None,
        snapshot: board.Snapshot,
        *,
        life: flow_statuses.Life,
        reason: str,
        given_up: str,
    ) -> flow_statuses.Seen:
        shown = snapshot.connectors.get(self._flow)
        tasks_shown = snapshot.tasks.get(self._flow, _NO_TASKS)
        if member is None:
            return flow_statuses.Seen(
                flow=self._flow,
                life=life,
                reason=reason,
                given_up=given_up,
                shown=shown,
                tasks_shown=tasks_shown,
            )
        herder = member.herder
        config, statuses = herder.config(), herder.statuses()
        mine, configured = set(member.assigned.items), self._count(config)
        return flow_statuses.Seen(
            flow=self._flow,
            life=life,
            reason=reason,
            met=herder.ready(),
            given_up=given_up,
            connector=_told(statuses.connector(flow_plan.SOURCE), here=flow_plan.SOURCE in mine),
            tasks={
                task.task: _told(statuses.task(task), here=task in mine)
                for task in config.tasks(flow_plan.SOURCE)
            },
            configured=configured,
            handed_out=member.assigned_offset >= self._changed_at,
            shown=shown,
            tasks_shown=tasks_shown,
        )

    def _count(self, config: cluster_config.ClusterConfig) -> Mapping[int, int]:
        """The partitions in the configuration of each task."""
        if config is not self._config:
            self._config = config
            tasks = config.tasks(flow_plan.SOURCE)
            found = {each.task: _partitions(config.task_config(each)) for each in tasks}
            if found != self._configured:
                self._configured, self._changed_at = found, config.offset
        return self._configured


def _partitions(config: cluster_config.RawConfig | None) -> int:
    props = {key: value for key, value in (config or {}).items() if value is not None}
    try:
        return len(assigned.partitions(props))
    except errors.ConnectError:
        return 0


def _told(found: status_records.Status | None, *, here: bool) -> flow_statuses.Told:
    if found is None:
        return flow_statuses.Told(here=here)
    return flow_statuses.Told(
        state=found.state.value, here=here, reason=flow_statuses.first_line(found.trace)
    )
