"""Acquires a partition: fences older writers and finds the position at which to resume.

The offset map is read, the target's last batches are compared with the source (tail matching), and
the first map segment is stored. Start, restart, leader change and recovery all use this procedure.
A new epoch of the partition's transactional id, followed by an empty transaction whose marker is
read back, ensures that no older writer can append. The content of the target is then read and
compared, never assumed.

`Recovery` owns the partition's state while nothing is in flight: waiting, acquiring, halted, fenced
or closed. It does not handle batches. `RecoveryScriptRunner` runs one script (a generator of
instructions) at a time and passes the answer to each instruction back to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from mm2.formats.offset_map_records import Era
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import (
    hanging_transactions,
    mirror_generations,
    offset_map_writer,
    partition_halt_messages,
    partition_resume_point,
    partition_transactions,
    producer_fencing,
    recovery_outcomes,
    takeover_from_java,
)
from mm2.replication.error_policy import ErrorAction, ErrorReaction
from mm2.replication.offset_map_writer import MapWriter
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_resume_point import ResumePosition
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.partition_state import PartitionPhase, PartitionState
from mm2.replication.producer_fencing import (
    FencingDenied,
    FencingInterrupted,
    NewerOwner,
    ProducerFence,
)
from mm2.replication.recovery_instructions import (
    Instruction,
    InstructionAnswer,
    InstructionDone,
    ProducerIdentity,
    RecoveredState,
    RefreshTargetMetadata,
    Script,
)
from mm2.replication.recovery_outcomes import (
    OwnershipLost,
    PartitionAcquired,
    RecoveryAttempt,
    RecoveryContext,
    RecoveryOutcome,
    RetryRecovery,
)
from mm2.topics.flow_config import DeliveryMode

OnScriptEnd = Callable[[object, float], list[Instruction]]
"""Callback at the end of a script (a generator of instructions). Receives the script's return value
and the time (monotonic seconds), and returns the next instructions."""


@dataclass(slots=True)
class RecoveryScriptRunner:
    """Runs one script (a generator of instructions) at a time and passes it the response to each
    instruction.

    Invariant: a running script has exactly one outstanding instruction.
    """

    setup: PartitionSetup
    token: int = 0
    """Number that changes whenever a script (generator of instructions) starts or is abandoned. A
    response with an older token is for a script that has ended."""
    _script: Script[object] | None = None
    _outstanding: Instruction | None = None
    _on_end: OnScriptEnd | None = None

    @property
    def is_running(self) -> bool:
        return self._script is not None

    def start_script(
        self, script: Script[object], on_end: OnScriptEnd, *, now_s: float
    ) -> list[Instruction]:
        """Run a script (a generator of instructions) up to its first instruction. `on_end` is
        called with the script's result."""
        assert self._script is None
        self._script, self._on_end = self._convert_damage_to_halt(script), on_end
        self.token += 1
        return self._advance_script(None, now_s)

    def _convert_damage_to_halt(self, script: Script[object]) -> Script[object]:
        """Convert an unreadable batch on the mirror to a halt of this partition only."""
        try:
            return (yield from script)
        except DamagedBatchError as error:
            return partition_halt_messages.build_mirror_unreadable_halt(
                self.setup, offset=error.base_offset, reason=str(error)
            )

    def on_response(self, answer: InstructionAnswer, now_s: float) -> list[Instruction]:
        """Resume the script (generator of instructions) with the response to its outstanding
        instruction. Return the next instructions."""
        assert self._script is not None, answer
        return self._advance_script(answer, now_s)

    def is_instruction_outstanding(self, instruction: Instruction) -> bool:
        """Return True if this instruction is outstanding."""
        return instruction is self._outstanding

    def abandon_script(self) -> None:
        """Close the running script (generator of instructions) and ignore the response to its
        outstanding instruction."""
        assert self._script is not None
        self._script.close()
        self._script = self._outstanding = None
        self.token += 1

    def _advance_script(self, answer: InstructionAnswer | None, now_s: float) -> list[Instruction]:
        assert self._script is not None
        assert self._on_end is not None
        try:
            question = next(self._script) if answer is None else self._script.send(answer)
        except StopIteration as end:
            self._script = self._outstanding = None
            return self._on_end(end.value, now_s)
        self._outstanding = question
        return [question]


def recover_partition(context: RecoveryContext) -> Script[RecoveryOutcome]:
    """Try once to acquire the partition. After `RetryRecovery`, the caller tries again with a
    backoff."""
    wanted = context.setup.delivery is not DeliveryMode.AT_LEAST_ONCE
    fenced = yield from producer_fencing.fence_partition(use_fence=wanted)
    if not isinstance(fenced, ProducerFence):
        return recovery_outcomes.convert_fencing_failure(context.setup, fenced)
    known = yield from recovery_outcomes.read_recovered_state(context)
    if not isinstance(known, RecoveredState):
        return known
    attempt = RecoveryAttempt(context=context, fence=fenced, state=known)
    context.own_producers.update(known.producers)
    is_requested = known.request is not None
    recreated = None if is_requested else check_topic_ids(context.setup, known.era)
    if recreated is not None:
        return recreated
    hanging = yield from hanging_transactions.find_hanging_transaction(attempt)
    if hanging is not None:
        return hanging
    if is_requested:
        return (yield from mirror_generations.begin_requested_era(attempt))
    if known.era is None and known.resume_point is not None:
        return partition_halt_messages.build_era_missing_halt(
            context.setup, known.resume_point.key.era
        )
    if known.era is None:
        begin = (
            mirror_generations.begin_first_era
            if known.java is None
            else takeover_from_java.take_over_mirror
        )
        return (yield from begin(attempt))
    position = yield from partition_resume_point.find_resume_position(attempt)
    if not isinstance(position, ResumePosition):
        return position
    return (yield from partition_resume_point.match_and_resume(attempt, position))


def check_topic_ids(setup: PartitionSetup, era: Era | None) -> PartitionHalt | None:
    """Return a halt if a topic id differs from the one stored with the era (generation of the
    mirror), because the topic was recreated under the same name."""
    if era is None:
        return None
    sides = (
        (False, era.source_topic_id, setup.source_topic_id),
        (True, era.target_topic_id, setup.target_topic_id),
    )
    found = (
        partition_halt_messages.halt_if_topic_recreated(
            setup, on_target=on_target, was=was, now=now
        )
        for on_target, was, now in sides
    )
    return next((stop for stop in found if stop is not None), None)


def acquire_partition(
    context: RecoveryContext, now_s: float
) -> Script[RecoveryOutcome | tuple[PartitionAcquired, MapWriter]]:
    """Run `recover_partition`, then store the first offset map segment of the new producer epoch.
    No batch may be sent before the segment is stored."""
    outcome = yield from recover_partition(context)
    if not isinstance(outcome, PartitionAcquired):
        return outcome
    written = offset_map_writer.create_map_writer(context, outcome)
    first = written.create_write_instruction(now_s)
    stored = yield first
    if not isinstance(stored, InstructionDone):
        return RetryRecovery(reason="storing the first map segment failed")
    written.on_segments_stored(first.token)
    return outcome, written


Instructions = list[Instruction]
OnAcquired = Callable[[PartitionAcquired, MapWriter, float], Instructions]
"""Callback that receives the acquired partition, its map writer and the time (monotonic seconds),
and returns the next instructions."""

_Phase = PartitionPhase

FENCED_REASON = "fenced; reacquired once the worker group assigns the partition to this worker"
_METADATA_GRACE_S = 10.0
"""Time in seconds for which brokers may report stale metadata. If a broker reports another topic id
and then the replicated topic's id again, acquisition waits for this time."""


class PartitionRecovery:
    """Controls a partition while it is not being replicated: acquires it, retries or halts it after
    errors, and checks for newer owners.

    Invariant: the phase is ACQUIRING exactly while a script (a generator of instructions) of this
    object is running.
    """

    def __init__(
        self,
        context: RecoveryContext,
        *,
        state: PartitionState,
        runner: RecoveryScriptRunner,
        random: Random,
        on_acquired: OnAcquired,
    ) -> None:
        self._context = context
        self._state = state
        self._runner = runner
        self._random = random
        self._on_acquired = on_acquired

    def tick(self, now_s: float, *, paused: bool) -> Instructions:
        """Acquire the partition if its retry is due, and close it if shutdown was requested."""
        if not self._state.is_idle:
            return []
        if self._state.closing:
            self._state.close()
            return []
        if now_s >= self._state.wake_at_s and not paused:
            return self.start_acquisition(now_s)
        return []

    def start_acquisition(self, now_s: float) -> Instructions:
        """Start the script `acquire_partition`. If shutdown was requested, close the partition
        instead; if the topic was recreated, halt it."""
        if self._close_or_halt_partition(now_s):
            return []
        self._state.begin_acquiring()
        script = acquire_partition(self._context, now_s)
        return self._runner.start_script(script, self._handle_acquisition_outcome, now_s=now_s)

    def _close_or_halt_partition(self, now_s: float) -> bool:
        """Close the partition if shutdown was requested, or halt it if the topic was recreated.
        Return True if either was done."""
        if self._state.closing:
            self._state.close()
        elif self._state.recreated_topic_halt is not None:
            self._state.halt_partition(self._state.recreated_topic_halt, now_s)
        else:
            return False
        return True

    def _handle_acquisition_outcome(self, outcome: object, now_s: float) -> Instructions:
        match outcome:
            case (PartitionAcquired() as taken, MapWriter() as written):
                return self._on_acquired(taken, written, now_s)
            case _:
                return self.on_script_failed(outcome, now_s)

    def retry_after_backoff(
        self, reason: str, now_s: float, *, halt_if_persistent: PartitionHalt | None = None
    ) -> Instructions:
        """Acquire the partition again after a backoff, or halt with `halt_if_persistent` if the
        error persisted for too many retries."""
        if halt_if_persistent is not None and self._state.record_error_and_check_persistence(
            halt_if_persistent, now_s
        ):
            self._state.halt_partition(halt_if_persistent, now_s)
            return []
        self._state.begin_backoff(reason, now_s, random=self._random)
        return [RefreshTargetMetadata()]

    def check_fence(self, fenced_producer: ProducerIdentity, now_s: float) -> Instructions:
        """Check whether another owner fenced this owner. `fenced_producer` is the producer id and
        epoch that the target rejected.

        A worker group moves partitions between workers, and only the worker to which the group
        assigns a partition acquires it. If this worker is fenced repeatedly while the group assigns
        the partition to it, another group runs the same flow.
        """
        if self._close_or_halt_partition(now_s):
            return []
        if self._context.setup.in_group and not self._state.record_error_and_check_persistence(
            self._build_fenced_halt, now_s
        ):
            return self.retry_after_backoff(FENCED_REASON, now_s)
        self._state.begin_owner_check()
        script = partition_transactions.find_new_owner(
            self._context, fenced_producer=fenced_producer
        )
        return self._runner.start_script(script, self._handle_owner_check_outcome, now_s=now_s)

    def _handle_owner_check_outcome(self, by_another: object, now_s: float) -> Instructions:
        if isinstance(by_another, PartitionHalt):
            return self.on_script_failed(by_another, now_s)
        if not by_another:
            return self.retry_after_backoff("fenced, but no other owner was found", now_s)
        if self._context.setup.in_group:
            self._state.halt_partition(self._build_fenced_halt, now_s)
        else:
            self._state.mark_fenced(self._build_fenced_halt)
        return []

    @property
    def _build_fenced_halt(self) -> PartitionHalt:
        return partition_halt_messages.build_fenced_halt(self._context.setup)

    def on_script_failed(self, outcome: object, now_s: float) -> Instructions:
        """React to a script (a generator of instructions) that ended without the expected
        result."""
        match outcome:
            case RetryRecovery():
                return self.retry_after_backoff(
                    outcome.reason, now_s, halt_if_persistent=outcome.halt_if_persistent
                )
            case OwnershipLost():
                return self.check_fence(outcome.fenced_producer, now_s)
            case PartitionHalt():
                self._state.halt_partition(outcome, now_s)
                return []
            case NewerOwner() | FencingDenied() | FencingInterrupted():
                return self.on_script_failed(
                    recovery_outcomes.convert_fencing_failure(self._context.setup, outcome), now_s
                )
        raise AssertionError(outcome)

    def apply_error_reaction(
        self,
        reaction: ErrorReaction,
        producer: ProducerIdentity,
        *,
        now_s: float,
    ) -> Instructions:
        """Carry out the reaction to an error once no batch is in flight."""
        match reaction.action:
            case ErrorAction.REACQUIRE:
                return self.start_acquisition(now_s)
            case ErrorAction.BACK_OFF:
                return self.retry_after_backoff(
                    reaction.reason, now_s, halt_if_persistent=reaction.halt
                )
            case ErrorAction.CHECK_FENCE:
                return self.check_fence(producer, now_s)
            case ErrorAction.HALT:
                assert reaction.halt is not None
                passed = self._state.recreated_topic_halt is None
                if passed and reaction.halt.cause is HaltCause.RECREATED:
                    return self._retry_after_stale_metadata(now_s)
                self._state.halt_partition(reaction.halt, now_s)
                return []

    # Changes that arrive from outside

    def on_topic_id_received(
        self, topic_id: bytes, now_s: float, *, on_target: bool
    ) -> Instructions:
        """Block acquisition while the topic id of one cluster differs from the replicated topic's.

        A broker with stale metadata may report an outdated topic id, so the block ends when the
        replicated topic's id is reported again.
        """
        setup = self._context.setup
        ours = setup.target_topic_id if on_target else setup.source_topic_id
        stop = partition_halt_messages.halt_if_topic_recreated(
            setup, on_target=on_target, was=ours, now=topic_id
        )
        others = self._state.replaced_topics
        if stop is not None and on_target not in others:
            others[on_target] = stop
            self._halt_for_recreated_topic(stop, now_s)
        elif topic_id == ours and on_target in others:
            told = others.pop(on_target)
            if self._state.phase is _Phase.HALTED and self._state.halt is told:
                return self._retry_after_stale_metadata(now_s)
        return []

    def _halt_for_recreated_topic(self, stop: PartitionHalt, now_s: float) -> None:
        if self._state.phase is _Phase.ACQUIRING:
            self._runner.abandon_script()
            self._close_or_halt_partition(now_s)
        elif self._state.is_idle:
            self._state.halt_partition(stop, now_s)

    def _retry_after_stale_metadata(self, now_s: float) -> Instructions:
        if self._state.recreated_topic_halt is not None:  # on the other side
            self._state.halt_partition(self._state.recreated_topic_halt, now_s)
            return []
        found = self.retry_after_backoff(
            "a broker reported another topic id, then the replicated topic's again", now_s
        )
        self._state.wake_at_s = now_s + _METADATA_GRACE_S
        self._state.halt = None
        return found

    def close(self) -> None:
        """Close a partition that is not being replicated. If a transaction is being begun or ended,
        that step is completed first."""
        if self._state.phase is _Phase.ACQUIRING:
            self._runner.abandon_script()
            self._state.close()
        elif self._state.is_idle:
            self._state.close()
