"""Incident records: durable notes of lost, skipped or duplicated records and of operator actions.

They are stored in `mm2-incidents.<alias>.internal`, a compacted topic of one partition on the
target. Key and value are compact JSON, so that any console consumer can print them:

    key    {"v":1,"topic":…,"partition":…,"id":…}
    value  {"v":1,"kind":…,"source":[from,to),"target":[from,to),"at_ms":…,"flow":…,"detail":…}

Ranges are null where they do not apply. An incident that concerns no single partition has
partition -1, and topic "" if it concerns the whole flow.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

VERSION = 1
NO_PARTITION = -1
_PARTITION_MAX = (1 << 31) - 1
_OFFSET_MAX = (1 << 63) - 1
_NO_OFFSET = -1
"""The last offset of a log that is empty."""
_YEAR_10000_MS = 253_402_300_800_000


class IncidentKind(enum.Enum):
    """What an incident states about its ranges."""

    UNFENCED_TAKE_OVER = "unfenced-take-over"
    """The transactional id had another producer id than recorded: nothing fenced the older one."""
    NOT_PAIRED = "not-paired"
    """Target [from, to) may hold source records that are copied again behind it."""
    SOURCE_GONE = "source-gone"
    """Source [from, to) was deleted by the source before it was copied, or before it could be
    compared."""
    DOUBLED_BY_JAVA = "doubled-by-java"
    """Every record of target [from, to) stands before it, too: MirrorMaker 2 wrote it again after a
    crash, or another owner beside it."""
    TAKEN_FROM_JAVA = "taken-from-java"
    """MirrorMaker 2 stored that it had copied source [from, to), or what the text names; nobody
    compared."""
    NEW_ERA_REQUESTED = "new-era-requested"
    """An operator started a new era; what lies between the two positions is theirs to answer
    for."""
    OPERATOR_ACTION = "operator-action"
    """An operator paused, resumed, throttled, restarted or reconfigured the flow, or a topic of it;
    the text says who. It has no ranges, and says nothing about what was copied."""
    MAP_RECORD_SKIPPED = "map-record-skipped"
    """An operator skipped a record of the offset map that could not be read; the text says where.
    Its partition is the one that the record names, or else that of the map's topic. No ranges."""


OffsetRange = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One statement about one source partition; `topic` is the source's, offsets are [from, to).

    An operator's action is about a topic, or with topic "" about the flow: its partition is
    `NO_PARTITION`.
    """

    topic: str
    partition: int
    id: str
    kind: IncidentKind
    flow: str
    at_ms: int
    detail: str
    source: OffsetRange | None = None
    target: OffsetRange | None = None


class MalformedIncidentError(Exception):
    """What stands in the topic is no incident; the text says why."""


class UnknownIncidentVersionError(MalformedIncidentError):
    """An incident was written by a release that this one does not know."""


def encode(incident: Incident) -> tuple[bytes, bytes]:
    """(key, value); of the detail, which may quote others, lone surrogates become `?`."""
    key = {
        "v": VERSION,
        "topic": incident.topic,
        "partition": incident.partition,
        "id": incident.id,
    }
    value = {
        "v": VERSION,
        "kind": incident.kind.value,
        "source": incident.source,
        "target": incident.target,
        "at_ms": incident.at_ms,
        "flow": incident.flow,
        "detail": incident.detail.encode(errors="replace").decode(),
    }
    return _encode_json(key), _encode_json(value)


def decode(key: bytes, value: bytes) -> Incident:
    """Raises `MalformedIncidentError`, among them `UnknownIncidentVersionError`, and nothing
    else."""
    names, fields = _decode_object(key, "key"), _decode_object(value, "value")
    return Incident(
        topic=_read_text(names, "topic"),
        partition=_read_number(names, "partition", least=NO_PARTITION, most=_PARTITION_MAX),
        id=_read_text(names, "id"),
        kind=_read_kind(fields),
        flow=_read_text(fields, "flow"),
        at_ms=_read_number(fields, "at_ms", most=_YEAR_10000_MS - 1),
        detail=_read_text(fields, "detail"),
        source=_check_range_order(_read_range(fields, "source")),
        target=_read_range(fields, "target"),
    )


def _decode_object(data: bytes, name: str) -> Mapping[str, object]:
    """The key or the value. Raises `MalformedIncidentError`."""
    try:
        found = json.loads(data.decode())  # bytes would be read as UTF-16 and UTF-32, too
    except (ValueError, RecursionError) as error:  # the latter: nested by the thousand
        raise MalformedIncidentError(f"its {name} is not JSON") from error
    if not isinstance(found, dict):
        raise MalformedIncidentError(f"its {name} is not a JSON object")
    version = found.get("v")
    if type(version) is not int:
        raise MalformedIncidentError(f"its {name} has no version")
    if version != VERSION:
        raise UnknownIncidentVersionError(f"it is an incident of version {str(version)[:20]}")
    return found


def _read_text(fields: Mapping[str, object], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str) or any(_is_surrogate(char) for char in found):
        raise MalformedIncidentError(f"its field {name} is not valid text")
    return found


def _is_surrogate(char: str) -> bool:
    """Half of a character, which JSON can escape and nothing can print."""
    return "\ud800" <= char <= "\udfff"


def _read_kind(fields: Mapping[str, object]) -> IncidentKind:
    name = _read_text(fields, "kind")
    try:
        return IncidentKind(name)
    except ValueError as error:
        raise MalformedIncidentError(
            "its kind is unknown; a newer release of mm2 may have written it"
        ) from error


def _read_number(fields: Mapping[str, object], name: str, *, least: int = 0, most: int) -> int:
    found = fields.get(name)
    if not _is_number(found, most, least=least):
        raise MalformedIncidentError(f"its field {name} is not an integer from {least} to {most}")
    return found


def _read_range(fields: Mapping[str, object], name: str) -> OffsetRange | None:
    found = fields.get(name)
    if found is None:
        return None
    if isinstance(found, list) and len(found) == 2:
        start, end = found
        if all(_is_number(each, _OFFSET_MAX, least=_NO_OFFSET) for each in found):
            return start, end
    raise MalformedIncidentError(f"its field {name} is not a pair of offsets")


def _check_range_order(source: OffsetRange | None) -> OffsetRange | None:
    """Source offsets that were copied or lost. (On the target a log's end can be before the place
    where our records ended: its tail was lost.)"""
    if source is not None and source[0] > source[1] != _NO_OFFSET:
        raise MalformedIncidentError("its field source ends before it begins")
    return source


def _is_number(found: object, most: int, *, least: int = 0) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool) and least <= found <= most


def _encode_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
