r"""Incident records: durable records of lost, skipped or duplicated data and of operator actions.

Incidents are stored in `mm2-incidents.<alias>.internal`, a compacted topic with one partition on
the target. Key and value are compact JSON, so that any console consumer can print them:

    key    {"v":1,"topic":…,"partition":…,"id":…}
    value  {"v":1,"kind":…,"source":[from,to),"target":[from,to),"at_ms":…,"flow":…,"detail":…}

Ranges are null if they do not apply. An incident that does not concern a single partition has
partition -1; if it concerns the whole flow, its topic is "".
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
"""Stored in an offset range instead of the log's last offset if the log is empty."""
_YEAR_10000_MS = 253_402_300_800_000


class IncidentKind(enum.Enum):
    """Kinds of incidents. The kind defines the meaning of an incident's offset ranges."""

    UNFENCED_TAKE_OVER = "unfenced-take-over"
    """The transactional id had a different producer id than recorded, so the older writer was not
    fenced."""
    NOT_PAIRED = "not-paired"
    """Target [from, to) may contain source records that were replicated a second time at later
    target offsets."""
    SOURCE_GONE = "source-gone"
    """The source deleted the offsets [from, to) before the records were replicated or compared."""
    DOUBLED_BY_JAVA = "doubled-by-java"
    """Records of target [from, to) are duplicates of earlier records. MirrorMaker 2 wrote them
    again after a crash, or concurrently with another owner."""
    UNVERIFIED_TAKEOVER = "taken-from-java"
    """MirrorMaker 2's stored position claims that source [from, to), or the range stated in the
    detail, was replicated. The records were not compared with the source."""
    NEW_ERA_REQUESTED = "new-era-requested"
    """An operator requested a new era (mirror generation) from a chosen source position, which
    intentionally skips or repeats records. Source [from, to) is the skipped range, if any."""
    OPERATOR_ACTION = "operator-action"
    """An operator paused, resumed, throttled, restarted or reconfigured the flow or one of its
    topics; the detail names the operator. No ranges, because the incident states nothing about
    records."""
    MAP_RECORD_SKIPPED = "map-record-skipped"
    """An operator skipped an unreadable record of the offset map; the detail gives the record's
    offset. The incident names the source partition that the record concerns, or the map topic if
    that partition is unreadable. No ranges."""


OffsetRange = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An incident of a source partition, or an operator action on a topic or on the whole flow.
    `topic` is the source topic, and offset ranges are [from, to). For operator actions, `partition`
    is `NO_PARTITION`, and `topic` is "" if the action is on the whole flow."""

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
    """A record of the incident topic is not a valid incident. The message states the reason."""


class UnknownIncidentVersionError(MalformedIncidentError):
    """The incident has a version that this release does not support."""


def encode_incident(incident: Incident) -> tuple[bytes, bytes]:
    """Encode an incident to key and value. Lone surrogates in the detail are replaced by `?`."""
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


def decode_incident(key: bytes, value: bytes) -> Incident:
    """Decode an incident. Raises only `MalformedIncidentError` and its subclass
    `UnknownIncidentVersionError`."""
    names, fields = _decode_object(key, "key"), _decode_object(value, "value")
    return Incident(
        topic=_read_string(names, "topic"),
        partition=_read_number(names, "partition", least=NO_PARTITION, most=_PARTITION_MAX),
        id=_read_string(names, "id"),
        kind=_read_kind(fields),
        flow=_read_string(fields, "flow"),
        at_ms=_read_number(fields, "at_ms", most=_YEAR_10000_MS - 1),
        detail=_read_string(fields, "detail"),
        source=_check_range_order(_read_range(fields, "source")),
        target=_read_range(fields, "target"),
    )


def _decode_object(data: bytes, name: str) -> Mapping[str, object]:
    """Decode the JSON object in a key or value. Raises `MalformedIncidentError`."""
    try:
        found = json.loads(data.decode())  # bytes would be read as UTF-16 and UTF-32, too
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise MalformedIncidentError(f"the {name} is not JSON") from error
    if not isinstance(found, dict):
        raise MalformedIncidentError(f"the {name} is not a JSON object")
    version = found.get("v")
    if type(version) is not int:
        raise MalformedIncidentError(f"the {name} has no version")
    if version != VERSION:
        raise UnknownIncidentVersionError(f"unknown incident version {str(version)[:20]}")
    return found


def _read_string(fields: Mapping[str, object], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str) or any(_is_lone_surrogate(char) for char in found):
        raise MalformedIncidentError(f"the field {name} is not a valid string")
    return found


def _is_lone_surrogate(char: str) -> bool:
    """Return whether a character is a lone UTF-16 surrogate, which JSON can escape but no terminal
    can print."""
    return "\ud800" <= char <= "\udfff"


def _read_kind(fields: Mapping[str, object]) -> IncidentKind:
    name = _read_string(fields, "kind")
    try:
        return IncidentKind(name)
    except ValueError as error:
        raise MalformedIncidentError(
            "the kind is unknown; a newer release of mm2 may have written it"
        ) from error


def _read_number(fields: Mapping[str, object], name: str, *, least: int = 0, most: int) -> int:
    found = fields.get(name)
    if not _is_integer_in_range(found, most, least=least):
        raise MalformedIncidentError(f"the field {name} is not an integer from {least} to {most}")
    return found


def _read_range(fields: Mapping[str, object], name: str) -> OffsetRange | None:
    found = fields.get(name)
    if found is None:
        return None
    if isinstance(found, list) and len(found) == 2:
        start, end = found
        if all(_is_integer_in_range(each, _OFFSET_MAX, least=_NO_OFFSET) for each in found):
            return start, end
    raise MalformedIncidentError(f"the field {name} is not a pair of offsets")


def _check_range_order(source: OffsetRange | None) -> OffsetRange | None:
    """Raise an error if the source range ends before it begins.

    Target ranges are not checked. They may end before they begin: if the target log lost its tail,
    the log ends before the offset that the flow had reached.
    """
    if source is not None and source[0] > source[1] != _NO_OFFSET:
        raise MalformedIncidentError("the field source ends before it begins")
    return source


def _is_integer_in_range(found: object, most: int, *, least: int = 0) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool) and least <= found <= most


def _encode_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
