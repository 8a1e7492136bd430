"""The verdict over one schedule: what readers of the target see, against what the source holds.

Nothing lost, nothing twice, in order, unaltered, for both kinds of readers, except what receipts
name; every copied source offset translates exactly by the map; and once faults have ended, somebody
copies everything or stands still for a cause that really happened.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mm2.core.copy import standing, stops
from mm2.formats import receipt
from tests.model.delivery import source_log, target_log

if TYPE_CHECKING:
    from tests.model.delivery import world


class Kind(enum.StrEnum):
    """Which promise was broken. A violation is `kind: what was seen`."""

    LOST = "lost"
    DOUBLED = "doubled"
    DISORDERED = "out of order"
    ALTERED = "altered"
    ABORTED = "aborted, yet copied"
    MAP = "wrong in the map"
    STOPPED = "stopped without cause"
    UNSETTLED = "never settles"
    INVARIANT = "invariant"


def kind_of(violation: str) -> Kind:
    return Kind(violation.partition(":")[0])


def judge(around: world.World) -> list[str]:
    """Every promise that was broken, in words; empty when all were kept."""
    found = _unjustified_stops(around)
    if found:
        return found
    _name_unfenced_writes(around)
    committed = committed_view(around.target)
    found = _compare(around, committed, reader="read_committed")
    everything = [each for each in around.target.entries if not each.control]
    if not any(each.transactional for each in everything):
        found += _compare(around, everything, reader="read_uncommitted")
    return found + _check_map(around, committed)


def _name_unfenced_writes(around: world.World) -> None:
    """What a forgotten twin wrote is named by a stop that tells where it is.

    The receipt of an unfenced take-over names what stands in its range, as every receipt does. What
    comes behind that range is met at once in an exclusive mirror; in a shared one, where others
    write too, at the next take only: until then the receipt is all there is.
    """
    unfenced = receipt.ReceiptKind.UNFENCED_TAKE_OVER
    stated = any(each.kind is unfenced for each in around.log.receipts)
    said = (around.weather.shared and stated) or any(
        stop is not None and stop.cause is stops.Cause.NOT_PAIRED
        for stop in (each.machine.standing.stop for each in around.owners)
    )
    for entry in around.target.entries:
        entry.named |= entry.unfenced and said


def committed_view(target: target_log.TargetLog) -> list[target_log.Entry]:
    """What a read_committed reader has seen by now, in offset order."""
    open_: dict[int, list[target_log.Entry]] = defaultdict(list)
    aborted: set[int] = set()
    for entry in target.entries:
        if entry.control:
            ended = open_.pop(entry.producer, [])
            if not entry.commit:
                aborted.update(each.base for each in ended)
        elif entry.transactional:
            open_[entry.producer].append(entry)
    stable = min((each[0].base for each in open_.values() if each), default=target.end)
    return [
        each
        for each in target.entries
        if not each.control and each.base not in aborted and each.base < stable
    ]


# Contents


def _compare(around: world.World, seen: list[target_log.Entry], *, reader: str) -> list[str]:
    ours = [each for each in seen if not each.foreign]
    origins = _origins(around.source)
    known = [each for each in ours if source_log.content_of(each.data) in origins]
    if len(known) < len(ours):
        return [f"{Kind.ALTERED}: {reader}: records that the source never held"]
    if around.weather.identical:
        return _compare_counts(around, ours, reader=reader)
    found = []
    lives: dict[int, list[tuple[target_log.Entry, Origin]]] = defaultdict(list)
    for entry in ours:
        lives[entry.life].append((entry, origins[source_log.content_of(entry.data)]))
    for life, pairs in lives.items():
        found += _order(pairs, reader=f"{reader}, life {life}")
    copied = {origin.base for pairs in lives.values() for _, origin in pairs}
    missing = _missing(around, copied, origins)
    if missing:
        found.append(f"{Kind.LOST}: {reader}: source offsets {missing}")
    return found


class Origin(NamedTuple):
    """Where a content stands on the source, in the newest history that has it.

    `maybe` and `surely`: its transaction was committed in some, or in all histories; they differ
    where an unclean election of the source took the marker.
    """

    base: int
    maybe: bool
    surely: bool


def _origins(source: source_log.SourceLog) -> dict[source_log.Content, Origin]:
    found: dict[source_log.Content, Origin] = {}
    for branch in (*source.lost_branches, source.entries):
        for entry in branch:
            if entry.content is None:
                continue
            committed = bool(entry.committed)
            was = found.get(entry.content, Origin(0, False, True))
            found[entry.content] = Origin(
                entry.base, was.maybe or committed, was.surely and committed
            )
    return found


def _order(pairs: list[tuple[target_log.Entry, Origin]], *, reader: str) -> list[str]:
    found = []
    last = -1
    before: set[int] = set()
    for entry, origin in pairs:
        place = f"{reader}: source offset {origin.base} stands at {entry.base}"
        if not origin.maybe:
            found.append(f"{Kind.ABORTED}: {place}")
        if entry.named:
            continue
        if origin.base <= last:
            kind = Kind.DOUBLED if origin.base in before else Kind.DISORDERED
            found.append(f"{kind}: {place}, after {last}")
        last = max(last, origin.base)
        before.add(origin.base)
    return found


def _missing(
    around: world.World, copied: set[int], origins: dict[source_log.Content, Origin]
) -> list[int]:
    """Source offsets of the newest history that nobody copied and no receipt names."""
    era = _first_source(around)
    gone = [
        each.source
        for each in around.log.receipts
        if each.kind is receipt.ReceiptKind.SOURCE_GONE and each.source is not None
    ]
    return [
        each.base
        for each in around.source.entries
        if each.content is not None
        and origins[each.content].surely
        and era <= each.base < _end_of_duty(around)
        and each.base not in copied
        and not any(start <= each.base < end for start, end in gone)
    ]


def _first_source(around: world.World) -> int:
    """Source offset at which the copy was told to begin, last."""
    eras = around.log.partition.eras
    begun = [number for number, era in eras.items() if era.request or number == min(eras)]
    return eras[max(begun)].first_source if begun else 0


def _end_of_duty(around: world.World) -> int:
    """Everything was to be copied, unless the partition stands still for good reason."""
    return around.source.stable_end if around.finished else 0


def _compare_counts(around: world.World, ours: list[target_log.Entry], *, reader: str) -> list[str]:
    """All records are equal: only their number can be wrong."""
    if around.log.receipts or around.target.life or around.source.lost_branches:
        return []
    era = _first_source(around)
    wanted = [
        each
        for each in around.source.entries
        if not each.control and each.committed and era <= each.base < _end_of_duty(around)
    ]
    if not _end_of_duty(around) or len(wanted) == len(ours):
        return []
    kind = Kind.LOST if len(ours) < len(wanted) else Kind.DOUBLED
    return [f"{kind}: {reader}: {len(ours)} records where the source has {len(wanted)}"]


# The map


def _check_map(around: world.World, seen: list[target_log.Entry]) -> list[str]:
    """Source offsets of the newest era translate to where their records stand."""
    if around.weather.identical:
        return []
    held = around.log.partition
    anchor = held.anchor
    if anchor is None:
        return []
    era = held.eras[anchor.key.era]
    runs = held.runs(anchor.key.era)
    origins = _origins(around.source)
    wrong = []
    for entry in seen:
        if entry.foreign or entry.named or entry.base < era.first_target:
            continue
        source = origins[source_log.content_of(entry.data)].base
        if source >= anchor.segment.through:
            continue
        at = bisect_right(runs, source, key=lambda run: run.source) - 1
        told = source + runs[at].delta if at >= 0 else None
        if told != entry.base:
            place = f"source offset {source} stands at {entry.base}"
            wrong.append(f"{Kind.MAP}: {place}, the map says {told}")
    return wrong


# Liveness


def _unjustified_stops(around: world.World) -> list[str]:
    """Copies that stand still though nothing happened that could excuse it."""
    found = []
    alive = [each for each in around.owners if each.alive]
    for each in alive:
        machine = each.machine
        if machine.standing.phase is standing.Phase.STOPPED:
            assert machine.standing.stop is not None
            if not _justified(around, machine.standing.stop):
                found.append(f"{Kind.STOPPED}: {each.name}: {machine.standing.stop.message}")
        elif machine.standing.phase is standing.Phase.FENCED and not each.justly_fenced:
            found.append(f"{Kind.STOPPED}: {each.name} believes that another owner fenced it")
    stopped = any(each.machine.standing.phase is standing.Phase.STOPPED for each in alive)
    if not found and not around.finished and not stopped:
        places = [(each.name, each.machine.standing) for each in alive]
        states = [(name, place.phase.value, place.reason) for name, place in places]
        found.append(f"{Kind.UNSETTLED}: nobody finished: {states}")
    if not found and around.finished and around.late_takes:
        takes = f"{around.late_takes} takes after everything was copied"
        found.append(f"{Kind.UNSETTLED}: {takes}: owners fight")
    return found


def _justified(around: world.World, stop: stops.Stop) -> bool:
    truncated = bool(around.source.lost_branches)
    match stop.cause:
        case stops.Cause.SOURCE_TRUNCATED:
            return truncated
        case stops.Cause.NEEDS_OPENING:
            return around.source.cut_inside or truncated
        case stops.Cause.NOT_PAIRED:
            target = around.target
            return truncated or target.lost_something or bool(target.unfenced_writes)
        case stops.Cause.HANGING:
            return around.target.lost_something and len(around.coordinator.ids_given) > 1
        case stops.Cause.NOT_EMPTY:
            return around.target.log_start > 0
    return False
