"""Does a transaction that nobody ends keep readers of committed records from what we copy?

An unclean election of the target may take a transaction's marker, and brokers before 3.6 let a
forgotten writer begin one late. As long as it has none, readers of committed records stand still
where it begins, or where the log starts once retention has deleted that. Our own marker ends what
was written under the same producer id; under an older one nobody ends it but a person.
"""

from __future__ import annotations

from mm2.core.copy import fence, instructions, outcomes, setup, stops, walk


def look(
    attempt: outcomes.Attempt,
) -> instructions.Script[outcomes.BeginAgain | stops.Stop | None]:
    """What stands open before our fence and has to be ended before anything is copied; None:
    nothing.

    Where others write, too, theirs are no matter of ours: they end them themselves.
    """
    stable = yield from _last_stable(attempt)
    if isinstance(stable, outcomes.BeginAgain):
        return stable
    if stable is None or stable >= attempt.fence.tail_end:
        return None
    answer = yield instructions.FindOpenTransactions()
    if isinstance(answer, instructions.OpenTransactions):
        return _judged(attempt, answer)
    again = outcomes.again("asking which transactions are open (DescribeProducers)", answer)
    if not isinstance(answer, instructions.Refused):
        return again
    if not is_alone(attempt.context):
        return None  # what the tail shows of ours is seen there
    return (yield from _untold(attempt, code=answer.code, why=again.reason))


def _untold(
    attempt: outcomes.Attempt, *, code: int, why: str
) -> instructions.Script[outcomes.BeginAgain | None]:
    """The target refuses to tell which are open. The tail does where it shows the beginning, which
    may be deleted where readers of committed records stand at the log's start."""
    end = attempt.fence.tail_end
    found = yield from _read_again(end)
    if not isinstance(found, instructions.Records):
        return found
    stable = found.last_stable
    if stable is None or stable >= end:
        return None
    if stable >= _unread(attempt) and (stable == 0 or stable > found.log_start):
        return None
    where = attempt.where
    lasting = stops.standing_still(where, why, code=code, stable=stable, retry_after_s=walk.RETRY_S)
    return outcomes.BeginAgain(reason=why, lasting=lasting)


def _last_stable(
    attempt: outcomes.Attempt,
) -> instructions.Script[int | outcomes.BeginAgain | None]:
    """As it was told with our marker; without one it is asked for."""
    fenced = attempt.fence
    if fenced.holds or fenced.tail_end == 0:
        return fenced.last_stable
    found = yield from _read(fenced.tail_end)
    return found.last_stable if isinstance(found, instructions.Records) else found


def _read_again(offset: int) -> instructions.Script[instructions.Records | outcomes.BeginAgain]:
    """A broker may tell the last stable offset a moment late."""
    yield instructions.Sleep(delay_s=walk.LOOK_AGAIN_S)
    return (yield from _read(offset))


def _read(offset: int) -> instructions.Script[instructions.Records | outcomes.BeginAgain]:
    answer = yield instructions.ReadTarget(offset=offset)
    if isinstance(answer, instructions.Records):
        return answer
    return outcomes.again("asking how far the mirror is stable", answer)


def _judged(
    attempt: outcomes.Attempt, told: instructions.OpenTransactions
) -> outcomes.BeginAgain | stops.Stop | None:
    """The earliest that matters. Of others' only those that nobody would meet who reads the tail:
    there is more to say of them."""
    end, unread = attempt.fence.tail_end, _unread(attempt)
    alone = is_alone(attempt.context)
    for each in sorted(told.transactions, key=lambda each: each.start):
        ours = each.start < end and _is_ours(attempt, each)
        if ours or (alone and each.start < unread):
            return hangs(attempt, each)
    return None


def _unread(attempt: outcomes.Attempt) -> int:
    """The target offset before which nobody reads the tail: our place, or all of it for an era that
    was asked for."""
    end, known = attempt.fence.tail_end, attempt.known
    if known.request is not None:
        return end
    return min(known.anchor.segment.target_next, end) if known.anchor is not None else 0


def hides(marker: fence.Marker, context: outcomes.Context) -> instructions.Script[bool]:
    """While we copy: does a transaction that began before our marker keep readers of committed
    records from it? A take finds out what that means. A broker may tell the last stable offset a
    moment late, so that it is asked which are open, or, if it does not say, for that offset again.
    """
    if not _stands_before(marker, marker.last_stable):
        return False
    alone = is_alone(context)
    answer = yield instructions.FindOpenTransactions()
    if isinstance(answer, instructions.OpenTransactions):
        return any(
            each.start < marker.offset and (alone or each.producer_id in context.ours)
            for each in answer.transactions
        )
    if not alone:
        return False
    found = yield from _read_again(marker.offset)
    return not isinstance(found, instructions.Records) or _stands_before(marker, found.last_stable)


def _stands_before(marker: fence.Marker, stable: int | None) -> bool:
    return stable is not None and stable <= marker.offset


def is_alone(context: outcomes.Context) -> bool:
    """May nobody else write to the mirror?"""
    return context.where.target_topics is setup.TargetTopics.EXCLUSIVE


def hangs(
    attempt: outcomes.Attempt, found: instructions.OpenTransaction
) -> outcomes.BeginAgain | stops.Stop:
    """What it means that this one is open before our fence. Nobody ends what an older producer id
    of ours began; but where nobody is fenced its coordinator may, and so it may of others'."""
    where, us = attempt.where, attempt.fence
    if us.holds and found.producer_id == us.producer.id:
        return walk.cut_again()  # our marker, which ended it, was lost with its leader
    if _is_ours(attempt, found):
        stop = stops.hanging(where, found, retry_after_s=walk.RETRY_S)
        if us.holds:
            return stop
    else:
        stop = stops.others_open(where, found, retry_after_s=walk.RETRY_S)
    reason = f"{where.mirror}: the transaction that begins at offset {found.start} has not ended"
    return outcomes.BeginAgain(reason=reason, lasting=stop)


def _is_ours(attempt: outcomes.Attempt, found: instructions.OpenTransaction) -> bool:
    return found.producer_id in {*attempt.known.producers, attempt.fence.producer.id}
