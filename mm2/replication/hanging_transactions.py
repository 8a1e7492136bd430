"""Detects hanging transactions on the target, which block read_committed consumers.

An unclean leader election on the target may lose a transaction's marker. On brokers before 3.6, a
late batch may also begin a transaction that the transaction coordinator does not know and never
ends. Until a marker is written, read_committed consumers stop at the first offset of the
transaction, or at the log start offset if retention has deleted the transaction's first record. The
marker of an acquisition ends transactions of the same producer id. Transactions of older producer
ids can only be ended by an operator.
"""

from __future__ import annotations

from mm2.replication import partition_halt_messages, recovery_outcomes, target_log_tail_reader
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.producer_fencing import TransactionMarker
from mm2.replication.recovery_instructions import (
    Delay,
    FetchedRecords,
    FindOpenTransactions,
    InstructionRefused,
    OpenTransaction,
    OpenTransactions,
    ReadTarget,
    Script,
)
from mm2.replication.recovery_outcomes import RecoveryAttempt, RecoveryContext, RetryRecovery
from mm2.topics.flow_config import TargetTopicAccess


def find_hanging_transaction(
    attempt: RecoveryAttempt,
) -> Script[RetryRecovery | PartitionHalt | None]:
    """Find an open transaction on the mirror topic that began before this owner's transaction
    marker. Replication must not start until that transaction has ended. Return None if there is no
    such transaction.

    If other writers are allowed on the mirror topic, their transactions are ignored, because those
    writers end them.
    """
    stable = yield from _find_last_stable_offset(attempt)
    if isinstance(stable, RetryRecovery):
        return stable
    if stable is None or stable >= attempt.fence.tail_end:
        return None
    answer = yield FindOpenTransactions()
    if isinstance(answer, OpenTransactions):
        return _react_to_open_transactions(attempt, answer)
    again = recovery_outcomes.retry_after_failed_instruction(
        "listing open transactions (DescribeProducers)", answer
    )
    if not isinstance(answer, InstructionRefused):
        return again
    if not is_exclusive_writer(attempt.context):
        return None  # tail matching detects open transactions of this flow
    return (yield from _check_last_stable_offset(attempt, code=answer.code, why=again.reason))


def _check_last_stable_offset(
    attempt: RecoveryAttempt, *, code: int, why: str
) -> Script[RetryRecovery | None]:
    """Detect an open transaction from the last stable offset, for targets that do not list open
    transactions.

    A transaction that began in the tail (batches that the offset map does not cover) is ignored,
    because tail matching reads those batches. If the last stable offset is the log start offset,
    the transaction is reported, because retention may have deleted its first records.
    """
    end = attempt.fence.tail_end
    found = yield from _read_stable_offset_after_delay(end)
    if not isinstance(found, FetchedRecords):
        return found
    stable = found.last_stable_offset
    if stable is None or stable >= end:
        return None
    if stable >= _find_first_matched_offset(attempt) and (stable == 0 or stable > found.log_start):
        return None
    setup = attempt.setup
    lasting = partition_halt_messages.build_hidden_open_transaction_halt(
        setup,
        why,
        code=code,
        stable=stable,
        retry_after_s=target_log_tail_reader.SOURCE_RETRY_DELAY_S,
    )
    return RetryRecovery(reason=why, halt_if_persistent=lasting)


def _find_last_stable_offset(
    attempt: RecoveryAttempt,
) -> Script[int | RetryRecovery | None]:
    """Return the last stable offset that was read together with this owner's transaction marker.
    Without a marker, query it."""
    fenced = attempt.fence
    if fenced.is_fenced or fenced.tail_end == 0:
        return fenced.last_stable_offset
    found = yield from _read_stable_offset(fenced.tail_end)
    return found.last_stable_offset if isinstance(found, FetchedRecords) else found


def _read_stable_offset_after_delay(offset: int) -> Script[FetchedRecords | RetryRecovery]:
    """Wait briefly, then read the target's last stable offset again, because brokers may update it
    late."""
    yield Delay(delay_s=target_log_tail_reader.READ_RETRY_DELAY_S)
    return (yield from _read_stable_offset(offset))


def _read_stable_offset(offset: int) -> Script[FetchedRecords | RetryRecovery]:
    answer = yield ReadTarget(offset=offset)
    if isinstance(answer, FetchedRecords):
        return answer
    return recovery_outcomes.retry_after_failed_instruction(
        "reading the mirror's last stable offset", answer
    )


def _react_to_open_transactions(
    attempt: RecoveryAttempt, open_transactions: OpenTransactions
) -> RetryRecovery | PartitionHalt | None:
    """React to the earliest open transaction that blocks the acquisition.

    A foreign transaction that began in the tail (batches that the offset map does not cover) is
    ignored here, because tail matching reports it in more detail.
    """
    end, first_matched = attempt.fence.tail_end, _find_first_matched_offset(attempt)
    alone = is_exclusive_writer(attempt.context)
    for each in sorted(open_transactions.transactions, key=lambda each: each.start):
        ours = each.start < end and _is_own_transaction(attempt, each)
        if ours or (alone and each.start < first_matched):
            return react_to_open_transaction(attempt, each)
    return None


def _find_first_matched_offset(attempt: RecoveryAttempt) -> int:
    """Return the first target offset that tail matching reads. This is the resume point, or the end
    of the tail (batches that the offset map does not cover) if an operator requested a new era
    (generation of the mirror)."""
    end, known = attempt.fence.tail_end, attempt.state
    if known.request is not None:
        return end
    return min(known.resume_point.segment.target_next, end) if known.resume_point is not None else 0


def is_marker_blocked_by_open_transaction(
    marker: TransactionMarker, context: RecoveryContext
) -> Script[bool]:
    """Return True if read_committed consumers cannot reach this owner's transaction marker, because
    a transaction that began earlier is still open.

    Called during replication. If the result is True, the partition is acquired again, which
    determines the cause. The reported last stable offset may be outdated, so open transactions are
    listed, or the offset is read again if the target does not list transactions.
    """
    if not _is_marker_past_stable_offset(marker, marker.last_stable_offset):
        return False
    alone = is_exclusive_writer(context)
    answer = yield FindOpenTransactions()
    if isinstance(answer, OpenTransactions):
        return any(
            each.start < marker.offset and (alone or each.producer_id in context.own_producers)
            for each in answer.transactions
        )
    if not alone:
        return False
    found = yield from _read_stable_offset_after_delay(marker.offset)
    return not isinstance(found, FetchedRecords) or _is_marker_past_stable_offset(
        marker, found.last_stable_offset
    )


def _is_marker_past_stable_offset(marker: TransactionMarker, stable: int | None) -> bool:
    return stable is not None and stable <= marker.offset


def is_exclusive_writer(context: RecoveryContext) -> bool:
    """Return True if this flow is the only writer of the mirror topic."""
    return context.setup.target_topics is TargetTopicAccess.EXCLUSIVE


def react_to_open_transaction(
    attempt: RecoveryAttempt, found: OpenTransaction
) -> RetryRecovery | PartitionHalt:
    """React to a transaction that was opened before this owner's transaction marker and is still
    open. Return a halt, or a retry that halts the partition if the transaction stays open.

    If the partition is fenced, no transaction coordinator will end a transaction of one of the
    flow's older producer ids, so the partition is halted at once. Without fencing, or for a foreign
    producer, the coordinator may still end the transaction, so the acquisition is retried first.
    """
    setup, us = attempt.setup, attempt.fence
    if us.is_fenced and found.producer_id == us.producer.id:
        return (
            target_log_tail_reader.retry_after_truncation()
        )  # an unclean leader election lost the marker that ended it
    if _is_own_transaction(attempt, found):
        stop = partition_halt_messages.build_own_open_transaction_halt(
            setup, found, retry_after_s=target_log_tail_reader.SOURCE_RETRY_DELAY_S
        )
        if us.is_fenced:
            return stop
    else:
        stop = partition_halt_messages.build_foreign_open_transaction_halt(
            setup, found, retry_after_s=target_log_tail_reader.SOURCE_RETRY_DELAY_S
        )
    reason = f"{setup.mirror_name}: the transaction at offset {found.start} has not ended"
    return RetryRecovery(reason=reason, halt_if_persistent=stop)


def _is_own_transaction(attempt: RecoveryAttempt, found: OpenTransaction) -> bool:
    return found.producer_id in {*attempt.state.producers, attempt.fence.producer.id}
