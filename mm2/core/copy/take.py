"""Take(P): fence, then pair; the one way in for start, restart, leader change and recovery alike.

Whoever takes a partition first makes sure that nobody else can write to it (a new epoch of the
partition's own transactional id, and an empty transaction whose marker is read back), then reads
what is there, pairs it with the source, and goes on. Nothing is assumed or counted.

A script: it yields instructions and is sent their answers (`instructions.Script`).
"""

from __future__ import annotations

from mm2.core.copy import (
    eras,
    facts,
    fence,
    first_anchor,
    from_java,
    instructions,
    map_writer,
    open_transactions,
    outcomes,
    resume,
    setup,
    stops,
)
from mm2.formats import map_record


def take(context: outcomes.Context) -> instructions.Script[outcomes.Outcome]:
    """One attempt. What ends in `BeginAgain` may be tried again after a backoff."""
    wanted = context.where.delivery is not setup.Delivery.AT_LEAST_ONCE
    fenced = yield from fence.fence(wanted=wanted)
    if not isinstance(fenced, fence.Fence):
        return outcomes.not_fenced(context.where, fenced)
    known = yield from outcomes.read_facts(context)
    if not isinstance(known, facts.Facts):
        return known
    attempt = outcomes.Attempt(context=context, fence=fenced, known=known)
    context.ours.update(known.producers)
    asked = known.request is not None
    another_topic = None if asked else recreated(context.where, known.era)
    if another_topic is not None:
        return another_topic
    hinders = yield from open_transactions.look(attempt)
    if hinders is not None:
        return hinders
    if asked:
        return (yield from eras.requested_era(attempt))
    if known.era is None and known.anchor is not None:
        return stops.era_missing(context.where, known.anchor.key.era)
    if known.era is None:
        begin = eras.first_start if known.java is None else from_java.first_take
        return (yield from begin(attempt))
    position = yield from resume.where_we_were(attempt)
    if not isinstance(position, resume.Position):
        return position
    return (yield from resume.pair(attempt, position))


def recreated(where: setup.PartitionSetup, era: map_record.Era | None) -> stops.Stop | None:
    """A topic id other than the era's: the name is the same, the topic is not."""
    if era is None:
        return None
    sides = (
        (False, era.source_topic_id, where.source_topic_id),
        (True, era.target_topic_id, where.target_topic_id),
    )
    found = (
        stops.recreated(where, on_target=on_target, was=was, now=now)
        for on_target, was, now in sides
    )
    return next((stop for stop in found if stop is not None), None)


def take_and_anchor(
    context: outcomes.Context, now_s: float
) -> instructions.Script[outcomes.Outcome | tuple[outcomes.Taken, map_writer.MapWriter]]:
    """`take`, and then the first anchor under the new epoch stored: only now may batches go out."""
    outcome = yield from take(context)
    if not isinstance(outcome, outcomes.Taken):
        return outcome
    written = first_anchor.map_of(context, outcome)
    first = written.write(now_s)
    stored = yield first
    if not isinstance(stored, instructions.Done):
        return outcomes.BeginAgain(reason="recording the first anchor")
    written.recorded(first.token)
    return outcome, written
