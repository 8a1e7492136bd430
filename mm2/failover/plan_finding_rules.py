"""Derives a plan's findings from a snapshot: what forbids the failover and what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from connect_runtime.base import plurals
from mm2 import suggested_commands
from mm2.clusters import reread_estimate
from mm2.clusters.cluster_pair_snapshot import (
    ClusterPairSnapshot,
    MatchingEndOffsets,
    MirroredPartition,
    PositionBasis,
    UnmovedGroup,
    UnreplicatedRecords,
)
from mm2.failover import plan_findings
from mm2.failover.consumer_group_plan import GroupAction, GroupMove, PartitionMove
from mm2.failover.failover_request import FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.offsets.group_offset_sync import GroupState

_Action, _GroupSeverity, _GroupFinding = GroupAction, PlanSeverity, PlanFinding
_MAX_TOPICS_NAMED = 5


def check_group(
    request: FailoverRequest, snapshot: ClusterPairSnapshot, group: GroupMove, *, final: bool
) -> Iterator[PlanFinding]:
    """Yield the findings about one group. `final` is true after the flow was stopped and fenced."""
    yield from _check_missing_positions(request, snapshot, group)
    yield from _check_group_state(request, group, final=final)
    if group.is_streams:
        yield _describe_streams_group(request, group)
    yield from _check_position_basis(request, snapshot, group)
    for move in group.partitions:
        yield from _check_partition_move(
            request, group, move, waits=request.is_planned and not final
        )


def describe_unmoved_group(
    request: FailoverRequest, snapshot: ClusterPairSnapshot, group: UnmovedGroup
) -> PlanFinding:
    """Describe a share or streams group, which is not moved."""
    name, here, there = group.name, request.origin, request.destination
    topics = sorted(group.topics or ())
    if group.unread_reason:
        reads = f"its topics on {here} are unknown ({group.unread_reason})"
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
        reset = snapshot.target_commands.build_reset_share_group_command(name, mirrors)
        do = f"to let it start earlier: {reset}"
    else:
        code, starts = (
            plan_findings.STREAMS_GROUP,
            "according to auto.offset.reset, with empty state stores",
        )
        offsets = suggested_commands.build_translate_command(name, snapshot.flow, file=request.file)
        reset = snapshot.target_commands.build_reset_streams_group_command(name, "FILE")
        do = f"to let it resume at its offsets: {offsets} > FILE && {reset}"
    text = (
        f"{group.type} group {name} is not moved: mm2 moves only consumer groups; {reads}. On "
        f"{there} it starts {starts}; {do}. Then add "
        + plan_findings.format_accept_option(code, name)
    )
    return _GroupFinding(severity=_GroupSeverity.FORBIDS, code=code, text=text, group=name)


def _check_missing_positions(
    wanted: FailoverRequest, found: ClusterPairSnapshot, group: GroupMove
) -> Iterator[PlanFinding]:
    """Yield a finding if the group has committed offsets in a topic, but none in some of the
    topic's partitions with records."""
    stands = {each.partition for each in group.partitions if each.action is not _Action.NO_OFFSET}
    topics = {each.topic for each in stands}
    nowhere = [
        each.partition
        for each in found.mirrored
        if each.partition.topic in topics
        and each.partition not in stands
        and each.mirror_bounds is not None
        and each.mirror_bounds.high_watermark > each.mirror_bounds.start
    ]
    if nowhere:
        more = f" and {len(nowhere) - 1} more" if len(nowhere) > 1 else ""
        yield _GroupFinding(
            severity=_GroupSeverity.NOTE,
            code="no-position",
            text=(
                f"group {group.group} has no committed offset for {min(nowhere)}{more}: on "
                f"{wanted.destination} it starts according to auto.offset.reset; with latest, it "
                "skips the existing records"
            ),
            group=group.group,
        )


_BLOCKED_REASONS = {
    GroupState.ACTIVE: ("group-active", "already has members: stop them"),
    GroupState.FOREIGN: (
        "group-type-conflict",
        "is a group of another type, such as a Connect group",
    ),
    GroupState.UNKNOWN: ("group-unknown", "could not be described"),
}


def _describe_streams_group(wanted: FailoverRequest, group: GroupMove) -> PlanFinding:
    return _GroupFinding(
        severity=_GroupSeverity.COSTS,
        code="streams-state",
        text=f"group {group.group} is a Kafka Streams application: its offsets are moved, its "
        f"state stores are not. On {wanted.destination} it starts with empty state stores; to "
        "rebuild them, reset it there first (kafka-streams-application-reset.sh)",
        group=group.group,
    )


def _check_group_state(
    wanted: FailoverRequest, group: GroupMove, *, final: bool
) -> Iterator[PlanFinding]:
    name = group.group
    if group.blocking_state is not None:
        code, words = _BLOCKED_REASONS[group.blocking_state]
        text = f"group {name} on {wanted.destination} {words}"
        if group.target_unread_reason:
            text += (
                f" ({group.target_unread_reason}): try again, or grant mm2 DESCRIBE on the group"
            )
        yield _GroupFinding(severity=_GroupSeverity.FORBIDS, code=code, text=text, group=name)
    reads_on = group.state is GroupState.ACTIVE and group.blocking_state is None
    if reads_on and (final or not wanted.is_planned):
        yield _GroupFinding(
            severity=_GroupSeverity.FORBIDS if final else _GroupSeverity.COSTS,
            code="group-active-on-origin",
            text=(
                f"group {name} still has members on {wanted.origin}: records that they read from "
                "now on will be re-read"
            ),
            group=name,
        )


def _check_position_basis(
    wanted: FailoverRequest, found: ClusterPairSnapshot, group: GroupMove
) -> Iterator[PlanFinding]:
    """Yield findings about groups whose committed offsets are unknown, and about the positions used
    instead."""
    name, why = group.group, group.unread_reason
    then = "its last checkpoint is used" if group.partitions else "it has no checkpoint"
    if why and group.is_access_denied:
        yield _GroupFinding(
            severity=_GroupSeverity.FORBIDS,
            code="group-read-denied",
            text=f"not authorized to read the offsets of group {name} on {wanted.origin} ({why}): "
            f"grant mm2 DESCRIBE on the group there ({then})",
            group=name,
        )
    elif why:
        yield _GroupFinding(
            severity=_GroupSeverity.FORBIDS
            if wanted.is_planned or not group.partitions
            else _GroupSeverity.COSTS,
            code="group-unreadable",
            text=f"offsets of group {name} could not be read on {wanted.origin} ({why}); {then}",
            group=name,
        )
    if group.unreadable_checkpoint:
        text = (
            f"a checkpoint of group {name} cannot be read ({group.unreadable_checkpoint}). If "
            "this is accepted, earlier checkpoints are used, which may be much older"
        )
        yield _GroupFinding(
            severity=_GroupSeverity.FORBIDS, code="checkpoint-unreadable", text=text, group=name
        )
    if group.basis is PositionBasis.CHECKPOINTED and not group.partitions:
        yield _GroupFinding(
            severity=_GroupSeverity.COSTS,
            code="as-of-checkpoint",
            text=(
                f"group {name} starts on {wanted.destination} according to auto.offset.reset; the "
                "number of re-read records is unknown"
            ),
            group=name,
        )
    elif group.basis is PositionBasis.CHECKPOINTED:
        last = "its last checkpoint"
        if group.checkpoint_ms is not None:
            last += f", {reread_estimate.format_age(found.at_ms - group.checkpoint_ms)} old"
        many = "their number is unknown"
        if group.max_known_rereads is not None:
            held = plurals.format_count(group.max_known_rereads, "record")
            many += f", at most the {held} on {wanted.destination} after the checkpoint"
        if group.may_read_more:
            many += (
                ", and topics that it started to read since then start according to "
                "auto.offset.reset: earliest re-reads all their records, latest skips them"
            )
        yield _GroupFinding(
            severity=_GroupSeverity.COSTS,
            code="as-of-checkpoint",
            text=(
                f"group {name} resumes at {last}; records that it read later will be re-read: "
                f"{many}"
            ),
            group=name,
        )


def _check_partition_move(
    wanted: FailoverRequest,
    group: GroupMove,
    each: PartitionMove,
    *,
    waits: bool,
) -> Iterator[PlanFinding]:
    for weight, code, text in (
        *_check_position_action(wanted, each),
        *_check_rereads(wanted, each, waits=waits),
    ):
        told = f"group {group.group}, {each.partition}: {text}"
        yield _GroupFinding(severity=weight, code=code, text=told, group=group.group)


def _check_position_action(
    wanted: FailoverRequest, each: PartitionMove
) -> Iterator[tuple[PlanSeverity, str, str]]:
    if each.unanswered_reason:
        place = (
            f", {each.target_offset} in the offset map," if each.target_offset is not None else ""
        )
        text = (
            f"{wanted.destination} does not respond for {each.mirror} "
            f"({each.unanswered_reason}), so the "
            f"position there{place} cannot be checked: try again when its leader is available"
        )
        yield _GroupSeverity.FORBIDS, plan_findings.MIRROR_UNKNOWN, text
    match each.action:
        case _Action.UNTRANSLATED:
            text = f"its offset {each.committed} cannot be translated ({each.reason})"
            yield _GroupSeverity.FORBIDS, "untranslated", text
        case _Action.MISSING | _Action.PAST_THE_END:
            text = (
                f"its position on the destination ({each.mirror}, offset {each.target_offset}) "
                "does not exist"
            )
            yield _GroupSeverity.FORBIDS, "no-target-offset", text
        case _Action.IS_AHEAD:
            count = plurals.format_count(
                (each.current_offset or 0) - (each.target_offset or 0), "offset"
            )
            text = (
                f"it is at {each.current_offset} on the destination, {count} beyond its "
                f"translated position {each.target_offset}, and is not moved: unread records in "
                "between are skipped (--rewind rewinds it)"
            )
            yield _GroupSeverity.COSTS, "higher-position", text
        case _Action.MOVES if (
            each.current_offset is not None
            and each.target_offset is not None
            and each.target_offset < each.current_offset
        ):
            text = (
                f"it is at {each.current_offset} on the destination, and is rewound to its "
                f"translated position {each.target_offset}"
            )
            yield _GroupSeverity.NOTE, "rewind", text
        case _Action.NOT_MIRRORED:
            yield _GroupSeverity.NOTE, "not-replicated", "the topic is not replicated"
        case _:
            pass


def _check_rereads(
    wanted: FailoverRequest, each: PartitionMove, *, waits: bool
) -> Iterator[tuple[PlanSeverity, str, str]]:
    """Yield the findings about records that the group will re-read or miss. If `waits` is true, the
    failover waits until all records are replicated before it reads the final positions."""
    weight, waited = _GroupSeverity.COSTS, ""
    if waits and each.unreplicated:
        weight, waited = (
            _GroupSeverity.NOTE,
            " now; the failover waits until all records are replicated",
        )
    if each.outdated_reason:
        text = (
            f"the number of records of {each.mirror} that it has read is unknown: "
            f"{each.outdated_reason}"
        )
        yield _GroupSeverity.FORBIDS, "halted", text
    if each.local_records_reason:
        yield _GroupSeverity.FORBIDS, "shared-names", each.local_records_reason
    if each.is_before_map:
        text = f"its offset {each.committed} is older than the offset map: it resumes at the"
        yield (
            _GroupSeverity.COSTS,
            "too-old",
            f"{text} first available record, {each.target_offset}",
        )
    elif (
        each.max_rereads
        and each.basis is PositionBasis.COMMITTED
        and each.target_offset is not None
    ):
        count = plurals.format_count(each.max_rereads, "record", "are")
        yield weight, "rereads", f"up to {count} re-read{waited}"
    if each.unreplicated:
        count = plurals.format_count(each.unreplicated, "record")
        if each.basis is not PositionBasis.COMMITTED:
            count = f"at least {count}"
        are = plurals.conjugate_verb(each.unreplicated, "are")
        text = f"{count} that it has read {are} not on {wanted.destination}{waited}"
        yield weight, "read-unreplicated", text
    if each.deleted:
        count = plurals.format_count(each.deleted, "record", "were")
        yield (
            _GroupSeverity.COSTS,
            "records-deleted",
            f"{count} deleted on {wanted.destination} before it could read them",
        )


_Severity, _PlanFinding = PlanSeverity, PlanFinding
_LESS_INFORMATION_CODES = frozenset(
    {
        "origin-unreachable",
        "groups-unlisted",
        "group-unreadable",
        "as-of-checkpoint",
        "reverse-flow-unknown",
    }
)
"""Codes of findings that forbid the final step if they are new. They report that the origin no
longer provides information that it provided when the failover began, so the operator has not
accepted them."""


def check_plan(
    request: FailoverRequest,
    snapshot: ClusterPairSnapshot,
    groups: Sequence[GroupMove],
    *,
    agreed_ends: MatchingEndOffsets | None,
) -> Iterator[PlanFinding]:
    """Yield all findings before the operator's acceptance is applied.

    `agreed_ends` are the end offsets on which both clusters agreed; passed only for the final check
    of a planned failover.
    """
    before = snapshot.baseline
    for each in _collect_findings(request, snapshot, groups, settled=agreed_ends):
        known = before is None or (each.code, each.group) in before.findings
        if known or each.code not in _LESS_INFORMATION_CODES:
            yield each
        else:
            text = f"{each.text}; this has changed since the failover began"
            yield dataclasses.replace(each, severity=_Severity.FORBIDS, text=text)


def _collect_findings(
    wanted: FailoverRequest,
    found: ClusterPairSnapshot,
    groups: Sequence[GroupMove],
    *,
    settled: MatchingEndOffsets | None,
) -> Iterator[PlanFinding]:
    yield from _check_clusters(wanted, found)
    yield from _check_group_list(wanted, found, groups)
    for each in found.mirrored:
        yield from _check_mirror(wanted, each)
        if not found.origin_error:
            yield from _check_lag(wanted, each, settled)
    for tail in found.unreplicated:
        yield from _check_unreplicated_records(wanted, tail)
    yield from _check_missing_source_information(wanted, found, groups)
    yield from _check_requested_groups(wanted, found, groups)
    yield from _check_vanished_groups(wanted, found, groups)
    for group in groups:
        yield from check_group(wanted, found, group, final=settled is not None)
    for unmoved in found.unmoved_groups:
        yield describe_unmoved_group(wanted, found, unmoved)


def _check_clusters(wanted: FailoverRequest, found: ClusterPairSnapshot) -> Iterator[PlanFinding]:
    here, there = wanted.origin, wanted.destination
    if not found.mirrored:
        yield _PlanFinding(
            severity=_Severity.FORBIDS,
            code="nothing-replicated",
            text=f"the flow {found.flow} has not replicated anything to {there} yet",
        )
    if found.origin_error:
        yield _PlanFinding(
            severity=_Severity.FORBIDS if wanted.is_planned else _Severity.COSTS,
            code="origin-unreachable",
            text=f"{here} does not respond ({found.origin_error}): unreplicated records cannot be "
            "counted; groups without checkpoints, and all share and streams groups, are unknown"
            + (
                "; a planned failover needs both clusters (omit --planned if the origin is lost)"
                * wanted.is_planned
            ),
        )
    for topic, why in sorted(found.excluded_topics.items()):
        yield _PlanFinding(
            severity=_Severity.NOTE,
            code="no-longer-replicated",
            text=f"{topic} was replicated earlier: {why}",
        )
    for partition, why in sorted(found.unfenced.items()):
        yield _PlanFinding(
            severity=_Severity.COSTS,
            code="unfenced",
            text=f"{partition}: writers are not fenced ({why}); a process that is still copying "
            "it may continue to write",
        )
    if found.loss_count:
        yield _PlanFinding(
            severity=_Severity.NOTE,
            code="earlier-incidents",
            text=f"{plurals.format_count(found.loss_count, 'incident', 'report')} of lost "
            "records: see mm2 incidents",
        )


def _check_group_list(
    wanted: FailoverRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    why = found.incomplete_reason
    if found.origin_error and not groups and not why:
        why = (
            f"{wanted.origin} does not respond, and no group of the flow has a checkpoint on "
            f"{wanted.destination}"
        )
    if not why:
        return
    known = "only groups with checkpoints are" if groups else "none is"
    yield _PlanFinding(
        severity=_Severity.FORBIDS if wanted.is_planned or not groups else _Severity.COSTS,
        code="groups-unlisted",
        text=f"the list of groups of {wanted.origin} may be incomplete ({why}): {known} known",
    )


def _check_missing_source_information(
    wanted: FailoverRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    """Yield findings about information that an available but partly failing source could not
    provide."""
    here = wanted.origin
    weight = _Severity.FORBIDS if wanted.is_planned else _Severity.COSTS
    for topic, why in sorted(found.unlisted_topics.items()):
        text = f"{topic}: {here} did not list its partitions ({why}), so its lag is unknown"
        yield _PlanFinding(severity=weight, code="lag-unknown", text=text)
    if found.reverse_flow_error:
        yield _PlanFinding(
            severity=weight,
            code="reverse-flow-unknown",
            text=f"the progress of the reverse flow on {here} is unknown "
            f"({found.reverse_flow_error}): "
            f"groups may re-read more records from {wanted.destination} than estimated",
        )
    if found.offset_syncs_error:
        yield _PlanFinding(
            severity=_Severity.NOTE,
            code="offset-syncs-unreadable",
            text=(
                "it is unknown whether MirrorMaker 2 has replicated records since mm2 last did "
                f"({found.offset_syncs_error})"
            ),
        )
    partly = (
        found.incomplete_reason
        or found.unlisted_topics
        or found.reverse_flow_error
        or any(each.source_bounds is None for each in found.mirrored)
        or any(each.unread_reason and not each.is_access_denied for each in groups)
    )
    if partly and not found.origin_error and not wanted.is_planned:
        yield _PlanFinding(
            severity=_Severity.NOTE,
            code="origin-partly-unreachable",
            text=f"{here} responds only in part; with --origin-lost it is not queried, and all "
            "groups resume at their last checkpoints",
        )


def _check_mirror(wanted: FailoverRequest, each: MirroredPartition) -> Iterator[PlanFinding]:
    name = f"{each.partition}"
    if each.stop_reason:
        yield _PlanFinding(
            severity=_Severity.FORBIDS, code="halted", text=f"{name} is halted: {each.stop_reason}"
        )
    if each.mirror_error:
        yield _PlanFinding(
            severity=_Severity.FORBIDS,
            code="mirror-unknown",
            text=f"{name}: {wanted.destination} does not respond for {each.mirror} "
            f"({each.mirror_error}): try again when its leader is available. If this is accepted, "
            "groups resume at positions from the offset map, and the writers of the mirror are "
            "not fenced",
        )
    elif each.mirror_bounds is None:
        yield _PlanFinding(
            severity=_Severity.FORBIDS,
            code="mirror-missing",
            text=f"{name}: {each.mirror} does not exist on {wanted.destination}",
        )
    if (
        each.source_bounds is not None
        and each.copied_to is not None
        and each.copied_to > each.source_bounds.end
    ):
        yield _PlanFinding(
            severity=_Severity.FORBIDS,
            code="origin-truncated",
            text=f"{name} ends at {each.source_bounds.end} on {wanted.origin}, but was replicated "
            f"up to {each.copied_to}: it was truncated (after broker failures) or recreated. If no "
            f"records were written to it since then, {wanted.destination} has all records that "
            f"{wanted.origin} lost, and this finding may be accepted",
        )


def _check_lag(
    wanted: FailoverRequest, each: MirroredPartition, settled: MatchingEndOffsets | None
) -> Iterator[PlanFinding]:
    """Yield findings about replication lag. A planned failover waits until all records are
    replicated, so its final check must find no lag."""
    name, here = f"{each.partition}", each.source_bounds
    if here is None:
        yield _PlanFinding(
            severity=_Severity.FORBIDS if wanted.is_planned else _Severity.COSTS,
            code="lag-unknown",
            text=f"{name}: the number of records on {wanted.origin} that {wanted.destination} "
            f"lacks is unknown ({each.source_error or 'no response'})",
        )
        return
    weight, waited = _Severity.COSTS, ""
    if wanted.is_planned:
        weight = _Severity.NOTE if settled is None else _Severity.FORBIDS
        waited = " yet; the failover waits for them" if settled is None else ""
    if each.lag_records:
        yield _PlanFinding(
            severity=weight,
            code="lag",
            text=f"{name}: {plurals.format_count(each.lag_records, 'record')} of {wanted.origin} "
            f"{plurals.conjugate_verb(each.lag_records, 'are')} not on "
            f"{wanted.destination}{waited}",
        )
    if here.pending:
        yield _PlanFinding(
            severity=weight,
            code="open-transactions",
            text=f"{name}: {plurals.format_count(here.pending, 'offset', 'are')} after the start "
            f"of an open transaction on {wanted.origin}: later commits are not replicated",
        )
    agreed = None if settled is None else settled.ends.get(each.partition)
    if settled is not None and agreed != here.end:
        yield _PlanFinding(
            severity=_Severity.FORBIDS,
            code="origin-written",
            text=f"{name} ends at {here.end} on {wanted.origin}, but ended at {agreed} when both "
            "clusters were equal: a producer is still writing",
        )


def _check_unreplicated_records(
    wanted: FailoverRequest, each: UnreplicatedRecords
) -> Iterator[PlanFinding]:
    if each.records == 0:
        return
    here, there = wanted.origin, wanted.destination
    least = "at least " if each.records is None else ""
    count = least + plurals.format_count(each.records or each.at_least, "record")
    text = (
        f"{count} of {there} were never replicated to {here}; consumers that start on {there} "
        "read them"
    )
    if each.records is None and not each.at_least:
        why = each.unknown_reason or "the scan did not reach the end of the log in time"
        text = f"records of {there} that were never replicated to {here} are not counted: {why}"
    yield _PlanFinding(
        severity=_Severity.COSTS, code="unreplicated", text=f"{each.partition}: {text}"
    )


def _check_requested_groups(
    wanted: FailoverRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    if not groups and not found.origin_error:
        yield _PlanFinding(
            severity=_Severity.NOTE,
            code="no-groups",
            text="no group has a committed offset to move",
        )
    named = {group.name for group in found.unmoved_groups}
    named |= {
        group.group
        for group in groups
        if group.partitions or group.unread_reason or group.unreadable_checkpoint
    }
    nowhere = wanted.groups.difference(named)
    for name in sorted(nowhere):
        yield _PlanFinding(
            severity=_Severity.FORBIDS,
            code="no-such-group",
            text=f"group {name} has no committed offset on {wanted.origin}: check the name",
            group=name,
        )


def _check_vanished_groups(
    wanted: FailoverRequest, found: ClusterPairSnapshot, groups: Sequence[GroupMove]
) -> Iterator[PlanFinding]:
    before = frozenset[str]() if found.baseline is None else frozenset(found.baseline.positions)
    for name in sorted(before.difference(group.group for group in groups)):
        yield _PlanFinding(
            severity=_Severity.FORBIDS,
            code="group-deleted",
            text=(
                f"group {name} had committed offsets on {wanted.origin} when the failover began, "
                "but has none now: it would not be moved"
            ),
            group=name,
        )
