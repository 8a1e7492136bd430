"""Determines the status of a flow from data in both of its clusters, for flows that no local
process runs.

The offset map on the target shows the progress of each partition. The topics of the flow's Connect
group show which workers run the flow. Only the process that replicates a partition knows why the
partition is halted, but problems of its source log and mirror log can be read from the clusters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage.cluster_config_state import ClusterConfigState, TargetState
from connect_runtime.storage.config_records import ConfigRecordKind
from connect_runtime.storage.status_records import RunState, StatusSubject
from mm2.clusters import connect_group_state, replication_progress
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.clusters.flow_cluster_pair import FlowPair, FlowSide
from mm2.clusters.replication_progress import MirrorState
from mm2.config import flow_connector_configs, pause_and_throttle_overrides
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
from mm2.status import (
    flow_status,
    status_document,
    status_from_process,
    time_to_data_loss,
    topic_rows,
)
from mm2.status.status_document import (
    FlowProblem,
    FlowReport,
    PartitionReport,
    ReportedFlowState,
    TaskReport,
)
from mm2.status.time_to_data_loss import (
    RetentionRisk,
    RetentionRiskEstimator,
    RetentionSample,
    RiskKind,
    TopicRetention,
)
from mm2.topics.flow_config import Flow
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

_ReportState = ReportedFlowState
_ConnectStatus = RunState
_GROUP_HAS_NO_MEMBERS = "its Connect group {group} has no members: no mm2 process runs it anywhere"
_NEVER_STARTED = "it was never started: {topic} contains no connector configuration"

TopicRetentions = Mapping[str, TopicRetention | None]


def collect_report(
    settings: Mm2Settings,
    flow: Flow,
    plan: FlowPlan,
    *,
    clock: Clock,
    timeout_s: float,
    lost: Mapping[ClusterSide, str] = MappingProxyType({}),
) -> FlowReport:
    """Collect the flow's status from both clusters. If a cluster cannot be read, the report
    contains the error.

    `lost` contains the clusters that must not be queried, each with the reason, for example that
    the cluster did not respond to an earlier request.
    """
    if lost.get(ClusterSide.TARGET):
        return _build_target_unreachable_report(flow, lost, at_ms=clock.wall_ms())
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    with FlowPair(settings, flow, purpose="status", clock=clock) as both:
        try:
            group = connect_group_state.read_connect_group(
                both.target,
                plan.worker_props,
                clock=clock,
                timeout_s=end.remaining_s(clock.now_s()),
            )
            found = replication_progress.collect_mirror_state(
                both,
                clock=clock,
                timeout_s=end.remaining_s(clock.now_s()),
                lost_reason=lost.get(ClusterSide.SOURCE, ""),
            )
        except RetriableError as error:
            silent = {**lost, ClusterSide.TARGET: str(error)}
            return _build_target_unreachable_report(flow, silent, at_ms=clock.wall_ms())
        except ConnectError as error:
            return FlowReport(
                flow=flow.name,
                seen_by=(status_document.REPORTED_BY_CLUSTERS,),
                at_ms=clock.wall_ms(),
                state=_ReportState.UNKNOWN,
                reason=str(error),
            )
        retentions = _read_retentions(both.source, found, timeout_s=end.remaining_s(clock.now_s()))
    return make_report(flow, plan, group, found=found, retentions=retentions, at_ms=clock.wall_ms())


def _build_target_unreachable_report(
    flow: Flow, lost: Mapping[ClusterSide, str], *, at_ms: int
) -> FlowReport:
    """Build the report of a flow whose target, and possibly source, does not respond."""
    aliases = {ClusterSide.SOURCE: flow.source, ClusterSide.TARGET: flow.target}
    found = tuple(
        _describe_unreachable_cluster(side, alias, lost[side])
        for side, alias in aliases.items()
        if lost.get(side)
    )
    return FlowReport(
        flow=flow.name,
        seen_by=(status_document.REPORTED_BY_CLUSTERS,),
        at_ms=at_ms,
        state=_ReportState.UNKNOWN,
        reason="; ".join(each.format_description() for each in found),
        unreachable=found,
    )


def make_report(
    flow: Flow,
    plan: FlowPlan,
    group: ConnectGroupSnapshot,
    *,
    found: MirrorState,
    retentions: TopicRetentions,
    at_ms: int,
) -> FlowReport:
    """Build the report of a flow from data that was collected from both clusters at time
    `at_ms`."""
    state, reason = _find_flow_state(plan, group)
    holds = _read_overrides(group.config)
    partitions = tuple(
        _make_partition_report(
            each, holds, at_ms=at_ms, retention=retentions.get(each.partition.topic)
        )
        for each in found.mirrored
    )
    tasks = tuple(_make_task_reports(group))
    return FlowReport(
        flow=flow.name,
        seen_by=(status_document.REPORTED_BY_CLUSTERS,),
        at_ms=at_ms,
        state=state,
        reason=reason,
        since_ms=_get_state_since_ms(group, state),
        nodes=tuple(sorted({each.node for each in tasks} - {""})),
        tasks=tasks,
        partitions=partitions,
        problems=tuple(_list_problems(group)),
        warnings=tuple(_list_warnings(plan, group, found, holds=holds, partitions=partitions)),
        unreachable=(
            _describe_unreachable_cluster(ClusterSide.SOURCE, flow.source, found.source_error),
        )
        if found.source_error
        else (),
    )


def _describe_unreachable_cluster(side: ClusterSide, alias: str, reason: str) -> UnreachableCluster:
    """Describe an unreachable cluster. The start of the outage is unknown, because the cluster was
    queried only once."""
    return UnreachableCluster(side=side, cluster=alias, reason=reason)


def _read_retentions(source: FlowSide, found: MirrorState, *, timeout_s: float) -> TopicRetentions:
    lagging = {each.partition.topic for each in found.mirrored if each.lag_records}
    if not lagging:
        return {}
    try:
        settings = source.admin.read_topic_configs(lagging, timeout_s).succeeded
    except ConnectError:
        return {}
    return {name: status_from_process.parse_topic_retention(settings.get(name)) for name in lagging}


# The group


def _find_flow_state(plan: FlowPlan, group: ConnectGroupSnapshot) -> tuple[_ReportState, str]:
    config = group.config
    if not config.has_connector(flow_connector_configs.SOURCE_CONNECTOR):
        topic = plan.worker_props["config.storage.topic"]
        return _ReportState.NOT_RUNNING, _NEVER_STARTED.format(topic=topic)
    target = config.target_state(flow_connector_configs.SOURCE_CONNECTOR)
    if target is TargetState.STOPPED:
        key = ConfigRecordKind.TARGET_STATE.value + flow_connector_configs.SOURCE_CONNECTOR
        at_ms = group.changed_ms.get(key, -1)
        return _ReportState.STOPPED, flow_status.describe_stopped_flow(plan.resume_command, at_ms)
    if group.hosts is not None and not group.hosts:
        return _ReportState.NOT_RUNNING, _GROUP_HAS_NO_MEMBERS.format(
            group=plan.worker_props["group.id"]
        )
    if target is TargetState.PAUSED:
        return _ReportState.PAUSED, flow_status.describe_paused_flow(plan.resume_command)
    status = group.statuses.connector(flow_connector_configs.SOURCE_CONNECTOR)
    if status is None or status.state not in (_ConnectStatus.RUNNING, _ConnectStatus.FAILED):
        word = "of unknown state" if status is None else status.state.value
        return _ReportState.PLANNING, f"its connector is {word}"
    if status.state is _ConnectStatus.FAILED:
        return _ReportState.FAILED, flow_status.extract_error_message(status.trace)
    failed = (
        each for each in _make_task_reports(group) if each.state == status_document.TASK_FAILED
    )
    return _ReportState.RUNNING, next((f"task {each.number}: {each.reason}" for each in failed), "")


def _get_state_since_ms(group: ConnectGroupSnapshot, state: _ReportState) -> int | None:
    """Return the time when the flow entered its state: the timestamp of the record in the Connect
    group's topics that contains the state. Return None if no record contains it, for example
    because the flow's processes have ended."""
    asked = (_ReportState.PAUSED, _ReportState.STOPPED)
    told = (_ReportState.RUNNING, _ReportState.FAILED, _ReportState.PLANNING)
    if state in asked:
        key = ConfigRecordKind.TARGET_STATE.value + flow_connector_configs.SOURCE_CONNECTOR
    elif state in told:
        key = connect_group_state.build_status_key(flow_connector_configs.SOURCE_CONNECTOR)
    else:
        return None
    found = group.changed_ms.get(key, -1)
    return found if found >= 0 else None


def _make_task_reports(group: ConnectGroupSnapshot) -> Iterator[TaskReport]:
    """Yield the status of each task. Statuses are ignored if the group has no members."""
    runs = group.hosts is None or bool(group.hosts)
    for task in group.config.tasks(flow_connector_configs.SOURCE_CONNECTOR):
        status = group.statuses.task(task)
        if status is None or not runs:
            yield TaskReport(number=task.task, state="")
            continue
        yield TaskReport(
            number=task.task,
            state=status.state.value,
            node=status.worker_id,
            reason=flow_status.extract_error_message(status.trace),
        )


def _list_problems(group: ConnectGroupSnapshot) -> Iterator[FlowProblem]:
    """Yield the last failures of connectors and tasks, including those reported by ended
    processes."""
    config = group.config
    subjects: list[StatusSubject] = list(config.connectors())
    subjects += [task for name in config.connectors() for task in config.tasks(name)]
    found = []
    for each in subjects:
        status = group.statuses.get(each)
        if status is not None and status.state is _ConnectStatus.FAILED:
            at_ms = group.changed_ms.get(connect_group_state.build_status_key(each), -1)
            found.append((at_ms, f"{each}: {flow_status.extract_error_message(status.trace)}"))
    for at_ms, text in sorted(found, reverse=True):
        yield FlowProblem(text=text, at_ms=at_ms if at_ms >= 0 else None)


def _read_overrides(config: ClusterConfigState) -> OperatorOverrides:
    """Read the operator overrides from the connector configuration stored by the Connect group.
    Overrides are omitted if their values cannot be parsed."""
    stored = config.config(flow_connector_configs.SOURCE_CONNECTOR) or {}
    how = flow_status.find_operator_override(config, flow_connector_configs.SOURCE_CONNECTOR)
    at_rest = how is OverrideKind.PAUSED
    try:
        texts = {key: value for key, value in stored.items() if value is not None}
        found = pause_and_throttle_overrides.parse_overrides(texts, is_paused=at_rest)
    except ConnectError:
        found = OperatorOverrides(paused=at_rest)
    stopped = how is OverrideKind.STOPPED
    return dataclasses.replace(
        found, stopped=stopped, other_connectors=flow_status.find_connector_overrides(config)
    )


# Partitions


def _make_partition_report(
    each: MirroredPartition,
    holds: OperatorOverrides,
    *,
    at_ms: int,
    retention: TopicRetention | None,
) -> PartitionReport:
    where: TopicPartition = each.partition
    risk = _estimate_risk(each, at_ms=at_ms, retention=retention)
    return PartitionReport(
        topic=where.topic,
        partition=where.partition,
        mirror=each.mirror.topic,
        state=topic_rows.PAUSED_STATE
        if holds.is_topic_paused(where.topic)
        else status_document.UNREPORTED_STATE,
        reason=_describe_partition_problem(each, risk),
        copied_to=each.copied_to,
        start=None if each.source_bounds is None else each.source_bounds.start,
        end=None if each.source_bounds is None else each.source_bounds.end,
        waiting_since_ms=each.waiting_since_ms,
        retention_risk=risk,
    )


def _estimate_risk(
    each: MirroredPartition, *, at_ms: int, retention: TopicRetention | None
) -> RetentionRisk:
    """Estimate the retention risk from a single sample. Only the retention settings are used,
    because rates can be computed only from several samples."""
    if each.source_bounds is None:
        return status_document.UNKNOWN_RISK
    fold = RetentionRiskEstimator()
    fold.observe(
        RetentionSample(
            at_ms=at_ms,
            start=each.source_bounds.start,
            end=each.source_bounds.end,
            copied_to=each.source_bounds.start if each.copied_to is None else each.copied_to,
            waiting_since_ms=each.waiting_since_ms,
        )
    )
    return fold.estimate_risk(retention)


def _describe_partition_problem(each: MirroredPartition, risk: RetentionRisk) -> str:
    if each.stop_reason:
        return each.stop_reason
    if (
        each.source_bounds is not None
        and each.copied_to is not None
        and each.copied_to > each.source_bounds.end
    ):
        return (
            f"the partition was copied up to offset {each.copied_to}, but the source log ends at "
            f"{each.source_bounds.end}: the log was truncated, or the topic recreated"
        )
    if each.copied_to is not None and each.mirror_bounds is None:
        return f"its mirror {each.mirror} was deleted"
    return time_to_data_loss.describe_data_loss(risk) if risk.kind is RiskKind.GONE else ""


def _list_warnings(
    plan: FlowPlan,
    group: ConnectGroupSnapshot,
    found: MirrorState,
    *,
    holds: OperatorOverrides,
    partitions: tuple[PartitionReport, ...],
) -> Iterator[str]:
    if group.hosts is None:
        yield "it is unknown whether its Connect group has members: grant mm2 DESCRIBE on the group"
    if not partitions and not found.source_error:
        yield topic_rows.NO_MATCHING_TOPIC
    yield from flow_status.describe_overrides(holds, resume=plan.resume_command)
    if found.loss_count:
        incidents = plurals.format_count(found.loss_count, "incident", "report")
        yield f"{incidents} lost records; run mm2 incidents to list them"
    wrong = [each for each in partitions if each.reason]
    for each in wrong[:3]:
        yield f"{each.topic}-{each.partition}: {each.reason}"
    if len(wrong) > 3:
        yield f"… and {plurals.format_count(len(wrong) - 3, 'more partition')}; mm2 lag lists them"
