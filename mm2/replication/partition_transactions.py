"""Decides when a partition is replicated in transactions, and provides the scripts (generators of
instructions) that open and commit a transaction or renew the fence.

Brokers forget a producer by the *timestamps* of its records. Records older than half of
`producer.id.expiration.ms` are therefore replicated in transactions, whose markers have the current
time.

The scripts run at a boundary, where no batch is in flight. Each returns the target offset after the
marker that was read, `TransactionOpened`, or a failure.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.replication import hanging_transactions, producer_fencing, recovery_outcomes
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.producer_fencing import FencingFailure, FencingInterrupted, TransactionMarker
from mm2.replication.recovery_instructions import Delay, ProducerIdentity, RecoveredState, Script
from mm2.replication.recovery_outcomes import RecoveryContext
from mm2.topics.flow_config import DeliveryMode

COMMIT_INTERVAL_S = 0.2
COMMIT_BYTES = 16 * 1024 * 1024
MODE_HOLD_S = 2.0
"""Time for which recent batches are still sent in transactions after an old batch, so that the mode
does not flap."""


class TransactionStep(enum.Enum):
    """Step that a partition performs at a boundary (while no batch is in flight) before it
    continues sending."""

    OPEN = "open a transaction"
    COMMIT = "commit the open transaction"
    RENEW = "renew the fence with a marker"


@dataclass(slots=True, kw_only=True)
class TransactionModeTracker:
    """Tracks whether a partition is replicated in transactions, and the state of its transaction.

    Invariant: a transaction is open (`is_open`) only while `is_active` is True, or until the commit
    that ends the mode.
    """

    is_permanent: bool
    """True if all batches are sent in transactions (`delivery: transactional`)."""
    renew_after_s: float
    is_possible: bool = True
    """False if the flow is not authorized for a transactional id."""
    marked_at_s: float
    is_active: bool = False
    """True while batches are sent in transactions."""
    is_open: bool = False
    """True while a transaction of the partition is open."""
    open_from: int = -1
    """First source offset whose records are in the open transaction."""
    open_bytes: int = 0
    plain_since_marker: bool = False
    """True if batches outside transactions were sent since the last marker."""
    _opened_at_s: float = 0.0
    _old_seen_at_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.is_active = self.is_permanent

    def record_sent_batch(self, size: int, *, old: bool, now_s: float) -> None:
        """Record that a batch of `size` bytes was sent."""
        if not self.is_active:
            self.plain_since_marker = True
            return
        if not self.open_bytes:
            self._opened_at_s = now_s
        self.open_bytes += size
        if old:
            self._old_seen_at_s = now_s

    def activate(self, now_s: float) -> None:
        """Start sending in transactions, because the next batch has old timestamps."""
        self.is_active = True
        self._old_seen_at_s = now_s

    def record_opened_transaction(self, source: int) -> None:
        """Record that a transaction was opened. All records before source offset `source` are
        committed."""
        self.is_open = True
        self.open_from = source
        self.open_bytes = 0

    def record_transaction_marker(self, now_s: float) -> None:
        """Record that a transaction marker of this owner was read back."""
        self.is_open = False
        self.open_bytes = 0
        self.marked_at_s = now_s
        self.plain_since_marker = False

    def may_send(self, *, old: bool, now_s: float) -> bool:
        """Return True if the next batch may be sent now, without a preceding boundary (transaction
        step without batches in flight). `old` is True if the batch has old timestamps."""
        old = old and self.is_possible
        if not self.is_active:
            # The fence is renewed with nothing in flight, which steady traffic would never reach.
            return not old and not self.is_fence_renewal_due(now_s)
        return (
            self.is_open
            and not self.is_commit_due(now_s)
            and (old or not self.may_deactivate(now_s))
        )

    def is_commit_due(self, now_s: float) -> bool:
        """Return True if the open transaction must be committed because it is too large or too
        old."""
        return self.open_bytes >= COMMIT_BYTES or (
            self.open_bytes > 0 and now_s - self._opened_at_s >= COMMIT_INTERVAL_S
        )

    def may_deactivate(self, now_s: float) -> bool:
        """Return True if no batch with old timestamps was sent for `MODE_HOLD_S` seconds, so that
        sending in transactions may end."""
        return not self.is_permanent and now_s - self._old_seen_at_s >= MODE_HOLD_S

    def switch_to_next_transaction_step(
        self, *, next_is_old: bool | None, paused: bool, now_s: float
    ) -> TransactionStep | None:
        """Return the boundary step that is due (opening or committing a transaction, or renewing
        the fence), and switch the mode.

        `next_is_old` is True if the next batch to send has old timestamps, and None if no batch is
        ready. An open transaction is committed when no batch is ready, because no map segment is
        written while it is open.
        """
        if self.is_open:
            idle = next_is_old is None
            # An open transaction must not outlast a pause: the coordinator would abort it and fence
            # this producer.
            due = (
                idle
                or paused
                or self.is_commit_due(now_s)
                or self._should_deactivate(next_is_old, now_s)
            )
            return TransactionStep.COMMIT if due else None
        if self._should_deactivate(next_is_old, now_s):
            self.is_active = False
        if not self.is_active and next_is_old and self.is_possible:
            self.activate(now_s)
            if self.plain_since_marker:
                return TransactionStep.RENEW
        if self.is_active and next_is_old is not None and not paused:
            return TransactionStep.OPEN
        return TransactionStep.RENEW if self.is_fence_renewal_due(now_s) else None

    def _should_deactivate(self, next_is_old: bool | None, now_s: float) -> bool:
        return self.is_active and next_is_old is False and self.may_deactivate(now_s)

    def is_fence_renewal_due(self, now_s: float) -> bool:
        """Return True if the fence must be renewed."""
        return self.is_possible and now_s - self.marked_at_s >= self.renew_after_s


def create_transaction_mode(
    setup: PartitionSetup, now_s: float, *, fenced: bool = True
) -> TransactionModeTracker:
    """Create the transaction mode of a partition that was just acquired. Transactions are
    impossible if `fenced` is False."""
    return TransactionModeTracker(
        is_permanent=fenced and setup.delivery is DeliveryMode.TRANSACTIONAL,
        is_possible=fenced,
        renew_after_s=setup.renew_after_s,
        marked_at_s=now_s,
    )


FENCE_CHECK_TIMEOUT_S = 10.0
FENCE_CHECK_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkerWritten:
    """Result of a boundary (transaction step without batches in flight): this owner's transaction
    marker is at target offset `next_target - 1` and was written in leader epoch `leader_epoch`."""

    next_target: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOpened:
    """The partition was added to a transaction."""


BoundaryScript = Script[TransactionMarkerWritten | TransactionOpened | FencingFailure]


def create_transaction_step_script(
    step: TransactionStep,
    producer: ProducerIdentity,
    *,
    next_target: int,
    context: RecoveryContext,
) -> BoundaryScript:
    """Create the script (generator of instructions) that performs a boundary step. The step's
    transaction marker is at target offset `next_target` or later."""
    match step:
        case TransactionStep.OPEN:
            return open_transaction(producer)
        case TransactionStep.COMMIT:
            return commit_open_transaction(producer, next_target=next_target, context=context)
        case TransactionStep.RENEW:
            return renew_fence(producer, next_target=next_target, context=context)


def commit_open_transaction(
    producer: ProducerIdentity, *, next_target: int, context: RecoveryContext
) -> BoundaryScript:
    """Commit the open transaction and read its marker."""
    failed = yield from producer_fencing.commit_transaction(producer)
    if failed is not None:
        return failed
    # If others may write, their transactions may be open at any time: checking at each renewal is
    # enough.
    alone = hanging_transactions.is_exclusive_writer(context)
    check_context = context if alone else None
    return (
        yield from _read_written_marker(
            producer, next_target=next_target, check_context=check_context
        )
    )


def renew_fence(
    producer: ProducerIdentity, *, next_target: int, context: RecoveryContext
) -> BoundaryScript:
    """Run an empty transaction, so that brokers forget neither the fence nor the transactional
    id."""
    failed = yield from producer_fencing.run_empty_transaction(producer)
    if failed is not None:
        return failed
    return (
        yield from _read_written_marker(producer, next_target=next_target, check_context=context)
    )


def open_transaction(producer: ProducerIdentity) -> BoundaryScript:
    """Open a transaction by adding the partition to it."""
    failed = yield from producer_fencing.add_partition_to_transaction(producer)
    return TransactionOpened() if failed is None else failed


def _read_written_marker(
    producer: ProducerIdentity, *, next_target: int, check_context: RecoveryContext | None
) -> BoundaryScript:
    """Read back the transaction marker that a boundary step wrote. If `check_context` is given,
    also verify that read_committed consumers can see the marker."""
    marker = yield from producer_fencing.read_transaction_marker(producer, start=next_target)
    if not isinstance(marker, TransactionMarker):
        return marker
    if check_context is not None and (
        yield from hanging_transactions.is_marker_blocked_by_open_transaction(marker, check_context)
    ):
        return FencingInterrupted(
            reason=f"{check_context.setup.mirror_name}: a transaction is open before the marker at "
            f"{marker.offset}: read_committed consumers are blocked at offset "
            f"{marker.last_stable_offset}"
        )
    return TransactionMarkerWritten(next_target=marker.offset + 1, leader_epoch=marker.leader_epoch)


def find_new_owner(
    context: RecoveryContext, *, fenced_producer: ProducerIdentity
) -> Script[bool | PartitionHalt]:
    """Check whether another owner acquired the partition with a newer epoch than this owner's
    producer, `fenced_producer`.

    Polls the map for as long as an acquisition may take. Returns True once a newer segment of
    another owner appears. Returns False if none appears: this owner's transaction timed out, or the
    newer epoch was granted to a delayed request or to another copy process of the same worker.
    Returns a halt if the map is unreadable.
    """
    waited_s = 0.0
    while waited_s < FENCE_CHECK_TIMEOUT_S:
        known = yield from recovery_outcomes.read_recovered_state(context)
        if isinstance(known, PartitionHalt):
            return known
        if isinstance(known, RecoveredState) and known.resume_point is not None:
            key = known.resume_point.key
            ours = known.producers.get(fenced_producer.id)
            newer = ours is not None and (key.ordinal, key.epoch) > (ours, fenced_producer.epoch)
            if newer and known.resume_point.segment.owner != context.owner:
                return True
        yield Delay(delay_s=FENCE_CHECK_INTERVAL_S)
        waited_s += FENCE_CHECK_INTERVAL_S
    return False
