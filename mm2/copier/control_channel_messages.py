"""Messages of the control channel between the driver and a copy process, and their JSON form.

Driver to copy process: `endpoints` (optional, first: clusters and topics to connect to),
`configure`, `heartbeat`, `recovered_state`, `reverse_producers` (producer ids of the reverse flow),
`recorded` (records were stored in the flow's offset map and incident topics),
`acquisition_granted`, `pause`, `resume`, `pause_topics`, `throttle`, `stop`.

Copy process to driver: `recovered_state_request`, `reverse_producers_request`,
`acquisition_request`, `record` (records that the driver must store, all of them and in order),
`progress` (progress reports, each of which replaces the previous one), `ended`.

Bytes are encoded as base64. The greeting of the channel contains the protocol version. Messages of
a copy process are validated, because the process may run on a machine of a Spark cluster. Decoders
of these messages are called inside `reject_malformed_message`.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.formats import incident_records, offset_map_records
from mm2.formats.incident_records import MalformedIncidentError
from mm2.formats.offset_map_records import Era, EraKey, MapSegment, MapSegmentKey, NewEraRequest
from mm2.offsets.offset_map import ResumePoint
from mm2.replication import partition_halt_messages
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.recovery_instructions import (
    FlowStateRecord,
    InstructionRefused,
    JavaMirrorProgress,
    NoResponse,
    RecoveredState,
    ReverseFlowProducers,
    UnreadableStateRecord,
)
from mm2.suggested_commands import ClusterCommands, OperatorCommands
from mm2.topics import flow_config
from mm2.topics.flow_config import DeliveryMode, SourceGapAction, TargetTopicAccess

JsonMessage = dict[str, Any]

_MAX_ERROR_CHARS = 200
"""Maximum number of characters of a malformed message that are quoted in an error message."""
MAX_TEXT_CHARS = 2_000
"""Maximum length in characters of a string that the driver accepts from a copy process. Longer
strings are truncated."""
INT64 = range(-(2**63), 2**63)
_INT128 = range(-(2**127), 2**127)


class MalformedMessageError(FatalError):
    """A copy process sent a message that does not conform to this protocol."""


@contextlib.contextmanager
def reject_malformed_message(message: JsonMessage) -> Iterator[None]:
    """Context manager that converts errors raised while decoding a copy process's message to
    `MalformedMessageError`."""
    try:
        yield
    except (
        *(KeyError, TypeError, OverflowError, MalformedIncidentError),
        *offset_map_records.UNREADABLE_RECORD_ERRORS,
    ) as error:
        kind, reason = message["type"], repr(error)[:_MAX_ERROR_CHARS]
        raise MalformedMessageError(
            f"the copy process sent a malformed message {kind[:_MAX_ERROR_CHARS]!r}: {reason}"
        ) from error


def decode_integer(value: Any) -> int:
    """Decode a signed 64-bit integer. Raises `ValueError` for any other value."""
    if type(value) is not int or value not in INT64:
        raise ValueError("not a 64-bit integer")
    return value


def decode_int128(value: Any) -> int:
    """Decode a sum of 64-bit integers (for example of record ages), which may exceed 64 bits.
    Raises `ValueError` if it exceeds 128 bits."""
    if type(value) is not int or value not in _INT128:
        raise ValueError("not a 128-bit integer")
    return value


def decode_text(value: Any) -> str:
    """Decode a string. Text after `MAX_TEXT_CHARS` characters is dropped, and lone surrogates are
    replaced by `?`. Raises `TypeError` if the value is not a string."""
    if not isinstance(value, str):
        raise TypeError("not a string")
    text = value[:MAX_TEXT_CHARS]
    return text if text.isascii() else text.encode(errors="replace").decode()


HEARTBEAT_INTERVAL_S = 2.0
PEER_TIMEOUT_S = 10.0
"""Time without a message after which the driver considers the copy process dead, and the copy
process considers the driver dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Connection settings of a copy process for one cluster."""

    alias: str
    bootstrap: tuple[str, ...]
    security: JsonMessage = field(repr=False)
    """JSON form of `SecuritySettings`."""
    client_id: str
    properties: dict[str, str] = field(default_factory=dict)
    """Client properties without secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyConfiguration:
    """The complete configuration of a copy process."""

    flow: str
    task: int
    owner: bytes
    """Id of the worker process, as stored in resume points."""
    source: ClusterAccess
    target: ClusterAccess
    partitions: tuple[PartitionSetup, ...]
    budget_bytes: int
    """Memory limit for fetched records."""
    throttle_bytes_s: int = 0
    """This task's share of the flow's throttle, in bytes per second; 0 for no limit."""
    topic_throttles: Mapping[str, int] = field(default_factory=dict)
    """This task's share of each topic's throttle, in bytes per second."""
    paused_topics: frozenset[str] = frozenset()
    transforms: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Configuration keys of the transform chain (`record_transforms`); empty if the flow has no
    transforms."""
    granted: bool = False
    """True if the Connect group has just confirmed the task assignment. The first acquisition of
    each partition then needs no further confirmation."""
    unreachable_after_s: int = flow_config.DEFAULT_UNREACHABLE_AFTER_S
    """Number of seconds without a response after which a partition leader counts as unreachable."""


def encode_copy_configuration(settings: CopyConfiguration) -> JsonMessage:
    """Encode the configuration of a copy process."""
    return {
        "type": "configure",
        "flow": settings.flow,
        "task": settings.task,
        "owner": _encode_base64(settings.owner),
        "source": encode_cluster_access(settings.source),
        "target": encode_cluster_access(settings.target),
        "operator": dataclasses.asdict(_encode_operator_commands(settings.partitions)),
        "partitions": [_encode_partition_setup(each) for each in settings.partitions],
        "budget_bytes": settings.budget_bytes,
        "throttle_bytes_s": settings.throttle_bytes_s,
        "topic_throttles": dict(settings.topic_throttles),
        "paused_topics": sorted(settings.paused_topics),
        "transforms": dict(settings.transforms),
        "granted": settings.granted,
        "unreachable_after_s": settings.unreachable_after_s,
    }


def decode_copy_configuration(message: JsonMessage) -> CopyConfiguration:
    operator = _decode_operator_commands(message["operator"])
    return CopyConfiguration(
        flow=message["flow"],
        task=message["task"],
        owner=_decode_base64(message["owner"]),
        source=decode_cluster_access(message["source"]),
        target=decode_cluster_access(message["target"]),
        partitions=tuple(_decode_partition_setup(each, operator) for each in message["partitions"]),
        budget_bytes=message["budget_bytes"],
        throttle_bytes_s=message["throttle_bytes_s"],
        topic_throttles=message["topic_throttles"],
        paused_topics=frozenset(message["paused_topics"]),
        transforms=message["transforms"],
        granted=message["granted"],
        unreachable_after_s=message["unreachable_after_s"],
    )


def encode_cluster_access(access: ClusterAccess) -> JsonMessage:
    return {
        "alias": access.alias,
        "bootstrap": list(access.bootstrap),
        "security": access.security,
        "client_id": access.client_id,
        "properties": access.properties,
    }


def decode_cluster_access(message: JsonMessage) -> ClusterAccess:
    return ClusterAccess(
        alias=message["alias"],
        bootstrap=tuple(message["bootstrap"]),
        security=message["security"],
        client_id=message["client_id"],
        properties=message["properties"],
    )


def _encode_operator_commands(partitions: Sequence[PartitionSetup]) -> OperatorCommands:
    """Return the commands that log and error messages suggest to operators. They are the same for
    all partitions, so the configuration contains them once."""
    return partitions[0].operator if partitions else suggested_commands.GENERIC_COMMANDS


def _decode_operator_commands(message: JsonMessage) -> OperatorCommands:
    source, target = (ClusterCommands(**message[side]) for side in ("source", "target"))
    return OperatorCommands(
        file=message["file"], source=source, target=target, connector=message["connector"]
    )


def _encode_partition_setup(where: PartitionSetup) -> JsonMessage:
    fields = dataclasses.asdict(where)
    del fields["operator"]
    fields["source_topic_id"] = _encode_base64(where.source_topic_id)
    fields["target_topic_id"] = _encode_base64(where.target_topic_id)
    fields["target_topics"] = where.target_topics.value
    fields["delivery"] = where.delivery.value
    fields["on_source_gap"] = where.on_source_gap.value
    return fields


def _decode_partition_setup(message: JsonMessage, operator: OperatorCommands) -> PartitionSetup:
    fields = dict(message)
    fields["source_topic_id"] = _decode_base64(message["source_topic_id"])
    fields["target_topic_id"] = _decode_base64(message["target_topic_id"])
    fields["target_topics"] = TargetTopicAccess(message["target_topics"])
    fields["delivery"] = DeliveryMode(message["delivery"])
    fields["on_source_gap"] = SourceGapAction(message["on_source_gap"])
    return PartitionSetup(**fields, operator=operator)


# Recovered state


def encode_recovered_state_request(
    number: int, where: PartitionSetup, *, target: int | None
) -> JsonMessage:
    """Encode a request for the recovered state of a partition. If `target` is not None, the state
    must include the source offset that corresponds to this target offset."""
    return {
        "type": "recovered_state_request",
        "id": number,
        "topic": where.topic,
        "partition": where.partition,
        "target": target,
    }


def decode_recovered_state_request(
    message: JsonMessage, partitions: Sequence[PartitionSetup]
) -> tuple[int, TopicPartition, int | None]:
    """Decode a recovered-state request. Return the request number, the partition and the target
    offset. `partitions` contains the partitions of the copy process; raises `ValueError` for any
    other partition."""
    partition = TopicPartition(decode_text(message["topic"]), decode_integer(message["partition"]))
    if all(TopicPartition(each.topic, each.partition) != partition for each in partitions):
        raise ValueError("the requested partition does not belong to this task")
    target = message["target"]
    number = decode_integer(message["id"])
    return number, partition, None if target is None else decode_integer(target)


def encode_recovered_state(
    number: int, state: RecoveredState | None, *, failure: str = ""
) -> JsonMessage:
    """Encode the recovered state of a partition.

    `state` is None if the offset map could not be read. `failure` then contains the reason.
    """
    return {
        "type": "recovered_state",
        "id": number,
        "failure": failure,
        "state": _encode_recovered_fields(state) if state is not None else None,
    }


def decode_recovered_state(message: JsonMessage) -> RecoveredState | NoResponse:
    plain = message["state"]
    if plain is None:
        return NoResponse(reason=message["failure"])
    era_key = EraKey(topic="", partition=0, era=plain["era_number"], ordinal=0, epoch=0)
    era = plain["era"]
    request = plain["request"]
    unreadable = plain["unreadable"]
    return RecoveredState(
        era_number=plain["era_number"],
        era=_convert_json_value(
            Era, offset_map_records.decode_map_value(era_key, _decode_base64(era))
        )
        if era
        else None,
        resume_point=_decode_resume_point(plain["anchor"]),
        is_era_empty=plain["untaken"],
        era_ordinal=plain["era_ordinal"],
        producers={int(key): ordinal for key, ordinal in plain["producers"].items()},
        request=NewEraRequest(**request) if request is not None else None,
        source_position=plain["source_position"],
        target_position=plain["target_position"],
        java=_decode_java_progress(plain["java"]),
        unreadable=UnreadableStateRecord(**unreadable) if unreadable is not None else None,
    )


# Producer ids of the reverse flow


def encode_reverse_flow_producers_request(number: int, producers: Sequence[int]) -> JsonMessage:
    """Encode a request for the producer ids that belong to the reverse flow
    (`FindReverseFlowProducers`)."""
    return {"type": "reverse_producers_request", "id": number, "producers": list(producers)}


def decode_reverse_flow_producers_request(message: JsonMessage) -> tuple[int, list[int]]:
    """Decode a `reverse_producers_request` message. Return the request number and the producer
    ids."""
    return decode_integer(message["id"]), [decode_integer(each) for each in message["producers"]]


def encode_reverse_flow_producers(
    number: int,
    reverse_producers: Collection[int] | None,
    *,
    failure: str = "",
    denied: bool = False,
) -> JsonMessage:
    """Encode which of the requested producer ids belong to the reverse flow.

    `reverse_producers` is None if the reverse flow's offset map could not be read. `failure` then
    contains the reason, and `denied` is True if an ACL does not permit reading the offset map.
    """
    return {
        "type": "reverse_producers",
        "id": number,
        "failure": failure,
        "denied": denied,
        "producers": None if reverse_producers is None else sorted(reverse_producers),
    }


def decode_reverse_flow_producers(
    message: JsonMessage,
) -> ReverseFlowProducers | InstructionRefused | NoResponse:
    if message["producers"] is None and message["denied"]:
        return InstructionRefused(
            code=partition_halt_messages.TOPIC_AUTHORIZATION_FAILED, message=message["failure"]
        )
    if message["producers"] is None:
        return NoResponse(reason=message["failure"])
    return ReverseFlowProducers(producers=frozenset(message["producers"]))


def _encode_recovered_fields(found: RecoveredState) -> JsonMessage:
    anchor = None
    if found.resume_point is not None:
        anchor = [
            _encode_base64(offset_map_records.encode_map_key(found.resume_point.key)),
            _encode_base64(offset_map_records.encode_map_value(found.resume_point.segment)),
        ]
    return {
        "era_number": found.era_number,
        "era": _encode_base64(offset_map_records.encode_map_value(found.era))
        if found.era is not None
        else None,
        "anchor": anchor,
        "untaken": found.is_era_empty,
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
    key = _convert_json_value(
        MapSegmentKey, offset_map_records.decode_map_key(_decode_base64(plain[0]))
    )
    value = offset_map_records.decode_map_value(key, _decode_base64(plain[1]))
    return ResumePoint(key=key, segment=_convert_json_value(MapSegment, value))


# The ordered stream


def encode_flow_state_records(first: int, items: Sequence[FlowStateRecord]) -> JsonMessage:
    """Encode records that the driver appends, in this order, to the offset map topic and the
    incident topic. `first` is the sequence number of the first of these records."""
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


def decode_flow_state_records(message: JsonMessage) -> list[FlowStateRecord]:
    return [
        FlowStateRecord(
            key=_decode_base64(key),
            value=None if value is None else _decode_base64(value),
            incident=incident,
        )
        for key, value, incident in message["items"]
    ]


def check_incident_records(items: Sequence[FlowStateRecord]) -> None:
    """Raise `MalformedIncidentError` if a record for the incident topic is not a valid incident."""
    for item in items:
        if item.incident and item.value is not None:
            incident_records.decode_incident(item.key, item.value)


def _convert_json_value(kind: type[Any], value: object) -> Any:
    assert isinstance(value, kind), value
    return value


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEndpoints:
    """Clusters and topics that a copy process can connect to before it receives its
    configuration."""

    source: ClusterAccess
    target: ClusterAccess
    topics: tuple[str, ...]
    remote_topics: tuple[str, ...]


def encode_endpoints(endpoints: CopyEndpoints) -> JsonMessage:
    return {
        "type": "endpoints",
        "source": encode_cluster_access(endpoints.source),
        "target": encode_cluster_access(endpoints.target),
        "topics": list(endpoints.topics),
        "mirrors": list(endpoints.remote_topics),
    }


def decode_endpoints(message: JsonMessage) -> CopyEndpoints:
    return CopyEndpoints(
        source=decode_cluster_access(message["source"]),
        target=decode_cluster_access(message["target"]),
        topics=tuple(message["topics"]),
        remote_topics=tuple(message["mirrors"]),
    )
