"""Consumer groups of a flow on both clusters: state, committed offsets and checkpoints.

A group's position is its committed offset on the source. If that offset cannot be read, the
position is the higher of the group's checkpoint and the position recorded in an earlier snapshot.
Neither can be ahead of the records that the group has consumed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.clusters import cluster_pair_snapshot
from mm2.clusters.cluster_pair_snapshot import (
    CheckpointPair,
    GroupSnapshot,
    PositionBasis,
    UnmovedGroup,
)
from mm2.clusters.flow_cluster_pair import FlowClusters, FlowSide
from mm2.kafka import checkpoint_reader
from mm2.kafka.checkpoint_reader import CheckpointWriteTimes
from mm2.kafka.kafka_client_interfaces import PerGroupResult
from mm2.offsets import group_selection
from mm2.offsets.checkpoint_rules import (
    CheckpointTable,
    CommittedPositions,
    GroupCheckpoints,
    OffsetAndMetadata,
)
from mm2.offsets.group_offset_sync import GroupState, TargetGroup
from mm2.offsets.group_selection import ListedGroup
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow

_STREAMS_TOPIC_SUFFIXES = ("-changelog", "-repartition")


def is_flow_topic(flow: Flow, topic: str) -> bool:
    """Return True if the flow replicates the topic, or if the topic was replicated from the
    target."""
    return flow.topics.matches(topic) or flow.policy.topic_source(topic) == flow.target


def build_checkpointed_group(
    flow: Flow,
    name: str,
    points: GroupCheckpoints,
    written_ms: Mapping[TopicPartition, int],
) -> GroupSnapshot:
    """Build a group whose committed offsets cannot be read. Its positions are its checkpoints.

    `written_ms` contains the write time of each checkpoint, by target partition.
    """
    return GroupSnapshot(
        name=name,
        basis=PositionBasis.CHECKPOINTED,
        positions={
            _to_source_partition(flow, place): OffsetAndMetadata(
                offset=point.upstream, metadata=point.metadata
            )
            for place, point in points.items()
        },
        checkpoints=build_checkpoint_pairs(flow, points),
        checkpoint_times_ms={
            _to_source_partition(flow, place): written_ms[place]
            for place in points
            if place in written_ms
        },
    )


def build_checkpoint_pairs(
    flow: Flow, points: GroupCheckpoints
) -> Mapping[TopicPartition, CheckpointPair]:
    """Convert a group's checkpoints to offset pairs by source partition."""
    return {
        _to_source_partition(flow, place): CheckpointPair(
            upstream=point.upstream, downstream=point.downstream
        )
        for place, point in points.items()
    }


def merge_earlier_positions(group: GroupSnapshot, before: CommittedPositions) -> GroupSnapshot:
    """Return the group with the higher of its current and earlier positions per partition. If its
    committed offsets are known, it is returned unchanged."""
    if group.basis is PositionBasis.COMMITTED:
        return group
    positions = cluster_pair_snapshot.merge_higher_positions(group.positions, before)
    written_ms = {
        partition: at_ms
        for partition, at_ms in group.checkpoint_times_ms.items()
        if positions[partition] == group.positions[partition]
    }
    return dataclasses.replace(group, positions=positions, checkpoint_times_ms=written_ms)


def find_streams_applications(groups: Collection[str], topics: Iterable[str]) -> frozenset[str]:
    """Identify groups that are Kafka Streams applications by the names of internal topics:
    `APPLICATION-NAME-changelog` or `-repartition`. If several groups match, the longest group id is
    used."""
    found = set()
    for topic in topics:
        if topic.endswith(_STREAMS_TOPIC_SUFFIXES):
            words = topic.split("-")
            begins = ("-".join(words[:count]) for count in range(len(words) - 2, 0, -1))
            found.update(next(([each] for each in begins if each in groups), []))
    return frozenset(found)


def _to_source_partition(flow: Flow, place: TopicPartition) -> TopicPartition:
    """Convert a partition with its topic's name on the target, as used in checkpoints, to the
    partition on the source."""
    topic = replication_policy.map_topic_to_source(
        flow.policy, place.topic, source_alias=flow.source, target_alias=flow.target
    )
    return TopicPartition(topic, place.partition)


_LOG = logging.getLogger(__name__)
T = TypeVar("T")
_GroupState = GroupState
_UNKNOWN_TARGET_GROUP = TargetGroup(state=_GroupState.UNKNOWN)
_OFFSETS_TOPIC = "__consumer_offsets"
GROUP_TYPES_TIMEOUT_S = 10.0
"""Timeout for listing share groups and streams groups, and for querying the types of named groups.
It is short, so that other groups are not delayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositions:
    """State and positions of the flow's consumer groups. The fields have the same meaning as in
    `ClusterPairSnapshot`."""

    groups: tuple[GroupSnapshot, ...]
    unmoved: tuple[UnmovedGroup, ...] = ()
    incomplete_reason: str = ""
    checkpointed_ms: int | None = None


def collect_group_positions(
    clusters: FlowClusters,
    *,
    origin_answers: bool,
    names: Collection[str] = (),
    stable: bool = False,
    earlier_positions: Mapping[str, CommittedPositions] | None = None,
    streams: Collection[str] = (),
    topics: Collection[str] = (),
    clock: Clock,
    timeout_s: float,
) -> GroupPositions:
    """Collect the flow's groups, or only the groups in `names`.

    A position is the committed offset if the source responds. Otherwise it is the higher of the
    checkpoint and the position in `earlier_positions`. If `stable` is True,
    reading the offsets of a group fails while offsets of the group are part of an open transaction
    (see `ConsumerGroups.fetch_committed_offsets`). `streams` are groups that an earlier snapshot
    identified as Kafka Streams applications. `topics` are source topics whose names may identify
    more such groups. Raises `RetriableError` or `FatalError` if a required request fails.
    """
    earlier_positions = earlier_positions or {}
    told = _read_checkpoints(clusters, names, clock=clock, timeout_s=timeout_s)
    table = told.table
    unmoved: list[UnmovedGroup] = []
    if origin_answers:
        listed, unlisted = _list_groups(clusters.source, names, timeout_s=timeout_s)
        unmoved = _collect_unmoved_groups(clusters, names, listed or (), timeout_s=timeout_s)
        wanted = _select_group_names(clusters.flow, names, table, listed)
        wanted = sorted({*wanted, *earlier_positions}) if unlisted else wanted
        found = _collect_committed_offsets(
            clusters,
            [each for each in wanted if each not in {group.name for group in unmoved}],
            told,
            names=names,
            stable=stable,
            clock=clock,
            timeout_s=timeout_s,
        )
    else:
        unlisted = "" if earlier_positions else told.missing
        known = sorted({*table.list_groups(), *earlier_positions})
        found = [told.build_group(clusters.flow, name) for name in known]
    found = [merge_earlier_positions(each, earlier_positions.get(each.name, {})) for each in found]
    found = _mark_streams_groups(found, streams, topics)
    return GroupPositions(
        groups=tuple(_add_target_group_states(clusters.target, found, timeout_s)),
        unmoved=tuple(unmoved),
        incomplete_reason=unlisted,
        checkpointed_ms=told.times.newest_ms,
    )


def _list_groups(
    side: FlowSide, names: Collection[str], *, timeout_s: float
) -> tuple[list[ListedGroup] | None, str]:
    """List all groups.

    Returns the groups (None on failure), and the reason why groups may be missing from the list.
    The list is complete only if every broker responds. The reason is always "" if `names` is not
    empty.
    """
    try:
        listed = side.groups.list_groups(
            min(timeout_s, GROUP_TYPES_TIMEOUT_S) if names else timeout_s
        )
    except RetriableError as error:
        return None, "" if names else str(error)
    return listed, "" if names else _explain_incomplete_group_list(side, timeout_s)


def _select_group_names(
    flow: Flow,
    names: Collection[str],
    table: CheckpointTable,
    listed: Collection[ListedGroup] | None,
) -> list[str]:
    """Select the groups to query. Groups with checkpoints are included even if they are not listed,
    because their coordinator may be down."""
    if names:
        return sorted(names)
    if listed is None:
        return table.list_groups()
    unlisted = set(table.list_groups()).difference(each.group for each in listed)
    filtered = group_selection.filter_listed_groups(flow, listed)
    for name, why in filtered.unmatched.items():
        _LOG.warning("group %.80s is skipped: %s", name, why)
    return sorted({*filtered.accepted, *unlisted})


def _collect_unmoved_groups(
    sides: FlowClusters,
    names: Collection[str],
    listed: Collection[ListedGroup],
    *,
    timeout_s: float,
) -> list[UnmovedGroup]:
    """Collect the share groups and streams groups, which mm2 does not move, except those that read
    only topics of other flows."""
    flow, groups = sides.flow, sides.source.groups
    timeout_s = min(timeout_s, GROUP_TYPES_TIMEOUT_S)
    types = {each.group: each.unsupported_type for each in listed if each.unsupported_type}
    taken: Collection[str] = names or group_selection.filter_groups(flow.groups, types).accepted
    kinds = {name: types[name] for name in types if name in taken}
    share = sorted(name for name, kind in kinds.items() if kind == "share")
    streams = sorted(name for name, kind in kinds.items() if kind == "streams")
    shared = _run_group_query(lambda: groups.list_share_partitions(share, timeout_s), share)
    offsets = _run_group_query(lambda: groups.fetch_committed_offsets(streams, timeout_s), streams)
    topics: dict[str, set[str]] = {
        name: {each.topic for each in places}
        for name, places in (*shared.succeeded.items(), *offsets.succeeded.items())
    }
    failed = {**shared.failed, **offsets.failed}
    found = []
    for name in (*share, *streams):
        if name in failed:
            why = str(failed[name])
            each = UnmovedGroup(name=name, type=kinds[name], topics=None, unread_reason=why)
            found.append(each)
            continue
        ours = sorted(each for each in topics[name] if is_flow_topic(flow, each))
        if ours or not topics[name] or name in names:
            there = {each: _to_target_topic(flow, each) for each in ours}
            found.append(UnmovedGroup(name=name, type=kinds[name], topics=there))
    return found


def _to_target_topic(flow: Flow, topic: str) -> str:
    return replication_policy.map_topic_to_target(
        flow.policy, topic, source_alias=flow.source, target_alias=flow.target
    )


def _explain_incomplete_group_list(side: FlowSide, timeout_s: float) -> str:
    """Explain which groups may be missing from the list because they currently have no coordinator.
    Returns "" if all groups have a coordinator, or if this is unknown."""
    try:
        found = side.admin.describe_topics([_OFFSETS_TOPIC], timeout_s)
    except RetriableError as error:
        return str(error)
    failure = found.failed.get(_OFFSETS_TOPIC)
    if isinstance(failure, RetriableError):
        return str(failure)
    topic = found.succeeded.get(_OFFSETS_TOPIC)
    alone = 0 if topic is None else topic.leaders.count(None)
    if topic is None or not alone:
        return ""
    all_of_them = plurals.format_count(topic.partition_count, "partition")
    return f"no broker leads {alone} of the {all_of_them} of {_OFFSETS_TOPIC}"


def _collect_committed_offsets(
    sides: FlowClusters,
    wanted: Collection[str],
    told: _GroupCheckpoints,
    *,
    names: Collection[str],
    stable: bool,
    clock: Clock,
    timeout_s: float,
) -> list[GroupSnapshot]:
    """Collect committed offsets. For a group that does not respond or denies access, the positions
    of its checkpoints are used. Groups without an available coordinator are retried for at most
    half of `timeout_s`."""
    flow, groups = sides.flow, sides.source.groups
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    positions = _run_group_query(
        lambda: groups.fetch_committed_offsets(wanted, timeout_s / 2, stable=stable), wanted
    )
    read = sorted(positions.succeeded)
    states = _run_group_query(
        lambda: groups.describe_group_states(read, end.remaining_s(clock.now_s())), read
    )
    active = [name for name, state in states.succeeded.items() if state is _GroupState.ACTIVE]
    assignors = _run_group_query(
        lambda: groups.list_assignors(active, end.remaining_s(clock.now_s())), active
    )
    found = []
    for name in wanted:
        failure = positions.failed.get(name) or states.failed.get(name)
        if failure is not None:
            known = told.build_group(flow, name)
            refused = not isinstance(failure, RetriableError)
            found.append(
                dataclasses.replace(known, unread_reason=str(failure), is_access_denied=refused)
            )
            continue
        offsets = positions.succeeded[name]
        if name in names or any(is_flow_topic(flow, each.topic) for each in offsets):
            found.append(
                GroupSnapshot(
                    name=name,
                    basis=PositionBasis.COMMITTED,
                    positions=offsets,
                    state=states.succeeded[name],
                    is_streams=_is_streams_assignor(assignors.succeeded.get(name, "")),
                    checkpoints=build_checkpoint_pairs(
                        flow, told.table.get_group_checkpoints(name)
                    ),
                )
            )
    return found


def _is_streams_assignor(assignor: str) -> bool | None:
    return assignor == group_selection.STREAMS_ASSIGNOR if assignor else None


def _mark_streams_groups(
    found: Collection[GroupSnapshot], streams: Collection[str], topics: Collection[str]
) -> list[GroupSnapshot]:
    """Mark groups without members as Kafka Streams applications, based on an earlier snapshot or on
    the names of internal topics."""
    every = {*topics, *(place.topic for each in found for place in each.positions)}
    known = find_streams_applications({each.name for each in found}, every).union(streams)
    return [
        dataclasses.replace(each, is_streams=True)
        if each.is_streams is None and each.name in known
        else each
        for each in found
    ]


def _run_group_query(
    ask: Callable[[], PerGroupResult[T]], wanted: Collection[str]
) -> PerGroupResult[T]:
    """Run a query for all groups. If the whole query fails, return the error as the result of each
    group."""
    try:
        return ask()
    except RetriableError as error:
        return PerGroupResult(succeeded={}, failed=dict.fromkeys(wanted, error))


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupCheckpoints:
    """Checkpoints of the groups. They replace the committed offsets of groups whose offsets cannot
    be read. `missing` is the reason why no checkpoints could be read, or ""."""

    table: CheckpointTable
    times: CheckpointWriteTimes
    missing: str = ""

    def build_group(self, flow: Flow, name: str) -> GroupSnapshot:
        """Build a group from its checkpoints, because its committed offsets cannot be read."""
        group = build_checkpointed_group(
            flow,
            name,
            self.table.get_group_checkpoints(name),
            self.times.get_checkpoint_write_times(name),
        )
        return dataclasses.replace(
            group, unreadable_checkpoint=self.table.explain_unreadable_checkpoint(name)
        )


def _read_checkpoints(
    sides: FlowClusters, names: Collection[str], *, clock: Clock, timeout_s: float
) -> _GroupCheckpoints:
    flow = sides.flow
    takes_group = (lambda name: name in names) if names else flow.groups.matches
    times = CheckpointWriteTimes()
    try:
        table = checkpoint_reader.read_checkpoints(
            sides.target.topics,
            flow.policy,
            flow.source,
            group_filter=takes_group,
            clock=clock,
            timeout_s=timeout_s,
            on_record=times.record_checkpoint,
        )
    except TopicMissingError:
        topic = flow.policy.checkpoints_topic(flow.source)
        return _GroupCheckpoints(
            table=CheckpointTable(group_filter=takes_group),
            times=times,
            missing=f"{flow.source} does not respond, and {flow.target} has no topic {topic}: "
            "enable the flow's checkpoints (emit.checkpoints.enabled), and check the group filter",
        )
    return _GroupCheckpoints(table=table, times=times)


def _add_target_group_states(
    side: FlowSide, found: Collection[GroupSnapshot], timeout_s: float
) -> Iterator[GroupSnapshot]:
    """Add to each group its state on the target, or the reason why that state is unknown."""
    states = side.groups.describe_group_states([each.name for each in found], timeout_s)
    idle = [name for name, state in states.succeeded.items() if state is _GroupState.EMPTY]
    positions = side.groups.fetch_committed_offsets(idle, timeout_s)
    failed = {**states.failed, **positions.failed}
    for each in found:
        failure, state = failed.get(each.name), states.succeeded.get(each.name, _GroupState.UNKNOWN)
        if failure is not None:
            yield dataclasses.replace(
                each, target=_UNKNOWN_TARGET_GROUP, target_unread_reason=str(failure)
            )
            continue
        there = TargetGroup(state=state, positions=positions.succeeded.get(each.name, {}))
        yield dataclasses.replace(each, target=there)
