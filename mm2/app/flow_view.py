"""What a flow's worker and the board show of it, read and counted for `flow_statuses`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from connect_runtime.app import fleet_member
from connect_runtime.base import errors, ids
from connect_runtime.core.state import cluster_config, status_records
from mm2.app import flow_plan, flow_statuses, held
from mm2.connectors import board
from mm2.core import holds as holding
from mm2.core.configs import live
from mm2.core.topics import assigned

_NO_TASKS: Mapping[int, board.TaskShown] = {}


Question = Callable[[Mapping[str, str], flow_plan.FlowPlan], bool]


class _Asked:
    """Questions about somebody's configuration and a plan, asked again only of others."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Mapping[str, str], flow_plan.FlowPlan, bool]] = {}

    def ask(
        self,
        question: Question,
        props: Mapping[str, str],
        plan: flow_plan.FlowPlan,
        *,
        of: object,
    ) -> bool:
        known = self._known.get(of)
        if known is None or known[0] is not props or known[1] is not plan:
            known = self._known[of] = (props, plan, question(props, plan))
        return known[2]


class FlowView:
    """Reads a configuration once, since it is looked at several times a second."""

    def __init__(self) -> None:
        self._config: cluster_config.ClusterConfig | None = None
        self._configured: Mapping[int, frozenset[ids.TopicPartition]] = {}
        self._changed_at = -1
        self._as_planned = False
        self._taken_up = False
        self._holds = holding.NOTHING
        self._plan: flow_plan.FlowPlan | None = None
        self._asked = _Asked()

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
        unreachable: str = "",
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
                unreachable=unreachable,
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
            unreachable=unreachable,
            stopped_ms=config.target_state_ms(flow_plan.SOURCE),
            resume=plan.resume,
            refused=refused,
            connector=_told(statuses.connector(flow_plan.SOURCE), here=flow_plan.SOURCE in mine),
            tasks={
                task.task: _told(statuses.task(task), here=task in mine)
                for task in config.tasks(flow_plan.SOURCE)
            },
            configured=configured,
            current=(self._as_planned or not member.leads) and self._taken_up,
            planned_anew=not member.leads or self._is_of(shown, plan),
            taken_up=all(
                self._asked.ask(_has, each.props, plan, of=task)
                for task, each in tasks_shown.items()
            ),
            handed_out=member.assigned_offset >= self._changed_at,
            holds=self._holds,
            shown=shown,
            checkpoint_tasks=sum(
                not isinstance(each, str) and each.connector == flow_plan.CHECKPOINT
                for each in mine
            ),
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
            stored = config.config(flow_plan.SOURCE)
            self._as_planned = live.without(_texts(stored)) == plan.connectors[flow_plan.SOURCE]
            self._taken_up = not tasks or config.applied_config(flow_plan.SOURCE) == stored
            self._config = config  # last: several threads look
        return self._configured

    def _is_of(self, shown: board.ConnectorShown | None, plan: flow_plan.FlowPlan) -> bool:
        """Has the connector that is shown the configuration of this plan?"""
        return shown is not None and self._asked.ask(_is_planned, shown.props, plan, of="connector")


def _partitions(config: cluster_config.RawConfig | None) -> frozenset[ids.TopicPartition]:
    try:
        return frozenset(assigned.partitions(_texts(config)))
    except errors.ConnectError:
        return frozenset()


def _holds(config: cluster_config.ClusterConfig, plan: flow_plan.FlowPlan) -> holding.Holds:
    """As the group's configuration says: an operator's wishes, and the leader's file."""
    stored, ours = _texts(config.config(flow_plan.SOURCE)), plan.connectors[flow_plan.SOURCE]
    known = {key: plan.source[key] for key in ours if stored.get(key) == ours[key]}
    how = held.by(config, flow_plan.SOURCE)
    try:
        found = live.holds({**stored, **known}, is_paused=how is not None)
    except errors.ConnectError:  # another's file, with values that this node cannot fill in
        found = holding.Holds(paused=how is not None)
    stopped = how is holding.By.STOPPED
    return dataclasses.replace(found, stopped=stopped, beside=held.beside(config))


def _is_planned(props: Mapping[str, str], plan: flow_plan.FlowPlan) -> bool:
    """Of a connector: nothing but what operators have set is another's."""
    return live.without(props) == plan.source


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
