"""From what both clusters hold to the plan of a move: look, then plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from mm2.app.failover import places, tails
from mm2.app.looks import mirrors, positions, sides, syncs
from mm2.core import naming
from mm2.core.failover import orders, plan, seen
from mm2.core.offsets import map_translation, offset_map

_LOGS_S = 10.0
OTHERS_SINCE = "its newest offset sync says other than its map: MirrorMaker 2 has copied it since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fences:
    """What fencing has found, by partition on the cluster that is left: records behind what the
    flow has recorded, where they were counted, and why nobody was locked out."""

    tails: Mapping[ids.TopicPartition, int | None] = field(default_factory=dict)
    unfenced: Mapping[ids.TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """`find` counts what the cluster gone to holds and the other one lacks. `lost`: why the cluster
    that is left is not asked anything, "" where it is. `timeout_s`: how long a look may last.
    `ways`: what the file says of the flow that leads back."""

    both: sides.TwoSides
    find: tails.Find
    clock: base_clock.Clock
    timeout_s: float
    lost: str = ""
    ways: places.Ways = field(default_factory=places.Ways)

    def make(
        self,
        wanted: orders.Wanted,
        *,
        fences: Fences | None = None,
        settled: seen.Settled | None = None,
        before: seen.Before | None = None,
    ) -> plan.Plan:
        """`fences`: the flow is stopped, and this was found when it was fenced; `settled` as in
        `plan.make`, `before` as in `seen.Seen`. Raises `RetriableError` or `FatalError` where the
        cluster gone to does not answer, or one of them refuses us."""
        return self.look(wanted, fences=fences, settled=settled, before=before)[0]

    def look(
        self,
        wanted: orders.Wanted,
        *,
        fences: Fences | None = None,
        settled: seen.Settled | None = None,
        before: seen.Before | None = None,
    ) -> tuple[plan.Plan, Mapping[ids.TopicPartition, tails.Tail]]:
        """The plan, and what never left the cluster gone to, as far as that was asked."""
        both = self.both
        end = base_deadline.Deadline.after(self.timeout_s, now_s=self.clock.now_s())
        found = mirrors.look(both, clock=self.clock, timeout_s=self.timeout_s, lost=self.lost)
        standing = positions.of_groups(
            both,
            origin_answers=not found.silent,
            names=wanted.groups,
            stable=wanted.planned,
            before=None if before is None else before.positions,
            timeout_s=max(_LOGS_S, end.left_s(self.clock.now_s())),
        )
        opposite = places.Opposite(
            both, ways=self.ways, silent=bool(found.silent), timeout_s=self.timeout_s
        )
        left = self._left(wanted, found, opposite)
        mirrored = self._doubted(_with_tails(found.mirrored, fences), found)
        translate = places.translate(
            both.flow, found.known, mirrored, opposite=opposite, left=left, still=fences is not None
        )
        asked = {
            place.partition
            for group in standing.groups
            for partition, position in group.positions.items()
            if position is not None and (place := translate(partition, position.offset)) is not None
        }
        what = seen.Seen(
            at_ms=self.clock.wall_ms(),
            flow=both.flow.name,
            mirrored=mirrored,
            groups=standing.groups,
            logs=both.target.logs.ends(asked, max(_LOGS_S, end.left_s(self.clock.now_s()))).done,
            silent=found.silent,
            unlisted=standing.unlisted,
            left_out=found.left_out,
            unfenced={} if fences is None else fences.unfenced,
            unreplicated=tuple(each.told() for _, each in sorted(left.items()))
            if wanted.kind is orders.Kind.BACK
            else (),
            losses=found.losses,
            before=before,
        )
        return plan.make(wanted, what, translate, settled=settled), left

    def _doubted(
        self, mirrored: tuple[seen.Mirrored, ...], found: mirrors.Mirrors
    ) -> tuple[seen.Mirrored, ...]:
        """Has Java mirrored since we did? Its newest offset sync tells, where it can be read."""
        flow, here = self.both.flow, self.ways.syncs_here
        if here and found.silent:
            return mirrored
        side = self.both.source if here else self.both.target
        topic = flow.policy.offset_syncs_topic(flow.target if here else flow.source)
        try:
            told = syncs.read(side, topic, self.timeout_s)
        except errors.ConnectError:
            return mirrored
        return tuple(
            dataclasses.replace(each, stopped=each.stopped or OTHERS_SINCE)
            if (newest := told.get(each.partition))
            and not map_translation.agrees(found.known.partition(each.partition), newest[-1])
            else each
            for each in mirrored
        )

    def _left(
        self, wanted: orders.Wanted, found: mirrors.Mirrors, opposite: places.Opposite
    ) -> Mapping[ids.TopicPartition, tails.Tail]:
        """Counted where it decides: on the way back, and in topics that both write."""
        flow = self.both.flow
        if found.silent or (wanted.kind is not orders.Kind.BACK and flow.policy.renames_topics):
            return {}
        begun = _begun(opposite.map, flow.policy)
        there = self.both.target.logs.ends(begun, _LOGS_S).done
        names = {each: places.back(flow, each) for each in there}
        here = self.both.source.logs.ends(set(names.values()), _LOGS_S).done
        return self.find(
            tails.begins(
                opposite.map, found.known, name_here=names.__getitem__, there=there, here=here
            )
        )


def _begun(
    known: offset_map.OffsetMap, policy: naming.ReplicationPolicy
) -> set[ids.TopicPartition]:
    return {
        each
        for each in known.partitions()
        if known.partition(each).eras and not naming.is_heartbeats_topic(policy, each.topic)
    }


def _with_tails(
    mirrored: tuple[seen.Mirrored, ...], fences: Fences | None
) -> tuple[seen.Mirrored, ...]:
    """What could not be counted stays bounded by offsets."""
    counted = {} if fences is None else fences.tails
    return tuple(
        each
        if (tail := counted.get(each.partition)) is None
        else dataclasses.replace(each, tail=tail)
        for each in mirrored
    )
