"""From what both clusters hold to the plan of a move: look, then plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import ids
from mm2.app.looks import mirrors, positions, sides
from mm2.core import flows
from mm2.core.failover import plan, seen
from mm2.core.offsets import map_translation, offset_map

_LOGS_S = 10.0


def make(
    wanted: plan.Wanted,
    both: sides.Sides,
    *,
    groups: Collection[str] = (),
    tails: Mapping[ids.TopicPartition, int] | None = None,
    clock: base_clock.Clock,
    timeout_s: float,
) -> plan.Plan:
    """`groups` empty: those of the flow. `tails`: records on mirrors behind what the flow has
    recorded, where they were counted. Raises `RetriableError` or `FatalError` where the cluster
    gone to does not answer, or refuses us."""
    end = base_deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    found = mirrors.look(both, clock=clock, timeout_s=timeout_s)
    answers = not found.silent
    of_groups = positions.of_groups(
        both, origin_answers=answers, names=groups, timeout_s=end.left_s(clock.now_s())
    )
    translate = _translate(both, found, timeout_s)
    places = (
        translate(partition, position.offset)
        for group in of_groups
        for partition, position in group.positions.items()
        if position is not None
    )
    asked = {place.partition for place in places if place is not None}
    left_s = max(_LOGS_S, end.left_s(clock.now_s()))
    what = seen.Seen(
        at_ms=clock.wall_ms(),
        flow=both.flow.name,
        mirrored=found.mirrored
        if tails is None
        else tuple(
            dataclasses.replace(each, tail=tails.get(each.partition, 0)) for each in found.mirrored
        ),
        groups=of_groups,
        logs=both.target.logs.ends(asked, left_s).done,
        from_answers=answers,
        losses=found.losses,
    )
    return plan.make(wanted, what, translate)


def _translate(both: sides.Sides, found: mirrors.Mirrors, timeout_s: float) -> seen.Translate:
    """What the flow mirrors goes forwards by its map; what a flow of the other direction has
    brought goes back by that one's, which is read when it is first needed."""
    flow = both.flow
    back: list[offset_map.OffsetMap] = []

    def translate(partition: ids.TopicPartition, offset: int) -> seen.Place | None:
        if flow.should_replicate_topic(partition.topic):
            outcome = map_translation.translate(found.known.partition(partition), offset)
            there = ids.TopicPartition(flow.remote_topic(partition.topic), partition.partition)
            return seen.Place(partition=there, outcome=outcome)
        topic = _origin(flow, partition.topic)
        if topic is None or found.silent:
            return None
        if not back:
            back.append(mirrors.read_map(both.source, flow.target, timeout_s))
        there = ids.TopicPartition(topic, partition.partition)
        outcome = map_translation.translate_back(back[0].partition(there), offset)
        return seen.Place(partition=there, outcome=outcome)

    return translate


def _origin(flow: flows.Flow, topic: str) -> str | None:
    """The name on the target of a topic that came from there; None for others."""
    if flow.policy.topic_source(topic) != flow.target:
        return None
    return flow.policy.upstream_topic(topic)
