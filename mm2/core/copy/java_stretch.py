"""Where the stretch of a mirror begins that MirrorMaker 2 wrote last, and how that is found."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import facts, instructions, outcomes, refusals, retracing, stops, walk
from mm2.formats import record_batch, record_sets

LONGEST = 5_000_000
"""Without an OffsetSync no more of a mirror than this (offsets) is retraced from its start: that
takes about a minute, and Java stores progress as often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What Java wrote of a mirror: from target offset `target` on it holds what the
    source holds from `source` on, whose batch before has `source_epoch`. `exact`: the record at
    `source` stands at `target`."""

    source: int
    target: int
    source_epoch: int = -1
    exact: bool = True


def where_both_begin(
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


def look_behind(
    attempt: outcomes.Attempt, *, copied: int
) -> instructions.Script[Stretch | outcomes.BeginAgain | stops.Stop | None]:
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
    most = attempt.context.held.largest_decoded_bytes
    one = retracing.Retracing(
        source=source, target=target, exact=True, likely=source, max_decoded_bytes=most
    )
    fed = yield from walk.take_turns(one, one.feed_source(answer))
    if isinstance(fed, outcomes.BeginAgain):
        return fed
    if one.too_large is None:
        one.feed_target(*found)
    if one.too_large is not None:
        return stops.blocked(attempt.where, one.too_large)
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
