"""What is to be said of a consumer group that moves: what forbids it, what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from connect_runtime.base import amounts
from mm2.core import commands
from mm2.core.failover import codes, group_moves, orders, rereads, seen, verdicts
from mm2.core.offsets import group_sync

_Way, _Weight, _Finding = group_moves.Way, verdicts.Weight, verdicts.Finding
_TOPICS_MAX = 5


def find(
    wanted: orders.Wanted, found: seen.Seen, group: group_moves.GroupMove, *, final: bool
) -> Iterator[verdicts.Finding]:
    """`final`: this is the last look of a planned move."""
    yield from _of_no_position(wanted, found, group)
    yield from _of_group(wanted, group, final=final)
    if group.is_streams:
        yield _of_streams(wanted, group)
    yield from _of_reading_group(wanted, found, group)
    for move in group.partitions:
        yield from _of_move(wanted, group, move, waits=wanted.planned and not final)


def of_unmoved(
    wanted: orders.Wanted, found: seen.Seen, group: seen.UnmovedGroup
) -> verdicts.Finding:
    """A share or streams group: named, so that nobody takes it for moved."""
    name, here, there = group.name, wanted.origin, wanted.destination
    topics = sorted(group.topics or ())
    if group.unread:
        reads = f"what it reads on {here} is unknown ({group.unread})"
    elif topics:
        more = len(topics) - _TOPICS_MAX
        reads = f"it reads {', '.join(topics[:_TOPICS_MAX])}" + f" and {more} more" * (more > 0)
    else:
        reads = f"it has read nothing on {here} yet"
    if group.type == "share":
        code, starts = codes.SHARE_GROUP, "at the log's end by default (share.auto.offset.reset)"
        mirrors = sorted((group.topics or {}).values()) or ["TOPIC"]
        do = f"to let it start earlier: {found.tools.reset_share_group(name, mirrors)}"
    else:
        code, starts = codes.STREAMS_GROUP, "as auto.offset.reset says, with empty state stores"
        offsets = commands.translate_group(name, found.flow, file=wanted.file)
        reset = found.tools.reset_streams_group(name, "FILE")
        do = f"to let it continue at its offsets: {offsets} > FILE && {reset}"
    text = (
        f"{group.type} group {name} is not moved: mm2 moves only consumer groups; {reads}. On "
        f"{there} it starts {starts}; {do}. Then add --accept {code}:{name}"
    )
    return _Finding(weight=_Weight.FORBIDS, code=code, text=text, group=name)


def _of_no_position(
    wanted: orders.Wanted, found: seen.Seen, group: group_moves.GroupMove
) -> Iterator[verdicts.Finding]:
    """Of a topic that it reads: its consumers begin there as a new group's do."""
    stands = {each.partition for each in group.partitions if each.way is not _Way.NO_OFFSET}
    topics = {each.topic for each in stands}
    nowhere = [
        each.partition
        for each in found.mirrored
        if each.partition.topic in topics
        and each.partition not in stands
        and each.there is not None
        and each.there.high_watermark > each.there.start
    ]
    if nowhere:
        more = f" and {len(nowhere) - 1} more" if len(nowhere) > 1 else ""
        yield _Finding(
            weight=_Weight.NOTE,
            code="no-position",
            text=f"group {group.group} has no position in {min(nowhere)}{more}: on "
            f"{wanted.destination} auto.offset.reset says where it begins, and latest passes over "
            "what is there",
            group=group.group,
        )


_BARRED = {
    group_sync.GroupState.ACTIVE: ("group-active", "has members there already: stop them"),
    group_sync.GroupState.FOREIGN: ("group-foreign", "is no consumers' group there"),
    group_sync.GroupState.UNKNOWN: ("group-unknown", "could not be looked at there"),
}


def _of_streams(wanted: orders.Wanted, group: group_moves.GroupMove) -> verdicts.Finding:
    return _Finding(
        weight=_Weight.COSTS,
        code="streams-state",
        text=f"group {group.group} is a Kafka Streams application: its offsets are moved, its "
        f"state stores are not. On {wanted.destination} it starts with empty state stores; to "
        "rebuild them, reset it there first (kafka-streams-application-reset.sh)",
        group=group.group,
    )


def _of_group(
    wanted: orders.Wanted, group: group_moves.GroupMove, *, final: bool
) -> Iterator[verdicts.Finding]:
    name = group.group
    if group.barred is not None:
        code, words = _BARRED[group.barred]
        text = f"group {name} on {wanted.destination} {words}"
        if group.there_unread:
            text += f" ({group.there_unread}): try again, or see that we may Describe it"
        yield _Finding(weight=_Weight.FORBIDS, code=code, text=text, group=name)
    reads_on = group.state is group_sync.GroupState.ACTIVE and group.barred is None
    if reads_on and (final or not wanted.planned):
        yield _Finding(
            weight=_Weight.FORBIDS if final else _Weight.COSTS,
            code="group-still-here",
            text=f"group {name} has members on {wanted.origin} still: what they read from now on "
            "is read again",
            group=name,
        )


def _of_reading_group(
    wanted: orders.Wanted, found: seen.Seen, group: group_moves.GroupMove
) -> Iterator[verdicts.Finding]:
    """By whose word it is known how far it had got."""
    name, why = group.group, group.unread_why
    then = "its last checkpoint counts" if group.partitions else "and it has no checkpoint"
    if why and group.refused:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="group-refused",
            text=f"group {name} may not be read on {wanted.origin} ({why}): grant us Describe of "
            f"it there; without that {then}",
            group=name,
        )
    elif why:
        yield _Finding(
            weight=_Weight.FORBIDS if wanted.planned or not group.partitions else _Weight.COSTS,
            code="group-unread",
            text=f"group {name} could not be read on {wanted.origin} ({why}); {then}",
            group=name,
        )
    if group.origin is seen.Origin.CHECKPOINTED and not group.partitions:
        yield _Finding(
            weight=_Weight.COSTS,
            code="as-of-checkpoint",
            text=f"group {name} begins on {wanted.destination} where auto.offset.reset says; how "
            "many records it reads again is unknown",
            group=name,
        )
    elif group.origin is seen.Origin.CHECKPOINTED:
        last = "its last checkpoint"
        if group.written_ms is not None:
            last += f", {rereads.age(found.at_ms - group.written_ms)} old"
        many = "how many records is unknown"
        if group.again_known_max is not None:
            held = amounts.counted(group.again_known_max, "record")
            many += f", at most the {held} on {wanted.destination} after the checkpoint"
        if group.may_read_more:
            many += (
                ", and of topics it began to read since, auto.offset.reset says where it begins: "
                "earliest reads all of them again, latest passes over what is there"
            )
        yield _Finding(
            weight=_Weight.COSTS,
            code="as-of-checkpoint",
            text=f"group {name} resumes at {last}; records it read later are re-read: {many}",
            group=name,
        )


def _of_move(
    wanted: orders.Wanted,
    group: group_moves.GroupMove,
    each: group_moves.PartitionMove,
    *,
    waits: bool,
) -> Iterator[verdicts.Finding]:
    for weight, code, text in (*_of_way(wanted, each), *_of_reading(wanted, each, waits=waits)):
        told = f"group {group.group}, {each.partition}: {text}"
        yield _Finding(weight=weight, code=code, text=told, group=group.group)


def _of_way(
    wanted: orders.Wanted, each: group_moves.PartitionMove
) -> Iterator[tuple[verdicts.Weight, str, str]]:
    if each.unheard:
        place = f", {each.to} by the map," if each.to is not None else ""
        text = (
            f"{wanted.destination} does not answer for {each.mirror} ({each.unheard}), so its "
            f"place there{place} could not be looked at: ask again when it has a leader that does"
        )
        yield _Weight.FORBIDS, codes.MIRROR_UNKNOWN, text
    match each.way:
        case _Way.UNTRANSLATED:
            text = f"its offset {each.committed} has no place there ({each.why})"
            yield _Weight.FORBIDS, "untranslated", text
        case _Way.MISSING | _Way.PAST_THE_END:
            text = f"its place there, {each.mirror} at {each.to}, does not exist"
            yield _Weight.FORBIDS, "no-place", text
        case _Way.IS_AHEAD:
            count = amounts.counted((each.at or 0) - (each.to or 0), "offset")
            text = (
                f"it stands at {each.at} there, {count} beyond its place {each.to}, and is "
                "left there: what of them it has not read is passed over (--set-back would let it "
                "read again)"
            )
            yield _Weight.COSTS, "is-ahead", text
        case _Way.MOVES if each.at is not None and each.to is not None and each.to < each.at:
            text = f"it stands at {each.at} there, and is set back to its place {each.to}"
            yield _Weight.NOTE, "set-back", text
        case _Way.NOT_MIRRORED:
            yield _Weight.NOTE, "not-mirrored", "it is not mirrored"
        case _:
            pass


def _of_reading(
    wanted: orders.Wanted, each: group_moves.PartitionMove, *, waits: bool
) -> Iterator[tuple[verdicts.Weight, str, str]]:
    """`waits`: what is not copied yet is waited for before positions are taken."""
    weight, waited = _Weight.COSTS, ""
    if waits and each.unmirrored:
        weight, waited = _Weight.NOTE, " as it stands now; what is not copied yet is waited for"
    if each.stopped:
        text = f"of {each.mirror} nobody knows what it has read: {each.stopped}"
        yield _Weight.FORBIDS, "stopped", text
    if each.unsure:
        yield _Weight.FORBIDS, "shared-names", each.unsure
    if each.oldest:
        text = f"its offset {each.committed} is older than all that is known: it goes on at the"
        yield _Weight.COSTS, "too-old", f"{text} first record that is left, {each.to}"
    elif each.again_max and each.basis is seen.Origin.COMMITTED and each.to is not None:
        count = amounts.counted(each.again_max, "record", "are")
        yield weight, "again", f"up to {count} read again{waited}"
    if each.unmirrored:
        count = amounts.counted(each.unmirrored, "record")
        if each.basis is not seen.Origin.COMMITTED:
            count = f"at least {count}"
        are = amounts.agreeing(each.unmirrored, "are")
        text = f"{count} it has read {are} not on {wanted.destination}{waited}"
        yield weight, "unmirrored", text
    if each.gone:
        count = amounts.counted(each.gone, "record", "were")
        yield _Weight.COSTS, "gone", f"{count} deleted there before it had read so far"
