"""A tail that pairs: the partition is ours, in the era that it was in."""

from __future__ import annotations

from mm2.core.copy import eras, instructions, outcomes, pairing, retracing

Paired = pairing.Pairing | retracing.Retracing


def go_on(
    attempt: outcomes.Attempt, *, era: int, start: int, pairs: Paired
) -> instructions.Script[outcomes.Outcome]:
    """Behind our marker; pairing began at source offset `start`."""
    target = attempt.fence.marker_offset + 1
    failed = yield from eras.settle_id(attempt, era=era)
    return failed or taken(attempt, era=era, start=start, pairs=pairs, target=target)


def taken(
    attempt: outcomes.Attempt, *, era: int, start: int, pairs: Paired, target: int
) -> outcomes.Taken:
    """What pairing found; `target` is the target's next data offset."""
    return outcomes.Taken(
        producer=attempt.fence.producer,
        leader_epoch=attempt.fence.leader_epoch,
        era=era,
        ordinal=attempt.ordinal,
        take_start=start,
        source=pairs.position,
        target=target,
        source_epoch=pairs.source_epoch,
        runs=tuple(pairs.runs),
        seams=tuple(pairs.seams),
        fenced=attempt.fence.holds,
        spared=pairs.matched if isinstance(pairs, pairing.Pairing) else 0,
    )
