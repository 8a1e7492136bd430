"""What steps note in the journal, and how later steps read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import ids
from mm2.core.failover import fences, group_moves, journal, orders, read_backs, rereads, seen, steps
from mm2.core.offsets import checkpoints, log_ends

Detail = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """Where a group has to stand at least; `back`: partitions where it is set back there."""

    positions: Mapping[ids.TopicPartition, checkpoints.OffsetAndMetadata]
    back: frozenset[ids.TopicPartition]

    def is_to_be_written(
        self, place: ids.TopicPartition, stands: checkpoints.OffsetAndMetadata | None
    ) -> bool:
        """Who has got further is left there, unless he is to be set back."""
        at = self.positions[place].offset
        if stands is None or stands.offset < at:
            return True
        return stands.offset > at and place in self.back

    def to_write(
        self, stands: checkpoints.Positions
    ) -> dict[ids.TopicPartition, checkpoints.OffsetAndMetadata]:
        """Where the group does not stand yet; `stands`: where it does."""
        return {
            place: at
            for place, at in self.positions.items()
            if self.is_to_be_written(place, stands.get(place))
        }


def is_moved(move: group_moves.GroupMove) -> bool:
    """One that is in the way there stays as it is, and one of which nothing is known."""
    return move.barred is None and (bool(move.partitions) or not move.unread_why)


def of_group(move: group_moves.GroupMove) -> Detail:
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


def finals(detail: Detail) -> dict[str, Final]:
    """By group: where it has to stand there."""
    return {
        each["group"]: Final(
            positions={
                _place(at): checkpoints.OffsetAndMetadata(
                    offset=at["offset"], metadata=at["metadata"]
                )
                for at in each["positions"]
            },
            back=frozenset(_place(at) for at in each["positions"] if at["back"]),
        )
        for each in detail["groups"]
    }


def taken_again(detail: Detail, last: Detail, moved: Collection[str]) -> Detail:
    """What LOOK_AGAIN found of the groups that are not moved yet, with what it had found `last` of
    those that are."""

    def merged(now: Sequence[Detail], then: Sequence[Detail]) -> list[Detail]:
        return sorted(
            [*now, *(each for each in then if each["group"] in moved)],
            key=lambda each: str(each["group"]),
        )

    plan, then = detail["plan"], last["plan"]
    groups = merged(plan["groups"], then["groups"])
    findings = merged(plan["findings"], then["findings"])
    all_known = rereads.are_all_known(groups, findings, silent=plan["silent"])
    return {
        **detail,
        "plan": {
            **plan,
            "read_again_max": rereads.at_most(groups, all_known=all_known),
            "read_again": rereads.words(
                groups,
                at_ms=plan["at_ms"],
                planned=plan["kind"] != orders.Kind.EMERGENCY.value,
                all_known=all_known,
            ),
            "groups": groups,
            "findings": findings,
            "topics": {**then["topics"], **plan["topics"]},
        },
        "groups": merged(detail["groups"], last["groups"]),
    }


def before(detail: Detail) -> seen.Before:
    """As RECORD noted its plan."""
    plan = detail["plan"]
    return seen.Before(
        positions={
            group["group"]: {
                _place(each): None
                if each["committed"] is None
                else checkpoints.OffsetAndMetadata(
                    offset=each["committed"], metadata=each.get("metadata", "")
                )
                for each in group["partitions"]
            }
            for group in plan["groups"]
        },
        findings=frozenset((each["code"], each["group"]) for each in plan["findings"]),
        streams=frozenset(each["group"] for each in plan["groups"] if each["kafka_streams"]),
    )


def waited_for(detail: Detail) -> list[str]:
    """Groups of the plan that are to be moved, and so have to be at rest: one that is in the way on
    the other cluster stays, as was accepted."""
    return [each["group"] for each in detail["plan"]["groups"] if each["barred"] is None]


def groups_of_plan(detail: Detail) -> list[str]:
    return [each["group"] for each in detail["plan"]["groups"]]


def of_fenced(each: fences.Fenced) -> Detail:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "marker": each.marker,
        "order": list(each.order),
        "tail": each.tail,
        "unfenced": each.unfenced,
    }


def fenced(detail: Detail) -> list[fences.Fenced]:
    return [
        fences.Fenced(
            partition=_place(each),
            marker=each["marker"],
            order=(each["order"][0], each["order"][1]),
            tail=each["tail"],
            unfenced=each["unfenced"],
        )
        for each in detail["partitions"]
    ]


def by_partition(values: Mapping[ids.TopicPartition, int]) -> list[Detail]:
    return [
        {"topic": place.topic, "partition": place.partition, "value": value}
        for place, value in sorted(values.items())
    ]


def partitions(found: Collection[Detail]) -> dict[ids.TopicPartition, int]:
    return {_place(each): each["value"] for each in found}


def report(found: journal.Journal, final: Detail, *, now_ms: int) -> dict[str, Any]:
    """What an operator files away: times, how each step was read back, the recovery point, and
    what became of each group."""
    moved = found.moved
    assert found.begun is not None, "it was begun"
    wanted = found.begun.wanted
    groups = [each for each in final["groups"] if each["group"] in moved]
    all_known = rereads.are_all_known(final["groups"], final["findings"], silent=final["silent"])
    return {
        "version": 1,
        "kind": wanted.kind.value,
        "from": wanted.origin,
        "to": wanted.destination,
        "flow": found.begun.flow,
        "begun_at_ms": found.begun_at_ms,
        "ended_at_ms": now_ms,
        "took_ms": now_ms - found.begun_at_ms,
        "steps": [_of_step(found, step) for step in found.begun.order if step in found.details],
        "failures": [{"step": step.value, "error": error} for step, error in found.failures],
        "lag_records": final["lag_records"],
        "lag_ms": final["lag_ms"],
        "newest_ms": final["newest_ms"],
        "read_again_max": rereads.at_most(groups, all_known=all_known),
        "read_again": rereads.words(
            groups, at_ms=final["at_ms"], planned=wanted.planned, all_known=all_known
        ),
        "findings": final["findings"],
        "verified": found.details[steps.Step.VERIFY]["positions"],
        "moved": [_of_moved(each) for each in groups],
        "unmoved": sorted(
            {*groups_of_plan(found.details[steps.Step.RECORD]), *groups_of_plan({"plan": final})}
            - moved
        ),
        "unmoved_groups": final["unmoved_groups"],
        "looked_at_ms": final["at_ms"],
    }


def stranded(final: Detail, now: Mapping[ids.TopicPartition, log_ends.Ends | None]) -> int | None:
    """By offsets; None as soon as one of them is unknown."""
    count = 0
    for each in final["partitions"]:
        ends = now.get(_place(each))
        if ends is None or each["source_end"] is None:
            return None
        count += max(0, ends.end - each["source_end"])
    return count


def _of_step(found: journal.Journal, step: steps.Step) -> Detail:
    """Attempts that failed, and what lay between them, take time as well."""
    return {
        "step": step.value,
        "began_at_ms": found.started_ms[step],
        "took_ms": found.done_ms[step] - found.started_ms[step],
        "read_back": read_backs.text(step, found.details[step]),
    }


def _of_moved(group: Detail) -> Detail:
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


def _place(detail: Detail) -> ids.TopicPartition:
    return ids.TopicPartition(detail["topic"], detail["partition"])
