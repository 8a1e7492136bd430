"""Acquires a partition: fences, reads the map, matches the target's tail, stores a first segment.

The same path serves start, restart, leader change and recovery. A new epoch of the partition's
own transactional id and an empty transaction, whose marker is read back, make sure that nobody
else can write. What is on the target is then read and compared, never assumed.

`Recovery` owns the partition's state while nothing is in flight: waiting, acquiring, halted,
fenced or closed. It knows nothing of batches. `ScriptRunner` runs one script at a time and
matches answers to its instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from mm2.formats.offset_map_records import Era
from mm2.formats.record_sets import DamagedBatchError
from mm2.replication import (
    eras,
    halts,
    hanging_transactions,
    java_takeover,
    map_writer,
    producer_fencing,
    recovery_outcomes,
    resume,
    transactions,
)
from mm2.replication.error_policy import ErrorAction, ErrorReaction
from mm2.replication.halts import HaltCause, PartitionHalt
from mm2.replication.map_writer import MapWriter
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
from mm2.replication.resume import ResumePosition
from mm2.replication.setup import PartitionSetup
from mm2.topics.flow_config import DeliveryMode

OnScriptEnd = Callable[[object, float], list[Instruction]]
"""Gets what the script returned and the time (monotonic seconds); says what to do next."""


@dataclass(slots=True)
class ScriptRunner:
    """Invariant: while a script runs, exactly one question of it is out.

    `token` changes with every start and every abandonment: an answer that comes with an older one
    belongs to a script that is gone.
    """

    where: PartitionSetup
    token: int = 0
    _script: Script[object] | None = None
    _question: Instruction | None = None
    _on_end: OnScriptEnd | None = None

    @property
    def running(self) -> bool:
        return self._script is not None

    def start(
        self, script: Script[object], on_end: OnScriptEnd, *, now_s: float
    ) -> list[Instruction]:
        assert self._script is None
        self._script, self._on_end = self._guarded(script), on_end
        self.token += 1
        return self._step(None, now_s)

    def _guarded(self, script: Script[object]) -> Script[object]:
        """What a script cannot read on the mirror stops this partition, and no other."""
        try:
            return (yield from script)
        except DamagedBatchError as error:
            return halts.halt_mirror_unreadable(
                self.where, offset=error.base_offset, why=str(error)
            )

    def answered(self, answer: InstructionAnswer, now_s: float) -> list[Instruction]:
        assert self._script is not None, answer
        return self._step(answer, now_s)

    def asks(self, instruction: Instruction) -> bool:
        """Is this the question that is out?"""
        return instruction is self._question

    def abandon(self) -> None:
        assert self._script is not None
        self._script.close()
        self._script = self._question = None
        self.token += 1

    def _step(self, answer: InstructionAnswer | None, now_s: float) -> list[Instruction]:
        assert self._script is not None
        assert self._on_end is not None
        try:
            question = next(self._script) if answer is None else self._script.send(answer)
        except StopIteration as end:
            self._script = self._question = None
            return self._on_end(end.value, now_s)
        self._question = question
        return [question]


def recover_partition(context: RecoveryContext) -> Script[RecoveryOutcome]:
    """One attempt. What ends in `BeginAgain` may be tried again after a backoff."""
    wanted = context.where.delivery is not DeliveryMode.AT_LEAST_ONCE
    fenced = yield from producer_fencing.fence_partition(wanted=wanted)
    if not isinstance(fenced, ProducerFence):
        return recovery_outcomes.convert_fencing_failure(context.where, fenced)
    known = yield from recovery_outcomes.read_recovered_state(context)
    if not isinstance(known, RecoveredState):
        return known
    attempt = RecoveryAttempt(context=context, fence=fenced, known=known)
    context.ours.update(known.producers)
    asked = known.request is not None
    another_topic = None if asked else check_topic_ids(context.where, known.era)
    if another_topic is not None:
        return another_topic
    hinders = yield from hanging_transactions.find_hanging_transaction(attempt)
    if hinders is not None:
        return hinders
    if asked:
        return (yield from eras.begin_requested_era(attempt))
    if known.era is None and known.anchor is not None:
        return halts.halt_era_missing(context.where, known.anchor.key.era)
    if known.era is None:
        begin = eras.begin_first_era if known.java is None else java_takeover.take_over_mirror
        return (yield from begin(attempt))
    position = yield from resume.find_resume_position(attempt)
    if not isinstance(position, ResumePosition):
        return position
    return (yield from resume.match_and_resume(attempt, position))


def check_topic_ids(where: PartitionSetup, era: Era | None) -> PartitionHalt | None:
    """A topic id other than the era's: the name is the same, the topic is not."""
    if era is None:
        return None
    sides = (
        (False, era.source_topic_id, where.source_topic_id),
        (True, era.target_topic_id, where.target_topic_id),
    )
    found = (
        halts.halt_if_recreated(where, on_target=on_target, was=was, now=now)
        for on_target, was, now in sides
    )
    return next((stop for stop in found if stop is not None), None)


def acquire(
    context: RecoveryContext, now_s: float
) -> Script[RecoveryOutcome | tuple[PartitionAcquired, MapWriter]]:
    """`recover_partition`, and then the first anchor under the new epoch stored: only now may
    batches go out."""
    outcome = yield from recover_partition(context)
    if not isinstance(outcome, PartitionAcquired):
        return outcome
    written = map_writer.create_map_writer(context, outcome)
    first = written.write(now_s)
    stored = yield first
    if not isinstance(stored, InstructionDone):
        return RetryRecovery(reason="recording the first anchor")
    written.recorded(first.token)
    return outcome, written


Instructions = list[Instruction]
OnAcquired = Callable[[PartitionAcquired, MapWriter, float], Instructions]
"""Gets the time (monotonic seconds) last; says what to do next."""

_Phase = PartitionPhase

FENCED_REASON = "fenced; it is taken again once the workers' group says that it is ours"
_METADATA_GRACE_S = 10.0
"""Brokers are that late with news at most: so long our topic must be seen again to be believed."""


class Recovery:
    """Invariant: the phase is TAKING exactly while a script of this object runs."""

    def __init__(
        self,
        context: RecoveryContext,
        *,
        state: PartitionState,
        runner: ScriptRunner,
        random: Random,
        taken: OnAcquired,
    ) -> None:
        self._context = context
        self._standing = state
        self._runner = runner
        self._random = random
        self._taken = taken

    def tick(self, now_s: float, *, paused: bool) -> Instructions:
        """Take what has waited long enough; end what is to end."""
        if not self._standing.idle:
            return []
        if self._standing.closing:
            self._standing.close()
            return []
        if now_s >= self._standing.wake_at_s and not paused:
            return self.take(now_s)
        return []

    def take(self, now_s: float) -> Instructions:
        if self._over(now_s):
            return []
        self._standing.take()
        script = acquire(self._context, now_s)
        return self._runner.start(script, self._after_take, now_s=now_s)

    def _over(self, now_s: float) -> bool:
        """Is there nothing to go on with: asked to end, or another topic has this name now?"""
        if self._standing.closing:
            self._standing.close()
        elif self._standing.recreated is not None:
            self._standing.stand_still(self._standing.recreated, now_s)
        else:
            return False
        return True

    def _after_take(self, outcome: object, now_s: float) -> Instructions:
        match outcome:
            case (PartitionAcquired() as taken, MapWriter() as written):
                return self._taken(taken, written, now_s)
            case _:
                return self.failed(outcome, now_s)

    def wait(
        self, reason: str, now_s: float, *, lasting: PartitionHalt | None = None
    ) -> Instructions:
        """Take again after a backoff; what goes on for too many tries is the stop `lasting`."""
        if lasting is not None and self._standing.lasts(lasting, now_s):
            self._standing.stand_still(lasting, now_s)
            return []
        self._standing.wait(reason, now_s, random=self._random)
        return [RefreshTargetMetadata()]

    def check_fence(self, than: ProducerIdentity, now_s: float) -> Instructions:
        """Somebody got a newer epoch than `than`, which was ours: was it another owner?

        A group hands the partition to another worker now and then: whoever it says owns the
        partition acquires it, and is the only one who may. Only if this worker is fenced again and
        again, and owns the partition each time, another group runs the flow, too.
        """
        if self._over(now_s):
            return []
        if self._context.where.in_group and not self._standing.lasts(self._fenced, now_s):
            return self.wait(FENCED_REASON, now_s)
        self._standing.ask_by_whom()
        script = transactions.find_new_owner(self._context, than=than)
        return self._runner.start(script, self._after_check, now_s=now_s)

    def _after_check(self, by_another: object, now_s: float) -> Instructions:
        if isinstance(by_another, PartitionHalt):
            return self.failed(by_another, now_s)
        if not by_another:
            return self.wait("fenced, and no other owner has appeared", now_s)
        if self._context.where.in_group:
            self._standing.stand_still(self._fenced, now_s)
        else:
            self._standing.fence_off(self._fenced)
        return []

    @property
    def _fenced(self) -> PartitionHalt:
        return halts.halt_fenced(self._context.where)

    def failed(self, outcome: object, now_s: float) -> Instructions:
        """A script, of a take or at a boundary, came to something else than was wished."""
        match outcome:
            case RetryRecovery():
                return self.wait(outcome.reason, now_s, lasting=outcome.lasting)
            case OwnershipLost():
                return self.check_fence(outcome.than, now_s)
            case PartitionHalt():
                self._standing.stand_still(outcome, now_s)
                return []
            case NewerOwner() | FencingDenied() | FencingInterrupted():
                return self.failed(
                    recovery_outcomes.convert_fencing_failure(self._context.where, outcome), now_s
                )
        raise AssertionError(outcome)

    def react(
        self,
        reaction: ErrorReaction,
        producer: ProducerIdentity,
        *,
        now_s: float,
    ) -> Instructions:
        """Nothing is in flight any more: do what was decided when the copying broke off."""
        match reaction.then:
            case ErrorAction.TAKE:
                return self.take(now_s)
            case ErrorAction.BACK_OFF:
                return self.wait(reaction.reason, now_s, lasting=reaction.stop)
            case ErrorAction.CHECK_FENCE:
                return self.check_fence(producer, now_s)
            case ErrorAction.STOP:
                assert reaction.stop is not None
                passed = self._standing.recreated is None
                if passed and reaction.stop.cause is HaltCause.RECREATED:
                    return self._ours_again(now_s)
                self._standing.stand_still(reaction.stop, now_s)
                return []

    # What happens meanwhile

    def topic_seen(self, topic_id: bytes, now_s: float, *, on_target: bool) -> Instructions:
        """While one side's topic is another one nothing is taken, whatever else happens first.

        A broker that is late with news may tell of the topic before ours: it is over when that
        side shows ours again.
        """
        where = self._context.where
        ours = where.target_topic_id if on_target else where.source_topic_id
        stop = halts.halt_if_recreated(where, on_target=on_target, was=ours, now=topic_id)
        others = self._standing.others
        if stop is not None and on_target not in others:
            others[on_target] = stop
            self._recreated(stop, now_s)
        elif topic_id == ours and on_target in others:
            told = others.pop(on_target)
            if self._standing.phase is _Phase.STOPPED and self._standing.stop is told:
                return self._ours_again(now_s)
        return []

    def _recreated(self, stop: PartitionHalt, now_s: float) -> None:
        if self._standing.phase is _Phase.TAKING:
            self._runner.abandon()
            self._over(now_s)
        elif self._standing.idle:
            self._standing.stand_still(stop, now_s)

    def _ours_again(self, now_s: float) -> Instructions:
        if self._standing.recreated is not None:  # on the other side
            self._standing.stand_still(self._standing.recreated, now_s)
            return []
        found = self.wait("a broker told of another topic, and of ours again since", now_s)
        self._standing.wake_at_s = now_s + _METADATA_GRACE_S
        self._standing.stop = None
        return found

    def close(self) -> None:
        """Asked to end while nothing is copied; a boundary is waited for."""
        if self._standing.phase is _Phase.TAKING:
            self._runner.abandon()
            self._standing.close()
        elif self._standing.idle:
            self._standing.close()
