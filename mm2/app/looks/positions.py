"""Where the consumer groups of a flow stand, on both of its clusters."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from connect_runtime.base import amounts, errors
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides as app_sides
from mm2.client import checkpoint_reading
from mm2.cluster import groups as groups_port
from mm2.core import flows, naming
from mm2.core.failover import seen, standing
from mm2.core.groups import relevant
from mm2.core.offsets import checkpoints, group_sync

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
_State = group_sync.GroupState
_UNKNOWN = group_sync.TargetGroup(state=_State.UNKNOWN)
_OFFSETS_TOPIC = "__consumer_offsets"
TYPES_S = 10.0
"""So long at most share and streams groups are asked about, and groups that are named are listed
for their types: no other group waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`unlisted`, `unmoved` and `checkpointed_ms` as in `seen.Seen`."""

    groups: tuple[seen.Group, ...]
    unmoved: tuple[seen.UnmovedGroup, ...] = ()
    unlisted: str = ""
    checkpointed_ms: int | None = None


def of_groups(
    sides: app_sides.TwoSides,
    *,
    origin_answers: bool,
    names: Collection[str] = (),
    stable: bool = False,
    before: Mapping[str, checkpoints.Positions] | None = None,
    streams: Collection[str] = (),
    topics: Collection[str] = (),
    clock: base_clock.Clock,
    timeout_s: float,
) -> Standing:
    """The flow's groups, or those of `names`: by their own offsets where the source answers for
    them, else by their checkpoints, or where they were `before`, whichever is further. `stable` as
    in `groups.Groups.positions`. `streams`: groups that were Kafka Streams applications in an
    earlier look; `topics`: some of the source, whose names tell of more. Raises `RetriableError`
    and `FatalError`."""
    before = before or {}
    told = _checkpoints(sides, names, clock=clock, timeout_s=timeout_s)
    table = told.table
    unmoved: list[seen.UnmovedGroup] = []
    if origin_answers:
        listed, unlisted = _listed(sides.source, names, timeout_s=timeout_s)
        unmoved = _unmoved(sides, names, listed or (), timeout_s=timeout_s)
        wanted = _wanted(sides.flow, names, table, listed)
        wanted = sorted({*wanted, *before}) if unlisted else wanted
        found = _committed(
            sides,
            [each for each in wanted if each not in {group.name for group in unmoved}],
            told,
            names=names,
            stable=stable,
            clock=clock,
            timeout_s=timeout_s,
        )
    else:
        unlisted = "" if before else told.missing
        known = sorted({*table.groups(), *before})
        found = [told.group(sides.flow, name) for name in known]
    found = [standing.with_before(each, before.get(each.name, {})) for each in found]
    found = _with_streams(found, streams, topics)
    return Standing(
        groups=tuple(_there(sides.target, found, timeout_s)),
        unmoved=tuple(unmoved),
        unlisted=unlisted,
        checkpointed_ms=told.times.newest_ms,
    )


def _listed(
    side: app_sides.OneSide, names: Collection[str], *, timeout_s: float
) -> tuple[list[relevant.Listed] | None, str]:
    """All groups, None where nobody can list them; and why there may be more, which is no matter
    where groups are named. Every broker has to answer."""
    try:
        listed = side.groups.list_groups(min(timeout_s, TYPES_S) if names else timeout_s)
    except errors.RetriableError as error:
        return None, "" if names else str(error)
    return listed, "" if names else _why_unlisted(side, timeout_s)


def _wanted(
    flow: flows.Flow,
    names: Collection[str],
    table: checkpoints.CheckpointTable,
    listed: Collection[relevant.Listed] | None,
) -> list[str]:
    """Whom to ask about. Of a broker that is known to be away nobody says which groups it has, so
    those with checkpoints are asked about, too."""
    if names:
        return sorted(names)
    if listed is None:
        return table.groups()
    unlisted = set(table.groups()).difference(each.group for each in listed)
    filtered = relevant.candidates(flow, listed)
    for name, why in filtered.unmatched.items():
        _LOG.warning("group %.80s is left out: %s", name, why)
    return sorted({*filtered.taken, *unlisted})


def _unmoved(
    sides: app_sides.TwoSides,
    names: Collection[str],
    listed: Collection[relevant.Listed],
    *,
    timeout_s: float,
) -> list[seen.UnmovedGroup]:
    """Share and streams groups, but for those that read other topics than the flow's alone."""
    flow, groups = sides.flow, sides.source.groups
    timeout_s = min(timeout_s, TYPES_S)
    types = {each.group: each.unmoved_type for each in listed if each.unmoved_type}
    taken: Collection[str] = names or relevant.filtered(flow.groups, types).taken
    kinds = {name: types[name] for name in types if name in taken}
    share = sorted(name for name, kind in kinds.items() if kind == "share")
    streams = sorted(name for name, kind in kinds.items() if kind == "streams")
    shared = _each(lambda: groups.share_partitions(share, timeout_s), share)
    offsets = _each(lambda: groups.positions(streams, timeout_s), streams)
    topics: dict[str, set[str]] = {
        name: {each.topic for each in places}
        for name, places in (*shared.done.items(), *offsets.done.items())
    }
    failed = {**shared.failed, **offsets.failed}
    found = []
    for name in (*share, *streams):
        if name in failed:
            why = str(failed[name])
            each = seen.UnmovedGroup(name=name, type=kinds[name], topics=None, unread=why)
            found.append(each)
            continue
        ours = sorted(each for each in topics[name] if standing.concerns(flow, each))
        if ours or not topics[name] or name in names:
            there = {each: _on_target(flow, each) for each in ours}
            found.append(seen.UnmovedGroup(name=name, type=kinds[name], topics=there))
    return found


def _on_target(flow: flows.Flow, topic: str) -> str:
    return naming.topic_on_target(
        flow.policy, topic, source_alias=flow.source, target_alias=flow.target
    )


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
    all_of_them = amounts.counted(topic.partitions, "partition")
    return f"no broker leads {alone} of the {all_of_them} of {_OFFSETS_TOPIC}"


def _committed(
    sides: app_sides.TwoSides,
    wanted: Collection[str],
    told: _Checkpoints,
    *,
    names: Collection[str],
    stable: bool,
    clock: base_clock.Clock,
    timeout_s: float,
) -> list[seen.Group]:
    """One whose coordinator is away, or that we may not read, stands where its checkpoints say, and
    is waited for once."""
    flow, groups = sides.flow, sides.source.groups
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    positions = _each(lambda: groups.positions(wanted, timeout_s / 2, stable=stable), wanted)
    read = sorted(positions.done)
    states = _each(lambda: groups.states(read, end.left_s(clock.now_s())), read)
    active = [name for name, state in states.done.items() if state is _State.ACTIVE]
    assignors = _each(lambda: groups.assignors(active, end.left_s(clock.now_s())), active)
    found = []
    for name in wanted:
        failure = positions.failed.get(name) or states.failed.get(name)
        if failure is not None:
            known = told.group(flow, name)
            refused = not isinstance(failure, errors.RetriableError)
            found.append(dataclasses.replace(known, unread=str(failure), refused=refused))
            continue
        offsets = positions.done[name]
        if name in names or any(standing.concerns(flow, each.topic) for each in offsets):
            found.append(
                seen.Group(
                    name=name,
                    origin=seen.Origin.COMMITTED,
                    positions=offsets,
                    state=states.done[name],
                    is_streams=_is_streams(assignors.done.get(name, "")),
                    pairs=standing.pairs(flow, told.table.group(name)),
                )
            )
    return found


def _is_streams(assignor: str) -> bool | None:
    return assignor == relevant.STREAMS_ASSIGNOR if assignor else None


def _with_streams(
    found: Collection[seen.Group], streams: Collection[str], topics: Collection[str]
) -> list[seen.Group]:
    """Of groups that have no members now, or cannot be described, what was known before counts,
    and the names of Kafka Streams' internal topics."""
    every = {*topics, *(place.topic for each in found for place in each.positions)}
    known = standing.streams_applications({each.name for each in found}, every).union(streams)
    return [
        dataclasses.replace(each, is_streams=True)
        if each.is_streams is None and each.name in known
        else each
        for each in found
    ]


def _each(
    ask: Callable[[], groups_port.PerGroup[T]], wanted: Collection[str]
) -> groups_port.PerGroup[T]:
    """Where nobody answers for any of them, that is so of each."""
    try:
        return ask()
    except errors.RetriableError as error:
        return groups_port.PerGroup(done={}, failed=dict.fromkeys(wanted, error))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checkpoints:
    """`missing`: why there are none, "" where there are."""

    table: checkpoints.CheckpointTable
    times: checkpoint_reading.WrittenTimes
    missing: str = ""

    def group(self, flow: flows.Flow, name: str) -> seen.Group:
        """One whose own offsets cannot be had."""
        return standing.checkpointed(flow, name, self.table.group(name), self.times.of(name))


def _checkpoints(
    sides: app_sides.TwoSides, names: Collection[str], *, clock: base_clock.Clock, timeout_s: float
) -> _Checkpoints:
    flow = sides.flow
    takes_group = (lambda name: name in names) if names else flow.groups.takes
    times = checkpoint_reading.WrittenTimes()
    try:
        table = checkpoint_reading.read(
            sides.target.topics,
            flow.policy,
            flow.source,
            takes_group=takes_group,
            clock=clock,
            timeout_s=timeout_s,
            noted=times.note,
        )
    except kafka_errors.TopicMissingError:
        topic = flow.policy.checkpoints_topic(flow.source)
        return _Checkpoints(
            table=checkpoints.CheckpointTable(takes_group=takes_group),
            times=times,
            missing=f"{flow.source} does not answer, and there is no {topic} on {flow.target}: let "
            "the flow write checkpoints (emit.checkpoints.enabled, the group filter)",
        )
    return _Checkpoints(table=table, times=times)


def _there(
    side: app_sides.OneSide, found: Collection[seen.Group], timeout_s: float
) -> Iterator[seen.Group]:
    """With how each stands there, or why nobody can look."""
    states = side.groups.states([each.name for each in found], timeout_s)
    idle = [name for name, state in states.done.items() if state is _State.EMPTY]
    positions = side.groups.positions(idle, timeout_s)
    failed = {**states.failed, **positions.failed}
    for each in found:
        failure, state = failed.get(each.name), states.done.get(each.name, _State.UNKNOWN)
        if failure is not None:
            yield dataclasses.replace(each, there=_UNKNOWN, there_unread=str(failure))
            continue
        there = group_sync.TargetGroup(state=state, positions=positions.done.get(each.name, {}))
        yield dataclasses.replace(each, there=there)
