"""The verdict over one schedule: what readers of the target see, against what the source holds.

Nothing lost, nothing twice, in order, unaltered, for both kinds of readers, except what incidents
name; every copied source offset translates exactly by the map; and once faults have ended, somebody
copies everything or stands still for a cause that really happened.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mm2.formats import record_batch, record_codec
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.formats.record_codec import BatchRecord
from mm2.offsets.offset_map import EraRuns
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_state import PartitionPhase
from tests.model.delivery import opposite_flow, person, target_log
from tests.model.delivery.target_log import Entry

if TYPE_CHECKING:
    from tests.model.delivery.world import World


Content = tuple[int, bytes]
"""What readers see of a record: its timestamp, and its key, value and headers as one."""


class Kind(enum.StrEnum):
    """Which promise was broken. A violation is `kind: what was seen`."""

    LOST = "lost"
    DOUBLED = "doubled"
    DISORDERED = "out of order"
    ALTERED = "altered"
    ABORTED = "aborted, yet copied"
    BACK = "copied back"
    MAP = "wrong in the map"
    CLAIMED = "incident without cause"
    STOPPED = "stopped without cause"
    UNSETTLED = "never settles"
    INVARIANT = "invariant"


def kind_of(violation: str) -> Kind:
    return Kind(violation.partition(":")[0])


def judge(around: World) -> list[str]:
    """Every promise that was broken, in words; empty when all were kept."""
    found = _unjustified_stops(around)
    if found:
        return found
    claimed = _unjustified_incidents(around)
    _name_unfenced_writes(around)
    committed = target_log.committed_view(around.target)
    found = _compare(around, committed, reader="read_committed")
    if any(kind_of(each) is Kind.BACK for each in found):
        return found
    everything = [each for each in around.target.entries if not each.control]
    if not any(each.transactional for each in everything):
        found += _compare(around, everything, reader="read_uncommitted")
    found += _anchor_behind(around)
    unsure = around.weather.java == "turns" and around.weather.shared
    if around.weather.unfenced or unsure:
        return [each for each in found if kind_of(each) not in _FENCES_PREVENT]
    if around.weather.overlaps:
        found = [each for each in found if kind_of(each) not in _FENCES_PREVENT]
    return found + claimed + _check_map(around, committed)


_FENCES_PREVENT = (Kind.DOUBLED, Kind.DISORDERED)
"""Without the right to a transactional id the promise is: at least once. So it is where others
write, too, and Java was there: what it wrote cannot be told from theirs; and while it runs."""


def _name_unfenced_writes(around: World) -> None:
    """What a forgotten twin wrote is named by a stop that tells where it is.

    The incident of an unfenced take-over names what stands in its range, as every incident does.
    What comes behind that range is met at once in an exclusive mirror; in a shared one, where
    others write too, at the next take only: until then the incident is all there is. So it is where
    nobody wrote after it, or everybody stood still for so long that brokers forgot who fenced whom
    (the real ones come back to it every ten minutes; here they have given up).
    """
    unfenced = IncidentKind.UNFENCED_TAKE_OVER
    stated = any(each.kind is unfenced for each in around.log.incidents)
    said = (around.weather.shared and stated) or any(
        stop is not None and stop.cause is HaltCause.TAIL_MISMATCH
        for stop in (each.machine.state.halt for each in around.owners)
    )
    written = max((each.base for each in around.target.entries if not each.unfenced), default=-1)
    for entry in around.target.entries:
        idle = stated or not around.finished
        if entry.unfenced and (said or (idle and entry.base > written)):
            entry.name((entry.base, entry.last + 1))


# Contents


class Seen(NamedTuple):
    """One record on the target, and the batch that it stands in; `left` by the cleaner."""

    offset: int
    content: Content
    entry: Entry
    left: bool


class Origin(NamedTuple):
    """Where a content stands on the source, in the newest history that has it.

    `maybe` and `surely`: its transaction was committed in some, or in all histories; they differ
    where an unclean election of the source took the marker.
    """

    offset: int
    maybe: bool
    surely: bool


def _records(entries: list[Entry]) -> list[Seen]:
    """What is in our batches, as it was written."""
    found = []
    for entry in entries:
        if entry.foreign:
            continue
        left = {each.offset for each in _opened(entry.data)}
        for offset, timestamp, body in _opened(entry.written):
            found.append(Seen(offset, (timestamp, body), entry, offset in left))
    return found


def _opened(data: bytes) -> list[BatchRecord]:
    batch = memoryview(data)
    return record_codec.decode_batch(record_batch.read_batch_header(batch), batch) if data else []


def _content(around: World, record: BatchRecord) -> Content | None:
    """What is to become of a source record; None when it is to be left out."""
    if around.transform is None:
        return record.timestamp, record.body
    became = around.transform(record_codec.decode_record_body(record.body), record.timestamp)
    return None if became is None else (record.timestamp, record_codec.encode_record_body(became))


def _origins(around: World) -> dict[Content, Origin]:
    found: dict[Content, Origin] = {}
    source = around.source
    for branch in (source.cleaned, *source.lost_branches, source.entries):
        for entry in opposite_flow.local(branch):
            committed = bool(entry.committed)
            for record in entry.held:
                content = _content(around, record)
                if content is None:
                    continue
                was = found.get(content, Origin(0, False, True))
                found[content] = Origin(
                    record.offset, was.maybe or committed, was.surely and committed
                )
    return found


def _compare(around: World, entries: list[Entry], *, reader: str) -> list[str]:
    seen = _records(entries)
    origins = _origins(around)
    theirs = {_content(around, each) for each in opposite_flow.brought(around.source)}
    back = [each.offset for each in seen if each.content in theirs]
    if back and not around.weather.identical:
        return [f"{Kind.BACK}: {reader}: what the opposite flow brought, at {back}"]
    if any(each.content not in origins for each in seen):
        return [f"{Kind.ALTERED}: {reader}: records that the source never held"]
    if around.weather.identical:
        return _compare_counts(around, seen, reader=reader)
    found = []
    lives: dict[int, list[Seen]] = defaultdict(list)
    for each in seen:
        lives[each.entry.life].append(each)
    for life, part in lives.items():
        found += _order(part, origins, reader=f"{reader}, life {life}")
    taken = [each for each in around.target.entries if each.never_seen and each.once_committed]
    gone = _records([each for each in around.target.entries if each.seen] + taken)
    copied = {origins[each.content].offset for each in (*seen, *gone) if each.content in origins}
    missing = _missing(around, copied, origins)
    if missing:
        found.append(f"{Kind.LOST}: {reader}: source offsets {missing}")
    return found + _newest_of_keys(around, seen, reader=reader)


def _order(seen: list[Seen], origins: dict[Content, Origin], *, reader: str) -> list[str]:
    found = []
    last = -1
    before: set[int] = set()
    for each in seen:
        origin = origins[each.content]
        place = f"{reader}: source offset {origin.offset} stands at {each.offset}"
        if not origin.maybe and not each.entry.java:
            found.append(f"{Kind.ABORTED}: {place}")
        if each.offset >= each.entry.named_from or not each.left:
            continue
        theirs = each.entry.java or each.entry.late
        if origin.offset <= last and not theirs:
            kind = Kind.DOUBLED if origin.offset in before else Kind.DISORDERED
            found.append(f"{kind}: {place}, after {last}")
        last = max(last, origin.offset)
        before.add(origin.offset)
    return found


def _missing(around: World, copied: set[int], origins: dict[Content, Origin]) -> list[int]:
    """Source offsets of the newest history that nobody copied and no incident names.

    What was truncated, written anew and deleted at once left nothing that could tell of it.
    """
    era = _first_source(around)
    gone = [
        each.source
        for each in around.log.incidents
        if each.kind is IncidentKind.SOURCE_GONE and each.source is not None
    ]
    wanted = {
        record.offset: content
        for entry in opposite_flow.local(around.source.entries)
        for record in entry.held
        for content in (_content(around, record),)
        if content is not None
    }
    return [
        offset
        for offset, content in wanted.items()
        if origins[content].surely
        and era <= offset < _end_of_duty(around)
        and offset not in copied
        and not any(start <= offset < end for start, end in gone)
        and not (around.source.lost_branches and offset < around.source.log_start)
    ]


def _newest_of_keys(around: World, seen: list[Seen], *, reader: str) -> list[str]:
    """Who reads a compacted topic to its end keeps the last record of each key."""
    quiet = around.weather.compaction and _end_of_duty(around) and not around.source.lost_branches
    if not quiet or around.log.partition.eras == {}:
        return []
    wanted = {
        record_codec.decode_record_body(record.body).key: _content(around, record)
        for entry in opposite_flow.local(around.source.entries)
        if entry.committed
        for record in entry.held
        if record.offset >= max(_first_source(around), around.source.log_start)
    }
    have = {record_codec.decode_record_body(each.content[1]).key: each.content for each in seen}
    wrong = [
        key for key, content in wanted.items() if content is not None and have.get(key) != content
    ]
    return [f"{Kind.DISORDERED}: {reader}: older records of {wrong} come last"] if wrong else []


def _first_source(around: World) -> int:
    """Source offset at which the copy was told to begin, last."""
    eras = around.log.partition.eras
    begun = [number for number, era in eras.items() if era.request or number == min(eras)]
    return eras[max(begun)].first_source if begun else 0


def _end_of_duty(around: World) -> int:
    """Everything was to be copied, unless the partition stands still for good reason."""
    return around.source.stable_end if around.finished else 0


def _compare_counts(around: World, seen: list[Seen], *, reader: str) -> list[str]:
    """All records are equal: only their number can be wrong."""
    if around.log.incidents or around.target.life or around.source.lost_branches:
        return []
    era = _first_source(around)
    wanted = [
        record
        for entry in opposite_flow.local(around.source.entries)
        if entry.committed
        for record in entry.held
        if era <= record.offset < _end_of_duty(around)
    ]
    if not _end_of_duty(around) or len(wanted) == len(seen):
        return []
    kind = Kind.LOST if len(seen) < len(wanted) else Kind.DOUBLED
    return [f"{kind}: {reader}: {len(seen)} records where the source has {len(wanted)}"]


# The map


def _check_map(around: World, entries: list[Entry]) -> list[str]:
    """Source offsets of the newest era translate to where their records stand."""
    untold = around.weather.java == "turns" and _stopped(around)
    if around.weather.identical or untold:
        return []
    held = around.log.partition
    anchor = held.resume_point
    if anchor is None:
        return []
    era = held.eras[anchor.key.era]
    runs = EraRuns.from_segments(held.segments, anchor.key.era, era)
    origins = _origins(around)
    wrong = []
    for each in _records(entries):
        named = each.offset >= each.entry.named_from or not each.left
        if named or each.offset < era.first_target:
            continue
        source = origins[each.content].offset
        if source >= anchor.segment.through:
            continue
        if source < runs.floor:
            if source >= around.source.log_start:
                wrong.append(f"{Kind.MAP}: source offset {source} is not in the map any more")
            continue
        told = runs.translate_to_target(source)
        if not told.lowest <= each.offset <= told.highest:
            place = f"source offset {source} stands at {each.offset}"
            wrong.append(f"{Kind.MAP}: {place}, the map says {told}")
    return wrong


def _anchor_behind(around: World) -> list[str]:
    """Who takes the partition next would begin there; whoever stands still writes no anchor."""
    if _stopped(around):
        return []
    anchor, end = around.log.partition.resume_point, _end_of_duty(around)
    through = 0 if anchor is None else anchor.segment.through
    if through >= end:
        return []
    return [f"{Kind.MAP}: the newest anchor is at {through}, all is copied up to {end}"]


# Liveness


def _unjustified_stops(around: World) -> list[str]:
    """Copies that stand still though nothing happened that could excuse it."""
    found = [f"{Kind.STOPPED}: {each}" for each in around.person.misled]
    alive = [each for each in around.owners if each.alive]
    for each in alive:
        machine = each.machine
        if machine.state.phase is PartitionPhase.HALTED:
            assert machine.state.halt is not None
            if not _justified(around, machine.state.halt):
                found.append(f"{Kind.STOPPED}: {each.name}: {machine.state.halt.message}")
        elif machine.state.phase is PartitionPhase.FENCED and not each.justly_fenced:
            found.append(f"{Kind.STOPPED}: {each.name} believes that another owner fenced it")
    if not found and not around.finished and not _stopped(around):
        places = [(each.name, each.machine.state) for each in alive]
        states = [(name, place.phase.value, place.reason) for name, place in places]
        found.append(f"{Kind.UNSETTLED}: nobody finished: {states}")
    # A stop that lasts is looked at again every half minute: that is no fight.
    if not found and around.finished and around.late_takes and not _stopped(around):
        takes = f"{around.late_takes} takes after everything was copied"
        found.append(f"{Kind.UNSETTLED}: {takes}: owners fight")
    return found


def _stopped(around: World) -> bool:
    """Some copy that lives stands still."""
    phases = [each.machine.state.phase for each in around.owners if each.alive]
    return PartitionPhase.HALTED in phases


def _unjustified_incidents(around: World) -> list[str]:
    """What an incident names is not judged: so it must not be stated where nothing happened."""
    return [
        f"{Kind.CLAIMED}: {each.kind.value}: {each.detail}"
        for each in around.log.incidents
        if not _has_cause(around, each.kind) or _names_single_ones(around, each)
    ]


def _names_single_ones(around: World, stated: Incident) -> bool:
    """Does it call a record a double that stands nowhere before?"""
    if stated.kind is not IncidentKind.DOUBLED_BY_JAVA or around.weather.overlaps:
        return False  # Java may store its word before what it speaks of has come to stand there
    assert stated.target is not None
    start, end = stated.target
    before: set[Content] = set()
    for each in _records(around.target.entries):
        if start <= each.offset < end and each.content not in before:
            return True
        before.add(each.content)
    return False


def _has_cause(around: World, kind: IncidentKind) -> bool:
    source, target = around.source, around.target
    match kind:
        case IncidentKind.SOURCE_GONE:
            return source.log_start > 0
        case IncidentKind.NOT_PAIRED:
            history = bool(source.lost_branches) or target.lost_something
            cleaned = around.weather.compaction or target.log_start > 0
            cleaned = cleaned or (around.weather.java == "turns" and around.weather.shared)
            return history or cleaned or bool(target.unfenced_writes)
        case IncidentKind.UNFENCED_TAKE_OVER:
            return len(around.coordinator.ids_given) > 1
        case IncidentKind.DOUBLED_BY_JAVA | IncidentKind.UNVERIFIED_TAKEOVER:
            return around.weather.java == "turns"
    return True


def _justified(around: World, stop: PartitionHalt) -> bool:
    truncated = bool(around.source.lost_branches)
    match stop.cause:
        case HaltCause.SOURCE_TRUNCATED:
            return truncated
        case HaltCause.TAIL_MISMATCH:
            target = around.target
            return truncated or target.lost_something or bool(target.unfenced_writes)
        case HaltCause.HANGING_TRANSACTION:
            return person.stands_open(around, stop) or around.weather.unfenced
        case HaltCause.TARGET_NOT_EMPTY:
            # Java may have been killed before it told anybody that it was there.
            return around.target.log_start > 0 or around.weather.java == "turns"
        case HaltCause.FOREIGN_WRITES:
            # Then Java was there before it had told anybody.
            return around.weather.java == "turns" and "MirrorMaker 2" not in stop.message
    return False
