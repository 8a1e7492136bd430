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
    doing = "asking which transactions are open on the mirror"
    again = outcomes.again(doing, answer)
    if isinstance(answer, instructions.Unanswered):
        return again
    if not is_alone(attempt.context):
        return None  # what the tail shows of ours is seen there
    lasting = stops.standing_still(
        attempt.where, again.reason, stable=stable, retry_after_s=walk.RETRY_S
    )
    return outcomes.BeginAgain(reason=again.reason, lasting=lasting)


def _last_stable(
    attempt: outcomes.Attempt,
) -> instructions.Script[int | outcomes.BeginAgain | None]:
    """As it was told with our marker; without one it is asked for."""
    fenced = attempt.fence
    if fenced.holds or fenced.tail_end == 0:
        return fenced.last_stable
    answer = yield instructions.ReadTarget(offset=fenced.tail_end)
    if not isinstance(answer, instructions.Records):
        return outcomes.again("asking how far the mirror is stable", answer)
    return answer.last_stable


def _judged(
    attempt: outcomes.Attempt, told: instructions.OpenTransactions
) -> outcomes.BeginAgain | stops.Stop | None:
    """The earliest that matters. Of others' only those that nobody would meet who reads the tail:
    there is more to say of them."""
    end, known = attempt.fence.tail_end, attempt.known
    alone = is_alone(attempt.context)
    place = known.anchor.segment.target_next if known.anchor is not None else 0
    unread = end if known.request is not None else min(place, end)
    for each in sorted(told.transactions, key=lambda each: each.start):
        ours = each.start < end and _is_ours(attempt, each)
        if ours or (alone and each.start < unread):
            return hangs(attempt, each)
    return None


def hides(marker: fence.Marker, context: outcomes.Context) -> instructions.Script[bool]:
    """While we copy: does a transaction that began before our marker keep readers of committed
    records from it? A take finds out what that means. A broker may tell the last stable offset a
    moment late, so that it is asked which are open."""
    if marker.last_stable is None or marker.last_stable > marker.offset:
        return False
    alone = is_alone(context)
    answer = yield instructions.FindOpenTransactions()
    if not isinstance(answer, instructions.OpenTransactions):
        return alone
    return any(
        each.start < marker.offset and (alone or each.producer_id in context.ours)
        for each in answer.transactions
    )


def is_alone(context: outcomes.Context) -> bool:
    """May nobody else write to the mirror?"""
    return context.where.target_topics is setup.TargetTopics.EXCLUSIVE


def hangs(
    attempt: outcomes.Attempt, found: instructions.OpenTransaction
) -> outcomes.BeginAgain | stops.Stop:
    """What it means that this one is open before our fence. Nobody ends what an older producer id
    of ours began; but where nobody is fenced its coordinator may, and so it may of others'."""
    where = attempt.where
    if _is_ours(attempt, found):
        stop = stops.hanging(where, found, retry_after_s=walk.RETRY_S)
        if attempt.fence.holds:
            return stop
    else:
        stop = stops.others_open(where, found, retry_after_s=walk.RETRY_S)
    reason = f"{where.mirror}: the transaction that begins at offset {found.start} has not ended"
    return outcomes.BeginAgain(reason=reason, lasting=stop)


def _is_ours(attempt: outcomes.Attempt, found: instructions.OpenTransaction) -> bool:
    return found.producer_id in {*attempt.known.producers, attempt.fence.producer.id}
