"""What a worker and its copy tell each other over the control channel, as JSON-able messages.

Down: `configure` (first), `beat`, `facts`, `opposite`, `recorded`, `may_take`, `pause`, `resume`,
`pause_topics`, `throttle`, `stop`. Up: `read`, `opposite?`, `may_take?`, `record` (the ordered
stream of what must not be lost), `gauges` (newest wins), `ended`. Bytes travel as base64. The
channel's greeting carries the protocol version.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mm2.core import commands, flows
from mm2.core.copy import (
    ages,
    crossing,
    facts,
    figures,
    instructions,
    partition,
    remedies,
    setup,
)
from mm2.core.offsets import offset_map
from mm2.formats import map_record

Message = dict[str, Any]

BEAT_EVERY_S = 2.0
SILENCE_LIMIT_S = 10.0
"""A side that has heard nothing for this long takes the other for dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How a copy reaches one cluster; `security` is the JSON form of the wire's security settings,
    `properties` are client properties without secrets.
    """

    alias: str
    bootstrap: tuple[str, ...]
    security: Message = field(repr=False)
    client_id: str
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """Everything a copy works with.

    `throttle_bytes_s` (0: none) is this copy's share of its flow's budget, `topic_throttles` its
    shares of the budgets of single topics, in bytes per second. Nothing is copied of
    `paused_topics`. `transforms` are the keys of a chain (`record_transforms`); none: there is
    none. `granted`: the group has just confirmed the task; each partition's first question whether
    it may be taken is answered by that. `unreachable_after_s` as in `flows.Flow`.
    """

    flow: str
    task: int
    owner: bytes
    source: ClusterAccess
    target: ClusterAccess
    partitions: tuple[setup.PartitionSetup, ...]
    budget_bytes: int
    throttle_bytes_s: int = 0
    topic_throttles: Mapping[str, int] = field(default_factory=dict)
    paused_topics: frozenset[str] = frozenset()
    transforms: Mapping[str, str] = field(default_factory=dict, repr=False)
    granted: bool = False
    unreachable_after_s: int = flows.DEFAULT_UNREACHABLE_AFTER_S


def configure(settings: Configure) -> Message:
    return {
        "type": "configure",
        "flow": settings.flow,
        "task": settings.task,
        "owner": _text(settings.owner),
        "source": access_message(settings.source),
        "target": access_message(settings.target),
        "operator": dataclasses.asdict(_operator(settings.partitions)),
        "partitions": [_setup(each) for each in settings.partitions],
        "budget_bytes": settings.budget_bytes,
        "throttle_bytes_s": settings.throttle_bytes_s,
        "topic_throttles": dict(settings.topic_throttles),
        "paused_topics": sorted(settings.paused_topics),
        "transforms": dict(settings.transforms),
        "granted": settings.granted,
        "unreachable_after_s": settings.unreachable_after_s,
    }


def read_configure(message: Message) -> Configure:
    operator = _read_operator(message["operator"])
    return Configure(
        flow=message["flow"],
        task=message["task"],
        owner=_bytes(message["owner"]),
        source=read_access(message["source"]),
        target=read_access(message["target"]),
        partitions=tuple(_read_setup(each, operator) for each in message["partitions"]),
        budget_bytes=message["budget_bytes"],
        throttle_bytes_s=message["throttle_bytes_s"],
        topic_throttles=message["topic_throttles"],
        paused_topics=frozenset(message["paused_topics"]),
        transforms=message["transforms"],
        granted=message["granted"],
        unreachable_after_s=message["unreachable_after_s"],
    )


def access_message(access: ClusterAccess) -> Message:
    return {
        "alias": access.alias,
        "bootstrap": list(access.bootstrap),
        "security": access.security,
        "client_id": access.client_id,
        "properties": access.properties,
    }


def read_access(message: Message) -> ClusterAccess:
    return ClusterAccess(
        alias=message["alias"],
        bootstrap=tuple(message["bootstrap"]),
        security=message["security"],
        client_id=message["client_id"],
        properties=message["properties"],
    )


def _operator(partitions: Sequence[setup.PartitionSetup]) -> commands.Operator:
    """Said once, since all partitions share it."""
    return partitions[0].operator if partitions else commands.NOBODY


def _read_operator(message: Message) -> commands.Operator:
    source, target = (commands.Cluster(**message[side]) for side in ("source", "target"))
    return commands.Operator(
        file=message["file"], source=source, target=target, connector=message["connector"]
    )


def _setup(where: setup.PartitionSetup) -> Message:
    plain = dataclasses.asdict(where)
    del plain["operator"]
    plain["source_topic_id"] = _text(where.source_topic_id)
    plain["target_topic_id"] = _text(where.target_topic_id)
    plain["target_topics"] = where.target_topics.value
    plain["delivery"] = where.delivery.value
    plain["on_source_gap"] = where.on_source_gap.value
    return plain


def _read_setup(message: Message, operator: commands.Operator) -> setup.PartitionSetup:
    given = dict(message)
    given["source_topic_id"] = _bytes(message["source_topic_id"])
    given["target_topic_id"] = _bytes(message["target_topic_id"])
    given["target_topics"] = setup.TargetTopics(message["target_topics"])
    given["delivery"] = setup.Delivery(message["delivery"])
    given["on_source_gap"] = setup.OnSourceGap(message["on_source_gap"])
    return setup.PartitionSetup(**given, operator=operator)


# Facts


def read_request(number: int, where: setup.PartitionSetup, *, target: int | None) -> Message:
    """Ask for a partition's facts; `target` as in `instructions.ReadFacts`."""
    return {
        "type": "read",
        "id": number,
        "topic": where.topic,
        "partition": where.partition,
        "target": target,
    }


def facts_answer(number: int, found: facts.Facts | None, *, failure: str = "") -> Message:
    """`found` None: the map could not be read, and `failure` says why."""
    return {
        "type": "facts",
        "id": number,
        "failure": failure,
        "facts": _facts(found) if found is not None else None,
    }


def read_facts(message: Message) -> facts.Facts | instructions.Unanswered:
    plain = message["facts"]
    if plain is None:
        return instructions.Unanswered(reason=message["failure"])
    era_key = map_record.EraKey(topic="", partition=0, era=plain["era_number"], ordinal=0, epoch=0)
    era = plain["era"]
    request = plain["request"]
    unreadable = plain["unreadable"]
    return facts.Facts(
        era_number=plain["era_number"],
        era=_as(map_record.Era, map_record.decode_value(era_key, _bytes(era))) if era else None,
        anchor=_read_anchor(plain["anchor"]),
        untaken=plain["untaken"],
        era_ordinal=plain["era_ordinal"],
        producers={int(key): ordinal for key, ordinal in plain["producers"].items()},
        request=map_record.Request(**request) if request is not None else None,
        source_position=plain["source_position"],
        target_position=plain["target_position"],
        java=_read_java(plain["java"]),
        unreadable=facts.UnreadableRecord(**unreadable) if unreadable is not None else None,
    )


# Whose producer ids


def opposite_request(number: int, producers: Sequence[int]) -> Message:
    """Ask which of these are the opposite flow's (`instructions.AskOpposite`)."""
    return {"type": "opposite?", "id": number, "producers": list(producers)}


def opposite_answer(
    number: int, theirs: Collection[int] | None, *, failure: str = "", denied: bool = False
) -> Message:
    """`theirs` None: the opposite flow's map could not be read, and `failure` says why; `denied`:
    for want of a right."""
    return {
        "type": "opposite",
        "id": number,
        "failure": failure,
        "denied": denied,
        "producers": None if theirs is None else sorted(theirs),
    }


def read_opposite(
    message: Message,
) -> instructions.Theirs | instructions.Refused | instructions.Unanswered:
    if message["producers"] is None and message["denied"]:
        return instructions.Refused(code=remedies.TOPIC_DENIED, message=message["failure"])
    if message["producers"] is None:
        return instructions.Unanswered(reason=message["failure"])
    return instructions.Theirs(producers=frozenset(message["producers"]))


def _facts(found: facts.Facts) -> Message:
    anchor = None
    if found.anchor is not None:
        anchor = [
            _text(map_record.encode_key(found.anchor.key)),
            _text(map_record.encode_value(found.anchor.segment)),
        ]
    return {
        "era_number": found.era_number,
        "era": _text(map_record.encode_value(found.era)) if found.era is not None else None,
        "anchor": anchor,
        "untaken": found.untaken,
        "era_ordinal": found.era_ordinal,
        "producers": {str(key): ordinal for key, ordinal in found.producers.items()},
        "request": dataclasses.asdict(found.request) if found.request is not None else None,
        "source_position": found.source_position,
        "target_position": found.target_position,
        "java": dataclasses.asdict(found.java) if found.java is not None else None,
        "unreadable": dataclasses.asdict(found.unreadable) if found.unreadable else None,
    }


def _read_java(plain: Message | None) -> facts.JavaProgress | None:
    if plain is None:
        return None
    sync = plain["sync"]
    return facts.JavaProgress(
        next_offset=plain["next_offset"], sync=(sync[0], sync[1]) if sync is not None else None
    )


def _read_anchor(plain: list[str] | None) -> offset_map.Anchor | None:
    if plain is None:
        return None
    key = _as(map_record.SegmentKey, map_record.decode_key(_bytes(plain[0])))
    value = map_record.decode_value(key, _bytes(plain[1]))
    return offset_map.Anchor(key=key, segment=_as(map_record.Segment, value))


# The ordered stream


def record(first: int, items: Sequence[instructions.LogItem]) -> Message:
    """Items `first`, `first` + 1, … of the stream, to be appended in this order."""
    return {
        "type": "record",
        "first": first,
        "items": [
            [_text(each.key), None if each.value is None else _text(each.value), each.receipt]
            for each in items
        ],
    }


def read_record(message: Message) -> list[instructions.LogItem]:
    return [
        instructions.LogItem(
            key=_bytes(key), value=None if value is None else _bytes(value), receipt=receipt
        )
        for key, value, receipt in message["items"]
    ]


# Gauges

SHIFT_S = 600.0
"""So long the least shift of a channel's clocks counts at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """What one partition (by its index in `Configure.partitions`) looks like now.

    `copied_to` is the next source offset that is not on the target yet, `source_end` the last
    stable offset seen, -1 before the first fetch. `age_ms` is the age of the newest record copied,
    when its copy was acknowledged; `oldest_ms` is the timestamp of the oldest record not copied, -1
    for none. `opened` says why the newest batch was not passed through as it is, "" when it was.
    Not `fenced`, it is copied at least once. `arrived` and `stored` are of the records since the
    gauge before: how old they were when they came, and when their copies were acknowledged.

    `batches`, `made` and `spared` as in `counters.Counters`. `newest_ms` is the timestamp of the
    newest record copied, -1 for none. `unrecorded_s`: since when, on the monotonic clock of the
    process that holds the gauge, something is copied that the offset map does not tell of yet;
    `math.inf`: it tells of all, None: that is not known.
    """

    index: int
    phase: str
    records: int
    bytes: int
    copied_to: int
    source_end: int
    log_start: int
    age_ms: int
    oldest_ms: int
    transactional: bool
    reason: str
    cause: str
    opened: str = ""
    fenced: bool = True
    arrived: ages.Ages = ages.NONE
    stored: ages.Ages = ages.NONE
    batches: int = 0
    made: int = 0
    spared: int = 0
    newest_ms: int = -1
    unrecorded_s: float | None = None


def gauge(index: int, copy: partition.PartitionCopy) -> Gauge:
    """As of now; what `arrived` and what is `stored` is told once."""
    counted = copy.counters
    arrived, stored = counted.take_ages()
    return Gauge(
        index=index,
        phase=copy.standing.phase.value,
        records=counted.records,
        bytes=counted.bytes,
        copied_to=figures.copied_to(copy),
        source_end=copy.source.end,
        log_start=copy.source.log_start,
        age_ms=counted.age_ms,
        oldest_ms=figures.oldest_ms(copy),
        transactional=copy.mode.active,
        reason=copy.standing.reason,
        cause=copy.standing.stop.cause.value if copy.standing.stop is not None else "",
        opened=counted.why,
        fenced=copy.mode.possible,
        arrived=arrived,
        stored=stored,
        batches=counted.batches,
        made=counted.made,
        spared=counted.spared,
        newest_ms=counted.newest_ms,
        unrecorded_s=figures.unrecorded_s(copy),
    )


class ClockShift:
    """What the reader's monotonic clock shows more than the sender's, of one channel.

    A message that is read late makes that too much, and each moment in it too young. So the least
    that was seen in the last `SHIFT_S` or twice as long counts: clocks of two machines drift apart.
    """

    def __init__(self) -> None:
        self._since_s = -math.inf
        self._before_s = self._least_s = math.inf

    def note(self, message: Message, now_s: float) -> float:
        """Of `gauges`, read when the reader's clock shows `now_s`; returns what counts by then."""
        if now_s - self._since_s >= SHIFT_S:
            self._since_s, self._before_s, self._least_s = now_s, self._least_s, math.inf
        self._least_s = min(self._least_s, now_s - message["now_s"])
        return min(self._before_s, self._least_s)


def gauges(
    found: Sequence[Gauge], *, troubles: Mapping[str, str], pulse: crossing.Pulse, now_s: float
) -> Message:
    """Those that changed; `troubles` say what all cannot be reached at present, and why. `now_s`:
    what the sender's monotonic clock, which all moments in it are of, shows now."""
    return {
        "type": "gauges",
        "now_s": now_s,
        "partitions": [dataclasses.astuple(_plain(each)) for each in found],
        "troubles": dict(troubles),
        "pulse": list(
            pulse._replace(crossed_s=_moment(pulse.crossed_s), idle_s=_moment(pulse.idle_s))
        ),
    }


def read_pulse(message: Message, shift_s: float) -> crossing.Pulse:
    """The whole copy's, of `gauges`; its moments are moved by `shift_s` to the reader's clock."""
    counts, sum_ms, ahead_ms, crossed_s, idle_s, life = message["pulse"]
    return crossing.Pulse(
        counts=tuple(counts),
        sum_ms=sum_ms,
        ahead_ms=ahead_ms,
        crossed_s=_read_moment(crossed_s, shift_s),
        idle_s=_read_moment(idle_s, shift_s),
        life=life,
    )


_GAUGE_FIELDS = [each.name for each in dataclasses.fields(Gauge)]


def read_gauges(message: Message, shift_s: float) -> list[Gauge]:
    """As `read_pulse`."""
    return [_shifted(_gauge(each), shift_s) for each in message["partitions"]]


def _plain(found: Gauge) -> Gauge:
    if found.unrecorded_s is None:
        return found
    return dataclasses.replace(found, unrecorded_s=_moment(found.unrecorded_s))


def _shifted(found: Gauge, shift_s: float) -> Gauge:
    if found.unrecorded_s is None:
        return found
    return dataclasses.replace(found, unrecorded_s=_read_moment(found.unrecorded_s, shift_s))


def _moment(at_s: float) -> Any:
    """JSON has no infinity."""
    return at_s if math.isfinite(at_s) else str(at_s)


def _read_moment(plain: float | str, shift_s: float) -> float:
    return float(plain) + shift_s


def _gauge(values: Sequence[Any]) -> Gauge:
    found = dict(zip(_GAUGE_FIELDS, values, strict=True))
    for name in ("arrived", "stored"):
        found[name] = ages.Ages._make(found[name])
    return Gauge(**found)


def _as(kind: type[Any], value: object) -> Any:
    assert isinstance(value, kind), value
    return value


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
