"""What a flow's worker and the board show of it, read and counted for `flow_statuses`."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.app import fleet_member
from connect_runtime.base import errors, ids
from connect_runtime.core.state import cluster_config, status_records
from mm2.app import flow_plan, flow_statuses
from mm2.connectors import board
from mm2.core import holds as holding
from mm2.core.configs import live
from mm2.core.topics import assigned

_NO_TASKS: Mapping[int, board.TaskShown] = {}


class FlowView:
    """Counts a configuration once, since it is looked at several times a second."""

    def __init__(self) -> None:
        self._config: cluster_config.ClusterConfig | None = None
        self._configured: Mapping[int, frozenset[ids.TopicPartition]] = {}
        self._changed_at = -1
        self._holds = holding.NOTHING
        self._plan: flow_plan.FlowPlan | None = None

    def see(
        self,
        member: fleet_member.Member | None,
        snapshot: board.Snapshot,
        *,
        life: flow_statuses.Life,
        reason: str,
        given_up: str,
        refused: str,
        plan: flow_plan.FlowPlan,
    ) -> flow_statuses.Seen:
        """The flow as this node sees it; `member` is its worker here, None before it has begun."""
        shown = snapshot.connectors.get(plan.name)
        tasks_shown = snapshot.tasks.get(plan.name, _NO_TASKS)
        if member is None:
            return flow_statuses.Seen(
                flow=plan.name,
                life=life,
                reason=reason,
                given_up=given_up,
                shown=shown,
                tasks_shown=tasks_shown,
            )
        herder = member.herder
        config, statuses = herder.config(), herder.statuses()
        mine, configured = set(member.assigned.items), self._read(config, plan)
        return flow_statuses.Seen(
            flow=plan.name,
            life=life,
            reason=reason,
            met=herder.ready(),
            given_up=given_up,
            refused=refused,
            connector=_told(statuses.connector(flow_plan.SOURCE), here=flow_plan.SOURCE in mine),
            tasks={
                task.task: _told(statuses.task(task), here=task in mine)
                for task in config.tasks(flow_plan.SOURCE)
            },
            configured=configured,
            current=_is_current(config, plan, leads=member.leads),
            planned_anew=not member.leads or _is_of(shown, plan),
            taken_up=all(_has(each.props, plan) for each in tasks_shown.values()),
            handed_out=member.assigned_offset >= self._changed_at,
            holds=self._holds,
            shown=shown,
            tasks_shown=tasks_shown,
        )

    def _read(
        self, config: cluster_config.ClusterConfig, plan: flow_plan.FlowPlan
    ) -> Mapping[int, frozenset[ids.TopicPartition]]:
        """The partitions in the configuration of each task."""
        if config is not self._config or plan is not self._plan:
            self._holds, self._plan = _holds(config, plan), plan
            tasks = config.tasks(flow_plan.SOURCE)
            found = {each.task: _partitions(config.task_config(each)) for each in tasks}
            if found != self._configured:
                self._configured, self._changed_at = found, config.offset
            self._config = config  # last: several threads look
        return self._configured


def _partitions(config: cluster_config.RawConfig | None) -> frozenset[ids.TopicPartition]:
    try:
        return frozenset(assigned.partitions(_texts(config)))
    except errors.ConnectError:
        return frozenset()


def _holds(config: cluster_config.ClusterConfig, plan: flow_plan.FlowPlan) -> holding.Holds:
    """As the group's configuration says: an operator's wishes, and the leader's file."""
    stored, ours = _texts(config.config(flow_plan.SOURCE)), plan.connectors[flow_plan.SOURCE]
    known = {key: plan.source[key] for key in ours if stored.get(key) == ours[key]}
    state = config.target_state(flow_plan.SOURCE)
    at_rest = state in (cluster_config.TargetState.PAUSED, cluster_config.TargetState.STOPPED)
    try:
        return live.holds({**stored, **known}, is_paused=at_rest)
    except errors.ConnectError:  # another's file, with values that this node cannot fill in
        return holding.Holds(paused=at_rest)


def _is_current(
    config: cluster_config.ClusterConfig, plan: flow_plan.FlowPlan, *, leads: bool
) -> bool:
    """Is the mirror configured as the leader's file says, and are its tasks of that?"""
    stored, applied = (each(flow_plan.SOURCE) for each in (config.config, config.applied_config))
    as_planned = live.without(_texts(stored)) == plan.connectors[flow_plan.SOURCE]
    return (as_planned or not leads) and (applied == stored or not config.tasks(flow_plan.SOURCE))


def _is_of(shown: board.ConnectorShown | None, plan: flow_plan.FlowPlan) -> bool:
    """Has the connector that is shown the configuration of this plan?"""
    if shown is None:
        return False
    return live.without(shown.props) == plan.source


def _has(props: Mapping[str, str], plan: flow_plan.FlowPlan) -> bool:
    """Of a task: its configuration is its connector's, and more."""
    return all(props.get(key) == value for key, value in plan.source.items())


def _texts(config: cluster_config.RawConfig | None) -> dict[str, str]:
    return {key: value for key, value in (config or {}).items() if value is not None}


def _told(found: status_records.Status | None, *, here: bool) -> flow_statuses.Told:
    if found is None:
        return flow_statuses.Told(here=here)
    return flow_statuses.Told(
        state=found.state.value,
        here=here,
        reason=flow_statuses.first_line(found.trace),
        node=found.worker_id,
    )
