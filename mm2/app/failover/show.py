"""A plan as people and programs read it: columns as Kafka's own tools have them."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mm2.app import figures
from mm2.core.failover import group_moves, orders, plan, seen, steps, verdicts

JSON_VERSION = 1
_UNKNOWN = figures.UNKNOWN
_MIRROR_COLUMNS = ("TOPIC", "PARTITION", "MIRROR", "SOURCE-END", "COPIED-TO", "LAG", "LAG-TIME")
_GROUP_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "COMMITTED",
    "GOES-ON-AT",
    "NOW-AT",
    "READ-AGAIN",
    "MISSING",
    "UNREAD",
    "STATE",
)
_TAIL_COLUMNS = ("TOPIC", "PARTITION", "FROM-OFFSET", "END", "RECORDS", "FIRST", "LAST")
_WEIGHTS = {
    verdicts.Weight.FORBIDS: "NO-GO",
    verdicts.Weight.COSTS: "COST",
    verdicts.Weight.NOTE: "NOTE",
}


def lines(found: plan.Plan, hooks: Sequence[str], properties: Mapping[str, str]) -> Iterator[str]:
    """The whole plan. `hooks`: steps that commands are given for; `properties` are what clients
    need there, secrets left out."""
    wanted = found.wanted
    yield f"{wanted.kind.value} {wanted.origin} -> {wanted.destination}, flow {found.flow}"
    yield f"as of {_moment(found.at_ms)}"
    yield ""
    yield from _table(_MIRROR_COLUMNS, [_mirror(each, found.at_ms) for each in found.mirrored])
    yield ""
    rows = [row for group in found.groups for row in _group(group)]
    yield from _table(_GROUP_COLUMNS, rows)
    yield ""
    if found.unreplicated:
        yield f"on {wanted.destination}, and never on {wanted.origin}:"
        yield from _table(_TAIL_COLUMNS, [_tail(each) for each in found.unreplicated])
        yield ""
    yield from _totals(found)
    yield ""
    for weight in verdicts.Weight:
        for each in found.findings:
            if each.weight is weight:
                yield f"{_WEIGHTS[weight]:<6} {each.text} ({each.code})"
    yield f"verdict: {found.verdict.value}"
    yield ""
    yield "steps:"
    for number, step in enumerate(steps.order(wanted, hooks), start=1):
        by = " (hook)" if step.value in hooks else " (yours)" if step in steps.HOOKS else ""
        yield f"{number:>3}. {step.value}: {steps.text(step, wanted, found.flow)}{by}"
    yield ""
    yield f"clients on {wanted.destination}:"
    for name, value in properties.items():
        yield f"  {name}={value}"
    for here, there in sorted(_renamed(found).items()):
        yield f"  topic {here} is {there}"


def as_json(
    found: plan.Plan, hooks: Sequence[str], properties: Mapping[str, str]
) -> dict[str, Any]:
    """For programs; `version` says how it reads. Times are UTC milliseconds, lag as DESIGN says."""
    wanted = found.wanted
    return {
        "version": JSON_VERSION,
        "kind": wanted.kind.value,
        "from": wanted.origin,
        "to": wanted.destination,
        "flow": found.flow,
        "at_ms": found.at_ms,
        "verdict": found.verdict.name.lower().replace("_", "-"),
        "silent": found.silent,
        "lag_records": found.lag_records,
        "lag_ms": found.lag_ms,
        "newest_ms": found.newest_ms,
        "read_again_max": found.again_max,
        "partitions": [_mirror_json(each, found.at_ms) for each in found.mirrored],
        "groups": [_group_json(each) for each in found.groups],
        "unreplicated_records": found.unreplicated_records,
        "unreplicated": [_tail_json(each) for each in found.unreplicated],
        "findings": [
            {
                "weight": each.weight.value,
                "code": each.code,
                "group": each.group,
                "text": each.text,
            }
            for each in found.findings
        ],
        "steps": [step.value for step in steps.order(wanted, hooks)],
        "client_properties": dict(properties),
        "topics": _renamed(found),
    }


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """What was done, when all is done."""
    yield ""
    yield f"done in {figures.duration(report['took_ms'] / 1000)}"
    lag = report["lag_records"]
    yield f"RPO: {_UNKNOWN if lag is None else figures.counted(lag, 'record')}"
    stands = {
        (each["group"], each["topic"], each["partition"]): each["stands_at"]
        for each in report["verified"]
    }
    rows = [
        (
            group["group"],
            each["topic"],
            str(each["partition"]),
            each["mirror"] or _UNKNOWN,
            _number(each["goes_on_at"]),
            _number(stands.get((group["group"], each["mirror"], each["partition"]))),
            ">= " * (group["origin"] == seen.Origin.CHECKPOINTED.value)
            + str(each["read_again_max"]),
            each["state"],
        )
        for group in report["moved"]
        for each in group["partitions"]
    ]
    columns = ("GROUP", "TOPIC", "PARTITION", "MIRROR", "GOES-ON-AT", "STANDS-AT", "READ-AGAIN")
    yield from _table((*columns, "STATE"), rows)
    for each in report["verified"]:
        if each["before"]:
            at = "nowhere" if each["stands_at"] is None else f"at {each['stands_at']}"
            yield (
                f"group {each['group']} stands {at} in {each['topic']}-{each['partition']}, before "
                f"{each['moved_to']}: it reads again from there, as was accepted"
            )
    for name in report["unmoved"]:
        yield f"group {name} was not moved"
    for weight in verdicts.Weight:
        for each in report["findings"]:
            if each["weight"] == weight.value:
                yield f"{_WEIGHTS[weight]:<6} {each['text']} ({each['code']})"
    flow = shlex.quote(report["flow"])
    yield f"the flow {report['flow']} stays stopped until: mm2 resume {flow}"
    if report["kind"] == orders.Kind.BACK.value:
        source, _, target = report["flow"].partition("->")
        forth = shlex.quote(f"{target}->{source}")
        yield f"and so does {target}->{source}, if it was stopped: mm2 resume {forth}"
    stranded = report["stranded_records"]
    if stranded:
        yield f"{figures.counted(stranded, 'record')} came to the cluster left after the last look"


def _renamed(found: plan.Plan) -> dict[str, str]:
    """What is mirrored, and what groups read that had come from there."""
    places = {each.partition: each.mirror for each in found.mirrored}
    for group in found.groups:
        places |= {each.partition: each.mirror for each in group.partitions if each.mirror}
    return {here.topic: there.topic for here, there in places.items() if here.topic != there.topic}


def _mirror(each: seen.Mirrored, now_ms: int) -> tuple[str, ...]:
    lag_ms = each.lag_ms(now_ms)
    return (
        each.partition.topic,
        str(each.partition.partition),
        each.mirror.topic if each.there is not None else f"{each.mirror.topic} (missing)",
        _UNKNOWN if each.here is None else str(each.here.end),
        _UNKNOWN if each.copied_to is None else str(each.copied_to),
        figures.count(each.lag_records),
        figures.duration(None if lag_ms is None else lag_ms / 1000),
    )


def _group(group: group_moves.GroupMove) -> Iterator[tuple[str, ...]]:
    for each in group.partitions:
        yield (
            group.group,
            each.partition.topic,
            str(each.partition.partition),
            _number(each.committed),
            _number(each.to),
            _number(each.at),
            str(each.again_max),
            str(each.unmirrored),
            _number(each.unread),
            _state(group, each),
        )


def _state(group: group_moves.GroupMove, each: group_moves.PartitionMove) -> str:
    if group.barred is not None:
        return f"stays: group is {group.barred.value} there"
    return each.way.value + (f": {each.why}" if each.why else "")


def _totals(found: plan.Plan) -> Iterator[str]:
    wanted = found.wanted
    lag_ms = found.lag_ms
    if found.lag_records is None:
        newest = _UNKNOWN if found.newest_ms is None else _moment(found.newest_ms)
        yield f"RPO: unknown; the newest record on {wanted.destination} is of {newest}"
    else:
        seconds = figures.duration(None if lag_ms is None else lag_ms / 1000)
        yield f"RPO: {figures.counted(found.lag_records, 'record')}, {seconds}"
    groups = figures.counted(len(found.groups), "group")
    again = figures.counted(found.again_max, "record")
    missing = figures.counted(sum(each.unmirrored for each in found.groups), "record")
    yield f"{groups}: at most {again} read again, {missing} read before that are not there"
    stale = [each for each in found.groups if each.origin is seen.Origin.CHECKPOINTED]
    if stale:
        behind = figures.counted(len(stale), "group")
        yield f"on top of that {behind} will read again what was read after the last checkpoint"


def _tail(each: seen.Unreplicated) -> tuple[str, ...]:
    return (
        each.partition.topic,
        str(each.partition.partition),
        str(each.start),
        str(each.end),
        f">= {each.at_least}" if each.records is None else str(each.records),
        _UNKNOWN if each.first_ms is None else _moment(each.first_ms),
        _UNKNOWN if each.last_ms is None else _moment(each.last_ms),
    )


def _tail_json(each: seen.Unreplicated) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "from_offset": each.start,
        "end": each.end,
        "records": each.records,
        "at_least": each.at_least,
        "first_ms": each.first_ms,
        "last_ms": each.last_ms,
    }


def _mirror_json(each: seen.Mirrored, now_ms: int) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "mirror": each.mirror.topic,
        "mirror_exists": each.there is not None,
        "source_end": None if each.here is None else each.here.end,
        "copied_to": each.copied_to,
        "lag_records": each.lag_records,
        "lag_ms": each.lag_ms(now_ms),
        "stopped": each.stopped,
    }


def _group_json(group: group_moves.GroupMove) -> dict[str, Any]:
    return {
        "group": group.group,
        "origin": group.origin.value,
        "state": group.state.value,
        "barred": None if group.barred is None else group.barred.value,
        "unread": group.unread_why,
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "committed": each.committed,
                "metadata": each.metadata,
                "mirror": None if each.mirror is None else each.mirror.topic,
                "goes_on_at": each.to,
                "now_at": each.at,
                "read_again_max": each.again_max,
                "missing": each.unmirrored,
                "unread": each.unread,
                "deleted": each.gone,
                "state": each.way.name.lower().replace("_", "-"),
                "why": each.why,
            }
            for each in group.partitions
        ],
    }


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Left-aligned, two blanks between columns, as kafka-consumer-groups.sh prints."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        yield "  ".join(
            f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)
        ).rstrip()


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)


def _moment(ms: int) -> str:
    moment = datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
