"""Inputs and outcomes of acquiring a partition: acquired, retry, ownership lost, halted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mm2.formats.offset_map_records import OffsetRun
from mm2.replication import halts, producer_fencing, tail_matching
from mm2.replication.halts import PartitionHalt
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import RecordTransform
from mm2.replication.producer_fencing import (
    FencingDenied,
    FencingFailure,
    FencingInterrupted,
    NewerOwner,
    ProducerFence,
)
from mm2.replication.recovery_instructions import (
    InstructionAnswer,
    InstructionRefused,
    NoResponse,
    ProducerIdentity,
    ReadRecoveredState,
    RecoveredState,
    Script,
)
from mm2.replication.reverse_flow_filter import ReverseFlowFilter
from mm2.replication.setup import PartitionSetup
from mm2.replication.tail_matching import Junction


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryContext:
    """Who takes what: `owner` marks this worker's anchors, `wall_ms` is read for incidents only,
    `transform` is what is done to the records on their way. What is opened counts against `held`,
    the task's budget. `opposite`: the source's producers as far as they are known. `ours`: the
    producer ids that takes have known for ours.
    """

    where: PartitionSetup
    owner: bytes
    wall_ms: Callable[[], int]
    transform: RecordTransform | None = None
    held: MemoryBudget = field(default_factory=tail_matching.create_unshared_budget)
    opposite: ReverseFlowFilter = field(default_factory=ReverseFlowFilter)
    ours: set[int] = field(default_factory=set)

    @property
    def producers(self) -> Mapping[int, bool] | None:
        """As `opposite.Known.by_id`; None where no flow leads back."""
        return self.opposite.by_id if self.where.opposite_map else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAttempt:
    """The partition is fenced, and this is what the map topic said afterwards."""

    context: RecoveryContext
    fence: ProducerFence
    known: RecoveredState

    @property
    def where(self) -> PartitionSetup:
        return self.context.where

    @property
    def ordinal(self) -> int:
        """Our producer id's place among all that ever wrote the partition.

        A place that another id holds too is none, and neither is one below the newest anchor's or
        era's: our transactional id was not used in between. Nobody fences two owners that have no
        transactional id and read the same map: their ids keep their places apart.
        """
        number = self.fence.producer.id
        places = list(self.known.producers.values())
        held = self.known.producers.get(number)
        anchor = self.known.anchor
        newest = max(anchor.key.ordinal if anchor is not None else 0, self.known.era_ordinal)
        if held is not None and held >= newest and places.count(held) == 1:
            return held
        apart = 0 if self.fence.holds else number % UNFENCED_ORDINAL_MODULUS
        return max([newest, *places]) + 1 + apart


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAcquired:
    """The partition is ours: go on at `source`; the target's next data offset is `target`.

    Not `fenced`, older owners may still write. `take_start` is the source offset at which pairing
    began, `runs` are what it learned and `seams` where those may be cut. The first anchor must be
    stored before the first batch is sent. `spared` records were found on the target, of which no
    anchor told: they are not copied again.
    """

    producer: ProducerIdentity
    leader_epoch: int
    era: int
    ordinal: int
    take_start: int
    source: int
    target: int
    source_epoch: int = -1
    runs: tuple[OffsetRun, ...] = ()
    seams: tuple[Junction, ...] = ()
    fenced: bool = True
    spared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecovery:
    """Something moved meanwhile; `reason` says what. The whole Take starts over after a backoff.

    `lasting`: what it is if it comes again and again.
    """

    reason: str
    lasting: PartitionHalt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipLost:
    """While we took the partition, somebody got a newer epoch than `than`, which was ours."""

    than: ProducerIdentity


RecoveryOutcome = PartitionAcquired | RetryRecovery | OwnershipLost | PartitionHalt


def convert_fencing_failure(where: PartitionSetup, failure: FencingFailure) -> RecoveryOutcome:
    """What it means for the partition that its marker could not be written or read."""
    match failure:
        case NewerOwner():
            return OwnershipLost(than=failure.than)
        case FencingDenied():
            return halts.halt_denied(
                where,
                failure.message,
                code=failure.code,
                retry_after_s=producer_fencing.DENIED_RETRY_DELAY_S,
            )
        case FencingInterrupted():
            return RetryRecovery(reason=failure.reason)


def retry_after_answer(doing: str, answer: InstructionAnswer) -> RetryRecovery:
    """A question of this attempt was refused or not answered."""
    match answer:
        case InstructionRefused():
            why = answer.message or f"error {answer.code}"
        case NoResponse():
            why = answer.reason
        case _:
            raise AssertionError(f"{doing}: answered with {answer}")
    return RetryRecovery(reason=f"{doing}: {why}")


def read_recovered_state(
    context: RecoveryContext, *, target: int | None = None
) -> Script[RecoveredState | RetryRecovery | PartitionHalt]:
    """Read the partition's facts; `target` as in `ReadRecoveredState`. The only way to read
    them: returns a `Stop` if a record of the map that may concern the partition is unreadable."""
    known = yield ReadRecoveredState(target=target)
    if not isinstance(known, RecoveredState):
        return retry_after_answer("reading the offset map", known)
    if known.unreadable is not None:
        return halts.halt_map_unreadable(context.where, known.unreadable)
    return known


def retry_after_empty_reads(doing: str) -> RetryRecovery:
    return RetryRecovery(reason=f"{doing}: the broker gave nothing new in {EMPTY_READS_MAX} reads")


UNFENCED_ORDINAL_MODULUS = 997
"""Brokers give out producer ids in blocks of 1,000."""
EMPTY_READS_MAX = 50
"""Reads that bring nothing (each waits a little at the broker) before an attempt is given up."""
