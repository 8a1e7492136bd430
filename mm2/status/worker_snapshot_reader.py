"""Builds the `WorkerSnapshot` of one flow from its Connect worker and the status registry.

Snapshots are taken several times per second, so each stored configuration is parsed only once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping

from connect_runtime.app.multi_worker_process import FleetMember
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig
from connect_runtime.storage.status_records import RunStatus
from connect_runtime.storage.status_topic import StatusSnapshot
from mm2.config import flow_connector_configs, pause_and_throttle_overrides
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
from mm2.connectors.status_registry import ConnectorSnapshot, RegistrySnapshot, TaskSnapshot
from mm2.status import flow_status
from mm2.status.flow_status import FlowWorkerState, GroupStatus, WorkerSnapshot
from mm2.topics import task_assignment

_NO_TASK_SNAPSHOTS: Mapping[int, TaskSnapshot] = {}


ConfigPredicate = Callable[[Mapping[str, str], FlowPlan], bool]


class _CachedPredicate:
    """Caches a predicate's result for the configuration of each connector or task. A result is
    reused until this configuration or the `FlowPlan` (the settings derived from the configuration
    file) changes."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Mapping[str, str], FlowPlan, bool]] = {}

    def evaluate_cached(
        self,
        question: ConfigPredicate,
        props: Mapping[str, str],
        plan: FlowPlan,
        *,
        of: object,
    ) -> bool:
        """Return whether the configuration `props` satisfies the predicate `question`. `of` is the
        connector or task that has the configuration.

        The result is cached until `props` or `plan` is a different object.
        """
        known = self._known.get(of)
        if known is None or known[0] is not props or known[1] is not plan:
            known = self._known[of] = (props, plan, question(props, plan))
        return known[2]


class WorkerSnapshotReader:
    """Reads worker snapshots of one flow, and parses each stored configuration only once."""

    def __init__(self) -> None:
        self._config: ClusterConfigState | None = None
        self._configured: Mapping[int, frozenset[TopicPartition]] = {}
        self._changed_at = -1
        self._as_planned = False
        self._is_applied = False
        self._holds = pause_and_throttle_overrides.NO_OVERRIDES
        self._plan: FlowPlan | None = None
        self._predicates = _CachedPredicate()

    def read_snapshot(
        self,
        member: FleetMember | None,
        snapshot: RegistrySnapshot,
        *,
        life: FlowWorkerState,
        reason: str,
        given_up: str,
        refused: str,
        plan: FlowPlan,
        unreachable: str = "",
    ) -> WorkerSnapshot:
        """Take a snapshot of the flow as seen by this node. `member` is the flow's worker, or None
        before it starts."""
        shown = snapshot.connectors.get(plan.name)
        tasks_shown = snapshot.tasks.get(plan.name, _NO_TASK_SNAPSHOTS)
        if member is None:
            return WorkerSnapshot(
                flow=plan.name,
                worker_state=life,
                reason=reason,
                fatal_error=given_up,
                unreachable=unreachable,
                connector_snapshot=shown,
                task_snapshots=tasks_shown,
            )
        herder = member.herder
        config, statuses = herder.get_config_state(), herder.get_statuses()
        mine, configured = set(member.assignment.items), self._read_task_partitions(config, plan)
        return WorkerSnapshot(
            flow=plan.name,
            worker_state=life,
            reason=reason,
            has_joined=herder.is_ready(),
            fatal_error=given_up,
            unreachable=unreachable,
            stopped_ms=config.target_state_timestamp_ms(flow_connector_configs.SOURCE_CONNECTOR),
            resume=plan.resume_command,
            config_error=refused,
            connector=_make_group_status(
                statuses.connector(flow_connector_configs.SOURCE_CONNECTOR),
                here=flow_connector_configs.SOURCE_CONNECTOR in mine,
            ),
            tasks={
                task.task: _make_group_status(statuses.task(task), here=task in mine)
                for task in config.tasks(flow_connector_configs.SOURCE_CONNECTOR)
            },
            configured=configured,
            is_config_current=(self._as_planned or not member.is_leader) and self._is_applied,
            is_plan_current=not member.is_leader or self._has_plan_config(shown, plan),
            is_config_applied=all(
                self._predicates.evaluate_cached(_task_matches_plan, each.props, plan, of=task)
                for task, each in tasks_shown.items()
            ),
            is_assigned=member.assignment_offset >= self._changed_at,
            overrides=self._holds,
            connector_snapshot=shown,
            checkpoint_tasks=sum(
                not isinstance(each, str)
                and each.connector == flow_connector_configs.CHECKPOINT_CONNECTOR
                for each in mine
            ),
            connector_failures=tuple(_list_connector_failures(mine, statuses)),
            task_snapshots=tasks_shown,
        )

    def _read_task_partitions(
        self, config: ClusterConfigState, plan: FlowPlan
    ) -> Mapping[int, frozenset[TopicPartition]]:
        """Return the partitions in the configuration of each task."""
        if config is not self._config or plan is not self._plan:
            self._holds, self._plan = _read_overrides(config, plan), plan
            tasks = config.tasks(flow_connector_configs.SOURCE_CONNECTOR)
            found = {each.task: _parse_partitions(config.task_config(each)) for each in tasks}
            if found != self._configured:
                self._configured, self._changed_at = found, config.offset
            stored = config.config(flow_connector_configs.SOURCE_CONNECTOR)
            self._as_planned = (
                pause_and_throttle_overrides.strip_overrides(_convert_config_to_text(stored))
                == plan.connectors[flow_connector_configs.SOURCE_CONNECTOR]
            )
            self._is_applied = (
                not tasks
                or config.applied_config(flow_connector_configs.SOURCE_CONNECTOR) == stored
            )
            self._config = config  # last: other threads read it
        return self._configured

    def _has_plan_config(self, shown: ConnectorSnapshot | None, plan: FlowPlan) -> bool:
        """Return True if the running connector has the configuration that was derived from this
        node's configuration file (`plan`)."""
        return shown is not None and self._predicates.evaluate_cached(
            _connector_matches_plan, shown.props, plan, of="connector"
        )


def _parse_partitions(config: RawConfig | None) -> frozenset[TopicPartition]:
    try:
        return frozenset(task_assignment.parse_partitions(_convert_config_to_text(config)))
    except ConnectError:
        return frozenset()


def _read_overrides(config: ClusterConfigState, plan: FlowPlan) -> OperatorOverrides:
    """Read the operator overrides from the connector configuration stored by the Connect group.

    Stored values may contain placeholders `${…}`. A value that equals the value in this node's
    configuration file is replaced by the value with resolved placeholders.
    """
    stored, ours = (
        _convert_config_to_text(config.config(flow_connector_configs.SOURCE_CONNECTOR)),
        plan.connectors[flow_connector_configs.SOURCE_CONNECTOR],
    )
    known = {key: plan.source_config[key] for key in ours if stored.get(key) == ours[key]}
    how = flow_status.find_operator_override(config, flow_connector_configs.SOURCE_CONNECTOR)
    try:
        found = pause_and_throttle_overrides.parse_overrides(
            {**stored, **known}, is_paused=how is not None
        )
    except ConnectError:  # another node's file, with values that this node cannot resolve
        found = OperatorOverrides(paused=how is not None)
    stopped = how is OverrideKind.STOPPED
    return dataclasses.replace(
        found, stopped=stopped, other_connectors=flow_status.find_connector_overrides(config)
    )


def _connector_matches_plan(props: Mapping[str, str], plan: FlowPlan) -> bool:
    """Return True if a connector's configuration without operator overrides equals the one derived
    from the configuration file (`plan`)."""
    return pause_and_throttle_overrides.strip_overrides(props) == plan.source_config


def _task_matches_plan(props: Mapping[str, str], plan: FlowPlan) -> bool:
    """Return True if a task's configuration contains every entry of the source connector
    configuration that was derived from the configuration file (`plan`)."""
    return all(props.get(key) == value for key, value in plan.source_config.items())


def _convert_config_to_text(config: RawConfig | None) -> dict[str, str]:
    return {key: value for key, value in (config or {}).items() if value is not None}


def _list_connector_failures(
    mine: Collection[str | ConnectorTaskId], statuses: StatusSnapshot
) -> Iterator[str]:
    """Describe the failed connectors and checkpoint tasks that are assigned to this node."""
    for name in sorted(each for each in mine if isinstance(each, str)):
        status = _make_group_status(statuses.connector(name), here=True)
        if status.is_failed:
            yield f"connector {name} failed: {status.reason}"
    for each in sorted(task for task in mine if not isinstance(task, str)):
        status = _make_group_status(statuses.task(each), here=True)
        if each.connector == flow_connector_configs.CHECKPOINT_CONNECTOR and status.is_failed:
            yield f"checkpoint task {each.task} failed: {status.reason}"


def _make_group_status(found: RunStatus | None, *, here: bool) -> GroupStatus:
    if found is None:
        return GroupStatus(is_local=here)
    return GroupStatus(
        state=found.state.value,
        is_local=here,
        reason=flow_status.extract_error_message(found.trace),
        node=found.worker_id,
    )
