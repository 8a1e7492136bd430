"""Going on behind MirrorMaker 2: what it says that it copied, held against what stands there.

Its progress N has no target offset, and it writes more than it says (it stores progress once a
minute). So the stretch that it wrote last, from the newest OffsetSync at or below N on, or from
where both logs begin, is retraced on the source. What it had written twice is found, and stays.
"""

from __future__ import annotations

import dataclasses

from connect_runtime.base import amounts
from mm2.core.copy import (
    eras,
    facts,
    going_on,
    instructions,
    java_stretch,
    java_walk,
    outcomes,
    retracing,
    setup,
    stops,
    tail,
    walk,
)
from mm2.formats import receipt

REASON = "taken over from MirrorMaker 2"


def first_take(attempt: outcomes.Attempt) -> instructions.Script[outcomes.Outcome]:
    """No owner of ours was here before, and Java was."""
    java = attempt.known.java
    assert java is not None
    if java.sync is not None:
        begins = java_stretch.Stretch(source=java.sync[0], target=java.sync[1])
        return (yield from take_over(attempt, begins))
    found = yield from java_stretch.where_both_begin(attempt, java)
    if isinstance(found, outcomes.BeginAgain):
        return found
    if found is None:
        return (yield from eras.begin_era(attempt, _without_sync(attempt, java)))
    return (yield from take_over(attempt, found))


def _without_sync(attempt: outcomes.Attempt, java: facts.JavaProgress) -> eras.NewEra:
    stated = eras.statement(
        attempt,
        kind=receipt.ReceiptKind.TAKEN_FROM_JAVA,
        source=(0, java.next_offset),
        target=(0, attempt.fence.tail_end),
        detail=f"no OffsetSync tells where source offset {java.next_offset} stands on the mirror",
    )
    return eras.NewEra(source=java.next_offset, reason=REASON, receipts=(stated,))


def take_over(
    attempt: outcomes.Attempt, begins: java_stretch.Stretch, *, since: tuple[int, int] | None = None
) -> instructions.Script[outcomes.Outcome]:
    """What stands before there is Java's word; go on behind what it wrote from there on.

    Up to `since` (source and target offset) we had copied ourselves.
    """
    java = attempt.known.java
    assert java is not None
    copied_to = since[0] if since is not None else -1
    traced = yield from java_walk.retrace(attempt, begins, copied_to=copied_to)
    if not isinstance(traced, retracing.Retracing):
        return traced
    known = attempt.known.anchor is not None
    strange = _unlike_java(attempt, traced) if known or traced.beyond else None
    if strange is not None:
        return strange
    copied = max(traced.position, copied_to)
    source = max(copied, java.next_offset)
    era = eras.NewEra(
        source=source,
        source_epoch=traced.source_epoch if source == traced.position else -1,
        reason=REASON,
        receipts=(
            *_on_javas_word(attempt, begins, since),
            *_stated(attempt, traced),
            *_unseen(attempt, copied, source),
        ),
    )
    if traced.whole and source == traced.position:
        era = dataclasses.replace(
            era,
            begins=(begins.source, begins.target),
            runs=tuple(traced.runs),
            seams=tuple(traced.seams),
        )
    return (yield from eras.begin_era(attempt, era))


def go_on_beside(
    attempt: outcomes.Attempt, begins: java_stretch.Stretch, *, changed: bool, lost: str
) -> instructions.Script[outcomes.Outcome]:
    """Strangers wrote behind our anchor: Java, if what they wrote is on the source, too.

    How far Java stored progress counts for nothing here: we store it as well, and did before
    an unclean election may have cut the log. `changed` and `lost` say why our era ends anyway.
    """
    traced = yield from java_walk.retrace(attempt, begins)
    if not isinstance(traced, retracing.Retracing):
        return traced
    strange = _unlike_java(attempt, traced)
    if strange is not None:
        return strange
    if traced.whole and not changed and not lost:
        number = attempt.known.era_number
        return (yield from going_on.go_on(attempt, era=number, start=begins.source, pairs=traced))
    era = eras.NewEra(
        source=traced.position,
        source_epoch=traced.source_epoch,
        reason=traced.mismatch or lost or "MirrorMaker 2 was here meanwhile",
        receipts=_stated(attempt, traced),
    )
    return (yield from eras.begin_era(attempt, era))


def _unlike_java(
    attempt: outcomes.Attempt, traced: retracing.Retracing
) -> stops.Stop | outcomes.BeginAgain | None:
    """Somebody else wrote what does not pair, where only this flow, and Java before it, may."""
    ours = {*attempt.known.producers, attempt.fence.producer.id}
    may = attempt.where.target_topics is not setup.TargetTopics.EXCLUSIVE
    if may or not traced.mismatch or traced.writer in ours:
        return None
    if traced.beyond:
        stop = stops.ahead_of_source(
            attempt.where, traced.mismatch, copied=traced.position, retry_after_s=walk.RETRY_S
        )
        reason = f"{attempt.where.mirror}: {traced.mismatch}"
        return outcomes.BeginAgain(reason=reason, lasting=stop)
    found = tail.Foreign(offset=traced.unpaired_from, producer_id=traced.writer)
    return stranger(attempt, found, copied=traced.position, unlike=traced.mismatch)


def stranger(
    attempt: outcomes.Attempt, found: tail.Foreign, *, copied: int, unlike: str = ""
) -> stops.Stop | outcomes.BeginAgain:
    """As `stops.foreign_writes`."""
    stop = stops.foreign_writes(attempt.where, found, copied=copied, unlike=unlike)
    if attempt.fence.holds:
        return stop
    # Nobody is fenced: it may be an owner that recorded its id since we read the map.
    reason = (
        f"{attempt.where.mirror}: foreign records at offset {found.offset}, of producer id "
        f"{found.producer_id}"
    )
    return outcomes.BeginAgain(reason=reason, lasting=stop)


def _on_javas_word(
    attempt: outcomes.Attempt, begins: java_stretch.Stretch, since: tuple[int, int] | None
) -> tuple[receipt.Receipt, ...]:
    """What Java copied since we did, and nobody compares."""
    if since is None or since[1] >= begins.target:
        return ()
    stated = eras.statement(
        attempt,
        kind=receipt.ReceiptKind.TAKEN_FROM_JAVA,
        source=(since[0], begins.source) if since[0] < begins.source else None,
        target=(since[1], begins.target),
        detail="copied while MirrorMaker 2 had the partition; nobody compared it",
    )
    return (stated,)


def _unseen(attempt: outcomes.Attempt, copied: int, source: int) -> tuple[receipt.Receipt, ...]:
    """What Java alone knows to be there, where the copy goes on behind it."""
    if source <= copied:
        return ()
    stated = eras.statement(
        attempt,
        kind=receipt.ReceiptKind.TAKEN_FROM_JAVA,
        source=(copied, source),
        detail="MirrorMaker 2 stored that it had copied it; nobody saw it on the mirror",
    )
    return (stated,)


def _stated(attempt: outcomes.Attempt, traced: retracing.Retracing) -> tuple[receipt.Receipt, ...]:
    """What stands twice, and what could not be compared."""
    found = [
        eras.statement(
            attempt,
            kind=receipt.ReceiptKind.DOUBLED_BY_JAVA,
            target=doubled,
            detail="stands a second time; altogether "
            f"{amounts.counted(traced.count, 'record')} that others copied "
            f"{amounts.agreeing(traced.count, 'do')}",
        )
        for doubled in traced.doubled
    ]
    if traced.mismatch:
        end = attempt.fence.tail_end
        stated = eras.statement(
            attempt,
            kind=receipt.ReceiptKind.NOT_PAIRED,
            target=(min(traced.unpaired_from, end), end),
            detail=f"what others wrote last does not pair: {traced.mismatch}",
        )
        found.append(stated)
    return tuple(found)
