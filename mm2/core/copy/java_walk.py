"""Reads both sides behind the place where MirrorMaker 2 began, and has `retracing` compare them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from mm2.core.copy import (
    instructions,
    java_stretch,
    open_transactions,
    opening,
    outcomes,
    pairing,
    refusals,
    retracing,
    stops,
    tail,
    walk,
)
from mm2.formats import record_sets

STEP_BACK = 1_000_000
"""So many source offsets before our anchor at most are read to find what Java copied once more."""

Failed = outcomes.BeginAgain | outcomes.Fenced | stops.Stop


def retrace(
    attempt: outcomes.Attempt, begins: java_stretch.Stretch, *, copied_to: int = -1
) -> instructions.Script[retracing.Retracing | Failed]:
    """Everything on the mirror from there to our marker, whoever wrote it."""
    left = yield from walk.read_tail(attempt, start=begins.target, everybodys=True)
    if not isinstance(left, tail.Tail):
        return left
    java = attempt.known.java
    assert java is not None
    if left.hanging is not None and not left.lost:
        return open_transactions.hangs(attempt, left.hanging)
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
            max_decoded_bytes=attempt.context.held.largest_decoded_bytes,
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
            fed = yield from walk.take_turns(traced, traced.feed_source(answer))
            if not isinstance(fed, pairing.Need):
                return fed
            need = fed
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
    return None if traced.too_large is None else stops.blocked(attempt.where, traced.too_large)


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
