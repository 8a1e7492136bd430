"""Messages of the control channel between the driver and a copy, and their JSON form.

Driver to copy: `reach` (optional, before all others: clusters and topics to connect to),
`configure`, `beat`, `facts`, `opposite`, `recorded`, `may_take`, `pause`, `resume`,
`pause_topics`, `throttle`, `stop`. Copy to driver: `read`, `opposite?`, `may_take?`, `record`
(ordered stream of items to store, none of which may be lost), `gauges` (the newest wins),
`ended`. Bytes travel as base64. The greeting of the channel carries the protocol version.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mm2 import operator_commands
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import Era, EraKey, MapSegment, MapSegmentKey, NewEraRequest
from mm2.offsets.offset_map import ResumePoint
from mm2.operator_commands import ClusterCommands, OperatorCommands
from mm2.replication import halts, latency
from mm2.replication.latency import LatencySnapshot, RecordAges
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.recovery_instructions import (
    FlowLogItem,
    InstructionRefused,
    JavaMirrorProgress,
    NoResponse,
    RecoveredState,
    ReverseFlowProducers,
    UnreadableStateRecord,
)
from mm2.replication.setup import PartitionSetup
from mm2.topics import flow_config
from mm2.topics.flow_config import DeliveryMode, OnSourceGap, TargetTopicAccess


def compute_copied_to(copy: PartitionReplicator) -> int:
    """The first source offset that readers do not see on the target yet; -1 while unknown."""
    if copy.map is None:
        return -1
    return copy.mode.open_from if copy.mode.open else copy.map.through


def compute_oldest_uncopied_ms(copy: PartitionReplicator) -> int:
    """Timestamp (ms) of the oldest record not copied, -1 when there is none.

    Where that record has not been fetched yet, the newest copied one's: it is not older.
    """
    for pending in (copy.window.oldest_timestamp, copy.outbox.oldest_timestamp):
        if pending is not None:
            return pending
    behind = copy.map is not None and copy.map.through < copy.source.end
    return copy.counters.newest_ms if behind else -1


def compute_unrecorded_since_s(copy: PartitionReplicator) -> float | None:
    """Since when (on the monotonic clock) something is copied that no stored anchor tells of;
    `math.inf` when anchors tell of all, None while that is unknown."""
    if copy.map is None:
        return None
    since_s = copy.map.unrecorded_since_s
    return math.inf if since_s is None else since_s


JsonMessage = dict[str, Any]

HEARTBEAT_INTERVAL_S = 2.0
PEER_TIMEOUT_S = 10.0
"""A side that has heard nothing for this long takes the other for dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How a copy reaches one cluster; `security` is the JSON form of the wire's security settings,
    `properties` are client properties without secrets.
    """

    alias: str
    bootstrap: tuple[str, ...]
    security: JsonMessage = field(repr=False)
    client_id: str
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureCopy:
    """Everything a copy works with.

    `throttle_bytes_s` (0: none) is this copy's share of its flow's budget, `topic_throttles` its
    shares of the budgets of single topics, in bytes per second. Nothing is copied of
    `paused_topics`. `transforms` are the keys of a chain (`record_transforms`); none: there is
    none. `granted`: the group has just confirmed the task; each partition's first question whether
    it may be taken is answered by that. `unreachable_after_s` as in `Flow`.
    """

    flow: str
    task: int
    owner: bytes
    source: ClusterAccess
    target: ClusterAccess
    partitions: tuple[PartitionSetup, ...]
    budget_bytes: int
    throttle_bytes_s: int = 0
    topic_throttles: Mapping[str, int] = field(default_factory=dict)
    paused_topics: frozenset[str] = frozenset()
    transforms: Mapping[str, str] = field(default_factory=dict, repr=False)
    granted: bool = False
    unreachable_after_s: int = flow_config.DEFAULT_UNREACHABLE_AFTER_S


def encode_configure(settings: ConfigureCopy) -> JsonMessage:
    return {
        "type": "configure",
        "flow": settings.flow,
        "task": settings.task,
        "owner": _encode_base64(settings.owner),
        "source": encode_access(settings.source),
        "target": encode_access(settings.target),
        "operator": dataclasses.asdict(_encode_operator(settings.partitions)),
        "partitions": [_encode_setup(each) for each in settings.partitions],
        "budget_bytes": settings.budget_bytes,
        "throttle_bytes_s": settings.throttle_bytes_s,
        "topic_throttles": dict(settings.topic_throttles),
        "paused_topics": sorted(settings.paused_topics),
        "transforms": dict(settings.transforms),
        "granted": settings.granted,
        "unreachable_after_s": settings.unreachable_after_s,
    }


def decode_configure(message: JsonMessage) -> ConfigureCopy:
    operator = _decode_operator(message["operator"])
    return ConfigureCopy(
        flow=message["flow"],
        task=message["task"],
        owner=_decode_base64(message["owner"]),
        source=decode_access(message["source"]),
        target=decode_access(message["target"]),
        partitions=tuple(_decode_setup(each, operator) for each in message["partitions"]),
        budget_bytes=message["budget_bytes"],
        throttle_bytes_s=message["throttle_bytes_s"],
        topic_throttles=message["topic_throttles"],
        paused_topics=frozenset(message["paused_topics"]),
        transforms=message["transforms"],
        granted=message["granted"],
        unreachable_after_s=message["unreachable_after_s"],
    )


def encode_access(access: ClusterAccess) -> JsonMessage:
    return {
        "alias": access.alias,
        "bootstrap": list(access.bootstrap),
        "security": access.security,
        "client_id": access.client_id,
        "properties": access.properties,
    }


def decode_access(message: JsonMessage) -> ClusterAccess:
    return ClusterAccess(
        alias=message["alias"],
        bootstrap=tuple(message["bootstrap"]),
        security=message["security"],
        client_id=message["client_id"],
        properties=message["properties"],
    )


def _encode_operator(partitions: Sequence[PartitionSetup]) -> OperatorCommands:
    """Said once, since all partitions share it."""
    return partitions[0].operator if partitions else operator_commands.GENERIC_COMMANDS


def _decode_operator(message: JsonMessage) -> OperatorCommands:
    source, target = (ClusterCommands(**message[side]) for side in ("source", "target"))
    return OperatorCommands(
        file=message["file"], source=source, target=target, connector=message["connector"]
    )


def _encode_setup(where: PartitionSetup) -> JsonMessage:
    plain = dataclasses.asdict(where)
    del plain["operator"]
    plain["source_topic_id"] = _encode_base64(where.source_topic_id)
    plain["target_topic_id"] = _encode_base64(where.target_topic_id)
    plain["target_topics"] = where.target_topics.value
    plain["delivery"] = where.delivery.value
    plain["on_source_gap"] = where.on_source_gap.value
    return plain


def _decode_setup(message: JsonMessage, operator: OperatorCommands) -> PartitionSetup:
    given = dict(message)
    given["source_topic_id"] = _decode_base64(message["source_topic_id"])
    given["target_topic_id"] = _decode_base64(message["target_topic_id"])
    given["target_topics"] = TargetTopicAccess(message["target_topics"])
    given["delivery"] = DeliveryMode(message["delivery"])
    given["on_source_gap"] = OnSourceGap(message["on_source_gap"])
    return PartitionSetup(**given, operator=operator)


# Facts


def encode_recovered_state_request(
    number: int, where: PartitionSetup, *, target: int | None
) -> JsonMessage:
    """Ask for a partition's facts; `target` as in `ReadRecoveredState`."""
    return {
        "type": "read",
        "id": number,
        "topic": where.topic,
        "partition": where.partition,
        "target": target,
    }


def encode_recovered_state(
    number: int, found: RecoveredState | None, *, failure: str = ""
) -> JsonMessage:
    """`found` None: the map could not be read, and `failure` says why."""
    return {
        "type": "facts",
        "id": number,
        "failure": failure,
        "facts": _encode_recovered_fields(found) if found is not None else None,
    }


def decode_recovered_state(message: JsonMessage) -> RecoveredState | NoResponse:
    plain = message["facts"]
    if plain is None:
        return NoResponse(reason=message["failure"])
    era_key = EraKey(topic="", partition=0, era=plain["era_number"], ordinal=0, epoch=0)
    era = plain["era"]
    request = plain["request"]
    unreadable = plain["unreadable"]
    return RecoveredState(
        era_number=plain["era_number"],
        era=_convert_to(Era, offset_map_records.decode_value(era_key, _decode_base64(era)))
        if era
        else None,
        anchor=_decode_resume_point(plain["anchor"]),
        untaken=plain["untaken"],
        era_ordinal=plain["era_ordinal"],
        producers={int(key): ordinal for key, ordinal in plain["producers"].items()},
        request=NewEraRequest(**request) if request is not None else None,
        source_position=plain["source_position"],
        target_position=plain["target_position"],
        java=_decode_java_progress(plain["java"]),
        unreadable=UnreadableStateRecord(**unreadable) if unreadable is not None else None,
    )


# Whose producer ids


def encode_reverse_producers_request(number: int, producers: Sequence[int]) -> JsonMessage:
    """Ask which of these are the opposite flow's (`FindReverseFlowProducers`)."""
    return {"type": "opposite?", "id": number, "producers": list(producers)}


def encode_reverse_producers(
    number: int, theirs: Collection[int] | None, *, failure: str = "", denied: bool = False
) -> JsonMessage:
    """`theirs` None: the opposite flow's map could not be read, and `failure` says why; `denied`:
    for want of a right."""
    return {
        "type": "opposite",
        "id": number,
        "failure": failure,
        "denied": denied,
        "producers": None if theirs is None else sorted(theirs),
    }


def decode_reverse_producers(
    message: JsonMessage,
) -> ReverseFlowProducers | InstructionRefused | NoResponse:
    if message["producers"] is None and message["denied"]:
        return InstructionRefused(code=halts.TOPIC_AUTHORIZATION_FAILED, message=message["failure"])
    if message["producers"] is None:
        return NoResponse(reason=message["failure"])
    return ReverseFlowProducers(producers=frozenset(message["producers"]))


def _encode_recovered_fields(found: RecoveredState) -> JsonMessage:
    anchor = None
    if found.anchor is not None:
        anchor = [
            _encode_base64(offset_map_records.encode_key(found.anchor.key)),
            _encode_base64(offset_map_records.encode_value(found.anchor.segment)),
        ]
    return {
        "era_number": found.era_number,
        "era": _encode_base64(offset_map_records.encode_value(found.era))
        if found.era is not None
        else None,
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


def _decode_java_progress(plain: JsonMessage | None) -> JavaMirrorProgress | None:
    if plain is None:
        return None
    sync = plain["sync"]
    return JavaMirrorProgress(
        next_offset=plain["next_offset"], sync=(sync[0], sync[1]) if sync is not None else None
    )


def _decode_resume_point(plain: list[str] | None) -> ResumePoint | None:
    if plain is None:
        return None
    key = _convert_to(MapSegmentKey, offset_map_records.decode_key(_decode_base64(plain[0])))
    value = offset_map_records.decode_value(key, _decode_base64(plain[1]))
    return ResumePoint(key=key, segment=_convert_to(MapSegment, value))


# The ordered stream


def encode_log_items(first: int, items: Sequence[FlowLogItem]) -> JsonMessage:
    """Items `first`, `first` + 1, … of the stream, to be appended in this order."""
    return {
        "type": "record",
        "first": first,
        "items": [
            [
                _encode_base64(each.key),
                None if each.value is None else _encode_base64(each.value),
                each.incident,
            ]
            for each in items
        ],
    }


def decode_log_items(message: JsonMessage) -> list[FlowLogItem]:
    return [
        FlowLogItem(
            key=_decode_base64(key),
            value=None if value is None else _decode_base64(value),
            incident=incident,
        )
        for key, value, incident in message["items"]
    ]


# Gauges

CLOCK_SHIFT_WINDOW_S = 600.0
"""So long the least shift of a channel's clocks counts at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGauge:
    """What one partition (by its index in `ConfigureCopy.partitions`) looks like now.

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
    arrived: RecordAges = latency.NO_AGES
    stored: RecordAges = latency.NO_AGES
    batches: int = 0
    made: int = 0
    spared: int = 0
    newest_ms: int = -1
    unrecorded_s: float | None = None


def build_gauge(index: int, copy: PartitionReplicator) -> PartitionGauge:
    """As of now; what `arrived` and what is `stored` is told once."""
    counted = copy.counters
    arrived, stored = counted.take_ages()
    return PartitionGauge(
        index=index,
        phase=copy.standing.phase.value,
        records=counted.records,
        bytes=counted.bytes,
        copied_to=compute_copied_to(copy),
        source_end=copy.source.end,
        log_start=copy.source.log_start,
        age_ms=counted.age_ms,
        oldest_ms=compute_oldest_uncopied_ms(copy),
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
        unrecorded_s=compute_unrecorded_since_s(copy),
    )


class ClockShift:
    """What the reader's monotonic clock shows more than the sender's, of one channel.

    A message that is read late makes that too much, and each moment in it too young. So the least
    that was seen in the last `CLOCK_SHIFT_WINDOW_S` or twice as long counts: clocks of two machines
    drift apart."""

    def __init__(self) -> None:
        self._since_s = -math.inf
        self._before_s = self._least_s = math.inf

    def note(self, message: JsonMessage, now_s: float) -> float:
        """Of `encode_gauges`, read when the reader's clock shows `now_s`; returns what counts by
        then."""
        if now_s - self._since_s >= CLOCK_SHIFT_WINDOW_S:
            self._since_s, self._before_s, self._least_s = now_s, self._least_s, math.inf
        self._least_s = min(self._least_s, now_s - message["now_s"])
        return min(self._before_s, self._least_s)


def encode_gauges(
    found: Sequence[PartitionGauge],
    *,
    troubles: Mapping[str, str],
    pulse: LatencySnapshot,
    now_s: float,
) -> JsonMessage:
    """Those that changed; `troubles` say what all cannot be reached at present, and why. `now_s`:
    what the sender's monotonic clock, which all moments in it are of, shows now."""
    return {
        "type": "gauges",
        "now_s": now_s,
        "partitions": [dataclasses.astuple(_encode_gauge_moments(each)) for each in found],
        "troubles": dict(troubles),
        "pulse": list(
            pulse._replace(
                crossed_s=_encode_moment(pulse.crossed_s), idle_s=_encode_moment(pulse.idle_s)
            )
        ),
    }


def decode_latency_snapshot(message: JsonMessage, shift_s: float) -> LatencySnapshot:
    """The whole copy's, of `encode_gauges`; its moments are moved by `shift_s` to the reader's
    clock."""
    counts, sum_ms, ahead_ms, crossed_s, idle_s, life = message["pulse"]
    return LatencySnapshot(
        counts=tuple(counts),
        sum_ms=sum_ms,
        ahead_ms=ahead_ms,
        crossed_s=_decode_moment(crossed_s, shift_s),
        idle_s=_decode_moment(idle_s, shift_s),
        life=life,
    )


_GAUGE_FIELDS = [each.name for each in dataclasses.fields(PartitionGauge)]


def decode_gauges(message: JsonMessage, shift_s: float) -> list[PartitionGauge]:
    """As `decode_latency_snapshot`."""
    return [_shift_gauge_moments(_decode_gauge(each), shift_s) for each in message["partitions"]]


def _encode_gauge_moments(found: PartitionGauge) -> PartitionGauge:
    if found.unrecorded_s is None:
        return found
    return dataclasses.replace(found, unrecorded_s=_encode_moment(found.unrecorded_s))


def _shift_gauge_moments(found: PartitionGauge, shift_s: float) -> PartitionGauge:
    if found.unrecorded_s is None:
        return found
    return dataclasses.replace(found, unrecorded_s=_decode_moment(found.unrecorded_s, shift_s))


def _encode_moment(at_s: float) -> Any:
    """JSON has no infinity."""
    return at_s if math.isfinite(at_s) else str(at_s)


def _decode_moment(plain: float | str, shift_s: float) -> float:
    return float(plain) + shift_s


def _decode_gauge(values: Sequence[Any]) -> PartitionGauge:
    found = dict(zip(_GAUGE_FIELDS, values, strict=True))
    for name in ("arrived", "stored"):
        found[name] = RecordAges._make(found[name])
    return PartitionGauge(**found)


def _convert_to(kind: type[Any], value: object) -> Any:
    assert isinstance(value, kind), value
    return value


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEndpoints:
    """What a copy will have to do with, before it is told what to copy: clusters, and topics on
    them."""

    source: ClusterAccess
    target: ClusterAccess
    topics: tuple[str, ...]
    mirrors: tuple[str, ...]


def encode_endpoints(wanted: CopyEndpoints) -> JsonMessage:
    return {
        "type": "reach",
        "source": encode_access(wanted.source),
        "target": encode_access(wanted.target),
        "topics": list(wanted.topics),
        "mirrors": list(wanted.mirrors),
    }


def decode_endpoints(told: JsonMessage) -> CopyEndpoints:
    return CopyEndpoints(
        source=decode_access(told["source"]),
        target=decode_access(told["target"]),
        topics=tuple(told["topics"]),
        mirrors=tuple(told["mirrors"]),
    )
