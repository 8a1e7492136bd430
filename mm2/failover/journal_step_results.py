"""Encodes and decodes the result of each step in the failover's journal, and describes how the
result was verified.

Some results are verified by a later step, which the description names. A hook command is verified
by its exit code. Steps that the operator performs cannot be verified directly; the description
names the later step in which their effect is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2.clusters import reread_estimate
from mm2.clusters.cluster_pair_snapshot import PlanBaseline
from mm2.clusters.fencing_results import FencingResult
from mm2.failover.consumer_group_plan import GroupMove
from mm2.failover.failover_journal import FailoverJournal
from mm2.failover.failover_request import FailoverKind
from mm2.failover.failover_steps import FailoverStep
from mm2.offsets.checkpoint_rules import CommittedPositions, OffsetAndMetadata
from mm2.offsets.log_start_and_end_offsets import LogBounds

_ReadBackDetail = Mapping[str, Any]
_Step = FailoverStep
_MAX_HOOK_LINE_CHARS = 200
"""Length to which a hook's last output line is truncated when the verification of its step is
described."""


def describe_step_verification(step: FailoverStep, detail: _ReadBackDetail) -> str:
    """Describe how a step was verified, as one line without a full stop."""
    return (
        _OPERATOR_STEP_TEXTS[step]
        if _is_step_left_to_operator(detail)
        else _READ_BACK_TEXTS[step](detail)
    )


def format_step_verification(step: FailoverStep, detail: _ReadBackDetail) -> str:
    """Format the progress output of a finished step: its name, and how it was verified
    (`describe_step_verification`)."""
    verb = "LEFT TO YOU" if _is_step_left_to_operator(detail) else "VERIFIED"
    return f"{verb} {step.value}: {describe_step_verification(step, detail)}"


def _is_step_left_to_operator(detail: _ReadBackDetail) -> bool:
    return "by" in detail


def _describe_recorded_plan(detail: _ReadBackDetail) -> str:
    plan = detail["plan"]
    groups = plurals.format_count(len(plan["groups"]), "group")
    return f"stored on disk: {plurals.format_count(len(plan['partitions']), 'partition')}, {groups}"


def _describe_export(detail: _ReadBackDetail) -> str:
    records = plurals.format_count(detail["records"], "record")
    return f"{records} in {detail['file']}, as counted"


def _describe_hook(detail: _ReadBackDetail) -> str:
    last = detail["output"].rpartition("\n")[2][:_MAX_HOOK_LINE_CHARS]
    return "the command exited with 0" + (f": {last}" if last else "")


def _describe_idle_groups(detail: _ReadBackDetail) -> str:
    return f"{plurals.format_count(len(detail['groups']), 'group')} without members"


def _describe_equal_log_ends(detail: _ReadBackDetail) -> str:
    partitions = plurals.format_count(len(detail["ends"]), "partition")
    return f"equal end offsets on both clusters in two checks: {partitions}"


def _describe_stopped_flow(detail: _ReadBackDetail) -> str:
    if not detail["connectors"]:
        return "no connectors to stop, as the operator accepted"
    stopped = f"connectors recorded as stopped: {', '.join(detail['connectors'])}"
    running = detail["still_running"]
    if not running:
        return f"{stopped}; no task is running"
    return f"{stopped}; still reported as running: {', '.join(running)}"


def _describe_fencing(detail: _ReadBackDetail) -> str:
    fenced = [each for each in detail["partitions"] if not each["unfenced"]]
    unfenced = len(detail["partitions"]) - len(fenced)
    tail = sum(each["tail"] or 0 for each in fenced)
    markers = plurals.format_count(len(fenced), "fencing marker")
    said = f"{markers} read back, and no partition was acquired after fencing"
    if tail:
        said += (
            f"; {plurals.format_count(tail, 'record')} replicated after the end of the offset map"
        )
    return f"{said}; {unfenced} not fenced" if unfenced else said


def _describe_final_positions(detail: _ReadBackDetail) -> str:
    again = detail["fenced_again"]
    fences = (
        f"{plurals.format_count(len(again), 'partition')} fenced again"
        if again
        else "all fences hold"
    )
    return f"{fences}; final positions of {plurals.format_count(len(detail['groups']), 'group')}"


def _describe_moved_groups(detail: _ReadBackDetail) -> str:
    moved, left = plurals.format_count(len(detail["groups"]), "group"), detail["skipped"]
    said = f"offsets of {moved} committed; verified by step {_Step.VERIFY.value}"
    return f"{said}; not moved, as accepted: {', '.join(left)}" if left else said


def _describe_verification(detail: _ReadBackDetail) -> str:
    found = detail["positions"]
    before = sum(each["is_below_written_offset"] for each in found)
    further = sum(
        not each["is_below_written_offset"] and each["current_offset"] > each["written_offset"]
        for each in found
    )
    positions = plurals.format_count(len(found), "position")
    said = f"{positions}: {len(found) - before - further} as written"
    if further:
        said += f", {further} further on"
    return f"{said}, {before} before, as accepted" if before else said


def _describe_report(_: _ReadBackDetail) -> str:
    return "all steps are in the journal"


_OPERATOR_STEP_TEXTS: Mapping[FailoverStep, str] = {
    _Step.STOP_PRODUCERS: f"{_Step.AGREE.value} waits until producers have stopped",
    _Step.STOP_CONSUMERS: f"{_Step.IDLE.value} waits until no group has members",
    _Step.START_CONSUMERS: f"{_Step.REPORT.value} lists the groups with members",
    _Step.START_PRODUCERS: "not checked",
}
_READ_BACK_TEXTS: Mapping[FailoverStep, Callable[[_ReadBackDetail], str]] = {
    _Step.RECORD: _describe_recorded_plan,
    _Step.EXPORT: _describe_export,
    _Step.STOP_PRODUCERS: _describe_hook,
    _Step.STOP_CONSUMERS: _describe_hook,
    _Step.IDLE: _describe_idle_groups,
    _Step.AGREE: _describe_equal_log_ends,
    _Step.STOP_FLOW: _describe_stopped_flow,
    _Step.FENCE: _describe_fencing,
    _Step.FINAL_POSITIONS: _describe_final_positions,
    _Step.MOVE_GROUPS: _describe_moved_groups,
    _Step.VERIFY: _describe_verification,
    _Step.START_CONSUMERS: _describe_hook,
    _Step.START_PRODUCERS: _describe_hook,
    _Step.REPORT: _describe_report,
}


StepDetail = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalPositions:
    """Final positions of a group: the lowest committed offsets that the group may have on the
    destination after the failover."""

    positions: Mapping[TopicPartition, OffsetAndMetadata]
    """Offsets by destination partition."""
    set_back: frozenset[TopicPartition]
    """Destination partitions in which the group's position is rewound."""

    def should_write_position(
        self, place: TopicPartition, stands: OffsetAndMetadata | None
    ) -> bool:
        """Return True if the final position of a partition must be written. A group with a higher
        committed offset keeps it, unless the partition is in `set_back`. `stands` is the group's
        current committed offset."""
        at = self.positions[place].offset
        if stands is None or stands.offset < at:
            return True
        return stands.offset > at and place in self.set_back

    def select_positions_to_write(
        self, stands: CommittedPositions
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Select the final positions that must be written, given the group's current committed
        offsets (`stands`)."""
        return {
            place: at
            for place, at in self.positions.items()
            if self.should_write_position(place, stands.get(place))
        }


def is_group_moved(move: GroupMove) -> bool:
    """Return True if the group can be moved: its offsets may be written and its positions are
    known."""
    return move.blocking_state is None and (bool(move.partitions) or not move.unread_reason)


def encode_group_positions(move: GroupMove) -> StepDetail:
    """Encode a group's final positions for the journal."""
    metadata = {each.mirror: each.metadata for each in move.partitions}
    return {
        "group": move.group,
        "positions": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "metadata": metadata[place],
                "rewind": place in move.rewound_partitions,
            }
            for place, offset in sorted(move.minimum_offsets.items())
        ],
    }


def decode_final_positions(detail: StepDetail) -> dict[str, FinalPositions]:
    """Decode the journal's final positions, by group."""
    return {
        each["group"]: FinalPositions(
            positions={
                _decode_partition(at): OffsetAndMetadata(
                    offset=at["offset"], metadata=at["metadata"]
                )
                for at in each["positions"]
            },
            set_back=frozenset(_decode_partition(at) for at in each["positions"] if at["rewind"]),
        )
        for each in detail["groups"]
    }


def merge_final_positions(
    detail: StepDetail, last: StepDetail, moved: Collection[str]
) -> StepDetail:
    """Merge the newly computed final positions of the groups still to be moved (`detail`) with the
    recorded final positions (`last`) of the groups that were already moved."""

    def merge_group_positions(
        now: Sequence[StepDetail], then: Sequence[StepDetail]
    ) -> list[StepDetail]:
        return sorted(
            [*now, *(each for each in then if each["group"] in moved)],
            key=lambda each: str(each["group"]),
        )

    plan, then = detail["plan"], last["plan"]
    groups = merge_group_positions(plan["groups"], then["groups"])
    findings = merge_group_positions(plan["findings"], then["findings"])
    all_known = reread_estimate.are_all_groups_known(
        groups, findings, origin_error=plan["origin_error"]
    )
    return {
        **detail,
        "plan": {
            **plan,
            "reread_max": reread_estimate.compute_reread_bound(groups, all_known=all_known),
            "reread": reread_estimate.describe_rereads(
                groups,
                at_ms=plan["at_ms"],
                planned=plan["kind"] != FailoverKind.EMERGENCY.value,
                all_known=all_known,
            ),
            "groups": groups,
            "findings": findings,
            "topics": {**then["topics"], **plan["topics"]},
        },
        "groups": merge_group_positions(detail["groups"], last["groups"]),
    }


def decode_plan_baseline(detail: StepDetail) -> PlanBaseline:
    """Decode the plan that step `FailoverStep.RECORD` stored in the journal."""
    plan = detail["plan"]
    return PlanBaseline(
        positions={
            group["group"]: {
                _decode_partition(each): None
                if each["committed"] is None
                else OffsetAndMetadata(offset=each["committed"], metadata=each.get("metadata", ""))
                for each in group["partitions"]
            }
            for group in plan["groups"]
        },
        findings=frozenset((each["code"], each["group"]) for each in plan["findings"]),
        streams=frozenset(each["group"] for each in plan["groups"] if each["kafka_streams"]),
    )


def list_groups_to_stop(detail: StepDetail) -> list[str]:
    """List the groups that must have no members before the failover continues: all groups in the
    plan whose offsets will be written."""
    return [each["group"] for each in detail["plan"]["groups"] if each["blocking_state"] is None]


def list_plan_groups(detail: StepDetail) -> list[str]:
    """List the names of all consumer groups in a plan."""
    return [each["group"] for each in detail["plan"]["groups"]]


def encode_fencing_result(each: FencingResult) -> StepDetail:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "marker": each.marker,
        "order": list(each.owner_order),
        "tail": each.tail,
        "unfenced": each.unfenced_reason,
    }


def decode_fencing_results(detail: StepDetail) -> list[FencingResult]:
    return [
        FencingResult(
            partition=_decode_partition(each),
            marker=each["marker"],
            owner_order=(each["order"][0], each["order"][1]),
            tail=each["tail"],
            unfenced_reason=each["unfenced"],
        )
        for each in detail["partitions"]
    ]


def encode_offsets(values: Mapping[TopicPartition, int]) -> list[StepDetail]:
    return [
        {"topic": place.topic, "partition": place.partition, "value": value}
        for place, value in sorted(values.items())
    ]


def decode_offsets(found: Collection[StepDetail]) -> dict[TopicPartition, int]:
    return {_decode_partition(each): each["value"] for each in found}


def build_report(found: FailoverJournal, final: StepDetail, *, now_ms: int) -> dict[str, Any]:
    """Build the report of a finished failover: durations, verification of each step, recovery
    point, and the result for each group."""
    moved = found.moved
    assert found.identity is not None, "the failover has begun"
    wanted = found.identity.request
    groups = [each for each in final["groups"] if each["group"] in moved]
    all_known = reread_estimate.are_all_groups_known(
        final["groups"], final["findings"], origin_error=final["origin_error"]
    )
    return {
        "version": 1,
        "kind": wanted.kind.value,
        "from": wanted.origin,
        "to": wanted.destination,
        "flow": found.identity.flow,
        "begun_at_ms": found.begun_at_ms,
        "ended_at_ms": now_ms,
        "took_ms": now_ms - found.begun_at_ms,
        "steps": [
            _encode_step_report(found, step)
            for step in found.identity.steps
            if step in found.details
        ],
        "failures": [{"step": step.value, "error": error} for step, error in found.failures],
        "lag_records": final["lag_records"],
        "lag_ms": final["lag_ms"],
        "newest_ms": final["newest_ms"],
        "reread_max": reread_estimate.compute_reread_bound(groups, all_known=all_known),
        "reread": reread_estimate.describe_rereads(
            groups, at_ms=final["at_ms"], planned=wanted.is_planned, all_known=all_known
        ),
        "findings": final["findings"],
        "verified": found.details[FailoverStep.VERIFY]["positions"],
        "moved": [_encode_group_report(each) for each in groups],
        "unmoved": sorted(
            {
                *list_plan_groups(found.details[FailoverStep.RECORD]),
                *list_plan_groups({"plan": final}),
            }
            - moved
        ),
        "unmoved_groups": final["unmoved_groups"],
        "snapshot_ms": final["at_ms"],
    }


def count_records_after_snapshot(
    final: StepDetail, now: Mapping[TopicPartition, LogBounds | None]
) -> int | None:
    """Count the records written to the origin after the final snapshot, as the difference of the
    end offsets. Return None if an end offset is unknown."""
    count = 0
    for each in final["partitions"]:
        ends = now.get(_decode_partition(each))
        if ends is None or each["source_end"] is None:
            return None
        count += max(0, ends.end - each["source_end"])
    return count


def _encode_step_report(found: FailoverJournal, step: FailoverStep) -> StepDetail:
    """Encode a step for the report. Its duration includes failed attempts and the time between
    them."""
    return {
        "step": step.value,
        "began_at_ms": found.started_ms[step],
        "took_ms": found.done_ms[step] - found.started_ms[step],
        "read_back": describe_step_verification(step, found.details[step]),
    }


def _encode_group_report(group: StepDetail) -> StepDetail:
    return {
        "group": group["group"],
        "basis": group["basis"],
        "checkpointed_ms": group["checkpointed_ms"],
        "reread_max": group["reread_max"],
        "partitions": [
            {
                name: each[name]
                for name in (
                    *("topic", "partition", "mirror", "resume_offset", "reread_max"),
                    *("basis", "checkpointed_ms", "state", "reason"),
                )
            }
            for each in group["partitions"]
        ],
    }


def _decode_partition(detail: StepDetail) -> TopicPartition:
    return TopicPartition(detail["topic"], detail["partition"])
