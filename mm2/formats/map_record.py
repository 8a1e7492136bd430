"""The records of `mm2-offset-map.<alias>.internal`: eras, producer ids, map segments, requests.

The topic is compacted with one partition and lives on the target. Every key and every value begins
with a version byte; an unknown one is refused, never guessed. All integers are big-endian, strings
are i16 length + UTF-8. `topic` is the *source* topic's name.

Keys: version i8 = 1, kind i8, topic, partition i32, then by kind

    1 era       era i32, ordinal i32, epoch i16
    2 producer  producer id i64
    3 segment   era i32, ordinal i32, epoch i16, first source offset i64
    4 request   nothing more: the newest request stands

A *segment* is a stretch of the offset map: runs of (source start, delta) with target = source +
delta. The newest segment of the newest owner (ordinal, epoch) is *open* and is also the partition's
anchor. A segment from which runs were left out, to save room, has a value of version 2, for who
does not know of that would take its runs for all there are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from mm2.formats import run_steps, schema_fields, varints

VERSION = 1
THINNED_VERSION = 2
"""Of a segment's value from which runs were left out."""

_ERA = 1
_PRODUCER = 2
_SEGMENT = 3
_REQUEST = 4

_HEAD = struct.Struct(">bb")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_ERA_KEY = struct.Struct(">iih")
_SEGMENT_KEY = struct.Struct(">iihq")
_SEGMENT_VALUE = struct.Struct(">bBii8sqqqI")
_ERA_VALUE = struct.Struct(">b16s16sqqQ")
_PRODUCER_VALUE = struct.Struct(">bii")

_CLOSED = 0x01
_HAS_CRC = 0x02

OWNER_BYTES = 8
NO_TOPIC_ID = bytes(16)
FIRST_START = "first start"
"""The reason of an era before which nothing stood in the mirror but what others wrote."""
LOST_ERA = "lost-era-"
"""Begins the id of a request that replaces an unreadable era: the partition had progress."""
AT_OFFSET = "offset:"
"""Begins a requested position that names the source offset."""


class UnknownVersionError(Exception):
    """A record of the map topic was written by a release that this one does not know."""


UNREADABLE = (UnknownVersionError, struct.error, ValueError, IndexError)
"""What decoding a key or a value raises if it is unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraKey:
    """`ordinal` and `epoch` are those of the owner who began it: of two with one number the newer
    owner's stands, whichever was stored last."""

    topic: str
    partition: int
    era: int
    ordinal: int
    epoch: int

    @property
    def owner_order(self) -> tuple[int, int, int]:
        """Greater is newer; see `SegmentKey.owner_order`."""
        return (self.ordinal, self.epoch, self.era)


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """A stretch of a partition's history in which the target holds the source's records without a
    break.

    `first_source` and `first_target` are the offsets it began at; `filter_hash` (64 bits) is that
    of the partition's record filters and transforms, 0 for none; `request` the id of the operator's
    request it answers ("" for none); `reason` says in words why it began.
    """

    source_cluster: str
    target_cluster: str
    source_topic_id: bytes
    target_topic_id: bytes
    first_source: int
    first_target: int
    filter_hash: int = 0
    request: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerKey:
    topic: str
    partition: int
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """One producer id that ever wrote the partition: `ordinal` counts them from 1 in order of
    recording."""

    ordinal: int
    era: int


class Run(NamedTuple):
    """From source offset `source` on, target offset = source offset + `delta`."""

    source: int
    delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentKey:
    topic: str
    partition: int
    era: int
    ordinal: int
    epoch: int
    first_source: int

    @property
    def owner_order(self) -> tuple[int, int, int]:
        """Greater is newer: by fence (ordinal, epoch), not by era, for a late owner may have begun
        one that nobody went on in."""
        return (self.ordinal, self.epoch, self.era)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Runs from the key's `first_source` up to, not including, `through`.

    `source_epoch` is the leader epoch of the last source batch before `through`, -1 when unknown.
    `target_next` is the target offset behind the last copied batch or own marker, `leader_epoch`
    the target partition's epoch in which the owner's fence marker was written, `owner` random bytes
    of one worker process, `take_start` the source offset at which the owner's Take began: older
    owners' segments count only below it. `last_crc` is the CRC-32C of the target batch that ends at
    `target_next - 1`, None where a marker of ours stands there.

    Behind each run others may have been left out, whose deltas are by up to `below` smaller and by
    up to `above` greater than its own.
    """

    leader_epoch: int
    source_epoch: int
    owner: bytes
    take_start: int
    through: int
    target_next: int
    last_crc: int | None
    runs: tuple[Run, ...]
    closed: bool = False
    below: int = 0
    above: int = 0

    @property
    def thinned(self) -> bool:
        return self.below > 0 or self.above > 0


class SegmentHead(NamedTuple):
    """What of a segment is read without its runs; `first_run` is the first one's source offset,
    None where it has none."""

    thinned: bool
    take_start: int
    through: int
    target_next: int
    slack: int
    first_run: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey:
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The operator asked for a new era that starts at `position`: "earliest", "latest", a
    timestamp (ms), or `AT_OFFSET` and a source offset."""

    request: str
    position: str


MapKey = EraKey | ProducerKey | SegmentKey | RequestKey
MapValue = Era | Producer | Segment | Request


def encode_key(key: MapKey) -> bytes:
    match key:
        case EraKey():
            rest = _ERA_KEY.pack(key.era, key.ordinal, key.epoch)
            return _key_head(_ERA, key.topic, key.partition) + rest
        case ProducerKey():
            return _key_head(_PRODUCER, key.topic, key.partition) + _I64.pack(key.producer_id)
        case SegmentKey():
            rest = _SEGMENT_KEY.pack(key.era, key.ordinal, key.epoch, key.first_source)
            return _key_head(_SEGMENT, key.topic, key.partition) + rest
        case RequestKey():
            return _key_head(_REQUEST, key.topic, key.partition)


def decode_key(data: bytes) -> MapKey:
    """Raises `UnknownVersionError` for another version or kind; `struct.error`, `IndexError` or
    `ValueError` for bytes that are missing or say nothing."""
    version, kind = _HEAD.unpack_from(data)
    if version != VERSION or kind not in (_ERA, _PRODUCER, _SEGMENT, _REQUEST):
        raise UnknownVersionError(f"offset-map key of version {version}, kind {kind}")
    topic, at = _read_text(data, _HEAD.size)
    (partition,) = _I32.unpack_from(data, at)
    at += _I32.size
    if kind == _ERA:
        era, ordinal, epoch = _ERA_KEY.unpack_from(data, at)
        return EraKey(topic=topic, partition=partition, era=era, ordinal=ordinal, epoch=epoch)
    if kind == _PRODUCER:
        (producer_id,) = _I64.unpack_from(data, at)
        return ProducerKey(topic=topic, partition=partition, producer_id=producer_id)
    if kind == _SEGMENT:
        era, ordinal, epoch, first = _SEGMENT_KEY.unpack_from(data, at)
        return SegmentKey(
            topic=topic,
            partition=partition,
            era=era,
            ordinal=ordinal,
            epoch=epoch,
            first_source=first,
        )
    return RequestKey(topic=topic, partition=partition)


def partition_of(key: bytes) -> tuple[str, int] | None:
    """The topic and partition of a key whose kind or rest may be unreadable; None where they are
    unreadable, too: only keys of this version are known to have them here."""
    try:
        if key[0] != VERSION:
            return None
        topic, at = _read_text(key, _HEAD.size)
        (partition,) = _I32.unpack_from(key, at)
    except (struct.error, ValueError, IndexError):
        return None
    return topic, partition


def encode_value(value: MapValue) -> bytes:
    match value:
        case Era():
            return _encode_era(value)
        case Producer():
            return _PRODUCER_VALUE.pack(VERSION, value.ordinal, value.era)
        case Segment():
            return _encode_segment(value)
        case Request():
            return (
                bytes([VERSION])
                + schema_fields.string(value.request)
                + schema_fields.string(value.position)
            )


def decode_value(key: MapKey, data: bytes) -> MapValue:
    """The value that belongs to a key of this kind; raises as `decode_key` does."""
    thinned = isinstance(key, SegmentKey) and data[0] == THINNED_VERSION
    if data[0] != VERSION and not thinned:
        raise UnknownVersionError(f"offset-map value of version {data[0]} under {key}")
    match key:
        case EraKey():
            return _decode_era(data)
        case ProducerKey():
            _, ordinal, era = _PRODUCER_VALUE.unpack_from(data)
            return Producer(ordinal=ordinal, era=era)
        case SegmentKey():
            return _decode_segment(key.first_source, data)
        case RequestKey():
            request, at = _read_text(data, 1)
            return Request(request=request, position=_read_text(data, at)[0])


def _encode_era(era: Era) -> bytes:
    head = _ERA_VALUE.pack(
        VERSION,
        era.source_topic_id,
        era.target_topic_id,
        era.first_source,
        era.first_target,
        era.filter_hash,
    )
    texts = (era.source_cluster, era.target_cluster, era.request, era.reason)
    return head + b"".join(schema_fields.string(text) for text in texts)


def _decode_era(data: bytes) -> Era:
    _, source_id, target_id, first_source, first_target, filters = _ERA_VALUE.unpack_from(data)
    texts, at = [], _ERA_VALUE.size
    for _ in range(4):
        text, at = _read_text(data, at)
        texts.append(text)
    return Era(
        source_cluster=texts[0],
        target_cluster=texts[1],
        source_topic_id=source_id,
        target_topic_id=target_id,
        first_source=first_source,
        first_target=first_target,
        filter_hash=filters,
        request=texts[2],
        reason=texts[3],
    )


def _encode_segment(segment: Segment) -> bytes:
    flags = (_CLOSED if segment.closed else 0) | (_HAS_CRC if segment.last_crc is not None else 0)
    out = bytearray(
        _SEGMENT_VALUE.pack(
            THINNED_VERSION if segment.thinned else VERSION,
            flags,
            segment.leader_epoch,
            segment.source_epoch,
            segment.owner,
            segment.take_start,
            segment.through,
            segment.target_next,
            segment.last_crc or 0,
        )
    )
    if segment.thinned:
        varints.append_unsigned(out, segment.below)
        varints.append_unsigned(out, segment.above)
    varints.append_unsigned(out, len(segment.runs))
    run_steps.append(out, segment.runs, previous=None)
    return bytes(out)


def segment_head(data: bytes) -> SegmentHead:
    """Of a segment's value that `decode_value` takes."""
    version, _, _, _, _, take_start, through, target_next, _ = _SEGMENT_VALUE.unpack_from(data)
    below, above, at = _read_slack(data)
    count, at = varints.read_unsigned(data, at)
    return SegmentHead(
        thinned=version == THINNED_VERSION,
        take_start=take_start,
        through=through,
        target_next=target_next,
        slack=below + above,
        first_run=varints.read_signed(data, at)[0] if count else None,
    )


def _read_slack(data: bytes) -> tuple[int, int, int]:
    """`below` and `above` of a segment's value, and where they end."""
    if data[0] != THINNED_VERSION:
        return 0, 0, _SEGMENT_VALUE.size
    below, at = varints.read_unsigned(data, _SEGMENT_VALUE.size)
    above, at = varints.read_unsigned(data, at)
    return below, above, at


def _decode_segment(first_source: int, data: bytes) -> Segment:
    fields = _SEGMENT_VALUE.unpack_from(data)
    _, flags, epoch, source_epoch, owner, take_start, through, target_next, crc = fields
    below, above, at = _read_slack(data)
    count, at = varints.read_unsigned(data, at)
    runs = tuple(map(Run._make, run_steps.read(data, at, count=count)))
    if runs and runs[0].source < first_source:
        raise ValueError(f"its runs begin at {runs[0].source}, before its key's {first_source}")
    return Segment(
        leader_epoch=epoch,
        source_epoch=source_epoch,
        owner=owner,
        take_start=take_start,
        through=through,
        target_next=target_next,
        last_crc=crc if flags & _HAS_CRC else None,
        runs=runs,
        closed=bool(flags & _CLOSED),
        below=below,
        above=above,
    )


def _key_head(kind: int, topic: str, partition: int) -> bytes:
    return _HEAD.pack(VERSION, kind) + schema_fields.string(topic) + _I32.pack(partition)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _I16.unpack_from(data, at)
    at += _I16.size
    text = data[at : at + length]
    if len(text) != length:
        raise struct.error(f"string of {length} bytes ends after {len(text)}")
    return text.decode(), at + length
