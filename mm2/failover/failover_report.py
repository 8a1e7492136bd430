"""Formats the report of a finished failover as text.

The report has the duration and verification of each step, the recovery point, and each group's
position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from connect_runtime.base import plurals
from mm2 import text_format
from mm2.failover import plan_output
from mm2.failover.failover_request import FailoverKind
from mm2.suggested_commands import OperatorCommands

_STEP_COLUMNS = ("STEP", "BEGAN", "TOOK", "READ-BACK")
_GROUP_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "MIRROR",
    "BASIS",
    "RESUMES-AT",
    "CURRENT-OFFSET",
    "RE-READS",
    "STATE",
)
_MAX_NAMES = 10


def format_report(report: Mapping[str, Any], *, file: str) -> Iterator[str]:
    """Yield the lines of a report that was built by `journal_step_results.build_report`.

    `file` is the name of the configuration file in the commands that are suggested to the operator.
    """
    yield ""
    yield f"{report['kind']} {report['from']} -> {report['to']}, flow {report['flow']}"
    begun = text_format.format_time(report["begun_at_ms"])
    ends = f"{begun} to {text_format.format_time(report['ended_at_ms'])}"
    yield f"done in {text_format.format_duration(report['took_ms'] / 1000)}, {ends}"
    yield plan_output.format_rpo(
        report["to"],
        lag_records=report["lag_records"],
        lag_ms=report["lag_ms"],
        newest_ms=report["newest_ms"],
    )
    groups = plurals.format_count(len(report["moved"]), "group")
    yield f"{groups} moved, re-read: {report['reread']}"
    yield ""
    yield from text_format.format_columns(
        _STEP_COLUMNS, [_build_step_row(each) for each in report["steps"]]
    )
    for each in report["failures"]:
        yield f"earlier attempt of {each['step']} failed: {each['error']}"
    yield ""
    yield from text_format.format_columns(_GROUP_COLUMNS, list(_build_group_rows(report)))
    yield from _format_position_differences(report)
    yield ""
    yield from plan_output.format_findings(report["findings"])
    yield from _format_next_steps(report, file)


def _build_step_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    took = text_format.format_duration(each["took_ms"] / 1000)
    return (
        each["step"],
        text_format.format_time(each["began_at_ms"]),
        took,
        each["read_back"],
    )


def _build_group_rows(report: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    stands = {
        (each["group"], each["topic"], each["partition"]): each["current_offset"]
        for each in report["verified"]
    }
    for group in report["moved"]:
        for each in group["partitions"]:
            yield (
                group["group"],
                each["topic"],
                str(each["partition"]),
                each["mirror"] or text_format.UNKNOWN_NUMBER,
                plan_output.format_position_basis(
                    each["basis"], each["checkpointed_ms"], report["snapshot_ms"]
                ),
                plan_output.format_number(each["resume_offset"]),
                plan_output.format_number(
                    stands.get((group["group"], each["mirror"], each["partition"]))
                ),
                plan_output.format_reread_bound(each["reread_max"], each["basis"]),
                each["state"],
            )


def _format_position_differences(report: Mapping[str, Any]) -> Iterator[str]:
    for each in report["verified"]:
        if each["is_below_written_offset"]:
            offset = each["current_offset"]
            at = "has no committed offset" if offset is None else f"is at offset {offset}"
            yield (
                f"group {each['group']} {at} in {each['topic']}-{each['partition']}, but its "
                f"final position is {each['written_offset']}: it re-reads records, as accepted"
            )
    for name in report["unmoved"]:
        yield f"group {name} was not moved"
    for each in report["unmoved_groups"]:
        yield f"{each['type']} group {each['group']} was not moved"


def _format_next_steps(report: Mapping[str, Any], file: str) -> Iterator[str]:
    flow, there, active = report["flow"], report["to"], report["active"]
    if active is None:
        yield f"whether the groups have members on {there} is unknown: the cluster did not respond"
    else:
        known = set(active)
        idle = [each["group"] for each in report["moved"] if each["group"] not in known]
        if active:
            yield f"members on {there}: {_format_names(active)}"
        if idle:
            yield f"no members on {there} yet: {_format_names(idle)}"
    operator = OperatorCommands(file=file)
    resume = operator.build_resume_command(flow, None)
    yield f"the flow {flow} remains stopped; to resume it: {resume}"
    if report["kind"] == FailoverKind.BACK.value:
        forth = f"{report['to']}->{report['from']}"
        yield f"if {forth} was stopped, resume it too: {operator.build_resume_command(forth, None)}"
    stranded = report["stranded_records"]
    if stranded:
        count = plurals.format_count(stranded, "record", "were")
        yield f"{count} written to {report['from']} after the final check and not replicated"


def _format_names(groups: Sequence[str]) -> str:
    more = len(groups) - _MAX_NAMES
    return ", ".join(groups[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")
