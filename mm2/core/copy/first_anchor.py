"""The map that an owner begins with: what the pairing of its take learned."""

from __future__ import annotations

from collections.abc import Sequence

from mm2.core.copy import map_writer, outcomes
from mm2.formats import map_record


def map_of(context: outcomes.Context, taken: outcomes.Taken) -> map_writer.MapWriter:
    """Its first write is the first anchor under the epoch of `taken`.

    A long tail's runs go into several segments before it, each of them an anchor, too, where no
    more than that gets stored.
    """
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
    start = 0
    for seam in taken.seams:
        _add(written, taken.runs[start : seam.runs])
        written.close_segment(
            through=seam.source, target_next=seam.target, source_epoch=seam.source_epoch
        )
        start = seam.runs
    _add(written, taken.runs[start:])
    return written


def _add(written: map_writer.MapWriter, runs: Sequence[map_record.Run]) -> None:
    for run in runs:
        written.paired(run.source, run.source + run.delta)
