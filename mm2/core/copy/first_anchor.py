"""The map that an owner begins with: what the pairing of its take learned."""

from __future__ import annotations

from mm2.core.copy import map_writer, outcomes


def map_of(context: outcomes.Context, taken: outcomes.Taken) -> map_writer.MapWriter:
    """Its first write is the first anchor under the epoch of `taken`."""
    written = map_writer.MapWriter(
        topic=context.where.topic,
        partition=context.where.partition,
        era=taken.era,
        ordinal=taken.ordinal,
        epoch=taken.producer.epoch,
        leader_epoch=taken.leader_epoch,
        owner=context.owner,
        take_start=taken.take_start,
        through=taken.source,
        target_next=taken.target,
        source_epoch=taken.source_epoch,
    )
    for run in taken.runs:
        written.paired(run.source, run.source + run.delta)
    return written
