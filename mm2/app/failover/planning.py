"""From what both clusters hold to the plan of a move: look, then plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.failover import left_behind
from mm2.app.looks import mirrors, positions, sides, syncs
from mm2.core.failover import doubts, fences, orders, places, plan, seen, tails
from mm2.core.offsets import offset_map

_LOGS_S = 10.0


@dataclass(frozen=True, slots=True)
class _Opposite:
    """The flow that leads back, and what never left the cluster gone to. `why` it could not be
    looked at, or what never left could not be counted, "" where all is known that is needed."""

    back: places.Back
    left: Mapping[ids.TopicPartition, tails.Tail] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What is known once the flow is stopped: `locked`, what was found when it was fenced;
    `settled` as in `plan.make`, `before` as in `seen.Seen`."""

    locked: fences.Fences
    settled: seen.Settled | None = None
    before: seen.Before | None = None


_OPEN = Closed(locked=fences.Fences())


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """`find` counts what the cluster gone to holds and the other one lacks. `lost`: why the cluster
    that is left is not asked anything, "" where it is. `timeout_s`: how long a look may last.
    `ways`: what the file says of the flow that leads back."""

    both: sides.TwoSides
    find: left_behind.Find
    clock: base_clock.Clock
    timeout_s: float
    lost: str = ""
    ways: places.Ways = field(default_factory=places.Ways)

    def make(self, wanted: orders.Wanted, closed: Closed | None = None) -> plan.Plan:
        """Raises `RetriableError` or `FatalError` where the cluster gone to does not answer, or one
        of them refuses us."""
        return self.look(wanted, closed)[0]

    def look(
        self, wanted: orders.Wanted, closed: Closed | None = None
    ) -> tuple[plan.Plan, Mapping[ids.TopicPartition, tails.Tail]]:
        """The plan, and what never left the cluster gone to, as far as that was asked."""
        known = closed or _OPEN
        before = known.before
        both, flow = self.both, self.both.flow
        end = base_deadline.Deadline.after(self.timeout_s, now_s=self.clock.now_s())
        found = mirrors.look(both, clock=self.clock, timeout_s=self.timeout_s, lost=self.lost)
        standing = positions.of_groups(
            both,
            origin_answers=not found.silent,
            names=wanted.groups,
            stable=wanted.planned,
            before=None if before is None else before.positions,
            clock=self.clock,
            timeout_s=max(_LOGS_S, end.left_s(self.clock.now_s())),
        )
        opposite = self._opposite(wanted, found, standing)
        own, why_no_syncs = self._own_syncs(found)
        mirrored = doubts.doubted(fences.with_tails(found.mirrored, known.locked), found.known, own)
        where = places.Places(
            flow=flow,
            known=found.known,
            mirrored={each.partition: each for each in mirrored},
            back=opposite.back,
            left=opposite.left,
            still=closed is not None,
        )
        left, asked = opposite.left, where.of_groups(standing.groups)
        what = seen.Seen(
            at_ms=self.clock.wall_ms(),
            flow=flow.name,
            mirrored=mirrored,
            groups=standing.groups,
            logs=both.target.logs.ends(asked, max(_LOGS_S, end.left_s(self.clock.now_s()))).done,
            silent=found.silent,
            unlisted=standing.unlisted,
            untold=found.untold,
            way_back=opposite.why,
            unsynced=why_no_syncs,
            left_out=found.left_out,
            unfenced=known.locked.unfenced,
            unreplicated=tuple(each.told() for _, each in sorted(left.items()))
            if wanted.kind is orders.Kind.BACK
            else (),
            losses=found.losses,
            before=before,
        )
        return plan.make(wanted, what, where.translate, settled=known.settled), left

    def _own_syncs(self, found: mirrors.Mirrors) -> tuple[places.Syncs, str]:
        """The flow's own offset syncs, and why they could not be read."""
        flow, here = self.both.flow, self.ways.syncs_here
        if here and found.silent:
            return {}, ""
        side = self.both.source if here else self.both.target
        topic = flow.policy.offset_syncs_topic(flow.target if here else flow.source)
        try:
            return syncs.read(side, topic, min(mirrors.SOURCE_S, self.timeout_s)), ""
        except errors.ConnectError as error:
            return {}, str(error)

    def _opposite(
        self, wanted: orders.Wanted, found: mirrors.Mirrors, standing: positions.Standing
    ) -> _Opposite:
        """As far as it is needed. A planned move needs all of it; where the cluster that is left
        is half dead in an emergency, less has to do."""
        flow, back = self.both.flow, wanted.kind is orders.Kind.BACK
        topics = {place.topic for group in standing.groups for place in group.positions}
        if not (back or places.asks_back(flow, topics)):
            return _Opposite(places.Back(known=None))
        known, why = None, ""
        if not found.silent:
            try:
                known = mirrors.read_map(self.both.source, flow.target, self.timeout_s)
            except errors.RetriableError as error:
                if wanted.planned:
                    raise
                why = str(error)
        if known is None:
            exists = self.ways.both or bool(why)
            return _Opposite(places.Back(known=None, exists=exists, syncs=self._syncs()), why=why)
        if not back and flow.policy.renames_topics:
            return _Opposite(places.Back(known=known, exists=self.ways.both))
        way = places.Back(known=known, exists=self.ways.both, syncs=self._syncs())
        try:
            return _Opposite(way, left=self._left(known, found.known, whole=wanted.planned))
        except errors.RetriableError as error:
            if wanted.planned:
                raise
            return _Opposite(way, why=str(error))

    def _syncs(self) -> places.Syncs:
        """What the flow that leads back keeps on the cluster gone to."""
        if not self.ways.syncs_there:
            return {}
        flow = self.both.flow
        topic = flow.policy.offset_syncs_topic(flow.source)
        return syncs.read(self.both.target, topic, self.timeout_s)

    def _left(
        self, opposite: offset_map.OffsetMap, known: offset_map.OffsetMap, *, whole: bool
    ) -> Mapping[ids.TopicPartition, tails.Tail]:
        """`whole`: raise where the cluster that is left does not answer for a partition."""
        flow = self.both.flow
        begun = tails.begun(opposite, flow.policy)
        there = self.both.target.logs.ends(begun, _LOGS_S).done
        names = {each: places.back(flow, each) for each in there}
        here = self.both.source.logs.ends(set(names.values()), _LOGS_S)
        missing = {
            each: None
            for each, error in here.failed.items()
            if isinstance(error, kafka_errors.TopicMissingError)
        }
        unknown = sorted(here.failed.keys() - missing.keys())
        if unknown and whole:
            raise here.failed[unknown[0]]
        return self.find(
            tails.begins(
                opposite,
                known,
                name_here=names.__getitem__,
                there=there,
                here={**here.done, **missing},
            )
        )
