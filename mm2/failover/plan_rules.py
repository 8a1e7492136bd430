"""Rules that make the findings of a plan from a snapshot: what forbids the move and what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from connect_runtime.base import plurals
from mm2 import operator_commands
from mm2.clusters import reread_estimate
from mm2.clusters.pair_snapshot import (
    AgreedEnds,
    ClusterPairSnapshot,
    MirroredPartition,
    PositionBasis,
    UnmovedGroup,
    UnreplicatedRecords,
)
from mm2.failover import plan_findings
from mm2.failover.group_plan import GroupAction, GroupMove, PartitionMove
from mm2.failover.move_request import MoveRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.offsets.group_offset_sync import GroupState

_Action, _GroupSeverity, _GroupFinding = GroupAction, PlanSeverity, PlanFinding
_MAX_TOPICS_NAMED = 5


def check_group(
    wanted: MoveRequest, found: ClusterPairSnapshot, group: GroupMove, *, final: bool
) -> Iterator[PlanFinding]:
    """`final`: this is the last look of a planned move."""
    yield from _check_missing_positions(wanted, found, group)
    yield from _check_group_state(wanted, group, final=final)
    if group.is_streams:
        yield _describe_streams_group(wanted, group)
    yield from _check_position_basis(wanted, found, group)
    for move in group.partitions:
        yield from _check_partition_move(wanted, group, move, waits=wanted.planned and not final)


def describe_unmoved_group(
    wanted: MoveRequest, found: ClusterPairSnapshot, group: UnmovedGroup
) -> PlanFinding:
    """A share or streams group: named, so that nobody takes it for moved."""
    name, here, there = group.name, wanted.origin, wanted.destination
    topics = sorted(group.topics or ())
    if group.unread:
        reads = f"what it reads on {here} is unknown ({group.unread})"
    elif topics:
        more = len(topics) - _MAX_TOPICS_NAMED
        reads = f"it reads {', '.join(topics[:_MAX_TOPICS_NAMED])}" + f" and {more} more" * (
            more > 0
        )
    else:
        reads = f"it has read nothing on {here} yet"
    if group.type == "share":
        code, starts = (
            plan_findings.SHARE_GROUP,
            "at the log's end by default (share.auto.offset.reset)",
        )
        mirrors = sorted((group.topics or {}).values()) or ["TOPIC"]
        do = f"to let it start earlier: {found.tools.reset_share_group(name, mirrors)}"
    else:
        code, starts = (
            plan_findings.STREAMS_GROUP,
            "as auto.offset.reset says, with empty state stores",
        )
        offsets = operator_commands.build_translate_command(name, found.flow, file=wanted.file)
        reset = found.tools.reset_streams_group(name, "FILE")
        do = f"to let it continue at its offsets: {offsets} > FILE && {reset}"
    text = (
        f"{group.type} group {name} is not moved: mm2 moves only consumer groups; {reads}. On "
        f"{there} it starts {starts}; {do}. Then add --accept {code}:{name}"
    )
    return _GroupFinding(weight=_GroupSeverity.FORBIDS, code=code, text=text, group=name)


def _check_missing_positions(
    wanted: MoveRequest, found: ClusterPairSnapshot, group: GroupMove
) -> Iterator[PlanFinding]:
    """Of a topic that it reads: its consumers begin there as a new group's do."""
    stands = {each.partition for each in group.partitions if each.way is not _Action.NO_OFFSET}
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
        yield _GroupFinding(
            weight=_GroupSeverity.NOTE,
            code="no-position",
            text=f"group {group.group} has no position in {min(nowhere)}{more}: on "
            f"{wanted.destination} auto.offset.reset says where it begins, and latest passes over "
            "what is there",
            group=group.group,
        )


_BLOCKED_REASONS = {
    GroupState.ACTIVE: ("group-active", "has members there already: stop them"),
    GroupState.FOREIGN: ("group-foreign", "is no consumers' group there"),
    GroupState.UNKNOWN: ("group-unknown", "could not be looked at there"),
}


def _describe_streams_group(wanted: MoveRequest, group: GroupMove) -> PlanFinding:
    return _GroupFinding(
        weight=_GroupSeverity.COSTS,
        code="streams-state",
        text=f"group {group.group} is a Kafka Streams application: its offsets are moved, its "
        f"state stores are not. On {wanted.destination} it starts with empty state stores; to "
        "rebuild them, reset it there first (kafka-streams-application-reset.sh)",
        group=group.group,
    )


def _check_group_state(
    wanted: MoveRequest, group: GroupMove, *, final: bool
) -> Iterator[PlanFinding]:
    name = group.group
    if group.barred is not None:
        code, words = _BLOCKED_REASONS[group.barred]
        text = f"group {name} on {wanted.destination} {words}"
        if group.there_unread:
            text += f" ({group.there_unread}): try again, or see that we may Describe it"
        yield _GroupFinding(weight=_GroupSeverity.FORBIDS, code=code, text=text, group=name)
    reads_on = group.state is GroupState.ACTIVE and group.barred is None
    if reads_on and (final or not wanted.planned):
        yield _GroupFinding(
            weight=_GroupSeverity.FORBIDS if final else _GroupSeverity.COSTS,
            code="group-still-here",
            text=f"group {name} has members on {wanted.origin} still: what they read from now on "
            "is read again",
            group=name,
        )


def _check_position_basis(
    wanted: MoveRequest, found: ClusterPairSnapshot, group: GroupMove
) -> Iterator[PlanFinding]:
    """By whose word it is known how far it had got."""
    name, why = group.group, group.unread_why
    then = "its last checkpoint counts" if group.partitions else "and it has no checkpoint"
    if why and group.refused:
        yield _GroupFinding(
            weight=_GroupSeverity.FORBIDS,
            code="group-refused",
            text=f"group {name} may not be read on {wanted.origin} ({why}): grant us Describe of "
            f"it there; without that {then}",
            group=name,
        )
    elif why:
        yield _GroupFinding(
            weight=_GroupSeverity.FORBIDS
            if wanted.planned or not group.partitions
            else _GroupSeverity.COSTS,
            code="group-unread",
            text=f"group {name} could not be read on {wanted.origin} ({why}); {then}",
            group=name,
        )
    if group.origin is PositionBasis.CHECKPOINTED and not group.partitions:
        yield _GroupFinding(
            weight=_GroupSeverity.COSTS,
            code="as-of-checkpoint",
            text=f"group {name} begins on {wanted.destination} where auto.offset.reset says; how "
            "many records it reads again is unknown",
            group=name,
        )
    elif group.origin is PositionBasis.CHECKPOINTED:
        last = "its last checkpoint"
        if group.written_ms is not None:
            last += f", {reread_estimate.format_age(found.at_ms - group.written_ms)} old"
        many = "how many records is unknown"
        if group.again_known_max is not None:
            held = plurals.format_count(group.again_known_max, "record")
            many += f", at most the {held} on {wanted.destination} after the checkpoint"
        if group.may_read_more:
            many += (
                ", and of topics it began to read since, auto.offset.reset says where it begins: "
                "earliest reads all of them again, latest passes over what is there"
            )
        yield _GroupFinding(
            weight=_GroupSeverity.COSTS,
            code="as-of-checkpoint",
            text=f"group {name} resumes at {last}; records it read later are re-read: {many}",
            group=name,
        )


def _check_partition_move(
    wanted: MoveRequest,
    group: GroupMove,
    each: PartitionMove,
    *,
    waits: bool,
) -> Iterator[PlanFinding]:
    for weight, code, text in (
        *_check_action(wanted, each),
        *_check_rereads(wanted, each, waits=waits),
    ):
        told = f"group {group.group}, {each.partition}: {text}"
        yield _GroupFinding(weight=weight, code=code, text=told, group=group.group)


def _check_action(
    wanted: MoveRequest, each: PartitionMove
) -> Iterator[tuple[PlanSeverity, str, str]]:
    if each.unheard:
        place = f", {each.to} by the map," if each.to is not None else ""
        text = (
            f"{wanted.destination} does not answer for {each.mirror} ({each.unheard}), so its "
            f"place there{place} could not be looked at: ask again when it has a leader that does"
        )
        yield _GroupSeverity.FORBIDS, plan_findings.MIRROR_UNKNOWN, text
    match each.way:
        case _Action.UNTRANSLATED:
            text = f"its offset {each.committed} has no place there ({each.why})"
            yield _GroupSeverity.FORBIDS, "untranslated", text
        case _Action.MISSING | _Action.PAST_THE_END:
            text = f"its place there, {each.mirror} at {each.to}, does not exist"
            yield _GroupSeverity.FORBIDS, "no-place", text
        case _Action.IS_AHEAD:
            count = plurals.format_count((each.at or 0) - (each.to or 0), "offset")
            text = (
                f"it stands at {each.at} there, {count} beyond its place {each.to}, and is "
                "left there: what of them it has not read is passed over (--set-back would let it "
                "read again)"
            )
            yield _GroupSeverity.COSTS, "is-ahead", text
        case _Action.MOVES if each.at is not None and each.to is not None and each.to < each.at:
            text = f"it stands at {each.at} there, and is set back to its place {each.to}"
            yield _GroupSeverity.NOTE, "set-back", text
        case _Action.NOT_MIRRORED:
            yield _GroupSeverity.NOTE, "not-mirrored", "it is not mirrored"
        case _:
            pass


def _check_rereads(
    wanted: MoveRequest, each: PartitionMove, *, waits: bool
) -> Iterator[tuple[PlanSeverity, str, str]]:
    """`waits`: what is not copied yet is waited for before positions are taken."""
    weight, waited = _GroupSeverity.COSTS, ""
    if waits and each.unmirrored:
        weight, waited = (
            _GroupSeverity.NOTE,
            " as it stands now; what is not copied yet is waited for",
        )
    if each.stopped:
        text = f"of {each.mirror} nobody knows what it has read: {each.stopped}"
        yield _GroupSeverity.FORBIDS, "stopped", text
    if each.unsure:
        yield _GroupSeverity.FORBIDS, "shared-names", each.unsure
    if each.oldest:
        text = f"its offset {each.committed} is older than all that is known: it goes on at the"
        yield _GroupSeverity.COSTS, "too-old", f"{text} first record that is left, {each.to}"
    elif each.again_max and each.basis is PositionBasis.COMMITTED and each.to is not None:
        count = plurals.format_count(each.again_max, "record", "are")
        yield weight, "again", f"up to {count} read again{waited}"
    if each.unmirrored:
        count = plurals.format_count(each.unmirrored, "record")
        if each.basis is not PositionBasis.COMMITTED:
            count = f"at least {count}"
        are = plurals.conjugate(each.unmirrored, "are")
        text = f"{count} it has read {are} not on {wanted.destination}{waited}"
        yield weight, "unmirrored", text
    if each.gone:
        count = plurals.format_count(each.gone, "record", "were")
        yield _GroupSeverity.COSTS, "gone", f"{count} deleted there before it had read so far"


_Severity, _PlanFinding = PlanSeverity, PlanFinding
_LESS_INFORMATION_CODES = frozenset(
    {
        "origin-unreachable",
        "groups-unlisted",
        "group-unread",
        "as-of-checkpoint",
        "way-back-unknown",
    }
)
"""Of a cluster that is left that told more when the move was begun: nobody has agreed to it."""


def check_plan(
    wanted: MoveRequest,
    found: ClusterPairSnapshot,
    groups: Sequence[GroupMove],
    *,
    settled: AgreedEnds | None,
) -> Iterator[PlanFinding]:
    """As weighed here: what the operator accepts is not looked at. `settled` as in `plan.make`."""
    before = found.before
    for each in _apply_rules(wanted, found, groups, settled=settled):
        known = before is None or (each.code, each.group) in before.findings
        if known or each.code not in _LESS_INFORMATION_CODES:
            yield each
        else:
            text = f"{each.text}; it was not so when the move was begun"
            yield dataclasses.replace(each, weight=_Severity.FORBIDS, text=text)


def _apply_rules(
    wanted: MoveRequest,
    found: ClusterPairSnapshot,
    groups: Sequence[GroupMove],
    *,
    settled: AgreedEnds | None,
) -> Iterator[PlanFinding]:
    yield from _check_clusters(wanted, found)
    yield from _check_group_list(wanted, found, groups)
    for each in found.mirrored:
        yield from _check_mirror(wanted, each)
        if not found.silent:
            yield from _check_lag(wanted, each, settled)
    for tail in found.unreplicated:
        yield from _check_unreplicated(wanted, tail)
    yield from _check_partial_source(wanted, found, groups)
    yield from _check_requested_groups(wanted, found, groups)
    yield from _check_vanished_groups(wanted, found, groups)
    for group in groups:
        yield from check_group(wanted, found, group, final=settled is not None)
    for unmoved in found.unmoved:
        yield describe_unmoved_group(wanted, found, unmoved)


def _check_clusters(wanted: MoveRequest, found: ClusterPairSnapshot) -> Iterator[PlanFinding]:
    here, there = wanted.origin, wanted.destination
    if not found.mirrored:
        yield _PlanFinding(
            weight=_Severity.FORBIDS,
            code="nothing-mirrored",
            text=f"the flow {found.flow} has mirrored nothing to {there} yet",
        )
    if found.silent:
        yield _PlanFinding(
            weight=_Severity.FORBIDS if wanted.planned else _Severity.COSTS,
            code="origin-unreachable",
            text=f"{here} does not answer ({found.silent}): what it holds that {there} lacks "
            "cannot be counted; groups without checkpoints, and all share and streams groups, are "
            "unknown"
            + ("; a planned move needs both (leave --planned away if it is lost)" * wanted.planned),
        )
    for topic, why in sorted(found.left_out.items()):
        yield _PlanFinding(
            weight=_Severity.NOTE, code="left-out", text=f"{topic} was mirrored once: {why}"
        )
    for partition, why in sorted(found.unfenced.items()):
        yield _PlanFinding(
            weight=_Severity.COSTS,
            code="unfenced",
            text=f"{partition}: nobody is locked out ({why}); who copies it still may write on",
        )
    if found.losses:
        yield _PlanFinding(
            weight=_Severity.NOTE,
            code="losses",
            text=f"{plurals.format_count(found.losses, 'incident', 'say')} that records were "
            "lost before:"
            " see mm2 incidents",
        )


def _check_group_list(
    wanted: MoveRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    why = found.unlisted
    if found.silent and not groups and not why:
        why = (
            f"it does not answer, and no group of the flow has a checkpoint on {wanted.destination}"
        )
    if not why:
        return
    known = "those that have checkpoints are" if groups else "none is"
    yield _PlanFinding(
        weight=_Severity.FORBIDS if wanted.planned or not groups else _Severity.COSTS,
        code="groups-unlisted",
        text=f"not all groups of {wanted.origin} may be known ({why}): {known}",
    )


def _check_partial_source(
    wanted: MoveRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    """`from` answers, but not for all that is asked of it."""
    here = wanted.origin
    weight = _Severity.FORBIDS if wanted.planned else _Severity.COSTS
    for topic, why in sorted(found.untold.items()):
        text = f"{topic}: {here} does not tell its partitions ({why}), so nothing is known of it"
        yield _PlanFinding(weight=weight, code="lag-unknown", text=text)
    if found.way_back:
        yield _PlanFinding(
            weight=weight,
            code="way-back-unknown",
            text=f"what the flow back has brought to {here} cannot be seen ({found.way_back}): "
            f"groups that read what came from {wanted.destination} may read more of it again",
        )
    if found.unsynced:
        yield _PlanFinding(
            weight=_Severity.NOTE,
            code="syncs-unread",
            text=f"whether MirrorMaker 2 has copied since we did could not be seen "
            f"({found.unsynced})",
        )
    partly = (
        found.unlisted
        or found.untold
        or found.way_back
        or any(each.here is None for each in found.mirrored)
        or any(each.unread_why and not each.refused for each in groups)
    )
    if partly and not found.silent and not wanted.planned:
        yield _PlanFinding(
            weight=_Severity.NOTE,
            code="half-lost",
            text=f"{here} answers for a part only; with --origin-lost nothing is asked of it, and "
            "all groups are moved by their last checkpoints",
        )


def _check_mirror(wanted: MoveRequest, each: MirroredPartition) -> Iterator[PlanFinding]:
    name = f"{each.partition}"
    if each.stopped:
        yield _PlanFinding(
            weight=_Severity.FORBIDS, code="stopped", text=f"{name} is not copied: {each.stopped}"
        )
    if each.unheard:
        yield _PlanFinding(
            weight=_Severity.FORBIDS,
            code="mirror-unknown",
            text=f"{name}: {wanted.destination} does not answer for {each.mirror} "
            f"({each.unheard}): ask again when it has a leader that does. Where this is accepted, "
            "groups go by the map alone, and who still copies it is not locked out",
        )
    elif each.there is None:
        yield _PlanFinding(
            weight=_Severity.FORBIDS,
            code="mirror-missing",
            text=f"{name}: there is no {each.mirror} on {wanted.destination}",
        )
    if each.here is not None and each.copied_to is not None and each.copied_to > each.here.end:
        yield _PlanFinding(
            weight=_Severity.FORBIDS,
            code="origin-truncated",
            text=f"{name} ends at {each.here.end} on {wanted.origin}, but was copied up to "
            f"{each.copied_to}: it was truncated, as where brokers died, or made anew. If nobody "
            f"has written there since, {wanted.destination} has all that it lost, and this may be "
            "accepted",
        )


def _check_lag(
    wanted: MoveRequest, each: MirroredPartition, settled: AgreedEnds | None
) -> Iterator[PlanFinding]:
    """A planned move waits for what is missing, until the last look: then there is none."""
    name, here = f"{each.partition}", each.here
    if here is None:
        yield _PlanFinding(
            weight=_Severity.FORBIDS if wanted.planned else _Severity.COSTS,
            code="lag-unknown",
            text=f"{name}: what {wanted.origin} holds of it that {wanted.destination} lacks "
            f"cannot be told ({each.unknown or 'it does not answer for it'})",
        )
        return
    weight, waited = _Severity.COSTS, ""
    if wanted.planned:
        weight = _Severity.NOTE if settled is None else _Severity.FORBIDS
        waited = " yet; what lacks is waited for" if settled is None else ""
    if each.lag_records:
        yield _PlanFinding(
            weight=weight,
            code="lag",
            text=f"{name}: {plurals.format_count(each.lag_records, 'record')} of {wanted.origin} "
            f"{plurals.conjugate(each.lag_records, 'are')} not on {wanted.destination}{waited}",
        )
    if here.pending:
        yield _PlanFinding(
            weight=weight,
            code="open-transactions",
            text=f"{name}: {plurals.format_count(here.pending, 'offset', 'stand')} behind a "
            "transaction "
            f"that is open on {wanted.origin}: what it commits later is not copied",
        )
    agreed = None if settled is None else settled.ends.get(each.partition)
    if settled is not None and agreed != here.end:
        yield _PlanFinding(
            weight=_Severity.FORBIDS,
            code="ends-moved",
            text=f"{name} ends at {here.end} on {wanted.origin}, and did at {agreed} when both "
            "agreed: somebody writes there still",
        )


def _check_unreplicated(wanted: MoveRequest, each: UnreplicatedRecords) -> Iterator[PlanFinding]:
    if each.records == 0:
        return
    here, there = wanted.origin, wanted.destination
    least = "at least " if each.records is None else ""
    count = least + plurals.format_count(each.records or each.at_least, "record")
    text = f"{count} of {there} never reached {here}; who goes on there reads them now"
    if each.records is None and not each.at_least:
        why = each.why or "it could not be read to its end in time"
        text = f"what of {there} never reached {here} is not counted: {why}"
    yield _PlanFinding(
        weight=_Severity.COSTS, code="unreplicated", text=f"{each.partition}: {text}"
    )


def _check_requested_groups(
    wanted: MoveRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    if not groups and not found.silent:
        yield _PlanFinding(
            weight=_Severity.NOTE, code="no-groups", text="no group has a position to move"
        )
    named = {group.name for group in found.unmoved}
    named |= {group.group for group in groups if group.partitions or group.unread_why}
    nowhere = wanted.groups.difference(named)
    for name in sorted(nowhere):
        yield _PlanFinding(
            weight=_Severity.FORBIDS,
            code="no-such-group",
            text=f"group {name} has no position on {wanted.origin}: is its name right?",
            group=name,
        )


def _check_vanished_groups(
    wanted: MoveRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    before = frozenset[str]() if found.before is None else frozenset(found.before.positions)
    for name in sorted(before.difference(group.group for group in groups)):
        yield _PlanFinding(
            weight=_Severity.FORBIDS,
            code="group-gone",
            text=f"group {name} had positions on {wanted.origin} when the move was begun, and has "
            "none now: it would not be moved",
            group=name,
        )
