"""Inputs and outcomes of acquiring a partition: acquired, retry, ownership lost, halted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mm2.formats.offset_map_records import OffsetRun
from mm2.replication import partition_halt_messages, producer_fencing, target_log_tail_matching
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import RecordTransform
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
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
from mm2.replication.target_log_tail_matching import SegmentSplitPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryContext:
    """Inputs for the acquisition of a partition."""

    setup: PartitionSetup
    owner: bytes
    """Id of this worker, stored in each map segment that the worker writes."""
    wall_ms: Callable[[], int]
    """Returns the wall-clock time in ms. Used only for incidents."""
    transform: RecordTransform | None = None
    memory_budget: MemoryBudget = field(
        default_factory=target_log_tail_matching.create_unshared_memory_budget
    )
    """The task's memory budget for decoded batches."""
    reverse_flow_filter: ReverseFlowFilter = field(default_factory=ReverseFlowFilter)
    """Tracks which producer ids on the source belong to the reverse flow, so that their records are
    skipped."""
    own_producers: set[int] = field(default_factory=set)
    """Producer ids of this flow, read from the offset map when the partition was acquired."""

    @property
    def reverse_producers(self) -> Mapping[int, bool] | None:
        """Maps each known source producer id to True if it belongs to the reverse flow; None if no
        reverse flow writes to the source topic."""
        return self.reverse_flow_filter.is_reverse_by_id if self.setup.opposite_map else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAttempt:
    """A fenced partition, with the state recovered from the map topic after fencing."""

    context: RecoveryContext
    fence: ProducerFence
    state: RecoveredState

    @property
    def setup(self) -> PartitionSetup:
        return self.context.setup

    @property
    def ordinal(self) -> int:
        """Ordinal of this owner's producer id: its rank among all ids that have written the
        partition.

        A stored ordinal is not reused if another id also has it, or if it is lower than the ordinal
        of the newest resume point or era (generation of the mirror). Both cases occur only if
        another owner has written without using the partition's transactional id. Two unfenced
        owners may read the same map, so the producer id (modulo `UNFENCED_ORDINAL_MODULUS`) is
        added to keep their ordinals apart.
        """
        number = self.fence.producer.id
        places = list(self.state.producers.values())
        held = self.state.producers.get(number)
        anchor = self.state.resume_point
        newest = max(anchor.key.ordinal if anchor is not None else 0, self.state.era_ordinal)
        if held is not None and held >= newest and places.count(held) == 1:
            return held
        apart = 0 if self.fence.is_fenced else number % UNFENCED_ORDINAL_MODULUS
        return max([newest, *places]) + 1 + apart


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAcquired:
    """An acquired partition, whose replication continues at source offset `source`.

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
    """Offset runs (ranges with a constant difference between source and target offset) that tail
    matching determined."""
    junctions: tuple[SegmentSplitPoint, ...] = ()
    """Positions at which `runs` may be split into segments."""
    is_fenced: bool = True
    """False if older owners may still write."""
    already_stored: int = 0
    """Number of records that were on the target but not in the map. They are not replicated
    again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecovery:
    """The acquisition attempt failed because of a concurrent change. The attempt is repeated after
    a backoff."""

    reason: str
    halt_if_persistent: PartitionHalt | None = None
    """The halt to apply if the error persists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipLost:
    """During the acquisition, another owner was granted a newer epoch than this owner's producer,
    `fenced_producer`."""

    fenced_producer: ProducerIdentity


RecoveryOutcome = PartitionAcquired | RetryRecovery | OwnershipLost | PartitionHalt


def convert_fencing_failure(setup: PartitionSetup, failure: FencingFailure) -> RecoveryOutcome:
    """Convert a failure to write or read this owner's transaction marker to an outcome of the
    acquisition."""
    match failure:
        case NewerOwner():
            return OwnershipLost(fenced_producer=failure.fenced_producer)
        case FencingDenied():
            return partition_halt_messages.build_access_denied_halt(
                setup,
                failure.message,
                code=failure.code,
                retry_after_s=producer_fencing.DENIED_RETRY_DELAY_S,
            )
        case FencingInterrupted():
            return RetryRecovery(reason=failure.reason)


def retry_after_failed_instruction(operation: str, answer: InstructionAnswer) -> RetryRecovery:
    """Build the retry outcome for an instruction that was rejected or timed out."""
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
    """Read the partition's recovered state from the offset map. Return a halt if a map record that
    may belong to the partition is unreadable.

    If `target` is a target offset, its source position is also looked up. Scripts (generators of
    instructions) must not read the state in any other way, because only this function checks for
    unreadable map records.
    """
    known = yield ReadRecoveredState(target_offset=target)
    if not isinstance(known, RecoveredState):
        return retry_after_failed_instruction("reading the offset map", known)
    if known.unreadable is not None:
        return partition_halt_messages.build_map_unreadable_halt(context.setup, known.unreadable)
    return known


def retry_after_empty_reads(operation: str) -> RetryRecovery:
    """Build a retry because repeated reads of a log returned no new records."""
    return RetryRecovery(
        reason=f"{operation}: the broker returned no new records in {EMPTY_READS_MAX} reads"
    )


UNFENCED_ORDINAL_MODULUS = 997
"""Modulus applied to a producer id before it is added to the ordinal of an unfenced owner. Brokers
allocate producer ids in blocks of 1,000."""
EMPTY_READS_MAX = 50
"""Maximum number of Fetch requests without new records before an attempt to acquire is abandoned.
The broker delays each response for a short time while there are no new records."""
