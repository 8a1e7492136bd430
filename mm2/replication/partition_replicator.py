"""Replicates one partition: acquires it, copies batch by batch, and reacquires it after errors.

Slow steps (acquisition, begin and end of transactions) are scripts: generators of instructions, one
of which is outstanding at a time. The hot path consists of plain method calls per batch, because an
event object per batch would cost more than the copying. The caller passes the time as `now_s`
(monotonic seconds). Batches are never resent. If a batch is not acknowledged, the partition is
acquired again, which reads from the target whether the batch was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from mm2.formats import record_batch
from mm2.replication import (
    error_policy,
    partition_halt_messages,
    partition_transactions,
    read_committed_batch_filter,
    replication_latency,
    target_log_tail_reader,
)
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.error_policy import ErrorAction, ErrorReaction
from mm2.replication.in_flight_batches import InFlightBatches, SentBatch
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.offset_map_writer import MapWriter
from mm2.replication.outbound_batches import RecordTransform
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.partition_recovery import PartitionRecovery, RecoveryScriptRunner
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.partition_state import PartitionPhase, PartitionState
from mm2.replication.partition_transactions import (
    TransactionMarkerWritten,
    TransactionOpened,
    TransactionStep,
)
from mm2.replication.read_committed_batch_filter import SourceBatch, SourceScan, UnreadableBatch
from mm2.replication.recovery_instructions import FetchedRecords, Instruction, Script
from mm2.replication.recovery_outcomes import PartitionAcquired, RecoveryContext
from mm2.replication.replication_latency import LatencyHistogram, RecordAges
from mm2.replication.send_queue import DroppedBatchPosition, PartitionSendQueue
from mm2.replication.target_log_tail_reader import ReverseFlowProducersResolved
from mm2.topics.flow_config import TargetTopicAccess


@dataclass(slots=True)
class PartitionCounters:
    """Counters and latency statistics of one replicated partition."""

    records: int = 0
    """Number of acknowledged records."""
    bytes: int = 0
    """Total bytes of acknowledged batches."""
    batches: int = 0
    """Number of acknowledged batches."""
    reencoded_batches: int = 0
    """Number of acknowledged batches that were re-encoded, not passed through."""
    age_ms: int = 0
    """Age of the newest acknowledged batch at the time of its acknowledgement (ms)."""
    newest_ms: int = -1
    """Timestamp (ms) of the newest acknowledged batch; -1 if no batch was acknowledged."""
    reencode_reason: str = ""
    """Reason why the newest batch was re-encoded; "" if it was passed through."""
    already_stored: int = 0
    """Number of records not sent again because the target already stores them or a newer owner
    replicates them."""
    fetched_ages: RecordAges = replication_latency.NO_AGES
    """Record ages at fetch since the last call of `take_record_ages`."""
    acknowledged_ages: RecordAges = replication_latency.NO_AGES
    """Record ages at acknowledgement since the last call of `take_record_ages`."""
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    """Replication latency histogram, shared by all partitions of a task."""

    def record_fetched_ages(self, batches: Iterable[SourceBatch], *, wall_ms: int) -> None:
        """Record the ages of the records in fetched batches. If an unsent batch is dropped and
        fetched again, its ages are recorded twice."""
        for each in batches:
            header = each.header
            self.fetched_ages = self.fetched_ages.merge(
                replication_latency.compute_source_ages(header, wall_ms=wall_ms)
            )
            if header.max_timestamp > wall_ms:
                self.latency.record_fetched_batch(header.max_timestamp, wall_ms)

    def count_acknowledged_batch(self, sent: SentBatch, *, now_s: float, wall_ms: int) -> None:
        """Count an acknowledged batch and record its latency."""
        batch = sent.batch
        self.records += batch.records
        self.bytes += sent.size
        self.batches += 1
        self.reencode_reason = batch.reencode_reason
        if batch.reencode_reason:
            self.reencoded_batches += 1
        self.newest_ms = batch.max_timestamp
        if batch.max_timestamp >= 0:
            self.age_ms = max(0, wall_ms - batch.max_timestamp)
        acked_ages = replication_latency.compute_batch_ages(
            batch.records,
            oldest_ms=batch.oldest_timestamp,
            newest_ms=batch.max_timestamp,
            wall_ms=wall_ms,
        )
        self.acknowledged_ages = self.acknowledged_ages.merge(acked_ages)
        self.latency.record_acknowledged_batch(acked_ages, now_s)

    def count_refused_batch(self, code: int, sent: SentBatch) -> None:
        """Add the records of a rejected batch to `already_stored` if the error code means that the
        target already stores them or a newer owner replicates them."""
        if code in error_policy.ALREADY_STORED_CODES:
            self.already_stored += sent.batch.records

    def take_record_ages(self) -> tuple[RecordAges, RecordAges]:
        """Return the ages at fetch and at acknowledgement, and reset both."""
        taken = (self.fetched_ages, self.acknowledged_ages)
        self.fetched_ages = self.acknowledged_ages = replication_latency.NO_AGES
        return taken


@dataclass(slots=True, kw_only=True)
class SourcePosition:
    """Fetch position of a source partition, and the state of its log as of the last fetch."""

    position: int = -1
    """Next source offset to fetch; -1 while unknown."""
    epoch: int = -1
    """Leader epoch of the source batch before `position`; -1 while unknown."""
    end: int = -1
    """The source's last stable offset as of the last fetch."""
    log_start: int = -1
    """The source's log start offset as of the last fetch."""
    obstacle: UnreadableBatch | None = None
    """Batch at `position` that can be neither replicated nor skipped; None if there is none. Later
    batches have not been read."""
    unresolved_producers: tuple[int, ...] = ()
    """Producer ids at `position` that may belong to the reverse flow. They must be resolved before
    reading continues."""

    @property
    def is_blocked(self) -> bool:
        """Return True if an unreadable batch or an unresolved producer id blocks reading."""
        return self.obstacle is not None or bool(self.unresolved_producers)

    def start_fetching_at(self, position: int, *, epoch: int) -> None:
        """Start fetching at `position` and forget any unreadable batch."""
        self.position, self.epoch = position, epoch
        self.obstacle = None
        self.unresolved_producers = ()

    def advance_past_records(
        self,
        records: FetchedRecords,
        *,
        target_codec: int | None,
        reverse_producers: Mapping[int, bool] | None,
        max_bytes: int,
    ) -> SourceScan:
        """Classify the fetched batches with `read_committed.scan_batches`, advance the fetch
        position past them, and return the scan."""
        self.end, self.log_start = records.end, records.log_start
        scan = read_committed_batch_filter.scan_batches(
            records.records,
            position=self.position,
            aborted=records.aborted,
            end=records.end,
            target_codec=target_codec,
            reverse_producers=reverse_producers,
            max_bytes=max_bytes,
        )
        if scan.position > self.position:
            self.position, self.epoch = scan.position, scan.leader_epoch
        self.obstacle, self.unresolved_producers = scan.obstacle, scan.unresolved_producers
        return scan

    def rewind(self, first: DroppedBatchPosition) -> None:
        """Move the fetch position back to the first batch that was dropped before it was sent, so
        that the batch is fetched again."""
        # Use the dropped batch's own leader epoch: the source knows it as well as its
        # predecessor's.
        self.start_fetching_at(first.source, epoch=first.epoch)


Instructions = list[Instruction]

_COPYING = PartitionPhase.COPYING


class PartitionReplicator:
    """State machine that replicates one partition.

    Invariants: a batch is sent only if the phase is COPYING, the first map segment is stored and
    the partition is not draining (waiting for batches in flight); `map.through`, the end of the
    recorded source offsets, never passes an unacknowledged batch.

    Every method returns the instructions that the copier must carry out.
    """

    def __init__(
        self,
        setup: PartitionSetup,
        *,
        owner: bytes,
        memory_budget: MemoryBudget,
        merge_limits: BatchMergeLimits,
        random: Random,
        wall_ms: Callable[[], int],
        transform: RecordTransform | None = None,
        latency: LatencyHistogram | None = None,
    ) -> None:
        self.setup = setup
        self.state = PartitionState()
        self.paused = False
        self.counters = PartitionCounters(latency=latency or LatencyHistogram())
        self.source = SourcePosition()
        self.map: MapWriter | None = None
        self.transaction_mode = partition_transactions.create_transaction_mode(setup, 0.0)
        self.send_queue = PartitionSendQueue(
            memory_budget,
            merge_limits=merge_limits,
            target_codec=setup.target_codec,
            transform=transform,
        )
        self.in_flight = InFlightBatches(memory_budget)
        self._is_only_writer = setup.target_topics is TargetTopicAccess.EXCLUSIVE
        self.script_runner = RecoveryScriptRunner(setup)
        self._context = RecoveryContext(
            setup=setup,
            owner=owner,
            wall_ms=wall_ms,
            transform=transform,
            memory_budget=memory_budget,
        )
        self._recovery = PartitionRecovery(
            self._context,
            state=self.state,
            runner=self.script_runner,
            random=random,
            on_acquired=self._begin_copying,
        )
        self._reaction: ErrorReaction | None = None
        self._leader_epoch = -1

    # Time and the answers to instructions

    def tick(self, now_s: float) -> Instructions:
        """Perform the work that is due at `now_s`: retries, map segments, commits, fence
        renewal."""
        if self.state.phase is _COPYING:
            return self._run_copying_step(now_s)
        return self._recovery.tick(now_s, paused=self.paused)

    @property
    def needs_tick_soon(self) -> bool:
        """Return True if `tick` must be called soon. Otherwise an occasional call is enough."""
        if self.state.phase is not _COPYING:
            return self.state.needs_tick_soon
        assert self.map is not None
        busy = (
            self.map.has_unwritten_progress
            or self.transaction_mode.is_open
            or self.send_queue.queued_batches > 0
        )
        return busy or self._has_unrecorded_skip or self.state.closing

    @property
    def _has_unrecorded_skip(self) -> bool:
        """Return True if all fetched batches are acknowledged, and either skipped source offsets
        must still be recorded in the offset map or a batch at the fetch position blocks reading."""
        assert self.map is not None
        if self.in_flight.batch_count or self.send_queue.queued_batches:
            return False
        return self.source.is_blocked or self.map.through < self.source.position

    def on_segment_stored(self, token: int) -> None:
        """Record that a map segment is stored. The segment was written by `tick` or at a boundary
        (a pause without batches in flight)."""
        if self.map is not None:
            self.map.on_segments_stored(token)

    def _begin_copying(
        self, taken: PartitionAcquired, written: MapWriter, now_s: float
    ) -> Instructions:
        self.map = written
        self.in_flight.begin_epoch(taken.producer, target=taken.target)
        self.transaction_mode = partition_transactions.create_transaction_mode(
            self.setup, now_s, fenced=taken.is_fenced
        )
        self.source.start_fetching_at(taken.source, epoch=taken.source_epoch)
        self.state.begin_copying()
        self.counters.already_stored += taken.already_stored
        return self._reacquire_from_new_leader(now_s)

    # Data from the source

    @property
    def accepts_fetched_records(self) -> bool:
        """Return True if fetched records of this partition are accepted."""
        return (
            self.state.phase is _COPYING
            and not self.source.is_blocked
            and self._reaction is None
            and not self.paused
            and not self.state.closing
        )

    def on_records_fetched(self, records: FetchedRecords, now_s: float) -> Instructions:
        """Queue fetched records. They are ignored if `accepts_fetched_records` is False."""
        if not self.accepts_fetched_records:
            return []
        found = self.source.advance_past_records(
            records,
            target_codec=self.setup.target_codec,
            reverse_producers=self._context.reverse_producers,
            max_bytes=self._context.memory_budget.largest_decoded_bytes,
        )
        wall_ms = self._context.wall_ms()
        self.counters.record_fetched_ages(found.batches, wall_ms=wall_ms)
        self.send_queue.push_batches(found, old_before_ms=wall_ms - self.setup.old_after_ms)
        return [] if self.in_flight.batch_count else self._handle_all_batches_acknowledged(now_s)

    def on_fetch_error(self, code: int, now_s: float) -> Instructions:
        """Handle an error code in the Fetch response for this partition."""
        if self.state.phase is not _COPYING:
            return []
        reaction = error_policy.react_to_fetch_error(
            self.setup, code=code, offset=self.source.position
        )
        return self._begin_draining(reaction, now_s) if reaction is not None else []

    def on_source_diverged(self, end: int, now_s: float) -> Instructions:
        """Halt the partition because the source's log differs from the replicated records: it was
        truncated at offset `end` and other records were written after that offset."""
        if self.state.phase is not _COPYING:
            return []
        stop = partition_halt_messages.build_source_diverged_halt(
            self.setup, end=end, copied=self.source.position
        )
        return self._halt_partition(stop, now_s)

    def on_topic_id_received(
        self, topic_id: bytes, now_s: float, *, on_target: bool
    ) -> Instructions:
        """Halt the partition if the topic was recreated. In this case, the topic id in the
        cluster's metadata differs from the id of the topic for which replication started."""
        found = self._recovery.on_topic_id_received(topic_id, now_s, on_target=on_target)
        if self.state.phase is _COPYING and self.state.recreated_topic_halt is not None:
            return self._halt_partition(self.state.recreated_topic_halt, now_s)
        return found

    def on_leader_epoch_received(self, leader_epoch: int, now_s: float) -> Instructions:
        """Reacquire the partition if the target partition's leader epoch advanced."""
        self._leader_epoch = leader_epoch
        return self._reacquire_from_new_leader(now_s)

    def _reacquire_from_new_leader(self, now_s: float) -> Instructions:
        """Reacquire the partition if its leader epoch is newer than that of this owner's last
        transaction marker."""
        if self.state.phase is not _COPYING or self._reaction is not None:
            return []
        assert self.map is not None
        was, now = self.map.leader_epoch, self._leader_epoch
        if now <= was:
            return []
        reason = f"{self.setup.mirror_name}: leader epoch changed from {was} to {now}"
        return self._begin_draining(
            ErrorReaction(action=ErrorAction.REACQUIRE, reason=reason), now_s
        )

    # Batches to the target

    def prepare_next_batch(self, now_s: float) -> bool:
        """Prepare the next batch. Return True if the batch may be sent now."""
        if not self.send_queue.queued_batches or self.in_flight.is_full:
            return False
        if self.state.phase is not _COPYING or self._reaction is not None or self.paused:
            return False
        assert self.map is not None
        if self.map.must_pause_sending(now_s) or not self._stage_next_batch():
            return False
        # Check the age only after staging: the part that remains of a decoded batch may be older.
        return self.transaction_mode.may_send(
            old=bool(self.send_queue.staged_batch_needs_transaction), now_s=now_s
        )

    def _stage_next_batch(self) -> bool:
        if self.send_queue.stage_next_batch():
            return True
        obstacle = self.send_queue.unreadable
        if obstacle is not None:
            self._drop_send_queue()
            self.source.obstacle = obstacle
        return False

    def pop_next_batch(self, now_s: float) -> memoryview:
        """Return the staged batch, stamped with this owner's producer id and epoch. The batch is
        counted as in flight."""
        old = self.send_queue.staged_batch_needs_transaction
        out = self.send_queue.pop_staged_batch()
        self.transaction_mode.record_sent_batch(len(out.batch), old=bool(old), now_s=now_s)
        return self.in_flight.set_producer_state_of_batch(
            out, transactional=self.transaction_mode.is_active
        )

    def on_produce_acknowledged(
        self, base_offset: int, append_time_ms: int, now_s: float
    ) -> Instructions:
        """Record that the oldest batch in flight is stored at `base_offset`, after verifying this
        offset."""
        sent = self.in_flight.pop_oldest()
        if self._reaction is not None:
            return self._finish_draining(now_s)
        if append_time_ms != record_batch.NO_TIMESTAMP:
            stop = partition_halt_messages.build_timestamps_rewritten_halt(
                self.setup, offset=sent.batch.source
            )
            return self._halt_partition(stop, now_s)
        target = self.in_flight.check_stored_offset(
            sent, base_offset, is_only_writer=self._is_only_writer
        )
        if target is None:
            reason = (
                f"{self.setup.mirror_name}: batch stored at offset {base_offset}, expected "
                f"{sent.target}"
            )
            # If fencing is impossible, the newer owner keeps the partition: check whether there is
            # one.
            then = (
                ErrorAction.REACQUIRE
                if self.transaction_mode.is_possible
                else ErrorAction.CHECK_FENCE
            )
            return self._begin_draining(ErrorReaction(action=then, reason=reason), now_s)
        assert self.map is not None
        self.map.add_acknowledged_batch(sent.batch, target=target, crc=sent.crc, now_s=now_s)
        if self.state.has_errors:
            self.state.reset_retries()
        self.counters.count_acknowledged_batch(sent, now_s=now_s, wall_ms=self._context.wall_ms())
        return [] if self.in_flight.batch_count else self._handle_all_batches_acknowledged(now_s)

    def on_produce_error(self, code: int, message: str, now_s: float) -> Instructions:
        """Handle an error code in the Produce response for the oldest batch in flight."""
        sent = self.in_flight.pop_oldest()
        self.counters.count_refused_batch(code, sent)
        reaction = error_policy.react_to_produce_error(
            self.setup,
            code=code,
            message=message,
            offset=sent.batch.source,
            next_offset=sent.batch.next_source,
            size=sent.size,
            is_split=self._reaction is None
            and self.send_queue.limits.on_batch_refused(code, sent, now_s),
        )
        return self._begin_draining(reaction, now_s)

    def on_produce_response_lost(self, reason: str, now_s: float) -> Instructions:
        """Handle a lost connection or a timeout, after which the outcome of the oldest batch is
        unknown."""
        self.in_flight.pop_oldest()
        return self._begin_draining(
            ErrorReaction(action=ErrorAction.BACK_OFF, reason=reason), now_s
        )

    def _handle_all_batches_acknowledged(self, now_s: float) -> Instructions:
        """Handle the state in which no batch is in flight: record skipped source offsets, then
        carry out the next pending action (halt, close, resolve producer ids, begin or end a
        transaction)."""
        assert self.map is not None
        if (
            self.paused and self.send_queue.holds_decoded_bytes
        ):  # other partitions wait for its memory
            self._drop_send_queue()
        # Open a transaction only for a staged batch: the transform may drop all that is queued.
        self._stage_next_batch()
        if not self.send_queue.queued_batches:
            self.map.record_skipped_offsets(
                self.source.position, source_epoch=self.source.epoch, now_s=now_s
            )
            if (found := self.source.obstacle) is not None and not self.transaction_mode.is_open:
                return self._begin_draining(
                    error_policy.react_to_unreadable_batch(self.setup, found), now_s
                )
        if self.state.closing:
            return self._close_partition(now_s)
        if self.source.unresolved_producers and not self.send_queue.queued_batches:
            return self._run_script_between_batches(
                target_log_tail_reader.resolve_reverse_flow_producers(
                    self._context, self.source.unresolved_producers
                ),
                now_s,
            )
        waits = self.map.must_pause_sending(now_s)
        step = self.transaction_mode.switch_to_next_transaction_step(
            next_is_old=None if waits else self.send_queue.staged_batch_needs_transaction,
            paused=self.paused,
            now_s=now_s,
        )
        return (
            []
            if step is None
            else self._run_script_between_batches(self._create_transaction_step_script(step), now_s)
        )

    # Draining: send nothing more, wait for what is in flight, then react

    def _begin_draining(self, reaction: ErrorReaction, now_s: float) -> Instructions:
        if self._reaction is None:
            self._reaction = reaction
            self.state.reason = reaction.reason
        self._drop_send_queue()
        return self._finish_draining(now_s)

    def _halt_partition(self, stop: PartitionHalt, now_s: float) -> Instructions:
        reaction = ErrorReaction(action=ErrorAction.HALT, reason=stop.message, halt=stop)
        return self._begin_draining(reaction, now_s)

    def _finish_draining(self, now_s: float) -> Instructions:
        if self.in_flight.batch_count:
            return []
        reaction, self._reaction = self._reaction, None
        assert reaction is not None
        found = self._write_pending_segment(now_s)
        return found + self._recovery.apply_error_reaction(
            reaction, self.in_flight.producer, now_s=now_s
        )

    def _write_pending_segment(self, now_s: float) -> Instructions:
        """Write the map segment if it has progress that was not written. While a transaction is
        open nothing is written, because the end of the segment is not certain until the transaction
        ends."""
        if self.map is None or not self.map.has_unwritten_progress or self.transaction_mode.is_open:
            return []
        return [self.map.create_write_instruction(now_s)]

    def _drop_send_queue(self) -> None:
        """Drop the send queue and move the fetch position back to the first dropped batch, so that
        unsent records are never counted as skipped."""
        if (first := self.send_queue.drop_all_batches()) is not None:
            self.source.rewind(first)

    # Boundaries: transactions, renewing the fence, closing

    def _run_copying_step(self, now_s: float) -> Instructions:
        assert self.map is not None
        self.send_queue.limits.expire_limits(now_s)
        found: Instructions = []
        if self.map.is_write_due(now_s) and not self.transaction_mode.is_open:
            found.append(self.map.create_write_instruction(now_s))
        if self.in_flight.batch_count or self._reaction is not None:
            return found
        return [*found, *self._handle_all_batches_acknowledged(now_s)]

    def _create_transaction_step_script(self, step: TransactionStep) -> Script[object]:
        producer, to = self.in_flight.producer, self.in_flight.next_target
        return partition_transactions.create_transaction_step_script(
            step, producer, next_target=to, context=self._context
        )

    def _run_script_between_batches(self, script: Script[object], now_s: float) -> Instructions:
        assert not self.in_flight.batch_count
        # While a transaction is open no map segment is written, so write the pending one now.
        news = self._write_pending_segment(now_s)
        self.state.begin_pause_between_batches()
        return [
            *news,
            *self.script_runner.start_script(
                script, self._on_script_between_batches_done, now_s=now_s
            ),
        ]

    def _on_script_between_batches_done(self, outcome: object, now_s: float) -> Instructions:
        assert self.map is not None
        match outcome:
            case TransactionOpened():
                self.transaction_mode.record_opened_transaction(self.map.through)
                return self._resume_copying(now_s)
            case TransactionMarkerWritten():
                return self._on_marker_written(outcome, now_s)
            case ReverseFlowProducersResolved():
                self.source.unresolved_producers = ()
                return self._resume_copying(now_s)
        self._drop_send_queue()
        return self._recovery.on_script_failed(outcome, now_s)

    def _on_marker_written(self, outcome: TransactionMarkerWritten, now_s: float) -> Instructions:
        assert self.map is not None
        self.transaction_mode.record_transaction_marker(now_s)
        moved = self._is_only_writer and outcome.next_target != self.in_flight.next_target + 1
        if moved or outcome.leader_epoch != self.map.leader_epoch:
            self._drop_send_queue()
            return self._recovery.start_acquisition(now_s)
        self.in_flight.next_target = outcome.next_target
        self.map.record_transaction_marker(outcome.next_target, now_s=now_s)
        if not self.send_queue.queued_batches:
            self.map.record_skipped_offsets(
                self.source.position, source_epoch=self.source.epoch, now_s=now_s
            )
        return [self.map.create_write_instruction(now_s), *self._resume_copying(now_s)]

    def _resume_copying(self, now_s: float) -> Instructions:
        """Resume replication after a pause without batches in flight, unless the topic was
        recreated or the leader changed during the pause."""
        self.state.begin_copying()
        if self.state.recreated_topic_halt is not None:
            return self._halt_partition(self.state.recreated_topic_halt, now_s)
        return self._reacquire_from_new_leader(now_s)

    # Closing

    def close(self, now_s: float) -> Instructions:
        """Shut down gracefully: wait for the batches in flight, then write the last map segment."""
        self.state.closing = True
        self._drop_send_queue()
        if self.state.phase is _COPYING:
            return self._run_copying_step(now_s)
        self._recovery.close()
        return []

    def _close_partition(self, now_s: float) -> Instructions:
        if self.transaction_mode.is_open:
            return self._run_script_between_batches(
                self._create_transaction_step_script(TransactionStep.COMMIT), now_s
            )
        assert not self.in_flight.batch_count
        self.state.close()
        return self._write_pending_segment(now_s)

    @property
    def is_all_progress_recorded(self) -> bool:
        """Return True if every written map segment is stored. While replicating, all acknowledged
        batches must be recorded too."""
        if self.map is None:
            return True
        if self.state.phase in (_COPYING, PartitionPhase.BOUNDARY):
            return self.map.is_all_progress_recorded
        return not self.map.has_unstored_segments

    def check_invariants(self) -> None:
        self.in_flight.check_invariants()
        self.send_queue.check_invariants()
        if self.map is not None:
            self.map.check_invariants()
            oldest = self.in_flight.oldest_source_offset
            assert oldest is None or self.map.through <= oldest, self.map
            if self.state.phase is _COPYING:
                assert self.source.position >= self.map.through, (self.source.position, self.map)
