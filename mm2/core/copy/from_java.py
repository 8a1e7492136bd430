"""Going on behind MirrorMaker 2: what it says that it copied, held against what stands there.

Its progress N has no target offset, and it writes more than it says (it stores progress once a
minute). So the stretch that it wrote last, from the newest OffsetSync at or below N on, or from
where both logs begin, is retraced on the source. What it had written twice is found, and stays.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from mm2.core.copy import (
    eras,
    facts,
    going_on,
    instructions,
    opening,
    outcomes,
    pairing,
    refusals,
    retracing,
    setup,
    stops,
    tail,
    walk,
)
from mm2.formats import receipt, record_batch, record_sets

LONGEST = 5_000_000
"""Without an OffsetSync no more of a mirror than this (offsets) is retraced from its start: that
takes about a minute, and Java stores progress as often."""

STEP_BACK = 1_000_000
"""So many source offsets before our anchor at most are read to find what Java copied once more."""

REASON = "taken over from MirrorMaker 2"

Failed = outcomes.BeginAgain | outcomes.Fenced | stops.Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of the mirror that Java wrote: from target offset `target` on it holds what the
    source holds from `source` on, whose batch before has `source_epoch`. `exact`: the record at
    `source` stands at `target`."""

    source: int
    target: int
    source_epoch: int = -1
    exact: bool = True


def first_take(attempt: outcomes.Attempt) -> instructions.Script[outcomes.Outcome]:
    """No owner of ours was here before, and Java was."""
    java = attempt.known.java
    assert java is not None
    if java.sync is not None:
        begins = Stretch(source=java.sync[0], target=java.sync[1])
        return (yield from take_over(attempt, begins))
    found = yield from _where_both_begin(attempt, java)
    if isinstance(found, outcomes.BeginAgain):
        return found
    if found is None:
        return (yield from eras.begin_era(attempt, _without_sync(attempt, java)))
    return (yield from take_over(attempt, found))


def _where_both_begin(
    attempt: outcomes.Attempt, java: facts.JavaProgress
) -> instructions.Script[Stretch | outcomes.BeginAgain | None]:
    """The starts of both logs; None where the mirror is too long to be read from its start."""
    source = yield instructions.FindSourceOffset(position="earliest")
    if not isinstance(source, instructions.SourceOffset):
        return outcomes.again("finding the source's log start", source)
    target = yield instructions.ReadTarget(offset=0)
    out = isinstance(target, instructions.Refused) and target.code == refusals.OFFSET_OUT_OF_RANGE
    if not out and not isinstance(target, instructions.Records):
        return outcomes.again("finding the mirror's log start", target)
    assert isinstance(target, instructions.Records | instructions.Refused)
    start = max(target.log_start, 0)
    if java.next_offset > source.offset and attempt.fence.tail_end - start > LONGEST:
        return None
    return Stretch(source=source.offset, target=start, exact=False)


def _without_sync(attempt: outcomes.Attempt, java: facts.JavaProgress) -> eras.NewEra:
    stated = eras.statement(
        attempt,
        kind=receipt.ReceiptKind.TAKEN_FROM_JAVA,
        source=(0, java.next_offset),
        target=(0, attempt.fence.tail_end),
        detail=f"no OffsetSync tells where source offset {java.next_offset} stands on the mirror",
    )
    return eras.NewEra(source=java.next_offset, reason=REASON, receipts=(stated,))


def look_behind(
    attempt: outcomes.Attempt, *, copied: int
) -> instructions.Script[Stretch | outcomes.BeginAgain | None]:
    """Did Java go on behind `copied`, the target offset that our anchor names, and store where?

    What our own owners stored in its topics tells nothing: the record must be a stranger's, and the
    one that the OffsetSync says.
    """
    java = attempt.known.java
    if java is None or java.sync is None:
        return None
    source, target = java.sync
    if not copied <= target < attempt.fence.tail_end:
        return None
    found = yield from _strangers_record(attempt, target)
    if found is None or isinstance(found, outcomes.BeginAgain):
        return found
    answer = yield instructions.ReadSource(offset=source)
    if not isinstance(answer, instructions.Records):
        if isinstance(answer, instructions.Refused) and answer.code == refusals.OFFSET_OUT_OF_RANGE:
            return None
        return outcomes.again("reading what an OffsetSync names on the source", answer)
    one = retracing.Retracing(source=source, target=target, exact=True, likely=source)
    one.feed_source(answer)
    one.feed_target(*found)
    return Stretch(source=source, target=target) if one.found_any else None


def _strangers_record(
    attempt: outcomes.Attempt, target: int
) -> instructions.Script[tuple[record_batch.BatchHeader, memoryview] | outcomes.BeginAgain | None]:
    """The batch that holds this target offset, if none of our producers wrote it."""
    doing = "reading what an OffsetSync names on the mirror"
    ours = {*attempt.known.producers, attempt.fence.producer.id}
    for _ in range(outcomes.READS_WITHOUT_NEWS):
        answer = yield instructions.ReadTarget(offset=target)
        if isinstance(answer, instructions.Refused) and answer.code == refusals.OFFSET_OUT_OF_RANGE:
            return None
        if not isinstance(answer, instructions.Records):
            return outcomes.again(doing, answer)
        first = next(record_sets.batches(answer.records), None)
        if first is None and answer.end > target:
            continue  # other partitions have filled the answer
        if first is None or first[0].producer_id in ours or first[0].is_control:
            return None
        if record_batch.crc_matches(first[1], first[0]):
            return first
        yield instructions.Sleep(delay_s=walk.LOOK_AGAIN_S)
    return outcomes.stuck(doing)


def take_over(
    attempt: outcomes.Attempt, begins: Stretch, *, since: tuple[int, int] | None = None
) -> instructions.Script[outcomes.Outcome]:
    """What stands before there is Java's word; go on behind what it wrote from there on.

    Up to `since` (source and target offset) we had copied ourselves.
    """
    java = attempt.known.java
    assert java is not None
    copied_to = since[0] if since is not None else -1
    traced = yield from _retrace(attempt, begins, copied_to=copied_to)
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
    attempt: outcomes.Attempt, begins: Stretch, *, changed: bool, lost: str
) -> instructions.Script[outcomes.Outcome]:
    """Strangers wrote behind our anchor: Java, if what they wrote is on the source, too.

    How far Java stored progress counts for nothing here: we store it as well, and did before
    an unclean election may have cut the log. `changed` and `lost` say why our era ends anyway.
    """
    traced = yield from _retrace(attempt, begins)
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
        return outcomes.BeginAgain(reason=stop.message, lasting=stop)
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
    return outcomes.BeginAgain(reason=stop.message, lasting=stop)


def _on_javas_word(
    attempt: outcomes.Attempt, begins: Stretch, since: tuple[int, int] | None
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
            detail=f"stands a second time; altogether {traced.count} records that others copied do",
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


# Reading both sides


def _retrace(
    attempt: outcomes.Attempt, begins: Stretch, *, copied_to: int = -1
) -> instructions.Script[retracing.Retracing | Failed]:
    """Everything on the mirror from there to our marker, whoever wrote it."""
    left = yield from walk.read_tail(attempt, start=begins.target, everybodys=True)
    if not isinstance(left, tail.Tail):
        return left
    java = attempt.known.java
    assert java is not None
    if left.hanging is not None and not left.lost:
        return _hanging(attempt, left.hanging.offset)
    near = min(max(java.next_offset, begins.source - STEP_BACK), begins.source)
    for copied_from in (near, max(begins.source - STEP_BACK, 0)):
        traced = retracing.Retracing(
            source=begins.source,
            target=begins.target,
            exact=begins.exact,
            copied_from=copied_from,
            copied_to=copied_to,
            likely=java.next_offset,
            transform=opening.repeatable(attempt.context.transform),
            source_epoch_before=begins.source_epoch,
        )
        if left.lost:
            traced.lost(left.lost)
        elif left.committed:
            failed = yield from _walk(attempt, traced, left.committed)
            if failed is not None:
                return failed
        if not traced.mismatch or (begins.exact and not traced.found_any):
            break  # else it may have stepped back farther than it was to
    return traced


def _hanging(attempt: outcomes.Attempt, offset: int) -> outcomes.BeginAgain:
    """Its writer was killed: its coordinator ends the transaction after its timeout."""
    lasting = stops.hanging(attempt.where, offset=offset, retry_after_s=walk.RETRY_S)
    reason = f"{attempt.where.mirror}: the transaction that begins at offset {offset} has not ended"
    return outcomes.BeginAgain(reason=reason, lasting=lasting)


def _walk(
    attempt: outcomes.Attempt, traced: retracing.Retracing, batches: Sequence[tail.OurBatch]
) -> instructions.Script[outcomes.BeginAgain | stops.Stop | None]:
    at = idle = 0
    need = traced.go_on()
    while need is not pairing.Need.NOTHING and not (
        need is pairing.Need.TARGET and at == len(batches)
    ):
        before = at, traced.read_to
        if need is pairing.Need.TARGET:
            answer = yield instructions.ReadTarget(offset=max(batches[at].offset, traced.target))
            if not isinstance(answer, instructions.Records):
                return outcomes.again("reading what Java wrote to the mirror", answer)
            need, at = _feed_target(traced, answer.records, batches, at=at)
            ends = at == before[0]
        else:
            answer = yield instructions.ReadSource(offset=traced.read_to)
            if isinstance(answer, instructions.Refused) and _no_longer_there(traced, answer):
                need = traced.go_on()
                continue
            if not isinstance(answer, instructions.Records):
                return walk.not_read(attempt.where, answer, offset=traced.read_to)
            need = traced.feed_source(answer)
            blocked = traced.obstacle is not None
            ends = need is pairing.Need.SOURCE and (blocked or traced.read_to >= answer.end)
        idle = idle + 1 if before == (at, traced.read_to) else 0
        if ends and idle < walk.LOOKS:
            yield instructions.Sleep(delay_s=walk.LOOK_AGAIN_S)
        elif ends and traced.obstacle is not None:
            return stops.blocked(attempt.where, traced.obstacle)
        elif ends and need is pairing.Need.SOURCE:
            need = traced.source_ends()
        if idle > outcomes.READS_WITHOUT_NEWS:
            return outcomes.stuck("comparing what Java wrote with the source")
    return None


def _no_longer_there(traced: retracing.Retracing, answer: instructions.Refused) -> bool:
    if answer.code != refusals.OFFSET_OUT_OF_RANGE:
        return False
    traced.source_gone(answer.log_start)
    return True


def _feed_target(
    traced: retracing.Retracing,
    held: memoryview,
    batches: Sequence[tail.OurBatch],
    *,
    at: int,
) -> tuple[pairing.Need, int]:
    """As many of `batches`, from the one at index `at` on, as were read and are wanted."""
    need = pairing.Need.TARGET
    with contextlib.suppress(record_sets.DamagedBatchError):  # it was sound just before
        for header, batch in walk.sound(held, start=batches[at].offset):
            if header.base_offset == batches[at].offset:
                need = traced.feed_target(header, batch)
                at += 1
            if at == len(batches) or need is not pairing.Need.TARGET:
                break
    return need, at
