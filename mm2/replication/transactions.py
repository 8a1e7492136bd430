"""When a partition is copied in transactions, and the scripts that begin, commit and renew.

Brokers forget a producer by the *timestamps* of its records, so records older than half of
`producer.id.expiration.ms` are copied in transactions, whose markers carry the current time.

The scripts run at a boundary: nothing is in flight. Each returns the target offset after the
marker that was read (or that a transaction is open), or what failed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.replication import hanging_transactions, producer_fencing, recovery_outcomes
from mm2.replication.halts import PartitionHalt
from mm2.replication.producer_fencing import FencingFailure, FencingInterrupted, TransactionMarker
from mm2.replication.recovery_instructions import Delay, ProducerIdentity, RecoveredState, Script
from mm2.replication.recovery_outcomes import RecoveryContext
from mm2.replication.setup import PartitionSetup
from mm2.topics.flow_config import DeliveryMode

COMMIT_INTERVAL_S = 0.2
COMMIT_BYTES = 16 * 1024 * 1024
MODE_HOLD_S = 2.0
"""Fresh batches among old ones still go in transactions, so that the mode does not flap."""


class BoundaryStep(enum.Enum):
    """What a partition with nothing in flight does before it goes on."""

    OPEN = "open a transaction"
    COMMIT = "commit the open one"
    RENEW = "write a marker of the fence"


@dataclass(slots=True, kw_only=True)
class TransactionMode:
    """`open`: the partition was added to a transaction that is not committed yet, and that holds
    what stands from source offset `open_from` on.

    Not `possible`: there is no transactional id to use.

    Invariant: `open` only while `active`, or while the mode is about to end with a commit.
    """

    always: bool
    renew_after_s: float
    possible: bool = True
    marked_at_s: float
    active: bool = False
    open: bool = False
    open_from: int = -1
    open_bytes: int = 0
    plain_since_marker: bool = False
    _opened_at_s: float = 0.0
    _old_seen_at_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.active = self.always

    def sent(self, size: int, *, old: bool, now_s: float) -> None:
        if not self.active:
            self.plain_since_marker = True
            return
        if not self.open_bytes:
            self._opened_at_s = now_s
        self.open_bytes += size
        if old:
            self._old_seen_at_s = now_s

    def begin(self, now_s: float) -> None:
        """An old batch is next: from here on in transactions."""
        self.active = True
        self._old_seen_at_s = now_s

    def opened(self, source: int) -> None:
        """Everything before source offset `source` is committed."""
        self.open = True
        self.open_from = source
        self.open_bytes = 0

    def marked(self, now_s: float) -> None:
        """A marker of ours was read back."""
        self.open = False
        self.open_bytes = 0
        self.marked_at_s = now_s
        self.plain_since_marker = False

    def admits(self, *, old: bool, now_s: float) -> bool:
        """May a batch of this age be sent now, or must something be crossed first?"""
        old = old and self.possible
        if not self.active:
            # The fence is renewed at a drained boundary, which steady traffic would never bring.
            return not old and not self.renewal_due(now_s)
        return self.open and not self.commit_due(now_s) and (old or not self.may_end(now_s))

    def commit_due(self, now_s: float) -> bool:
        return self.open_bytes >= COMMIT_BYTES or (
            self.open_bytes > 0 and now_s - self._opened_at_s >= COMMIT_INTERVAL_S
        )

    def may_end(self, now_s: float) -> bool:
        """No batch has been old for a while."""
        return not self.always and now_s - self._old_seen_at_s >= MODE_HOLD_S

    def next_step(
        self, *, next_is_old: bool | None, paused: bool, now_s: float
    ) -> BoundaryStep | None:
        """What is due; the mode itself begins and ends here.

        `next_is_old` is of the batch that is sent next, None for none that is ready: none is left,
        or it has to wait. An open transaction never waits for it, since no anchor is written then.
        """
        if self.open:
            idle = next_is_old is None
            # Left open over a pause, the coordinator would abort it and fence us out.
            due = idle or paused or self.commit_due(now_s) or self._ends(next_is_old, now_s)
            return BoundaryStep.COMMIT if due else None
        if self._ends(next_is_old, now_s):
            self.active = False
        if not self.active and next_is_old and self.possible:
            self.begin(now_s)
            if self.plain_since_marker:
                return BoundaryStep.RENEW
        if self.active and next_is_old is not None and not paused:
            return BoundaryStep.OPEN
        return BoundaryStep.RENEW if self.renewal_due(now_s) else None

    def _ends(self, next_is_old: bool | None, now_s: float) -> bool:
        return self.active and next_is_old is False and self.may_end(now_s)

    def renewal_due(self, now_s: float) -> bool:
        return self.possible and now_s - self.marked_at_s >= self.renew_after_s


def create_transaction_mode(
    where: PartitionSetup, now_s: float, *, fenced: bool = True
) -> TransactionMode:
    """Right after the marker of a take; without one there are no transactions."""
    return TransactionMode(
        always=fenced and where.delivery is DeliveryMode.TRANSACTIONAL,
        possible=fenced,
        renew_after_s=where.renew_after_s,
        marked_at_s=now_s,
    )


FENCE_CHECK_TIMEOUT_S = 10.0
FENCE_CHECK_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBoundary:
    """A marker of ours stands at `next_target - 1` in leader epoch `leader_epoch`."""

    next_target: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOpened:
    """The partition stands in a transaction."""


BoundaryScript = Script[PartitionBoundary | TransactionOpened | FencingFailure]


def run_boundary(
    step: BoundaryStep,
    producer: ProducerIdentity,
    *,
    next_target: int,
    context: RecoveryContext,
) -> BoundaryScript:
    """The script of a step; `next_target` is where its marker stands at the earliest."""
    match step:
        case BoundaryStep.OPEN:
            return open_transaction(producer)
        case BoundaryStep.COMMIT:
            return commit_open_transaction(producer, next_target=next_target, context=context)
        case BoundaryStep.RENEW:
            return renew_fence(producer, next_target=next_target, context=context)


def commit_open_transaction(
    producer: ProducerIdentity, *, next_target: int, context: RecoveryContext
) -> BoundaryScript:
    """Commit the open transaction and read its marker."""
    failed = yield from producer_fencing.commit_transaction(producer)
    if failed is not None:
        return failed
    # Where others write, too, theirs may be open at any time: one look at each renewal will do.
    alone = hanging_transactions.is_exclusive_writer(context)
    looks = context if alone else None
    return (yield from _read_boundary_marker(producer, next_target=next_target, looks=looks))


def renew_fence(
    producer: ProducerIdentity, *, next_target: int, context: RecoveryContext
) -> BoundaryScript:
    """An empty transaction: keeps the fence in the brokers' memory and the transactional id
    alive."""
    failed = yield from producer_fencing.run_empty_transaction(producer)
    if failed is not None:
        return failed
    return (yield from _read_boundary_marker(producer, next_target=next_target, looks=context))


def open_transaction(producer: ProducerIdentity) -> BoundaryScript:
    failed = yield from producer_fencing.add_to_transaction(producer)
    return TransactionOpened() if failed is None else failed


def _read_boundary_marker(
    producer: ProducerIdentity, *, next_target: int, looks: RecoveryContext | None
) -> BoundaryScript:
    """`looks`: it is made sure that readers of committed records get past the marker."""
    marker = yield from producer_fencing.read_marker(producer, start=next_target)
    if not isinstance(marker, TransactionMarker):
        return marker
    if looks is not None and (yield from hanging_transactions.is_marker_hidden(marker, looks)):
        return FencingInterrupted(
            reason=f"{looks.where.mirror}: a transaction is open before our marker at "
            f"{marker.offset}: readers of committed records stand still at {marker.last_stable}"
        )
    return PartitionBoundary(next_target=marker.offset + 1, leader_epoch=marker.leader_epoch)


def find_new_owner(
    context: RecoveryContext, *, than: ProducerIdentity
) -> Script[bool | PartitionHalt]:
    """Did another owner take the partition under a newer identity than `than`, which was ours?

    Watches the map for a Take's deadline: True when an anchor of another owner, newer than ours,
    appears; False when none does, and then it was our own transaction's timeout, a late request or
    an orphan of ours. A `Stop` if the map cannot tell.
    """
    waited_s = 0.0
    while waited_s < FENCE_CHECK_TIMEOUT_S:
        known = yield from recovery_outcomes.read_recovered_state(context)
        if isinstance(known, PartitionHalt):
            return known
        if isinstance(known, RecoveredState) and known.anchor is not None:
            key = known.anchor.key
            ours = known.producers.get(than.id)
            newer = ours is not None and (key.ordinal, key.epoch) > (ours, than.epoch)
            if newer and known.anchor.segment.owner != context.owner:
                return True
        yield Delay(delay_s=FENCE_CHECK_INTERVAL_S)
        waited_s += FENCE_CHECK_INTERVAL_S
    return False
