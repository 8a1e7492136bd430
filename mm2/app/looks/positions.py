"""Where the consumer groups of a flow stand, on both of its clusters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides as app_sides
from mm2.client import checkpoint_reading
from mm2.cluster import groups as groups_port
from mm2.core import flows, naming
from mm2.core.failover import seen
from mm2.core.groups import relevant
from mm2.core.offsets import checkpoints, group_sync

T = TypeVar("T")
_State = group_sync.GroupState
_OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`unlisted` as in `seen.Seen`."""

    groups: tuple[seen.Group, ...]
    unlisted: str = ""


def of_groups(
    sides: app_sides.TwoSides,
    *,
    origin_answers: bool,
    names: Collection[str] = (),
    stable: bool = False,
    before: Mapping[str, checkpoints.Positions] | None = None,
    clock: base_clock.Clock,
    timeout_s: float,
) -> Standing:
    """The flow's groups, or those of `names`: by their own offsets where the source answers for
    them, else by their checkpoints, or where they were `before`, whichever is further. `stable` as
    in `groups.Groups.positions`. Raises `RetriableError` and `FatalError`."""
    before = before or {}
    table, no_checkpoints = _checkpoints(sides, names, clock=clock, timeout_s=timeout_s)
    if origin_answers:
        wanted, unlisted = _wanted(sides, names, table, timeout_s=timeout_s)
        wanted = sorted({*wanted, *before}) if unlisted else wanted
        found = _committed(
            sides, wanted, table, names=names, stable=stable, clock=clock, timeout_s=timeout_s
        )
    else:
        unlisted = "" if before else no_checkpoints
        told = sorted({*table.groups(), *before})
        found = [_checkpointed(sides.flow, name, table) for name in told]
    found = [_with_before(each, before.get(each.name, {})) for each in found]
    there = _there(sides.target, [each.name for each in found], timeout_s)
    return Standing(
        groups=tuple(dataclasses.replace(each, there=there[each.name]) for each in found),
        unlisted=unlisted,
    )


def _wanted(
    sides: app_sides.TwoSides,
    names: Collection[str],
    table: checkpoints.CheckpointTable,
    *,
    timeout_s: float,
) -> tuple[list[str], str]:
    """Whom to ask about, and why there may be more. Every broker has to answer for the list; of one
    that is known to be away nobody says which groups it has, so those with checkpoints are asked
    about, too."""
    if names:
        return sorted(names), ""
    try:
        listed = sides.source.groups.list_groups(timeout_s)
    except errors.RetriableError as error:
        return table.groups(), str(error)
    unlisted = set(table.groups()).difference(each.group for each in listed)
    wanted = sorted({*relevant.candidates(sides.flow, listed), *unlisted})
    return wanted, _why_unlisted(sides.source, timeout_s)


def _why_unlisted(side: app_sides.OneSide, timeout_s: float) -> str:
    """ "" where all groups have a coordinator, or nobody tells us."""
    try:
        found = side.admin.describe_topics([_OFFSETS_TOPIC], timeout_s)
    except errors.RetriableError as error:
        return str(error)
    failure = found.failed.get(_OFFSETS_TOPIC)
    if isinstance(failure, errors.RetriableError):
        return str(failure)
    topic = found.done.get(_OFFSETS_TOPIC)
    alone = 0 if topic is None else topic.leaders.count(None)
    if topic is None or not alone:
        return ""
    return f"no broker leads {alone} of the {topic.partitions} partitions of {_OFFSETS_TOPIC}"


def _committed(
    sides: app_sides.TwoSides,
    wanted: Collection[str],
    table: checkpoints.CheckpointTable,
    *,
    names: Collection[str],
    stable: bool,
    clock: base_clock.Clock,
    timeout_s: float,
) -> list[seen.Group]:
    """One whose coordinator is away stands where its checkpoints say, and is waited for once."""
    flow, groups = sides.flow, sides.source.groups
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    positions = _each(lambda: groups.positions(wanted, timeout_s / 2, stable=stable), wanted)
    told = sorted(positions.done)
    states = _each(lambda: groups.states(told, end.left_s(clock.now_s())), told)
    found = []
    for name in wanted:
        failure = positions.failed.get(name) or states.failed.get(name)
        if failure is None:
            offsets = positions.done[name]
            if name in names or any(_concerns(flow, each.topic) for each in offsets):
                found.append(
                    seen.Group(
                        name=name,
                        origin=seen.Origin.COMMITTED,
                        positions=offsets,
                        state=states.done[name],
                        pairs=_pairs(flow, table.group(name)),
                    )
                )
        elif not isinstance(failure, errors.RetriableError):
            raise failure
        else:
            known = _checkpointed(flow, name, table)
            found.append(dataclasses.replace(known, unread=str(failure)))
    return found


def _each(
    ask: Callable[[], groups_port.PerGroup[T]], wanted: Collection[str]
) -> groups_port.PerGroup[T]:
    """Where nobody answers for any of them, that is so of each."""
    try:
        return ask()
    except errors.RetriableError as error:
        return groups_port.PerGroup(done={}, failed=dict.fromkeys(wanted, error))


def _concerns(flow: flows.Flow, topic: str) -> bool:
    """Does the flow mirror the topic, or did it come from where the flow leads?"""
    return flow.topics.takes(topic) or flow.policy.topic_source(topic) == flow.target


def _checkpoints(
    sides: app_sides.TwoSides, names: Collection[str], *, clock: base_clock.Clock, timeout_s: float
) -> tuple[checkpoints.CheckpointTable, str]:
    """And why there are none, "" where there are."""
    flow = sides.flow
    takes_group = (lambda name: name in names) if names else flow.groups.takes
    try:
        return checkpoint_reading.read(
            sides.target.topics,
            flow.policy,
            flow.source,
            takes_group=takes_group,
            clock=clock,
            timeout_s=timeout_s,
        ), ""
    except kafka_errors.TopicMissingError:
        topic = flow.policy.checkpoints_topic(flow.source)
        return checkpoints.CheckpointTable(takes_group=takes_group), (
            f"{flow.source} does not answer, and there is no {topic} on {flow.target}: let the "
            "flow write checkpoints (emit.checkpoints.enabled, the group filter)"
        )


def _checkpointed(flow: flows.Flow, name: str, table: checkpoints.CheckpointTable) -> seen.Group:
    points = table.group(name)
    return seen.Group(
        name=name,
        origin=seen.Origin.CHECKPOINTED,
        positions={
            _on_source(flow, place): checkpoints.OffsetAndMetadata(
                offset=point.upstream, metadata=point.metadata
            )
            for place, point in points.items()
        },
        pairs=_pairs(flow, points),
    )


def _with_before(group: seen.Group, before: checkpoints.Positions) -> seen.Group:
    if group.origin is seen.Origin.COMMITTED:
        return group
    return dataclasses.replace(group, positions=seen.further(group.positions, before))


def _pairs(flow: flows.Flow, points: checkpoints.Points) -> Mapping[ids.TopicPartition, seen.Pair]:
    return {
        _on_source(flow, place): seen.Pair(upstream=point.upstream, downstream=point.downstream)
        for place, point in points.items()
    }


def _on_source(flow: flows.Flow, place: ids.TopicPartition) -> ids.TopicPartition:
    """The name there of what checkpoints call by its name on the target."""
    topic = naming.topic_on_source(
        flow.policy, place.topic, source_alias=flow.source, target_alias=flow.target
    )
    return ids.TopicPartition(topic, place.partition)


def _there(
    side: app_sides.OneSide, names: Collection[str], timeout_s: float
) -> Mapping[str, group_sync.TargetGroup]:
    states = side.groups.states(names, timeout_s)
    found = {name: group_sync.TargetGroup(state=state) for name, state in states.done.items()}
    idle = [name for name, state in states.done.items() if state is _State.EMPTY]
    positions = side.groups.positions(idle, timeout_s)
    for name, offsets in positions.done.items():
        found[name] = group_sync.TargetGroup(state=_State.EMPTY, positions=offsets)
    for name in (*states.failed, *positions.failed):
        found[name] = group_sync.TargetGroup(state=_State.UNKNOWN)
    return found
