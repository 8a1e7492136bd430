"""What each step records in the journal, how later steps read it, and its read-back in words.

If a later step reads the result back, its name is part of the text. For a hook, the exit is the
read-back. A step that is left to the operator has none; the text names the step that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2.clusters import reread_estimate
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.pair_snapshot import PlanBaseline
from mm2.failover.group_plan import GroupMove
from mm2.failover.journal import MoveJournal
from mm2.failover.move_request import MoveKind
from mm2.failover.move_steps import MoveStep
from mm2.offsets.checkpoint_rules import CommittedPositions, OffsetAndMetadata
from mm2.offsets.log_bounds import LogBounds

_ReadBackDetail = Mapping[str, Any]
_Step = MoveStep
_MAX_HOOK_LINE_CHARS = 200
"""Of what a hook said last."""


def describe_read_back(step: MoveStep, detail: _ReadBackDetail) -> str:
    """A line, without the full stop."""
    return (
        _OPERATOR_STEP_TEXTS[step]
        if _is_left_to_operator(detail)
        else _READ_BACK_TEXTS[step](detail)
    )


def format_read_back(step: MoveStep, detail: _ReadBackDetail) -> str:
    """The same, with what it is about, as it is told while a move goes on."""
    verb = "LEFT TO YOU" if _is_left_to_operator(detail) else "VERIFIED"
    return f"{verb} {step.value}: {describe_read_back(step, detail)}"


def _is_left_to_operator(detail: _ReadBackDetail) -> bool:
    return "by" in detail


def _describe_record(detail: _ReadBackDetail) -> str:
    plan = detail["plan"]
    groups = plurals.format_count(len(plan["groups"]), "group")
    return f"on the disk: {plurals.format_count(len(plan['partitions']), 'partition')}, {groups}"


def _describe_export(detail: _ReadBackDetail) -> str:
    records = plurals.format_count(detail["records"], "record")
    return f"in {detail['file']}, as many as were counted: {records}"


def _describe_hook(detail: _ReadBackDetail) -> str:
    last = detail["output"].rpartition("\n")[2][:_MAX_HOOK_LINE_CHARS]
    return "the command ended with 0" + (f": {last}" if last else "")


def _describe_idle(detail: _ReadBackDetail) -> str:
    return f"{plurals.format_count(len(detail['groups']), 'group')} without members"


def _describe_agree(detail: _ReadBackDetail) -> str:
    partitions = plurals.format_count(len(detail["ends"]), "partition")
    return f"the same ends on both clusters at two looks: {partitions}"


def _describe_stop_flow(detail: _ReadBackDetail) -> str:
    if not detail["connectors"]:
        return "there is nothing to stop, as was accepted"
    stopped = f"down as stopped: {', '.join(detail['connectors'])}"
    running = detail["still_running"]
    if not running:
        return f"{stopped}; no task runs"
    return f"{stopped}; not heard of as ended: {', '.join(running)}"


def _describe_fence(detail: _ReadBackDetail) -> str:
    fenced = [each for each in detail["partitions"] if not each["unfenced"]]
    unfenced = len(detail["partitions"]) - len(fenced)
    tail = sum(each["tail"] or 0 for each in fenced)
    said = f"{plurals.format_count(len(fenced), 'marker')} of ours, and nobody has taken a partition since"
    if tail:
        said += (
            f"; {plurals.format_count(tail, 'record')} stood there that the flow had not noted yet"
        )
    return f"{said}; {unfenced} not fenced" if unfenced else said


def _describe_look_again(detail: _ReadBackDetail) -> str:
    again = detail["fenced_again"]
    fences = (
        f"{plurals.format_count(len(again), 'partition')} fenced once more"
        if again
        else "the fences hold"
    )
    return f"{fences}; final positions of {plurals.format_count(len(detail['groups']), 'group')}"


def _describe_move_groups(detail: _ReadBackDetail) -> str:
    moved, left = plurals.format_count(len(detail["groups"]), "group"), detail["left"]
    said = f"the coordinators have taken {moved}; {_Step.VERIFY.value} reads them"
    return f"{said}; left as they are, as was accepted: {', '.join(left)}" if left else said


def _describe_verify(detail: _ReadBackDetail) -> str:
    found = detail["positions"]
    before = sum(each["before"] for each in found)
    further = sum(not each["before"] and each["stands_at"] > each["moved_to"] for each in found)
    said = f"{plurals.format_count(len(found), 'position')}: {len(found) - before - further} as written"
    if further:
        said += f", {further} further"
    return f"{said}, {before} before, as was accepted" if before else said


def _describe_report(_: _ReadBackDetail) -> str:
    return "all steps are in the journal"


_OPERATOR_STEP_TEXTS: Mapping[MoveStep, str] = {
    _Step.STOP_PRODUCERS: f"{_Step.AGREE.value} waits until nobody writes",
    _Step.STOP_CONSUMERS: f"{_Step.IDLE.value} waits until no group has members",
    _Step.START_CONSUMERS: f"{_Step.REPORT.value} says which groups have members",
    _Step.START_PRODUCERS: "nothing waits for it",
}
_READ_BACK_TEXTS: Mapping[MoveStep, Callable[[_ReadBackDetail], str]] = {
    _Step.RECORD: _describe_record,
    _Step.EXPORT: _describe_export,
    _Step.STOP_PRODUCERS: _describe_hook,
    _Step.STOP_CONSUMERS: _describe_hook,
    _Step.IDLE: _describe_idle,
    _Step.AGREE: _describe_agree,
    _Step.STOP_FLOW: _describe_stop_flow,
    _Step.FENCE: _describe_fence,
    _Step.LOOK_AGAIN: _describe_look_again,
    _Step.MOVE_GROUPS: _describe_move_groups,
    _Step.VERIFY: _describe_verify,
    _Step.START_CONSUMERS: _describe_hook,
    _Step.START_PRODUCERS: _describe_hook,
    _Step.REPORT: _describe_report,
}


StepDetail = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalPositions:
    """Where a group has to stand at least; `back`: partitions where it is set back there."""

    positions: Mapping[TopicPartition, OffsetAndMetadata]
    back: frozenset[TopicPartition]

    def is_to_be_written(self, place: TopicPartition, stands: OffsetAndMetadata | None) -> bool:
        """Who has got further is left there, unless he is to be set back."""
        at = self.positions[place].offset
        if stands is None or stands.offset < at:
            return True
        return stands.offset > at and place in self.back

    def to_write(self, stands: CommittedPositions) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where the group does not stand yet; `stands`: where it does."""
        return {
            place: at
            for place, at in self.positions.items()
            if self.is_to_be_written(place, stands.get(place))
        }


def is_group_moved(move: GroupMove) -> bool:
    """One that is in the way there stays as it is, and one of which nothing is known."""
    return move.barred is None and (bool(move.partitions) or not move.unread_why)


def encode_group(move: GroupMove) -> StepDetail:
    metadata = {each.mirror: each.metadata for each in move.partitions}
    return {
        "group": move.group,
        "positions": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "metadata": metadata[place],
                "back": place in move.sets_back,
            }
            for place, offset in sorted(move.expected.items())
        ],
    }


def decode_final_positions(detail: StepDetail) -> dict[str, FinalPositions]:
    """By group: where it has to stand there."""
    return {
        each["group"]: FinalPositions(
            positions={
                _decode_partition(at): OffsetAndMetadata(
                    offset=at["offset"], metadata=at["metadata"]
                )
                for at in each["positions"]
            },
            back=frozenset(_decode_partition(at) for at in each["positions"] if at["back"]),
        )
        for each in detail["groups"]
    }


def merge_final_positions(
    detail: StepDetail, last: StepDetail, moved: Collection[str]
) -> StepDetail:
    """What LOOK_AGAIN found of the groups that are not moved yet, with what it had found `last` of
    those that are."""

    def merged(now: Sequence[StepDetail], then: Sequence[StepDetail]) -> list[StepDetail]:
        return sorted(
            [*now, *(each for each in then if each["group"] in moved)],
            key=lambda each: str(each["group"]),
        )

    plan, then = detail["plan"], last["plan"]
    groups = merged(plan["groups"], then["groups"])
    findings = merged(plan["findings"], then["findings"])
    all_known = reread_estimate.are_all_groups_known(groups, findings, silent=plan["silent"])
    return {
        **detail,
        "plan": {
            **plan,
            "read_again_max": reread_estimate.bound_rereads(groups, all_known=all_known),
            "read_again": reread_estimate.describe_rereads(
                groups,
                at_ms=plan["at_ms"],
                planned=plan["kind"] != MoveKind.EMERGENCY.value,
                all_known=all_known,
            ),
            "groups": groups,
            "findings": findings,
            "topics": {**then["topics"], **plan["topics"]},
        },
        "groups": merged(detail["groups"], last["groups"]),
    }


def decode_baseline(detail: StepDetail) -> PlanBaseline:
    """As RECORD noted its plan."""
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


def list_groups_to_wait_for(detail: StepDetail) -> list[str]:
    """Groups of the plan that are to be moved, and so have to be at rest: one that is in the way on
    the other cluster stays, as was accepted."""
    return [each["group"] for each in detail["plan"]["groups"] if each["barred"] is None]


def list_plan_groups(detail: StepDetail) -> list[str]:
    return [each["group"] for each in detail["plan"]["groups"]]


def encode_fencing_result(each: FencingResult) -> StepDetail:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "marker": each.marker,
        "order": list(each.order),
        "tail": each.tail,
        "unfenced": each.unfenced,
    }


def decode_fencing_results(detail: StepDetail) -> list[FencingResult]:
    return [
        FencingResult(
            partition=_decode_partition(each),
            marker=each["marker"],
            order=(each["order"][0], each["order"][1]),
            tail=each["tail"],
            unfenced=each["unfenced"],
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


def build_report(found: MoveJournal, final: StepDetail, *, now_ms: int) -> dict[str, Any]:
    """What an operator files away: times, how each step was read back, the recovery point, and
    what became of each group."""
    moved = found.moved
    assert found.begun is not None, "it was begun"
    wanted = found.begun.wanted
    groups = [each for each in final["groups"] if each["group"] in moved]
    all_known = reread_estimate.are_all_groups_known(
        final["groups"], final["findings"], silent=final["silent"]
    )
    return {
        "version": 1,
        "kind": wanted.kind.value,
        "from": wanted.origin,
        "to": wanted.destination,
        "flow": found.begun.flow,
        "begun_at_ms": found.begun_at_ms,
        "ended_at_ms": now_ms,
        "took_ms": now_ms - found.begun_at_ms,
        "steps": [_report_step(found, step) for step in found.begun.order if step in found.details],
        "failures": [{"step": step.value, "error": error} for step, error in found.failures],
        "lag_records": final["lag_records"],
        "lag_ms": final["lag_ms"],
        "newest_ms": final["newest_ms"],
        "read_again_max": reread_estimate.bound_rereads(groups, all_known=all_known),
        "read_again": reread_estimate.describe_rereads(
            groups, at_ms=final["at_ms"], planned=wanted.planned, all_known=all_known
        ),
        "findings": final["findings"],
        "verified": found.details[MoveStep.VERIFY]["positions"],
        "moved": [_report_moved_group(each) for each in groups],
        "unmoved": sorted(
            {*list_plan_groups(found.details[MoveStep.RECORD]), *list_plan_groups({"plan": final})}
            - moved
        ),
        "unmoved_groups": final["unmoved_groups"],
        "looked_at_ms": final["at_ms"],
    }


def count_stranded(final: StepDetail, now: Mapping[TopicPartition, LogBounds | None]) -> int | None:
    """By offsets; None as soon as one of them is unknown."""
    count = 0
    for each in final["partitions"]:
        ends = now.get(_decode_partition(each))
        if ends is None or each["source_end"] is None:
            return None
        count += max(0, ends.end - each["source_end"])
    return count


def _report_step(found: MoveJournal, step: MoveStep) -> StepDetail:
    """Attempts that failed, and what lay between them, take time as well."""
    return {
        "step": step.value,
        "began_at_ms": found.started_ms[step],
        "took_ms": found.done_ms[step] - found.started_ms[step],
        "read_back": describe_read_back(step, found.details[step]),
    }


def _report_moved_group(group: StepDetail) -> StepDetail:
    return {
        "group": group["group"],
        "origin": group["origin"],
        "checkpointed_ms": group["checkpointed_ms"],
        "read_again_max": group["read_again_max"],
        "partitions": [
            {
                name: each[name]
                for name in (
                    *("topic", "partition", "mirror", "goes_on_at", "read_again_max"),
                    *("basis", "checkpointed_ms", "state", "why"),
                )
            }
            for each in group["partitions"]
        ],
    }


def _decode_partition(detail: StepDetail) -> TopicPartition:
    return TopicPartition(detail["topic"], detail["partition"])
