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
    """Inputs for acquiring a partition."""

    setup: PartitionSetup
    owner: bytes
    """Identifies this worker in map segments."""
    wall_ms: Callable[[], int]
    """Wall clock in ms, read for incidents only."""
    transform: RecordTransform | None = None
    memory_budget: MemoryBudget = field(default_factory=tail_matching.create_unshared_budget)
    """Memory budget of the task, for decoded batches."""
    reverse_flow_filter: ReverseFlowFilter = field(default_factory=ReverseFlowFilter)
    """Known producers of the source, for skipping the reverse flow's records."""
    own_producers: set[int] = field(default_factory=set)
    """Producer ids of this flow, as read when the partition was acquired."""

    @property
    def reverse_producers(self) -> Mapping[int, bool] | None:
        """Whether each known source producer belongs to the reverse flow; None without a reverse
        flow."""
        return self.reverse_flow_filter.is_reverse_by_id if self.setup.opposite_map else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAttempt:
    """A fenced partition, and the state that was recovered from the map topic afterwards."""

    context: RecoveryContext
    fence: ProducerFence
    state: RecoveredState

    @property
    def setup(self) -> PartitionSetup:
        return self.context.setup

    @property
    def ordinal(self) -> int:
        """Ordinal of our producer id among all that ever wrote the partition.

        A stored ordinal is not reused if another id has it too, or if it is below that of the
        newest resume point or era, because then our transactional id was not used in between. Two
        unfenced owners may read the same map: the producer id keeps their ordinals apart.
        """
        number = self.fence.producer.id
        places = list(self.state.producers.values())
        held = self.state.producers.get(number)
        anchor = self.state.anchor
        newest = max(anchor.key.ordinal if anchor is not None else 0, self.state.era_ordinal)
        if held is not None and held >= newest and places.count(held) == 1:
            return held
        apart = 0 if self.fence.is_fenced else number % UNFENCED_ORDINAL_MODULUS
        return max([newest, *places]) + 1 + apart


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAcquired:
    """An acquired partition: copying continues at source offset `source`.

    The first map segment must be stored before the first batch is sent.
    """

    producer: ProducerIdentity
    leader_epoch: int
    era: int
    ordinal: int
    match_start: int
    """Source offset at which tail matching began."""
    source: int
    target: int
    """The target's next data offset."""
    source_epoch: int = -1
    runs: tuple[OffsetRun, ...] = ()
    """Offset map learned by tail matching."""
    junctions: tuple[Junction, ...] = ()
    """Where `runs` may be divided into segments."""
    is_fenced: bool = True
    """False if older owners may still write."""
    already_stored: int = 0
    """Number of records that were on the target but not in the map; not copied again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecovery:
    """The attempt failed because something changed; it is repeated after a backoff."""

    reason: str
    halt_if_persistent: PartitionHalt | None = None
    """The halt that follows if the error persists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipLost:
    """While the partition was acquired, another owner got a newer epoch than `fenced_producer`,
    which was ours."""

    fenced_producer: ProducerIdentity


RecoveryOutcome = PartitionAcquired | RetryRecovery | OwnershipLost | PartitionHalt


def convert_fencing_failure(setup: PartitionSetup, failure: FencingFailure) -> RecoveryOutcome:
    """Convert a failure to write or read the marker to an outcome."""
    match failure:
        case NewerOwner():
            return OwnershipLost(fenced_producer=failure.fenced_producer)
        case FencingDenied():
            return halts.halt_denied(
                setup,
                failure.message,
                code=failure.code,
                retry_after_s=producer_fencing.DENIED_RETRY_DELAY_S,
            )
        case FencingInterrupted():
            return RetryRecovery(reason=failure.reason)


def retry_after_answer(operation: str, answer: InstructionAnswer) -> RetryRecovery:
    """Retry because an instruction was refused or not answered."""
    match answer:
        case InstructionRefused():
            why = answer.message or f"error {answer.code}"
        case NoResponse():
            why = answer.reason
        case _:
            raise AssertionError(f"{operation}: answered with {answer}")
    return RetryRecovery(reason=f"{operation}: {why}")


def read_recovered_state(
    context: RecoveryContext, *, target: int | None = None
) -> Script[RecoveredState | RetryRecovery | PartitionHalt]:
    """Read the partition's recovered state; `target` as in `ReadRecoveredState`.

    Scripts must read it only here: returns a halt if a map record that may concern the partition is
    unreadable.
    """
    known = yield ReadRecoveredState(target_offset=target)
    if not isinstance(known, RecoveredState):
        return retry_after_answer("reading the offset map", known)
    if known.unreadable is not None:
        return halts.halt_map_unreadable(context.setup, known.unreadable)
    return known


def retry_after_empty_reads(operation: str) -> RetryRecovery:
    """Retry because reads keep returning nothing."""
    return RetryRecovery(
        reason=f"{operation}: the broker returned nothing new in {EMPTY_READS_MAX} reads"
    )


UNFENCED_ORDINAL_MODULUS = 997
"""Brokers allocate producer ids in blocks of 1,000."""
EMPTY_READS_MAX = 50
"""Reads without new records (each waits briefly at the broker) before an attempt is given up."""
