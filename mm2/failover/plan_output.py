"""Formats the plan of a failover as text and as JSON, with the column names of Kafka's own
tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from connect_runtime.base import plurals
from mm2 import text_format
from mm2.clusters import reread_estimate
from mm2.clusters.cluster_pair_snapshot import (
    MirroredPartition,
    PositionBasis,
    UnmovedGroup,
    UnreplicatedRecords,
)
from mm2.failover import failover_steps
from mm2.failover.consumer_group_plan import GroupMove, PartitionMove
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.plan_findings import PlanFinding, PlanSeverity

PLAN_JSON_VERSION = 1
_MIRROR_COLUMNS = ("TOPIC", "PARTITION", "MIRROR", "SOURCE-END", "COPIED-TO", "LAG", "LAG-TIME")
_GROUP_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "COMMITTED",
    "BASIS",
    "RESUMES-AT",
    "CURRENT-OFFSET",
    "RE-READS",
    "MISSING",
    "UNREAD",
    "STATE",
)
_UNMOVED_COLUMNS = ("GROUP", "TYPE", "READ", "DESTINATION-TOPIC")
_TAIL_COLUMNS = ("TOPIC", "PARTITION", "FROM-OFFSET", "END", "RECORDS", "FIRST", "LAST")
_READS_COLUMNS = ("GROUP", "READ", "DESTINATION-TOPIC")
_SEVERITY_LABELS = {
    PlanSeverity.FORBIDS: "NO-GO",
    PlanSeverity.COSTS: "COST",
    PlanSeverity.NOTE: "NOTE",
}
_MAX_ALIKE_FINDINGS = 3
"""Maximum number of printed findings with the same code, because the tables above have the details.
Findings that forbid the failover are always printed."""


def format_plan(
    plan: FailoverPlan, hooks: Sequence[str], properties: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of the whole plan.

    `hooks` are the names of the steps that have a hook command. `properties` are client properties
    for the destination, without secrets.
    """
    wanted = plan.request
    yield f"{wanted.kind.value} {wanted.origin} -> {wanted.destination}, flow {plan.flow}"
    yield f"as of {text_format.format_time(plan.at_ms)}"
    yield ""
    mirrored = [_build_mirror_row(each, plan.at_ms) for each in plan.mirrored]
    yield from text_format.format_columns(_MIRROR_COLUMNS, mirrored)
    yield ""
    rows = [row for group in plan.groups for row in _build_group_rows(group, plan.at_ms)]
    yield from text_format.format_columns(_GROUP_COLUMNS, rows)
    yield ""
    if plan.unmoved_groups:
        yield f"groups of {wanted.origin} that are not moved:"
        others = [row for each in plan.unmoved_groups for row in _build_unmoved_group_rows(each)]
        yield from text_format.format_columns(_UNMOVED_COLUMNS, others)
        yield ""
    if plan.unreplicated:
        yield f"records on {wanted.destination} that were never replicated to {wanted.origin}:"
        yield from text_format.format_columns(
            _TAIL_COLUMNS, [_build_unreplicated_records_row(each) for each in plan.unreplicated]
        )
        yield ""
    yield from _format_plan_totals(plan)
    yield ""
    yield from format_findings([_finding_to_json(each) for each in plan.findings])
    yield f"verdict: {plan.verdict.value}"
    yield ""
    yield "steps:"
    one_name = any(each.partition == each.mirror for each in plan.mirrored)
    for number, step in enumerate(failover_steps.order_steps(wanted, hooks), start=1):
        by = (
            " (hook)"
            if step.value in hooks
            else " (yours)"
            if step in failover_steps.HOOK_STEPS
            else ""
        )
        said = failover_steps.describe_step(step, wanted, plan.flow, same_names=one_name)
        yield f"{number:>3}. {step.value}: {said}{by}"
    yield ""
    yield from _format_client_changes(plan, properties)


def format_findings(findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield JSON-encoded findings as text, the most severe first. Similar findings are
    summarized."""
    for weight in PlanSeverity:
        alike: dict[str, list[str]] = {}
        for each in findings:
            if each["severity"] == weight.value:
                alike.setdefault(each["code"], []).append(each["text"])
        for code, texts in alike.items():
            most = len(texts) if weight is PlanSeverity.FORBIDS else _MAX_ALIKE_FINDINGS
            for text in texts[:most]:
                yield f"{_SEVERITY_LABELS[weight]:<6} {text} ({code})"
            if len(texts) > most:
                yield f"{_SEVERITY_LABELS[weight]:<6} and {len(texts) - most} similar ({code})"


def _format_client_changes(found: FailoverPlan, properties: Mapping[str, str]) -> Iterator[str]:
    yield f"client properties on {found.request.destination}, for all groups:"
    for name, value in properties.items():
        yield f"  {name}={value}"
    rows = [
        (group.group, here, there)
        for group in found.groups
        for here, there in sorted(_map_topics_to_mirror_topics(group).items())
    ]
    if rows:
        yield ""
        yield from text_format.format_columns(_READS_COLUMNS, rows)


def plan_to_json(
    plan: FailoverPlan, hooks: Sequence[str], properties: Mapping[str, str]
) -> dict[str, Any]:
    """Encode the plan as JSON (`version` is the version of the format).

    - Times are UTC milliseconds. Lag is null if it is unknown; `newest_ms` is then the timestamp of
      the newest record that was replicated in the partitions whose lag is unknown. Topics in
      `unlisted_topics` could not be listed.
    - `mirror_exists` is null if the destination did not respond for the partition.
    - `reread_max` is null if there is no upper bound, for example for a group that may have started
      to read other topics after its last checkpoint; `reread_known_max` excludes those topics.
      `reread` describes the known re-reads in words.
    - `unmoved_groups` are share and streams groups.
    """
    wanted = plan.request
    groups = [_group_to_json(each) for each in plan.groups]
    all_known = _are_all_groups_known(plan)
    return {
        "version": PLAN_JSON_VERSION,
        "kind": wanted.kind.value,
        "from": wanted.origin,
        "to": wanted.destination,
        "flow": plan.flow,
        "at_ms": plan.at_ms,
        "verdict": plan.verdict.name.lower().replace("_", "-"),
        "origin_error": plan.origin_error,
        "lag_records": plan.lag_records,
        "lag_ms": plan.lag_ms,
        "newest_ms": plan.newest_replicated_ms,
        "unlisted_topics": list(plan.unlisted_topics),
        "checkpointed_ms": plan.checkpointed_ms,
        "reread_max": reread_estimate.compute_reread_bound(groups, all_known=all_known),
        "reread": reread_estimate.describe_rereads(
            groups, at_ms=plan.at_ms, planned=wanted.is_planned, all_known=all_known
        ),
        "partitions": [_mirror_to_json(each, plan.at_ms) for each in plan.mirrored],
        "groups": groups,
        "unmoved_groups": [_unmoved_group_to_json(each) for each in plan.unmoved_groups],
        "unreplicated_records": plan.unreplicated_records,
        "unreplicated": [_unreplicated_records_to_json(each) for each in plan.unreplicated],
        "findings": [_finding_to_json(each) for each in plan.findings],
        "steps": [step.value for step in failover_steps.order_steps(wanted, hooks)],
        "client_properties": dict(properties),
        "topics": _list_renamed_topics(plan),
    }


def format_rpo(
    destination: str, *, lag_records: int | None, lag_ms: int | None, newest_ms: int | None
) -> str:
    """Format the recovery point objective of a failover to cluster `destination` as one line."""
    if lag_records is None:
        newest = text_format.format_time(newest_ms)
        return f"RPO: unknown; the newest record on {destination} was written at {newest}"
    seconds = text_format.format_duration(None if lag_ms is None else lag_ms / 1000)
    return f"RPO: {plurals.format_count(lag_records, 'record')}, {seconds}"


def format_number(value: int | None) -> str:
    """Format a number without thousands separators, so that an offset can be pasted into a
    command."""
    return text_format.UNKNOWN_NUMBER if value is None else str(value)


def _list_renamed_topics(found: FailoverPlan) -> dict[str, str]:
    """Map topic names on the origin to their names on the destination, where the two names
    differ."""
    places = {each.partition.topic: each.mirror.topic for each in found.mirrored}
    for group in found.groups:
        places |= _map_topics_to_mirror_topics(group)
    return {here: there for here, there in places.items() if here != there}


def _map_topics_to_mirror_topics(group: GroupMove) -> dict[str, str]:
    """Map each topic that the group reads to the topic to which it must subscribe on the
    destination."""
    return {
        each.partition.topic: each.mirror.topic
        for each in group.partitions
        if each.mirror is not None
    }


def _build_mirror_row(each: MirroredPartition, now_ms: int) -> tuple[str, ...]:
    lag_ms = each.lag_ms(now_ms)
    return (
        each.partition.topic,
        str(each.partition.partition),
        each.mirror.topic + _describe_missing_mirror(each),
        text_format.UNKNOWN_NUMBER if each.source_bounds is None else str(each.source_bounds.end),
        text_format.UNKNOWN_NUMBER if each.copied_to is None else str(each.copied_to),
        text_format.format_count(each.lag_records),
        text_format.format_duration(None if lag_ms is None else lag_ms / 1000),
    )


def _describe_missing_mirror(each: MirroredPartition) -> str:
    if each.mirror_error:
        return " (no response)"
    return " (missing)" if each.mirror_bounds is None else ""


def format_reread_bound(again_max: int | None, basis: str) -> str:
    """Format the number of records that the group re-reads as a table cell. If the position comes
    from a checkpoint, the number is only an upper bound and is shown as a range from 0."""
    if again_max is None:
        return "unknown"
    return str(again_max) if basis == PositionBasis.COMMITTED.value else f"0 to {again_max}"


def format_position_basis(basis: str, written_ms: int | None, at_ms: int) -> str:
    """Format the table cell that states where a position comes from (`basis`, as encoded in
    JSON)."""
    return reread_estimate.describe_position_basis(PositionBasis(basis), written_ms, at_ms=at_ms)


def _build_group_rows(group: GroupMove, at_ms: int) -> Iterator[tuple[str, ...]]:
    for each in group.partitions:
        yield (
            group.group,
            each.partition.topic,
            str(each.partition.partition),
            format_number(each.committed),
            format_position_basis(each.basis.value, each.checkpoint_ms, at_ms),
            format_number(each.target_offset),
            format_number(each.current_offset),
            format_reread_bound(each.max_rereads, each.basis.value),
            _format_missing_records(each),
            format_number(each.unread),
            _format_group_state(group, each),
        )


def _format_missing_records(each: PartitionMove) -> str:
    """Format the number of records that the group has read but that are missing on the destination,
    as a table cell. If the position comes from a checkpoint, the number is only a lower bound: the
    group may have read more such records after the checkpoint."""
    if _is_position_committed(each):
        return str(each.unreplicated)
    return f">= {each.unreplicated}" if each.unreplicated else "unknown"


def _is_position_committed(each: PartitionMove) -> bool:
    return each.basis is PositionBasis.COMMITTED


def _format_group_state(group: GroupMove, each: PartitionMove) -> str:
    if group.blocking_state is not None:
        return f"not moved: group is {group.blocking_state.value} on the destination"
    why = each.reason or ("no response from the destination" if each.unanswered_reason else "")
    return each.action.value + (f": {why}" if why else "")


def _format_plan_totals(found: FailoverPlan) -> Iterator[str]:
    there = found.request.destination
    point = format_rpo(
        there,
        lag_records=found.lag_records,
        lag_ms=found.lag_ms,
        newest_ms=found.newest_replicated_ms,
    )
    waits = found.request.is_planned and found.lag_records
    yield point + (" now; the failover waits until all records are replicated" if waits else "")
    if not found.groups:
        return
    again = reread_estimate.describe_rereads(
        [_group_to_json(each) for each in found.groups],
        at_ms=found.at_ms,
        planned=found.request.is_planned,
        all_known=_are_all_groups_known(found),
    )
    yield f"{plurals.format_count(len(found.groups), 'group')}, re-read: {again}"
    missing = plurals.format_count(
        sum(each.unreplicated_records for each in found.groups), "record"
    )
    if any(each.basis is not PositionBasis.COMMITTED for each in found.groups):
        missing = "unknown" if missing.startswith("0 ") else f"at least {missing}"
    yield f"records already read, but not on {there}: {missing}"


def _are_all_groups_known(found: FailoverPlan) -> bool:
    return reread_estimate.are_all_groups_known(
        [_group_to_json(each) for each in found.groups],
        [_finding_to_json(each) for each in found.findings],
        origin_error=found.origin_error,
    )


def _build_unreplicated_records_row(each: UnreplicatedRecords) -> tuple[str, ...]:
    return (
        each.partition.topic,
        str(each.partition.partition),
        str(each.start),
        str(each.end),
        _format_unreplicated_record_count(each),
        text_format.UNKNOWN_NUMBER
        if each.first_ms is None
        else text_format.format_time(each.first_ms),
        text_format.UNKNOWN_NUMBER
        if each.last_ms is None
        else text_format.format_time(each.last_ms),
    )


def _format_unreplicated_record_count(each: UnreplicatedRecords) -> str:
    if each.unknown_reason:
        return text_format.UNKNOWN_NUMBER
    return f">= {each.at_least}" if each.records is None else str(each.records)


def _unreplicated_records_to_json(each: UnreplicatedRecords) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "from_offset": each.start,
        "end": each.end,
        "records": each.records,
        "at_least": each.at_least,
        "first_ms": each.first_ms,
        "last_ms": each.last_ms,
        "reason": each.unknown_reason,
    }


def _mirror_to_json(each: MirroredPartition, now_ms: int) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "mirror": each.mirror.topic,
        "mirror_exists": None if each.mirror_error else each.mirror_bounds is not None,
        "source_end": None if each.source_bounds is None else each.source_bounds.end,
        "copied_to": each.copied_to,
        "lag_records": each.lag_records,
        "lag_ms": each.lag_ms(now_ms),
        "halt_reason": each.stop_reason,
    }


def _finding_to_json(each: PlanFinding) -> dict[str, Any]:
    return {
        "severity": each.severity.value,
        "code": each.code,
        "group": each.group,
        "text": each.text,
    }


def _build_unmoved_group_rows(each: UnmovedGroup) -> Iterator[tuple[str, ...]]:
    for here, there in sorted((each.topics or {}).items()):
        yield each.name, each.type, here, there
    if not each.topics:
        reads = "unknown" if each.topics is None else "nothing yet"
        yield each.name, each.type, reads, text_format.UNKNOWN_NUMBER


def _unmoved_group_to_json(each: UnmovedGroup) -> dict[str, Any]:
    topics = None if each.topics is None else dict(each.topics)
    return {
        "group": each.name,
        "type": each.type,
        "topics": topics,
        "read_error": each.unread_reason,
    }


def _group_to_json(group: GroupMove) -> dict[str, Any]:
    return {
        "group": group.group,
        "basis": group.basis.value,
        "checkpointed_ms": group.checkpoint_ms,
        "reread_max": group.max_rereads,
        "reread_known_max": group.max_known_rereads,
        "state": group.state.value,
        "blocking_state": None if group.blocking_state is None else group.blocking_state.value,
        "read_error": group.unread_reason,
        "kafka_streams": group.is_streams,
        "topics": _map_topics_to_mirror_topics(group),
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "committed": each.committed,
                "basis": each.basis.value,
                "checkpointed_ms": each.checkpoint_ms,
                "metadata": each.metadata,
                "mirror": None if each.mirror is None else each.mirror.topic,
                "resume_offset": each.target_offset,
                "current_offset": each.current_offset,
                "reread_max": each.max_rereads,
                "missing": each.unreplicated if _is_position_committed(each) else None,
                "missing_at_least": each.unreplicated,
                "unread": each.unread,
                "deleted": each.deleted,
                "state": each.action.name.lower().replace("_", "-"),
                "reason": each.reason,
            }
            for each in group.partitions
        ],
    }
