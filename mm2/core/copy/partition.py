"""The copy of one partition: a machine that takes it, copies batch by batch, and takes it again.

Slow steps (taking, transaction boundaries) are scripts with one question outstanding; the hot path
is method calls per batch, since an event object each would cost more than the copying. Time comes
in as `now_s`. Nothing is ever sent twice: whatever is not known to have succeeded is found out by
taking the partition again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from random import Random

from connect_runtime.base import backoff
from mm2.core.copy import (
    boundary,
    budget,
    counters,
    fence,
    instructions,
    map_writer,
    outcomes,
    refusals,
    script_runner,
    setup,
    source_batches,
    stops,
    take,
    transactions,
    window,
)
from mm2.formats import map_record, record_batch

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 10.0

Instructions = list[instructions.Instruction]


class Phase(enum.Enum):
    """Where a partition stands; `WAITING` ends by itself, `STOPPED` when it says so, else never."""

    WAITING = "waiting"
    TAKING = "taking"
    COPYING = "copying"
    BOUNDARY = "boundary"
    STOPPED = "stopped"
    FENCED = "fenced"
    CLOSED = "closed"


class PartitionCopy:
    """One partition's copy.

    Invariants: nothing is sent unless the phase is COPYING, the first anchor is stored and nothing
    is draining; `map.through` never passes an unacknowledged batch.
    """

    def __init__(
        self,
        where: setup.PartitionSetup,
        *,
        owner: bytes,
        held: budget.Budget,
        random: Random,
        wall_ms: Callable[[], int],
    ) -> None:
        self.where = where
        self.phase = Phase.WAITING
        self.reason = "not started"
        self.stop: stops.Stop | None = None
        self.paused = False
        self.counters = counters.Counters()
        self.position = -1
        self.source_epoch = -1
        self.source_end = -1
        self.log_start = -1
        self.map: map_writer.MapWriter | None = None
        self.window = window.Window(held)
        self._context = outcomes.Context(where=where, owner=owner, wall_ms=wall_ms)
        self._wall_ms = wall_ms
        self._random = random
        self._backoff = backoff.Backoff(initial_s=BACKOFF_FIRST_S, max_s=BACKOFF_MAX_S)
        self._wake_at_s = 0.0
        self._trouble = ""
        self._recreated: stops.Stop | None = None
        self._open_from = -1
        self._runner = script_runner.ScriptRunner()
        self._obstacle: source_batches.Obstacle | None = None
        self._reaction: refusals.Reaction | None = None
        self._leader_epoch = -1
        self._closing = False
        self._mode = self._new_mode(0.0)

    def _new_mode(self, now_s: float) -> transactions.TransactionMode:
        return transactions.TransactionMode(
            always=self.where.delivery is setup.Delivery.TRANSACTIONAL,
            renew_after_s=self.where.renew_after_s,
            marked_at_s=now_s,
        )

    @property
    def transactional(self) -> bool:
        """Does the next batch go in a transaction?"""
        return self._mode.active

    # Asking and being answered

    def tick(self, now_s: float) -> Instructions:
        """Anything that time alone makes due: waking up, anchors, commits, renewing the fence."""
        if self.phase is Phase.COPYING:
            return self._tick_copying(now_s)
        if self.phase in (Phase.WAITING, Phase.STOPPED):
            if self._closing:
                return self._leave()
            if now_s >= self._wake_at_s and not self.paused:
                return self._take(now_s)
        return []

    @property
    def restless(self) -> bool:
        """Must `tick` be called soon? Else it is enough to call it now and then."""
        match self.phase:
            case Phase.COPYING:
                assert self.map is not None
                return (
                    self.map.has_news or self._mode.open or self.window.queued > 0 or self._closing
                )
            case Phase.WAITING:
                return True
            case Phase.STOPPED:
                return self._closing or self._wake_at_s < float("inf")
            case _:
                return False

    @property
    def script_token(self) -> int:
        """Answers to questions that were asked under another token come too late."""
        return self._runner.token

    def answered(self, answer: instructions.Answer, now_s: float) -> Instructions:
        """The answer to the one question that the running script asked."""
        return self._runner.answered(answer, now_s)

    def asks(self, instruction: instructions.Instruction) -> bool:
        """Is this the running script's question (else an anchor that nobody waits for)?"""
        return self._runner.asks(instruction)

    def recorded(self, token: int) -> None:
        """An anchor given out by `tick` or at a boundary is stored."""
        if self.map is not None:
            self.map.recorded(token)

    def _start(
        self, script: instructions.Script[object], on_end: script_runner.OnEnd, *, now_s: float
    ) -> Instructions:
        assert not self.window.in_flight
        return self._runner.start(take.guarded(script, self.where), on_end, now_s=now_s)

    # Taking

    def _take(self, now_s: float) -> Instructions:
        if self._closing:
            return self._leave()
        if self._recreated is not None:
            return self._stand_still(self._recreated, now_s)
        self.phase = Phase.TAKING
        again = f" again; it began with: {self._trouble}" if self._trouble else ""
        self.reason = f"fencing and pairing{again}"
        self.stop = None
        return self._start(
            take.take_and_anchor(self._context, now_s), self._after_take, now_s=now_s
        )

    def _after_take(self, outcome: object, now_s: float) -> Instructions:
        match outcome:
            case (outcomes.Taken() as taken, map_writer.MapWriter() as written):
                self._begin_copying(taken, written, now_s=now_s)
                return self._follow_leader(now_s)
            case outcomes.BeginAgain():
                return self._wait(outcome.reason, now_s)
            case outcomes.Fenced():
                return self._check_fence(outcome.than, now_s)
            case stops.Stop():
                return self._stand_still(outcome, now_s)
        raise AssertionError(outcome)

    def _begin_copying(
        self, taken: outcomes.Taken, written: map_writer.MapWriter, *, now_s: float
    ) -> None:
        self.map = written
        self.window.begin(taken.producer, target=taken.target)
        self._mode = self._new_mode(now_s)
        self.position = taken.source
        self.source_epoch = taken.source_epoch
        self._obstacle = None
        self.phase = Phase.COPYING
        self.reason = self._trouble = ""

    def _wait(self, reason: str, now_s: float) -> Instructions:
        self.phase = Phase.WAITING
        self._trouble = self._trouble or reason
        first = self._trouble == reason
        self.reason = reason if first else f"{reason}; it began with: {self._trouble}"
        self._wake_at_s = now_s + self._backoff.next_delay_s(self._random)
        return [instructions.RefreshTarget()]

    def _stand_still(self, stop: stops.Stop, now_s: float) -> Instructions:
        self.phase = Phase.STOPPED
        self.stop = stop
        self.reason = stop.message
        self._wake_at_s = now_s + stop.retry_after_s if stop.retry_after_s else float("inf")
        return []

    def _check_fence(self, than: instructions.ProducerIdentity, now_s: float) -> Instructions:
        if self._closing:
            return self._leave()
        if self._recreated is not None:
            return self._stand_still(self._recreated, now_s)
        self.phase = Phase.TAKING
        self.reason = "fenced; asking the map by whom"
        script = boundary.who_fenced_us(owner=self._context.owner, than=than)
        return self._start(script, self._after_check, now_s=now_s)

    def _after_check(self, by_another: object, now_s: float) -> Instructions:
        if not by_another:
            return self._wait("fenced, and no other owner has appeared", now_s)
        self.phase = Phase.FENCED
        self.reason = (
            f"{self.where.mirror} was taken over by another owner of flow {self.where.flow}"
        )
        self.stop = stops.Stop(cause=stops.Cause.FENCED, message=self.reason)
        return []

    # Data from the source

    @property
    def wants_data(self) -> bool:
        return (
            self.phase is Phase.COPYING
            and self._obstacle is None
            and self._reaction is None
            and not self.paused
            and not self._closing
        )

    def offer(self, records: instructions.Records, now_s: float) -> Instructions:
        """What a fetch from `position` brought; ignored when the copy no longer wants it."""
        if not self.wants_data:
            return []
        self.source_end = records.end
        self.log_start = records.log_start
        found = source_batches.scan(
            records.records,
            position=self.position,
            aborted=records.aborted,
            target_codec=self.where.target_codec,
        )
        old_before_ms = self._wall_ms() - self.where.old_after_ms
        for each in found.batches:
            self.window.push(each, old=each.header.max_timestamp < old_before_ms)
        if found.position > self.position:
            self.position = found.position
            self.source_epoch = found.leader_epoch
        self._obstacle = found.obstacle
        return [] if self.window.in_flight else self._nothing_in_flight(now_s)

    def source_refused(self, code: int, now_s: float) -> Instructions:
        """A fetch of this partition was refused."""
        if self.phase is not Phase.COPYING:
            return []
        reaction = refusals.fetch(self.where, code=code, offset=self.position)
        return self._drain(reaction, now_s) if reaction is not None else []

    def source_diverged(self, end: int, now_s: float) -> Instructions:
        """The source's log holds another history than the one copied: it was truncated at `end`."""
        if self.phase is not Phase.COPYING:
            return []
        stop = stops.source_diverged(self.where, end=end, copied=self.position)
        return self._stop(stop, now_s)

    def topic_seen(self, topic_id: bytes, now_s: float, *, on_target: bool) -> Instructions:
        """The topic of one side as the cluster tells it now; of another id, it is another topic."""
        ours = self.where.target_topic_id if on_target else self.where.source_topic_id
        if map_record.NO_TOPIC_ID in (ours, topic_id) or topic_id == ours or self._recreated:
            return []
        stop = stops.recreated(self.where, on_target=on_target, was=ours, now=topic_id)
        self._recreated = stop
        match self.phase:
            case Phase.COPYING:
                return self._stop(stop, now_s)
            case Phase.TAKING:
                self._runner.abandon()
                return self._leave() if self._closing else self._stand_still(stop, now_s)
            case Phase.WAITING | Phase.STOPPED:
                return self._stand_still(stop, now_s)
            case _:
                return []

    def leader_epoch_seen(self, leader_epoch: int, now_s: float) -> Instructions:
        """The target partition's leader epoch as the cluster tells it now."""
        self._leader_epoch = leader_epoch
        return self._follow_leader(now_s)

    def _follow_leader(self, now_s: float) -> Instructions:
        """Under another leader than our marker's, the partition must be taken again."""
        if self.phase is not Phase.COPYING or self._reaction is not None:
            return []
        assert self.map is not None
        was, now = self.map.leader_epoch, self._leader_epoch
        if now <= was:
            return []
        reason = f"{self.where.mirror}: leader epoch {was} became {now}"
        return self._drain(refusals.Reaction(then=refusals.Then.TAKE, reason=reason), now_s)

    # Batches to the target

    def ready(self, now_s: float) -> bool:
        """May the next batch be sent now?"""
        if not self.window.queued or self.window.full:
            return False
        if self.phase is not Phase.COPYING or self._reaction is not None or self.paused:
            return False
        assert self.map is not None
        if self.map.must_wait(now_s):
            return False
        mode = self._mode
        if mode.active:
            return mode.open and not mode.commit_due(now_s) and not self._mode_ends(now_s)
        # The fence is renewed at a drained boundary, which steady traffic would never bring.
        return not self.window.head_is_old and not mode.renewal_due(now_s)

    def send(self, now_s: float) -> memoryview:
        """The next batch, stamped as ours; it counts as in flight from here on."""
        self._mode.sent(self.window.next_size, old=self.window.head_is_old, now_s=now_s)
        return self.window.send(transactional=self._mode.active)

    def acknowledged(self, base_offset: int, append_time_ms: int, now_s: float) -> Instructions:
        """The oldest batch in flight is stored at `base_offset`; every offset is checked."""
        sent = self.window.pop()
        if self._reaction is not None:
            return self._drained(now_s)
        if append_time_ms != record_batch.NO_TIMESTAMP:
            return self._stop(stops.timestamps_rewritten(self.where, offset=sent.source), now_s)
        target = self._where_it_landed(sent, base_offset)
        if target is None:
            reason = f"{self.where.mirror}: stored at {base_offset}, expected {sent.target}"
            reaction = refusals.Reaction(then=refusals.Then.TAKE, reason=reason)
            return self._drain(reaction, now_s)
        assert self.map is not None
        self.map.acknowledged(
            sent.source,
            next_source=sent.next_source,
            target=target,
            next_target=target + sent.records,
            crc=sent.crc,
            source_epoch=sent.source_epoch,
            now_s=now_s,
        )
        self._count(sent)
        return [] if self.window.in_flight else self._nothing_in_flight(now_s)

    def _count(self, sent: window.Sent) -> None:
        if self._backoff.attempts:
            self._backoff.reset()
        self.counters.acknowledged(sent, wall_ms=self._wall_ms())

    def _where_it_landed(self, sent: window.Sent, base_offset: int) -> int | None:
        """The batch's target offset; in a shared topic others may have written before it."""
        if base_offset == sent.target:
            return base_offset
        if self.where.target_topics is setup.TargetTopics.EXCLUSIVE or base_offset < sent.target:
            return None
        self.window.shift(base_offset - sent.target)
        return base_offset

    def produce_refused(self, code: int, message: str, now_s: float) -> Instructions:
        """Kafka refused the oldest batch in flight."""
        sent = self.window.pop()
        reaction = refusals.produce(self.where, code=code, message=message, offset=sent.source)
        return self._drain(reaction, now_s)

    def produce_unanswered(self, reason: str, now_s: float) -> Instructions:
        """Nothing is known of the oldest batch in flight."""
        self.window.pop()
        reaction = refusals.Reaction(then=refusals.Then.BACK_OFF, reason=reason)
        return self._drain(reaction, now_s)

    def _nothing_in_flight(self, now_s: float) -> Instructions:
        """Everything sent is acknowledged: note how far that is, and do what had to wait for it."""
        assert self.map is not None
        if not self.window.queued:
            self.map.skipped_to(self.position, source_epoch=self.source_epoch, now_s=now_s)
            if self._obstacle is not None and not self._mode.open:
                return self._meet_obstacle(now_s)
        if self._closing:
            return self._close(now_s)
        return self._at_boundary(now_s)

    def _meet_obstacle(self, now_s: float) -> Instructions:
        obstacle = self._obstacle
        assert obstacle is not None
        make = stops.corrupt if obstacle.corrupt else stops.needs_opening
        return self._stop(make(self.where, offset=obstacle.offset, why=obstacle.why), now_s)

    # Draining: nothing more is sent, what is in flight is waited for, then something follows

    def _drain(self, reaction: refusals.Reaction, now_s: float) -> Instructions:
        if self._reaction is None:
            self._reaction = reaction
            self.reason = reaction.reason
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
        news = self._write_news(now_s)
        match reaction.then:
            case refusals.Then.TAKE:
                return [*news, *self._take(now_s)]
            case refusals.Then.BACK_OFF:
                return [*news, *self._wait(reaction.reason, now_s)]
            case refusals.Then.CHECK_FENCE:
                return self._check_fence(self.window.producer, now_s)
            case refusals.Then.STOP:
                assert reaction.stop is not None
                return [*news, *self._stand_still(reaction.stop, now_s)]

    def _write_news(self, now_s: float) -> Instructions:
        """The anchor, if it has news and no open transaction hangs over what it would say."""
        if self.map is None or not self.map.has_news or self._mode.open:
            return []
        return [self.map.write(now_s)]

    def _forget_queue(self) -> None:
        """What was fetched and will not be sent must never be taken for skipped."""
        first = self.window.drop_queue()
        if first is not None:
            # Its own epoch, not that of the batch before it: the source knows both.
            self.position, self.source_epoch = first.base_offset, first.leader_epoch
            self._obstacle = None

    # Boundaries: transactions, renewing the fence, closing

    def _tick_copying(self, now_s: float) -> Instructions:
        assert self.map is not None
        found: Instructions = []
        if self.map.due(now_s) and not self._mode.open:
            found.append(self.map.write(now_s))
        if self.window.in_flight or self._reaction is not None:
            return found
        return [*found, *self._nothing_in_flight(now_s)]

    def _at_boundary(self, now_s: float) -> Instructions:
        """Nothing is in flight: is a transaction to be opened, committed, or the fence renewed?"""
        mode = self._mode
        if mode.open:
            idle = not self.window.queued and mode.open_bytes > 0
            # Left open over a pause, the coordinator would abort it and fence us out.
            ends = idle or self.paused or mode.commit_due(now_s) or self._mode_ends(now_s)
            return self._commit(now_s) if ends else []
        if self._mode_ends(now_s):
            mode.active = False
        if not mode.active and self.window.queued and self.window.head_is_old:
            mode.begin(now_s)
            if mode.plain_since_marker:
                return self._renew(now_s)
        if mode.active and self.window.queued and not self.paused:
            return self._open_transaction(now_s)
        return self._renew(now_s) if mode.renewal_due(now_s) else []

    def _mode_ends(self, now_s: float) -> bool:
        """In transactions, but what comes next has not been old for a while."""
        fresh = self.window.queued > 0 and not self.window.head_is_old
        return self._mode.active and fresh and self._mode.may_end(now_s)

    def _open_transaction(self, now_s: float) -> Instructions:
        self.phase = Phase.BOUNDARY
        script = boundary.open_transaction(self.window.producer)
        return self._start(script, self._after_open, now_s=now_s)

    def _after_open(self, failed: object, now_s: float) -> Instructions:
        if failed is not None:
            return self._boundary_failed(failed, now_s)
        assert self.map is not None
        self.phase = Phase.COPYING
        self._open_from = self.map.through
        self._mode.opened()
        return self._follow_leader(now_s)

    def _commit(self, now_s: float) -> Instructions:
        self.phase = Phase.BOUNDARY
        script = boundary.commit(self.window.producer, next_target=self.window.next_target)
        return self._start(script, self._after_marker, now_s=now_s)

    def _renew(self, now_s: float) -> Instructions:
        self.phase = Phase.BOUNDARY
        script = boundary.renew(self.window.producer, next_target=self.window.next_target)
        return self._start(script, self._after_marker, now_s=now_s)

    def _after_marker(self, outcome: object, now_s: float) -> Instructions:
        if not isinstance(outcome, boundary.Boundary):
            return self._boundary_failed(outcome, now_s)
        assert self.map is not None
        self._mode.marked(now_s)
        exclusive = self.where.target_topics is setup.TargetTopics.EXCLUSIVE
        moved = exclusive and outcome.next_target != self.window.next_target + 1
        if moved or outcome.leader_epoch != self.map.leader_epoch:
            self._forget_queue()
            return self._take(now_s)
        self.phase = Phase.COPYING
        self.window.next_target = outcome.next_target
        self.map.marked(outcome.next_target, now_s=now_s)
        if not self.window.queued:
            self.map.skipped_to(self.position, source_epoch=self.source_epoch, now_s=now_s)
        return [self.map.write(now_s), *self._follow_leader(now_s)]

    def _boundary_failed(self, outcome: object, now_s: float) -> Instructions:
        self._forget_queue()
        match outcome:
            case fence.NewerOwner():
                return self._check_fence(outcome.than, now_s)
            case fence.Refusal():
                stop = stops.refused(
                    self.where, outcome.message, retry_after_s=fence.RETRY_REFUSED_S
                )
                return self._stand_still(stop, now_s)
            case fence.Disturbed():
                return self._wait(outcome.reason, now_s)
            case stops.Stop():
                return self._stand_still(outcome, now_s)
        raise AssertionError(outcome)

    # The end

    def close(self, now_s: float) -> Instructions:
        """Stop in good order: what is in flight is waited for, then the last anchor is written."""
        self._closing = True
        self._forget_queue()
        if self.phase is Phase.TAKING:
            self._runner.abandon()
            return self._leave()
        return self.tick(now_s)

    def _leave(self) -> Instructions:
        """Asked to end, and there is nothing that could be brought to a better end."""
        self.phase = Phase.CLOSED
        return []

    def _close(self, now_s: float) -> Instructions:
        if self._mode.open:
            return self._commit(now_s)
        assert not self.window.in_flight
        self.phase = Phase.CLOSED
        return self._write_news(now_s)

    @property
    def copied_to(self) -> int:
        """The first source offset that readers do not see on the target yet; -1 while unknown."""
        if self.map is None:
            return -1
        return self._open_from if self._mode.open else self.map.through

    @property
    def fully_recorded(self) -> bool:
        """Is every anchor stored that is to be: while copying, of all that was acknowledged?"""
        if self.map is None:
            return True
        if self.phase in (Phase.COPYING, Phase.BOUNDARY):
            return self.map.fully_recorded
        return not self.map.awaits_word

    @property
    def oldest_ms(self) -> int:
        """Timestamp (ms) of the oldest record not copied, -1 when there is none.

        Where that record has not been fetched yet, the newest copied one's: it is not older.
        """
        pending = self.window.oldest_timestamp
        if pending is not None:
            return pending
        behind = self.map is not None and self.map.through < self.source_end
        return self.counters.newest_ms if behind else -1

    def check_invariants(self) -> None:
        self.window.check_invariants()
        if self.map is not None:
            self.map.check_invariants()
            oldest = self.window.oldest_source
            assert oldest is None or self.map.through <= oldest, self.map
