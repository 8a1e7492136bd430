"""Replicates one partition: acquires it, copies batch by batch, and acquires it again after errors.

Slow steps (acquisition, transaction boundaries) are scripts with one outstanding instruction. The
hot path is method calls per batch: an event object each would cost more than the copying. Time
comes in as `now_s`. Nothing is sent twice: whether an unacknowledged batch was stored is found
out by acquiring the partition again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from mm2.formats import record_batch
from mm2.replication import error_policy, halts, latency, read_committed, tail_reader, transactions
from mm2.replication.batch_limits import BatchMergeLimits
from mm2.replication.error_policy import ErrorAction, ErrorReaction
from mm2.replication.halts import PartitionHalt
from mm2.replication.in_flight import InFlightBatches, SentBatch
from mm2.replication.latency import LatencyHistogram, RecordAges
from mm2.replication.map_writer import MapWriter
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import RecordTransform
from mm2.replication.partition_state import PartitionPhase, PartitionState
from mm2.replication.read_committed import SourceBatch, SourceScan, UnreadableBatch
from mm2.replication.recovery import Recovery, ScriptRunner
from mm2.replication.recovery_instructions import FetchedRecords, Instruction, Script
from mm2.replication.recovery_outcomes import PartitionAcquired, RecoveryContext
from mm2.replication.send_queue import DroppedPosition, PartitionSendQueue
from mm2.replication.setup import PartitionSetup
from mm2.replication.tail_reader import ReverseFlowResolved
from mm2.replication.transactions import BoundaryStep, PartitionBoundary, TransactionOpened
from mm2.topics.flow_config import TargetTopicAccess


@dataclass(slots=True)
class PartitionCounters:
    """Acknowledged records, bytes and batches; of the newest batch its age in ms when it was
    acknowledged, and its timestamp (-1 while there is none).

    `made` counts the batches that were not passed through, and `why` says why the newest was not,
    "" when it was. `spared` counts records that the target had, or got from somebody else, so that
    they were not copied again. How old records were when they came is `arrived`, when their copies
    were acknowledged `stored`: of those alone since `take_ages`. `latency` is the whole copy's.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    made: int = 0
    age_ms: int = 0
    newest_ms: int = -1
    why: str = ""
    spared: int = 0
    arrived: RecordAges = latency.NO_AGES
    stored: RecordAges = latency.NO_AGES
    crossing: LatencyHistogram = field(default_factory=LatencyHistogram)

    def fetched(self, batches: Iterable[SourceBatch], *, wall_ms: int) -> None:
        """Whether they will be copied, or dropped and fetched again, is not known yet."""
        for each in batches:
            header = each.header
            self.arrived = self.arrived.plus(latency.compute_source_ages(header, wall_ms=wall_ms))
            if header.max_timestamp > wall_ms:
                self.crossing.came(header.max_timestamp, wall_ms)

    def acknowledged(self, sent: SentBatch, *, now_s: float, wall_ms: int) -> None:
        batch = sent.batch
        self.records += batch.records
        self.bytes += sent.size
        self.batches += 1
        self.why = batch.why
        if batch.why:
            self.made += 1
        self.newest_ms = batch.max_timestamp
        if batch.max_timestamp >= 0:
            self.age_ms = max(0, wall_ms - batch.max_timestamp)
        late = latency.compute_batch_ages(
            batch.records,
            oldest_ms=batch.oldest_timestamp,
            newest_ms=batch.max_timestamp,
            wall_ms=wall_ms,
        )
        self.stored = self.stored.plus(late)
        self.crossing.acknowledged(late, now_s)

    def refused(self, code: int, sent: SentBatch) -> None:
        """Kafka refused the batch, by its error code."""
        if code in error_policy.ALREADY_STORED_CODES:
            self.spared += sent.batch.records

    def take_ages(self) -> tuple[RecordAges, RecordAges]:
        """`arrived` and `stored`, which begin anew."""
        taken = (self.arrived, self.stored)
        self.arrived = self.stored = latency.NO_AGES
        return taken


@dataclass(slots=True, kw_only=True)
class SourcePosition:
    """`position` is fetched next and `epoch` is the leader epoch before it; -1 while unknown.

    `end` is the source's last stable offset, `log_start` where its log starts, as of the last
    fetch. An `obstacle` stands at `position`, or a batch of one of `strangers`: nothing behind it
    was looked at.
    """

    position: int = -1
    epoch: int = -1
    end: int = -1
    log_start: int = -1
    obstacle: UnreadableBatch | None = None
    strangers: tuple[int, ...] = ()

    @property
    def stuck(self) -> bool:
        """Must something else happen before more can be read?"""
        return self.obstacle is not None or bool(self.strangers)

    def begin(self, position: int, *, epoch: int) -> None:
        self.position, self.epoch = position, epoch
        self.obstacle = None
        self.strangers = ()

    def took(
        self,
        records: FetchedRecords,
        *,
        target_codec: int | None,
        opposite: Mapping[int, bool] | None,
    ) -> SourceScan:
        """What a fetch from `position` on brought, sorted as by `read_committed.scan_batches`."""
        self.end, self.log_start = records.end, records.log_start
        scan = read_committed.scan_batches(
            records.records,
            position=self.position,
            aborted=records.aborted,
            target_codec=target_codec,
            opposite=opposite,
        )
        if scan.position > self.position:
            self.position, self.epoch = scan.position, scan.leader_epoch
        self.obstacle, self.strangers = scan.obstacle, scan.strangers
        return scan

    def go_back(self, first: DroppedPosition) -> None:
        """What was found from there on is dropped unsent: it must be fetched again."""
        # Its own epoch, not that of the batch before it: the source knows both.
        self.begin(first.source, epoch=first.epoch)


Instructions = list[Instruction]

_COPYING = PartitionPhase.COPYING


class PartitionReplicator:
    """One partition's copy; `shared` is told what crosses of all partitions of a task.

    Invariants: nothing is sent unless the phase is COPYING, the first anchor is stored and nothing
    is draining; `map.through` never passes an unacknowledged batch.
    """

    def __init__(
        self,
        where: PartitionSetup,
        *,
        owner: bytes,
        held: MemoryBudget,
        joining: BatchMergeLimits,
        random: Random,
        wall_ms: Callable[[], int],
        transform: RecordTransform | None = None,
        shared: LatencyHistogram | None = None,
    ) -> None:
        self.where = where
        self.standing = PartitionState()
        self.paused = False
        self.counters = PartitionCounters(crossing=shared or LatencyHistogram())
        self.source = SourcePosition()
        self.map: MapWriter | None = None
        self.mode = transactions.create_transaction_mode(where, 0.0)
        self.outbox = PartitionSendQueue(
            held, joining=joining, target_codec=where.target_codec, transform=transform
        )
        self.window = InFlightBatches(held)
        self._alone = where.target_topics is TargetTopicAccess.EXCLUSIVE
        self.script = ScriptRunner(where)
        self._context = RecoveryContext(
            where=where,
            owner=owner,
            wall_ms=wall_ms,
            transform=transform,
            held=held,
        )
        self._way_in = Recovery(
            self._context,
            state=self.standing,
            runner=self.script,
            random=random,
            taken=self._begin_copying,
        )
        self._reaction: ErrorReaction | None = None
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
        self, taken: PartitionAcquired, written: MapWriter, now_s: float
    ) -> Instructions:
        self.map = written
        self.window.begin(taken.producer, target=taken.target)
        self.mode = transactions.create_transaction_mode(self.where, now_s, fenced=taken.fenced)
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

    def offer(self, records: FetchedRecords, now_s: float) -> Instructions:
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
        reaction = error_policy.react_to_fetch_error(
            self.where, code=code, offset=self.source.position
        )
        return self._drain(reaction, now_s) if reaction is not None else []

    def source_diverged(self, end: int, now_s: float) -> Instructions:
        """The source's log holds another history than the one copied: it was truncated at `end`."""
        if self.standing.phase is not _COPYING:
            return []
        stop = halts.halt_source_diverged(self.where, end=end, copied=self.source.position)
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
        return self._drain(ErrorReaction(then=ErrorAction.TAKE, reason=reason), now_s)

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
        out = self.outbox.pop_staged()
        self.mode.sent(len(out.batch), old=bool(old), now_s=now_s)
        return self.window.send(out, transactional=self.mode.active)

    def acknowledged(self, base_offset: int, append_time_ms: int, now_s: float) -> Instructions:
        """The oldest batch in flight is stored at `base_offset`; every offset is checked."""
        sent = self.window.pop()
        if self._reaction is not None:
            return self._drained(now_s)
        if append_time_ms != record_batch.NO_TIMESTAMP:
            stop = halts.halt_timestamps_rewritten(self.where, offset=sent.batch.source)
            return self._stop(stop, now_s)
        target = self.window.landed(sent, base_offset, alone=self._alone)
        if target is None:
            reason = f"{self.where.mirror}: stored at {base_offset}, expected {sent.target}"
            # Where nobody can be fenced, the newer owner stays: let us see whether there is one.
            then = ErrorAction.TAKE if self.mode.possible else ErrorAction.CHECK_FENCE
            return self._drain(ErrorReaction(then=then, reason=reason), now_s)
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
        reaction = error_policy.react_to_produce_error(
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
        return self._drain(ErrorReaction(then=ErrorAction.BACK_OFF, reason=reason), now_s)

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
                return self._drain(error_policy.react_to_unreadable_batch(self.where, found), now_s)
        if self.standing.closing:
            return self._close(now_s)
        if self.source.strangers and not self.outbox.queued:
            return self._cross(
                tail_reader.resolve_reverse_flow_producers(self._context, self.source.strangers),
                now_s,
            )
        waits = self.map.must_wait(now_s)
        step = self.mode.next_step(
            next_is_old=None if waits else self.outbox.next_is_old,
            paused=self.paused,
            now_s=now_s,
        )
        return [] if step is None else self._cross(self._boundary(step), now_s)

    # Draining: nothing more is sent, what is in flight is waited for, then something follows

    def _drain(self, reaction: ErrorReaction, now_s: float) -> Instructions:
        if self._reaction is None:
            self._reaction = reaction
            self.standing.reason = reaction.reason
        self._forget_queue()
        return self._drained(now_s)

    def _stop(self, stop: PartitionHalt, now_s: float) -> Instructions:
        reaction = ErrorReaction(then=ErrorAction.STOP, reason=stop.message, stop=stop)
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

    def _boundary(self, step: BoundaryStep) -> Script[object]:
        producer, to = self.window.producer, self.window.next_target
        return transactions.run_boundary(step, producer, next_target=to, context=self._context)

    def _cross(self, script: Script[object], now_s: float) -> Instructions:
        assert not self.window.in_flight
        # While a transaction is open no anchor is written, and what waits for one would not move.
        news = self._write_news(now_s)
        self.standing.cross()
        return [*news, *self.script.start(script, self._crossed, now_s=now_s)]

    def _crossed(self, outcome: object, now_s: float) -> Instructions:
        assert self.map is not None
        match outcome:
            case TransactionOpened():
                self.mode.opened(self.map.through)
                return self._copy_on(now_s)
            case PartitionBoundary():
                return self._after_marker(outcome, now_s)
            case ReverseFlowResolved():
                self.source.strangers = ()
                return self._copy_on(now_s)
        self._forget_queue()
        return self._way_in.failed(outcome, now_s)

    def _after_marker(self, outcome: PartitionBoundary, now_s: float) -> Instructions:
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
            return self._cross(self._boundary(BoundaryStep.COMMIT), now_s)
        assert not self.window.in_flight
        self.standing.close()
        return self._write_news(now_s)

    @property
    def fully_recorded(self) -> bool:
        """Is every anchor stored that is to be: while copying, of all that was acknowledged?"""
        if self.map is None:
            return True
        if self.standing.phase in (_COPYING, PartitionPhase.BOUNDARY):
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
