"""Detects transactions on the target that nobody ends and that block read_committed readers.

An unclean election on the target may lose a transaction's marker, and brokers before 3.6 let a
late writer begin a transaction that nobody knows of. Until it gets a marker, read_committed
readers stop where it begins, or at the log start once retention has deleted its beginning. Our
own marker ends what was written under the same producer id; under an older id, only an operator
can end it.
"""

from __future__ import annotations

from mm2.replication import halts, recovery_outcomes, tail_reader
from mm2.replication.halts import PartitionHalt
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
    """What stands open before our fence and has to be ended before anything is copied; None:
    nothing.

    Where others write, too, theirs are no matter of ours: they end them themselves.
    """
    stable = yield from _find_last_stable_offset(attempt)
    if isinstance(stable, RetryRecovery):
        return stable
    if stable is None or stable >= attempt.fence.tail_end:
        return None
    answer = yield FindOpenTransactions()
    if isinstance(answer, OpenTransactions):
        return _react_to_open_transactions(attempt, answer)
    again = recovery_outcomes.retry_after_answer(
        "asking which transactions are open (DescribeProducers)", answer
    )
    if not isinstance(answer, InstructionRefused):
        return again
    if not is_exclusive_writer(attempt.context):
        return None  # what the tail shows of ours is seen there
    return (yield from _check_without_listing(attempt, code=answer.code, why=again.reason))


def _check_without_listing(
    attempt: RecoveryAttempt, *, code: int, why: str
) -> Script[RetryRecovery | None]:
    """The target refuses to tell which are open. The tail does where it shows the beginning, which
    may be deleted where readers of committed records stand at the log's start."""
    end = attempt.fence.tail_end
    found = yield from _read_after_delay(end)
    if not isinstance(found, FetchedRecords):
        return found
    stable = found.last_stable
    if stable is None or stable >= end:
        return None
    if stable >= _first_matched_offset(attempt) and (stable == 0 or stable > found.log_start):
        return None
    where = attempt.where
    lasting = halts.halt_hidden_open_transaction(
        where, why, code=code, stable=stable, retry_after_s=tail_reader.SOURCE_RETRY_DELAY_S
    )
    return RetryRecovery(reason=why, lasting=lasting)


def _find_last_stable_offset(
    attempt: RecoveryAttempt,
) -> Script[int | RetryRecovery | None]:
    """As it was told with our marker; without one it is asked for."""
    fenced = attempt.fence
    if fenced.holds or fenced.tail_end == 0:
        return fenced.last_stable
    found = yield from _read_target(fenced.tail_end)
    return found.last_stable if isinstance(found, FetchedRecords) else found


def _read_after_delay(offset: int) -> Script[FetchedRecords | RetryRecovery]:
    """A broker may tell the last stable offset a moment late."""
    yield Delay(delay_s=tail_reader.READ_RETRY_DELAY_S)
    return (yield from _read_target(offset))


def _read_target(offset: int) -> Script[FetchedRecords | RetryRecovery]:
    answer = yield ReadTarget(offset=offset)
    if isinstance(answer, FetchedRecords):
        return answer
    return recovery_outcomes.retry_after_answer("asking how far the mirror is stable", answer)


def _react_to_open_transactions(
    attempt: RecoveryAttempt, told: OpenTransactions
) -> RetryRecovery | PartitionHalt | None:
    """The earliest that matters. Of others' only those that nobody would meet who reads the tail:
    there is more to say of them."""
    end, unread = attempt.fence.tail_end, _first_matched_offset(attempt)
    alone = is_exclusive_writer(attempt.context)
    for each in sorted(told.transactions, key=lambda each: each.start):
        ours = each.start < end and _is_own_transaction(attempt, each)
        if ours or (alone and each.start < unread):
            return react_to_open_transaction(attempt, each)
    return None


def _first_matched_offset(attempt: RecoveryAttempt) -> int:
    """The target offset before which nobody reads the tail: our place, or all of it for an era that
    was asked for."""
    end, known = attempt.fence.tail_end, attempt.known
    if known.request is not None:
        return end
    return min(known.anchor.segment.target_next, end) if known.anchor is not None else 0


def is_marker_hidden(marker: TransactionMarker, context: RecoveryContext) -> Script[bool]:
    """While we copy: does a transaction that began before our marker keep readers of committed
    records from it? A take finds out what that means. A broker may tell the last stable offset a
    moment late, so that it is asked which are open, or, if it does not say, for that offset again.
    """
    if not _is_before_marker(marker, marker.last_stable):
        return False
    alone = is_exclusive_writer(context)
    answer = yield FindOpenTransactions()
    if isinstance(answer, OpenTransactions):
        return any(
            each.start < marker.offset and (alone or each.producer_id in context.ours)
            for each in answer.transactions
        )
    if not alone:
        return False
    found = yield from _read_after_delay(marker.offset)
    return not isinstance(found, FetchedRecords) or _is_before_marker(marker, found.last_stable)


def _is_before_marker(marker: TransactionMarker, stable: int | None) -> bool:
    return stable is not None and stable <= marker.offset


def is_exclusive_writer(context: RecoveryContext) -> bool:
    """May nobody else write to the mirror?"""
    return context.where.target_topics is TargetTopicAccess.EXCLUSIVE


def react_to_open_transaction(
    attempt: RecoveryAttempt, found: OpenTransaction
) -> RetryRecovery | PartitionHalt:
    """What it means that this one is open before our fence. Nobody ends what an older producer id
    of ours began; but where nobody is fenced its coordinator may, and so it may of others'."""
    where, us = attempt.where, attempt.fence
    if us.holds and found.producer_id == us.producer.id:
        return (
            tail_reader.retry_after_truncation()
        )  # our marker, which ended it, was lost with its leader
    if _is_own_transaction(attempt, found):
        stop = halts.halt_own_open_transaction(
            where, found, retry_after_s=tail_reader.SOURCE_RETRY_DELAY_S
        )
        if us.holds:
            return stop
    else:
        stop = halts.halt_foreign_open_transaction(
            where, found, retry_after_s=tail_reader.SOURCE_RETRY_DELAY_S
        )
    reason = f"{where.mirror}: the transaction that begins at offset {found.start} has not ended"
    return RetryRecovery(reason=reason, lasting=stop)


def _is_own_transaction(attempt: RecoveryAttempt, found: OpenTransaction) -> bool:
    return found.producer_id in {*attempt.known.producers, attempt.fence.producer.id}
