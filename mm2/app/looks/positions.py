"""Where the consumer groups of a flow stand, on both of its clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides as app_sides
from mm2.connectors import record_folds
from mm2.core import flows
from mm2.core.failover import seen
from mm2.core.groups import relevant
from mm2.core.offsets import checkpoints, group_sync

_State = group_sync.GroupState


def of_groups(
    sides: app_sides.Sides,
    *,
    origin_answers: bool,
    names: Collection[str] = (),
    timeout_s: float,
) -> tuple[seen.Group, ...]:
    """The flow's groups, or those of `names`; by their own offsets where the source answers, else
    by their checkpoints. Raises `RetriableError` and `FatalError`."""
    if origin_answers:
        found = _committed(sides, names, timeout_s)
    else:
        found = _checkpointed(sides, names, timeout_s)
    there = _there(sides.target, [each.name for each in found], timeout_s)
    return tuple(
        seen.Group(
            name=each.name,
            origin=each.origin,
            positions=each.positions,
            state=each.state,
            there=there[each.name],
        )
        for each in found
    )


def _committed(
    sides: app_sides.Sides, names: Collection[str], timeout_s: float
) -> list[seen.Group]:
    flow, groups = sides.flow, sides.source.groups
    wanted = sorted(names) or relevant.candidates(flow, groups.list_groups(timeout_s))
    states = groups.states(wanted, timeout_s)
    positions = groups.positions(wanted, timeout_s)
    failure = positions.first_failure() or states.first_failure()
    if failure is not None:
        raise failure
    return [
        seen.Group(
            name=name,
            origin=seen.Origin.COMMITTED,
            positions=positions.done[name],
            state=states.done[name],
        )
        for name in wanted
        if name in names or any(map(flow.topics.takes, _topics(positions.done[name])))
    ]


def _topics(positions: checkpoints.Positions) -> set[str]:
    return {each.topic for each in positions}


def _checkpointed(
    sides: app_sides.Sides, names: Collection[str], timeout_s: float
) -> list[seen.Group]:
    flow = sides.flow
    table = checkpoints.CheckpointTable(
        takes_group=(lambda name: name in names) if names else flow.groups.takes
    )
    topic = flow.policy.checkpoints_topic(flow.source)
    try:
        record_folds.fold(sides.target.topics.read_topic(topic, timeout_s), table.apply)
    except kafka_errors.TopicMissingError:
        raise errors.FatalError(
            f"{flow.source} does not answer, and there is no {topic} on {flow.target}: nothing is "
            f"known of the groups of {flow.source}. Let the flow write checkpoints "
            "(emit.checkpoints.enabled, the group filter)"
        ) from None
    return [
        seen.Group(
            name=name,
            origin=seen.Origin.CHECKPOINTED,
            positions={
                _on_source(flow, place): checkpoints.OffsetAndMetadata(
                    offset=point.upstream, metadata=point.metadata
                )
                for place, point in table.group(name).items()
            },
        )
        for name in table.groups()
    ]


def _on_source(flow: flows.Flow, place: ids.TopicPartition) -> ids.TopicPartition:
    """The name there of what checkpoints call by its name on the target."""
    if flow.policy.topic_source(place.topic) == flow.source:
        topic = flow.policy.upstream_topic(place.topic)
        assert topic is not None, place
    else:
        topic = flow.policy.format_remote_topic(flow.target, place.topic)
    return ids.TopicPartition(topic, place.partition)


def _there(
    side: app_sides.Side, names: Collection[str], timeout_s: float
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
