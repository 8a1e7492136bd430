"""How a flow stands, as both of its clusters tell: nobody here runs it.

How far it is copied is what its map on the target says, who runs it what the topics of its Connect
group say. Why a partition stands still only the process that copies it knows; what is wrong with
its logs is seen from here, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from connect_runtime.base import amounts, errors, ids
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.core.state import cluster_config, config_records, status_records
from mm2.app import flow_plan, flow_statuses, held, overview
from mm2.app.looks import mirrors, sides, workers
from mm2.app.reports import flow_report, source_looks, words
from mm2.app.settings import settings as app_settings
from mm2.core import flows, reachability, time_to_loss
from mm2.core import holds as holding
from mm2.core.configs import live
from mm2.core.failover import seen

_State = flow_report.State
_Status = status_records.State
_NO_GROUP = "no process, on whichever machine, is in its group {group}"
_NEVER = "it was never started: {topic} tells of no connector"

Retentions = Mapping[str, time_to_loss.Retention | None]


def look(
    settings: app_settings.Settings,
    flow: flows.Flow,
    plan: flow_plan.FlowPlan,
    *,
    clock: base_clock.Clock,
    timeout_s: float,
    lost: Mapping[reachability.Side, str] = MappingProxyType({}),
) -> flow_report.FlowReport:
    """Whatever the clusters answer: what keeps them from it is told in the report. `lost`: why a
    cluster is not asked at all."""
    if lost.get(reachability.Side.TARGET):
        return _unanswered(flow, lost, at_ms=clock.wall_ms())
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    with sides.Sides(settings, flow, purpose="status", clock=clock) as both:
        try:
            group = workers.look(
                both.target, plan.worker_props, clock=clock, timeout_s=end.left_s(clock.now_s())
            )
            found = mirrors.look(
                both,
                clock=clock,
                timeout_s=end.left_s(clock.now_s()),
                lost=lost.get(reachability.Side.SOURCE, ""),
            )
        except errors.RetriableError as error:
            silent = {**lost, reachability.Side.TARGET: str(error)}
            return _unanswered(flow, silent, at_ms=clock.wall_ms())
        except errors.ConnectError as error:
            return flow_report.FlowReport(
                flow=flow.name,
                seen_by=(flow_report.CLUSTERS,),
                at_ms=clock.wall_ms(),
                state=_State.UNKNOWN,
                reason=str(error),
            )
        retentions = _retentions(both.source, found, timeout_s=end.left_s(clock.now_s()))
    return make(flow, plan, group, found=found, retentions=retentions, at_ms=clock.wall_ms())


def _unanswered(
    flow: flows.Flow, lost: Mapping[reachability.Side, str], *, at_ms: int
) -> flow_report.FlowReport:
    """Of a flow whose target does not answer, and perhaps its source neither."""
    aliases = {reachability.Side.SOURCE: flow.source, reachability.Side.TARGET: flow.target}
    found = tuple(
        _unreachable(side, alias, lost[side]) for side, alias in aliases.items() if lost.get(side)
    )
    return flow_report.FlowReport(
        flow=flow.name,
        seen_by=(flow_report.CLUSTERS,),
        at_ms=at_ms,
        state=_State.UNKNOWN,
        reason="; ".join(each.describe() for each in found),
        unreachable=found,
    )


def make(
    flow: flows.Flow,
    plan: flow_plan.FlowPlan,
    group: workers.Workers,
    *,
    found: mirrors.Mirrors,
    retentions: Retentions,
    at_ms: int,
) -> flow_report.FlowReport:
    """Of what was seen, at `at_ms`."""
    state, reason = _state(plan, group)
    holds = _holds(group.config)
    partitions = tuple(
        _partition(each, holds, at_ms=at_ms, retention=retentions.get(each.partition.topic))
        for each in found.mirrored
    )
    tasks = tuple(_tasks(group))
    return flow_report.FlowReport(
        flow=flow.name,
        seen_by=(flow_report.CLUSTERS,),
        at_ms=at_ms,
        state=state,
        reason=reason,
        since_ms=_since_ms(group, state),
        nodes=tuple(sorted({each.node for each in tasks} - {""})),
        tasks=tasks,
        partitions=partitions,
        troubles=tuple(_troubles(group)),
        warnings=tuple(_warnings(plan, group, found, holds=holds, partitions=partitions)),
        unreachable=(_unreachable(reachability.Side.SOURCE, flow.source, found.silent),)
        if found.silent
        else (),
    )


def _unreachable(side: reachability.Side, alias: str, reason: str) -> reachability.Unreachable:
    """Since when it does not answer, who has just asked it cannot know."""
    return reachability.Unreachable(side=side, cluster=alias, reason=reason)


def _retentions(source: sides.OneSide, found: mirrors.Mirrors, *, timeout_s: float) -> Retentions:
    lagging = {each.partition.topic for each in found.mirrored if each.lag_records}
    if not lagging:
        return {}
    try:
        settings = source.admin.topic_configs(lagging, timeout_s).done
    except errors.ConnectError:
        return {}
    return {name: source_looks.retention(settings.get(name)) for name in lagging}


# The group


def _state(plan: flow_plan.FlowPlan, group: workers.Workers) -> tuple[_State, str]:
    config = group.config
    if not config.contains(flow_plan.SOURCE):
        topic = plan.worker_props["config.storage.topic"]
        return _State.NOT_RUNNING, _NEVER.format(topic=topic)
    target = config.target_state(flow_plan.SOURCE)
    if target is cluster_config.TargetState.STOPPED:
        key = config_records.Kind.TARGET_STATE.value + flow_plan.SOURCE
        at_ms = group.changed_ms.get(key, -1)
        return _State.STOPPED, flow_statuses.stopped_reason(plan.resume, at_ms)
    if group.hosts is not None and not group.hosts:
        return _State.NOT_RUNNING, _NO_GROUP.format(group=plan.worker_props["group.id"])
    if target is cluster_config.TargetState.PAUSED:
        return _State.PAUSED, held.paused_reason(plan.resume)
    status = group.statuses.connector(flow_plan.SOURCE)
    if status is None or status.state not in (_Status.RUNNING, _Status.FAILED):
        word = "of no state yet" if status is None else status.state.value
        return _State.PLANNING, f"its connector is {word}"
    if status.state is _Status.FAILED:
        return _State.FAILED, flow_statuses.first_line(status.trace)
    failed = (each for each in _tasks(group) if each.state == flow_report.FAILED)
    return _State.RUNNING, next((f"task {each.number}: {each.reason}" for each in failed), "")


def _since_ms(group: workers.Workers, state: _State) -> int | None:
    """Of a process that is gone nobody wrote down when it went."""
    asked = (_State.PAUSED, _State.STOPPED)
    told = (_State.RUNNING, _State.FAILED, _State.PLANNING)
    if state in asked:
        key = config_records.Kind.TARGET_STATE.value + flow_plan.SOURCE
    elif state in told:
        key = workers.status_key(flow_plan.SOURCE)
    else:
        return None
    found = group.changed_ms.get(key, -1)
    return found if found >= 0 else None


def _tasks(group: workers.Workers) -> Iterator[flow_report.Task]:
    """Where nobody is in the group, what tasks once said counts for nothing."""
    runs = group.hosts is None or bool(group.hosts)
    for task in group.config.tasks(flow_plan.SOURCE):
        status = group.statuses.task(task)
        if status is None or not runs:
            yield flow_report.Task(number=task.task, state="")
            continue
        yield flow_report.Task(
            number=task.task,
            state=status.state.value,
            node=status.worker_id,
            reason=flow_statuses.first_line(status.trace),
        )


def _troubles(group: workers.Workers) -> Iterator[flow_report.Trouble]:
    """What failed last, of connectors and tasks, also of a process that is gone."""
    config = group.config
    subjects: list[status_records.Subject] = list(config.connectors())
    subjects += [task for name in config.connectors() for task in config.tasks(name)]
    found = []
    for each in subjects:
        status = group.statuses.get(each)
        if status is not None and status.state is _Status.FAILED:
            at_ms = group.changed_ms.get(workers.status_key(each), -1)
            found.append((at_ms, f"{each}: {flow_statuses.first_line(status.trace)}"))
    for at_ms, text in sorted(found, reverse=True):
        yield flow_report.Trouble(text=text, at_ms=at_ms if at_ms >= 0 else None)


def _holds(config: cluster_config.ClusterConfig) -> holding.Holds:
    """What an operator wishes, as far as it is written down in plain words."""
    stored = config.config(flow_plan.SOURCE) or {}
    how = held.by(config, flow_plan.SOURCE)
    at_rest = how is holding.By.PAUSED
    try:
        texts = {key: value for key, value in stored.items() if value is not None}
        found = live.holds(texts, is_paused=at_rest)
    except errors.ConnectError:
        found = holding.Holds(paused=at_rest)
    stopped = how is holding.By.STOPPED
    return dataclasses.replace(found, stopped=stopped, beside=held.beside(config))


# Partitions


def _partition(
    each: seen.Mirrored,
    holds: holding.Holds,
    *,
    at_ms: int,
    retention: time_to_loss.Retention | None,
) -> flow_report.Partition:
    where: ids.TopicPartition = each.partition
    outlook = _outlook(each, at_ms=at_ms, retention=retention)
    return flow_report.Partition(
        topic=where.topic,
        partition=where.partition,
        mirror=each.mirror.topic,
        state=overview.PAUSED if holds.pauses(where.topic) else flow_report.UNSEEN,
        reason=_wrong(each, outlook),
        copied_to=each.copied_to,
        start=None if each.here is None else each.here.start,
        end=None if each.here is None else each.here.end,
        waiting_since_ms=each.waiting_since_ms,
        outlook=outlook,
    )


def _outlook(
    each: seen.Mirrored, *, at_ms: int, retention: time_to_loss.Retention | None
) -> time_to_loss.Outlook:
    """One look knows no speeds: what it says rests on settings alone."""
    if each.here is None:
        return flow_report.NOTHING_KNOWN
    fold = time_to_loss.TimeToLoss()
    fold.look(
        time_to_loss.Look(
            at_ms=at_ms,
            start=each.here.start,
            end=each.here.end,
            copied_to=each.here.start if each.copied_to is None else each.copied_to,
            waiting_since_ms=each.waiting_since_ms,
        )
    )
    return fold.outlook(retention)


def _wrong(each: seen.Mirrored, outlook: time_to_loss.Outlook) -> str:
    if each.stopped:
        return each.stopped
    if each.here is not None and each.copied_to is not None and each.copied_to > each.here.end:
        return (
            f"it was copied up to offset {each.copied_to}, and the source's log ends at "
            f"{each.here.end}: it was cut short, or its topic deleted and made again"
        )
    if each.copied_to is not None and each.there is None:
        return f"its mirror {each.mirror} was deleted"
    return words.loss(outlook) if outlook.kind is time_to_loss.Kind.GONE else ""


def _warnings(
    plan: flow_plan.FlowPlan,
    group: workers.Workers,
    found: mirrors.Mirrors,
    *,
    holds: holding.Holds,
    partitions: tuple[flow_report.Partition, ...],
) -> Iterator[str]:
    if group.hosts is None:
        yield "whether anybody is in its group may not be asked (DESCRIBE on the group)"
    if not partitions and not found.silent:
        yield overview.NO_TOPIC
    yield from held.in_words(holds, resume=plan.resume)
    if found.losses:
        told = amounts.counted(found.losses, "receipt", "say")
        yield f"{told} that records were lost; mm2 receipts lists them"
    wrong = [each for each in partitions if each.reason]
    for each in wrong[:3]:
        yield f"{each.topic}-{each.partition}: {each.reason}"
    if len(wrong) > 3:
        yield f"… and {amounts.counted(len(wrong) - 3, 'more partition')}; mm2 lag lists them"
