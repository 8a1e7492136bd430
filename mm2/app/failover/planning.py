"""From what both clusters hold to the plan of a move: look, then plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from mm2.app.failover import left_behind, opposites
from mm2.app.looks import mirrors, partition_ends, positions, sides, syncs
from mm2.cluster import logs
from mm2.core import commands
from mm2.core.failover import doubts, fences, orders, places, plan, seen, tails
from mm2.core.offsets import log_ends


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
    `ways`: what the file says of the flow that leads back. `tools` as in `seen.Seen`."""

    both: sides.TwoSides
    find: left_behind.Find
    clock: base_clock.Clock
    timeout_s: float
    lost: str = ""
    ways: places.Ways = field(default_factory=places.Ways)
    tools: commands.Cluster = field(default_factory=commands.Cluster)

    def make(self, wanted: orders.Wanted, closed: Closed | None = None) -> plan.Plan:
        """Raises `RetriableError` or `FatalError` where the cluster gone to does not answer, or one
        of them refuses us."""
        return self.look(wanted, closed)[0]

    def look(
        self, wanted: orders.Wanted, closed: Closed | None = None
    ) -> tuple[plan.Plan, Mapping[ids.TopicPartition, tails.Tail]]:
        """The plan, and what never left the cluster gone to, as far as that was asked."""
        known, both = closed or _OPEN, self.both
        end = base_deadline.Deadline.after(self.timeout_s, now_s=self.clock.now_s())
        found = mirrors.look(both, clock=self.clock, timeout_s=self.timeout_s, lost=self.lost)
        standing = self._standing(wanted, known.before, found, timeout_s=self._left_s(end))
        topics = {place.topic for group in standing.groups for place in group.positions}
        opposite = opposites.Opposites(
            both=both, find=self.find, ways=self.ways, timeout_s=self.timeout_s
        ).look(wanted, found, topics)
        own, why_no_syncs = self._own_syncs(found)
        mirrored = doubts.doubted(fences.with_tails(found.mirrored, known.locked), found.known, own)
        where = places.Places(
            flow=both.flow,
            known=found.known,
            mirrored={each.partition: each for each in mirrored},
            back=opposite.back,
            left=opposite.left,
            still=closed is not None,
        )
        ends = self._ends(where.of_groups(standing.groups), self._left_s(end))
        what = seen.Seen(
            at_ms=self.clock.wall_ms(),
            flow=both.flow.name,
            mirrored=mirrored,
            groups=standing.groups,
            unmoved=standing.unmoved,
            tools=self.tools,
            logs=ends.done,
            unheard=partition_ends.unheard(ends),
            silent=self._silent(found),
            unlisted=standing.unlisted,
            checkpointed_ms=standing.checkpointed_ms,
            untold=found.untold,
            way_back=opposite.why,
            unsynced=why_no_syncs,
            left_out=found.left_out,
            unfenced=known.locked.unfenced,
            unreplicated=opposite.unreplicated if wanted.kind is orders.Kind.BACK else (),
            losses=found.losses,
            before=known.before,
        )
        return plan.make(wanted, what, where.translate, settled=known.settled), opposite.left

    def _ends(
        self, places: Collection[ids.TopicPartition], timeout_s: float
    ) -> logs.PerPartition[log_ends.Ends]:
        """Of the cluster gone to."""
        end = base_deadline.Deadline.after(timeout_s, now_s=self.clock.now_s())
        side = self.both.target
        topics = side.admin.describe_topics({each.topic for each in places}, timeout_s)
        led = partition_ends.leaders(places, topics)
        return partition_ends.look(side, led, end=end, clock=self.clock)

    def _left_s(self, end: base_deadline.Deadline) -> float:
        """What comes last is asked for long enough, too."""
        return max(opposites.LOGS_S, end.left_s(self.clock.now_s()))

    def _standing(
        self,
        wanted: orders.Wanted,
        before: seen.Before | None,
        found: mirrors.Mirrors,
        *,
        timeout_s: float,
    ) -> positions.Standing:
        return positions.of_groups(
            self.both,
            origin_answers=not found.silent,
            names=wanted.groups,
            stable=wanted.planned,
            before=None if before is None else before.positions,
            streams=() if before is None else before.streams,
            topics={*found.left_out, *(each.partition.topic for each in found.mirrored)},
            clock=self.clock,
            timeout_s=timeout_s,
        )

    def _silent(self, found: mirrors.Mirrors) -> str:
        if not found.silent or self.lost:
            return found.silent
        asked_s = mirrors.source_s(self.timeout_s)
        return f"{found.silent}; it was asked for {asked_s:g} s, and is for longer by --look"

    def _own_syncs(self, found: mirrors.Mirrors) -> tuple[places.Syncs, str]:
        """The flow's own offset syncs, and why they could not be read."""
        flow, here = self.both.flow, self.ways.syncs_here
        if here and found.silent:
            return {}, ""
        side = self.both.source if here else self.both.target
        topic = flow.policy.offset_syncs_topic(flow.target if here else flow.source)
        try:
            return syncs.read(side, topic, mirrors.source_s(self.timeout_s)), ""
        except errors.ConnectError as error:
            return {}, str(error)
