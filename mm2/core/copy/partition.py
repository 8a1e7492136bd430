"""The copy of one partition: a machine that takes it, copies batch by batch, and takes it again.

Slow steps (taking, transaction boundaries) are scripts with one question outstanding (`script`);
the hot path is method calls per batch, since an event object each would cost more than the copying.
Time comes in as `now_s`. Nothing is ever sent twice: whatever is not known to have succeeded is
found out by taking the partition again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mm2.core.copy import (
    boundary,
    budget,
    counters,
    crossing,
    instructions,
    limits,
    map_writer,
    opening,
    outbox,
    outcomes,
    reading,
    refusals,
    script_runner,
    setup,
    standing,
    stops,
    transactions,
    walk,
    way_in,
    window,
)
from mm2.formats import record_batch

Instructions = list[instructions.Instruction]

_COPYING = standing.Phase.COPYING


class PartitionCopy:
    """One partition's copy; `shared` is told what crosses of all partitions of a task.

    Invariants: nothing is sent unless the phase is COPYING, the first anchor is stored and nothing
    is draining; `map.through` never passes an unacknowledged batch.
    """

    def __init__(
        self,
        where: setup.PartitionSetup,
        *,
        owner: bytes,
        held: budget.Budget,
        joining: limits.Joining,
        random: Random,
        wall_ms: Callable[[], int],
        transform: opening.Transform | None = None,
        shared: crossing.Crossing | None = None,
    ) -> None:
        self.where = where
        self.standing = standing.Standing()
        self.paused = False
        self.counters = counters.Counters(crossing=shared or crossing.Crossing())
        self.source = reading.Reading()
        self.map: map_writer.MapWriter | None = None
        self.mode = transactions.begun(where, 0.0)
        self.outbox = outbox.Outbox(
            held, joining=joining, target_codec=where.target_codec, transform=transform
        )
        self.window = window.Window(held)
        self._alone = where.target_topics is setup.TargetTopics.EXCLUSIVE
        self.script = script_runner.ScriptRunner(where)
        self._context = outcomes.Context(
            where=where,
            owner=owner,
            wall_ms=wall_ms,
            transform=transform,
            held=held,
        )
        self._way_in = way_in.WayIn(
            self._context,
            state=self.standing,
            runner=self.script,
            random=random,
            taken=self._begin_copying,
        )
        self._reaction: refusals.Reaction | None = None
        self._leader_epoch = -1

    # Asking and being answered

    def tick(self, now_s: float) -> Instructions:
        """Anything that time alone makes due: waking up, anchors, commits, renewing the fence."""
        if self.standing.phase is _COPYING:
            return self._tick_copying(now_s)
        return self._way_in.tick(now_s, paused=self.paused)

    @property
    def restless(self) -> bool:
        """Must `tick` be called soon? Else it is enough to call it now and then."""
        if self.standing.phase is not _COPYING:
            return self.standing.restless
        assert self.map is not None
        busy = self.map.has_news or self.mode.open or self.outbox.queued > 0
        return busy or self._left_something_out or self.standing.closing

    @property
    def _left_something_out(self) -> bool:
        """Does something at the end of what was read have to be noted, or stop the partition?"""
        assert self.map is not None
        if self.window.in_flight or self.outbox.queued:
            return False
        return self.source.stuck or self.map.through < self.source.position

    def recorded(self, token: int) -> None:
        """An anchor given out by `tick` or at a boundary is stored."""
        if self.map is not None:
            self.map.recorded(token)

    def _begin_copying(
        self, taken: outcomes.Taken, written: map_writer.MapWriter, now_s: float
    ) -> Instructions:
        self.map = written
        self.window.begin(taken.producer, target=taken.target)
        self.mode = transactions.begun(self.where, now_s, fenced=taken.fenced)
        self.source.begin(taken.source, epoch=taken.source_epoch)
        self.standing.copy()
        self.counters.spared += taken.spared
        return self._follow_leader(now_s)

    # Data from the source

    @property
    def wants_data(self) -> bool:
        return (
            self.standing.phase is _COPYING
            and not self.source.stuck
            and self._reaction is None
            and not self.paused
            and not self.standing.closing
        )

    def offer(self, records: instructions.Records, now_s: float) -> Instructions:
        """What a fetch from `position` brought; ignored when the copy no longer wants it."""
        if not self.wants_data:
            return []
        found = self.source.took(
            records, target_codec=self.where.target_codec, opposite=self._context.producers
        )
        wall_ms = self._context.wall_ms()
        self.counters.fetched(found.batches, wall_ms=wall_ms)
        self.outbox.push(found, old_before_ms=wall_ms - self.where.old_after_ms)
        return [] if self.window.in_flight else self._nothing_in_flight(now_s)

    def source_refused(self, code: int, now_s: float) -> Instructions:
        """A fetch of this partition was refused."""
        if self.standing.phase is not _COPYING:
            return []
        reaction = refusals.fetch(self.where, code=code, offset=self.source.position)
        return self._drain(reaction, now_s) if reaction is not None else []

    def source_diverged(self, end: int, now_s: float) -> Instructions:
        """The source's log holds another history than the one copied: it was truncated at `end`."""
        if self.standing.phase is not _COPYING:
            return []
        stop = stops.source_diverged(self.where, end=end, copied=self.source.position)
        return self._stop(stop, now_s)

    def topic_seen(self, topic_id: bytes, now_s: float, *, on_target: bool) -> Instructions:
        """The topic of one side as the cluster tells it now; of another id, it is another topic."""
        found = self._way_in.topic_seen(topic_id, now_s, on_target=on_target)
        if self.standing.phase is _COPYING and self.standing.recreated is not None:
            return self._stop(self.standing.recreated, now_s)
        return found

    def leader_epoch_seen(self, leader_epoch: int, now_s: float) -> Instructions:
        """The target partition's leader epoch as the cluster tells it now."""
        self._leader_epoch = leader_epoch
        return self._follow_leader(now_s)

    def _follow_leader(self, now_s: float) -> Instructions:
        """Under another leader than our marker's, the partition must be taken again."""
        if self.standing.phase is not _COPYING or self._reaction is not None:
            return []
        assert self.map is not None
        was, now = self.map.leader_epoch, self._leader_epoch
        if now <= was:
            return []
        reason = f"{self.where.mirror}: leader epoch {was} became {now}"
        return self._drain(refusals.Reaction(then=refusals.Then.TAKE, reason=reason), now_s)

    # Batches to the target

    def ready(self, now_s: float) -> bool:
        """May the next batch be sent now? Then it is staged."""
        if not self.outbox.queued or self.window.full:
            return False
        if self.standing.phase is not _COPYING or self._reaction is not None or self.paused:
            return False
        assert self.map is not None
        if self.map.must_wait(now_s) or not self._stage():
            return False
        # Only now: what is left of an opened batch may be older than the batch was.
        return self.mode.admits(old=bool(self.outbox.next_is_old), now_s=now_s)

    def _stage(self) -> bool:
        if self.outbox.stage():
            return True
        obstacle = self.outbox.unreadable
        if obstacle is not None:
            self._forget_queue()
            self.source.obstacle = obstacle
        return False

    def send(self, now_s: float) -> memoryview:
        """The staged batch, stamped as ours; it counts as in flight from here on."""
        old = self.outbox.next_is_old
        out = self.outbox.take()
        self.mode.sent(len(out.batch), old=bool(old), now_s=now_s)
        return self.window.send(out, transactional=self.mode.active)

    def acknowledged(self, base_offset: int, append_time_ms: int, now_s: float) -> Instructions:
        """The oldest batch in flight is stored at `base_offset`; every offset is checked."""
        sent = self.window.pop()
        if self._reaction is not None:
            return self._drained(now_s)
        if append_time_ms != record_batch.NO_TIMESTAMP:
            stop = stops.timestamps_rewritten(self.where, offset=sent.batch.source)
            return self._stop(stop, now_s)
        target = self.window.landed(sent, base_offset, alone=self._alone)
        if target is None:
            reason = f"{self.where.mirror}: stored at {base_offset}, expected {sent.target}"
            # Where nobody can be fenced, the newer owner stays: let us see whether there is one.
            then = refusals.Then.TAKE if self.mode.possible else refusals.Then.CHECK_FENCE
            return self._drain(refusals.Reaction(then=then, reason=reason), now_s)
        assert self.map is not None
        self.map.acknowledged(sent.batch, target=target, crc=sent.crc, now_s=now_s)
        if self.standing.troubled:
            self.standing.stored()
        self.counters.acknowledged(sent, now_s=now_s, wall_ms=self._context.wall_ms())
        return [] if self.window.in_flight else self._nothing_in_flight(now_s)

    def produce_refused(self, code: int, message: str, now_s: float) -> Instructions:
        """Kafka refused the oldest batch in flight."""
        sent = self.window.pop()
        self.counters.refused(code, sent)
        reaction = refusals.produce(
            self.where,
            code=code,
            message=message,
            offset=sent.batch.source,
            behind=sent.batch.next_source,
            size=sent.size,
            divided=self._reaction is None and self.outbox.limits.refused(code, sent, now_s),
        )
        return self._drain(reaction, now_s)

    def produce_unanswered(self, reason: str, now_s: float) -> Instructions:
        """Nothing is known of the oldest batch in flight."""
        self.window.pop()
        return self._drain(refusals.Reaction(then=refusals.Then.BACK_OFF, reason=reason), now_s)

    def _nothing_in_flight(self, now_s: float) -> Instructions:
        """Everything sent is acknowledged: note how far that is, and do what had to wait for it."""
        assert self.map is not None
        if self.paused and self.outbox.holds_opened:  # others wait for the room in the budget
            self._forget_queue()
        # A transaction is opened for a staged batch alone: all of what is queued may be left out.
        self._stage()
        if not self.outbox.queued:
            self.map.skipped_to(self.source.position, source_epoch=self.source.epoch, now_s=now_s)
            if (found := self.source.obstacle) is not None and not self.mode.open:
                return self._drain(refusals.blocked(self.where, found), now_s)
        if self.standing.closing:
            return self._close(now_s)
        if self.source.strangers and not self.outbox.queued:
            return self._cross(walk.ask_opposite(self._context, self.source.strangers), now_s)
        waits = self.map.must_wait(now_s)
        step = self.mode.next_step(
            next_is_old=None if waits else self.outbox.next_is_old,
            paused=self.paused,
            now_s=now_s,
        )
        return [] if step is None else self._cross(self._boundary(step), now_s)

    # Draining: nothing more is sent, what is in flight is waited for, then something follows

    def _drain(self, reaction: refusals.Reaction, now_s: float) -> Instructions:
        if self._reaction is None:
            self._reaction = reaction
            self.standing.reason = reaction.reason
        self._forget_queue()
        return self._drained(now_s)

    def _stop(self, stop: stops.Stop, now_s: float) -> Instructions:
        reaction = refusals.Reaction(then=refusals.Then.STOP, reason=stop.message, stop=stop)
        return self._drain(reaction, now_s)

    def _drained(self, now_s: float) -> Instructions:
        if self.window.in_flight:
            return []
        reaction, self._reaction = self._reaction, None
        assert reaction is not None
        found = self._write_news(now_s)
        return found + self._way_in.react(reaction, self.window.producer, now_s=now_s)

    def _write_news(self, now_s: float) -> Instructions:
        """The anchor, if it has news and no open transaction hangs over what it would say."""
        if self.map is None or not self.map.has_news or self.mode.open:
            return []
        return [self.map.write(now_s)]

    def _forget_queue(self) -> None:
        """What was fetched and will not be sent must never be taken for skipped."""
        if (first := self.outbox.drop()) is not None:
            self.source.go_back(first)

    # Boundaries: transactions, renewing the fence, closing

    def _tick_copying(self, now_s: float) -> Instructions:
        assert self.map is not None
        self.outbox.limits.tick(now_s)
        found: Instructions = []
        if self.map.due(now_s) and not self.mode.open:
            found.append(self.map.write(now_s))
        if self.window.in_flight or self._reaction is not None:
            return found
        return [*found, *self._nothing_in_flight(now_s)]

    def _boundary(self, step: transactions.Step) -> instructions.Script[object]:
        producer, to = self.window.producer, self.window.next_target
        return boundary.cross(step, producer, next_target=to, context=self._context)

    def _cross(self, script: instructions.Script[object], now_s: float) -> Instructions:
        assert not self.window.in_flight
        # While a transaction is open no anchor is written, and what waits for one would not move.
        news = self._write_news(now_s)
        self.standing.cross()
        return [*news, *self.script.start(script, self._crossed, now_s=now_s)]

    def _crossed(self, outcome: object, now_s: float) -> Instructions:
        assert self.map is not None
        match outcome:
            case boundary.Opened():
                self.mode.opened(self.map.through)
                return self._copy_on(now_s)
            case boundary.Boundary():
                return self._after_marker(outcome, now_s)
            case walk.Told():
                self.source.strangers = ()
                return self._copy_on(now_s)
        self._forget_queue()
        return self._way_in.failed(outcome, now_s)

    def _after_marker(self, outcome: boundary.Boundary, now_s: float) -> Instructions:
        assert self.map is not None
        self.mode.marked(now_s)
        moved = self._alone and outcome.next_target != self.window.next_target + 1
        if moved or outcome.leader_epoch != self.map.leader_epoch:
            self._forget_queue()
            return self._way_in.take(now_s)
        self.window.next_target = outcome.next_target
        self.map.marked(outcome.next_target, now_s=now_s)
        if not self.outbox.queued:
            self.map.skipped_to(self.source.position, source_epoch=self.source.epoch, now_s=now_s)
        return [self.map.write(now_s), *self._copy_on(now_s)]

    def _copy_on(self, now_s: float) -> Instructions:
        """Unless the clusters' news forbid it that came while the boundary was crossed."""
        self.standing.copy()
        if self.standing.recreated is not None:
            return self._stop(self.standing.recreated, now_s)
        return self._follow_leader(now_s)

    # The end

    def close(self, now_s: float) -> Instructions:
        """Stop in good order: what is in flight is waited for, then the last anchor is written."""
        self.standing.closing = True
        self._forget_queue()
        if self.standing.phase is _COPYING:
            return self._tick_copying(now_s)
        self._way_in.close()
        return []

    def _close(self, now_s: float) -> Instructions:
        if self.mode.open:
            return self._cross(self._boundary(transactions.Step.COMMIT), now_s)
        assert not self.window.in_flight
        self.standing.close()
        return self._write_news(now_s)

    @property
    def fully_recorded(self) -> bool:
        """Is every anchor stored that is to be: while copying, of all that was acknowledged?"""
        if self.map is None:
            return True
        if self.standing.phase in (_COPYING, standing.Phase.BOUNDARY):
            return self.map.fully_recorded
        return not self.map.awaits_word

    def check_invariants(self) -> None:
        self.window.check_invariants()
        self.outbox.check_invariants()
        if self.map is not None:
            self.map.check_invariants()
            oldest = self.window.oldest_source
            assert oldest is None or self.map.through <= oldest, self.map
            if self.standing.phase is _COPYING:
                assert self.source.position >= self.map.through, (self.source.position, self.map)
