"""Records of the offset map topic `mm2-offset-map.<alias>.internal`.

The topic is compacted, has one partition and is stored on the target. Every key and every value
begins with a version byte; unknown versions are rejected. All integers are big-endian; strings are
i16 length + UTF-8. `topic` is the name of the *source* topic.

Keys: version i8 = 1, kind i8, topic, partition i32, followed by fields that depend on the kind

    1 era       era i32, ordinal i32, epoch i16
    2 producer  producer id i64
    3 segment   era i32, ordinal i32, epoch i16, first source offset i64
    4 request   no further fields: the newest request is valid

An *era* is a generation of a mirror in which the target contains the source's records without a
break. A *segment* is a section of the map: runs of (source start, delta) with target = source +
delta. The newest segment of the newest owner (ordinal, epoch) is *open* and is the partition's
resume point. A segment from which runs were removed to save space has a value of version 2, so that
older releases do not assume that its runs are complete.

Runs are stored as signed varints that encode the differences between consecutive runs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mm2.formats import primitive_types


def append_offset_runs(
    out: bytearray, runs: Iterable[tuple[int, int]], *, previous: tuple[int, int] | None
) -> None:
    """Encode offset runs (ranges with a constant offset difference) and append them to `out`. Each
    run is encoded as the difference from the previous run; `previous` is the run before the first
    of `runs`, or None at the start of a segment."""
    source, delta = previous or (0, 0)
    for run in runs:
        primitive_types.append_varint(out, run[0] - source)
        primitive_types.append_varint(out, run[1] - delta)
        source, delta = run


def read_offset_runs(data: bytes, at: int, *, count: int) -> tuple[list[tuple[int, int]], int]:
    """Read the first `count` offset runs (ranges with a constant offset difference) of a segment
    from position `at`. Return them and the position after them. Raises the errors of
    `primitive_types`."""
    runs: list[tuple[int, int]] = []
    source = delta = 0
    for _ in range(count):
        step, at = primitive_types.read_varint(data, at)
        change, at = primitive_types.read_varint(data, at)
        source, delta = source + step, delta + change
        runs.append((source, delta))
    return runs, at


VERSION = 1
THINNED_SEGMENT_VERSION = 2
"""Value version of a segment from which offset runs (ranges with a constant offset difference) were
removed."""

_ERA_KIND = 1
_PRODUCER_KIND = 2
_SEGMENT_KIND = 3
_REQUEST_KIND = 4

_KEY_HEAD = struct.Struct(">bb")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_ERA_KEY = struct.Struct(">iih")
_SEGMENT_KEY = struct.Struct(">iihq")
_SEGMENT_VALUE = struct.Struct(">bBii8sqqqI")
_ERA_VALUE = struct.Struct(">b16s16sqqQ")
_PRODUCER_VALUE = struct.Struct(">bii")

_CLOSED_FLAG = 0x01
_HAS_CRC_FLAG = 0x02

SEGMENT_VALUE_BYTES_MAX = 1024 * 1024
"""Maximum size of a segment's value in bytes. Most values are about 2 KB; a few are some 100 KB.
Brokers reject records of more than 1 MB unless configured otherwise. A decoded run takes about 70
times as much memory as its encoded bytes."""

OWNER_BYTES = 8
NO_TOPIC_ID = bytes(16)
"""Topic id that is stored if the brokers are older than 2.8 and have no topic ids."""
FIRST_START_REASON = "first start"
"""Reason of the first era (mirror generation) of a mirror that this flow created."""
LOST_ERA_REQUEST_PREFIX = "lost-era-"
"""Prefix of the id of a new-era request that replaces an unreadable era (mirror generation) record.
The prefix shows that the partition had already been replicated."""
OFFSET_POSITION_PREFIX = "offset:"
"""Prefix of the position in a new-era request if the position is a source offset."""


class UnknownMapVersionError(Exception):
    """The version or kind of a map topic record is not supported by this release."""


UNREADABLE_RECORD_ERRORS = (UnknownMapVersionError, struct.error, ValueError, IndexError)
"""Exceptions that decoding an unreadable key or value of the map topic can raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraKey:
    """Key of an era (mirror generation), with the ordinal and epoch of the owner that began it.

    If two eras have the same number, the era of the newer owner is valid, regardless of which was
    stored last.
    """

    topic: str
    partition: int
    era: int
    ordinal: int
    epoch: int

    @property
    def owner_sort_key(self) -> tuple[int, int, int]:
        """Sort key that orders eras (mirror generations) by owner, oldest first, and by number for
        the same owner. `MapSegmentKey.owner_sort_key` uses the same order."""
        return (self.ordinal, self.epoch, self.era)


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """An era (mirror generation): a contiguous copy of a range of the source partition. The era
    ends where copying resumes with a gap or with repeated records."""

    source_cluster: str
    target_cluster: str
    source_topic_id: bytes
    target_topic_id: bytes
    first_source: int
    """Source offset at which the era (mirror generation) begins."""
    first_target: int
    """Target offset at which the era (mirror generation) begins."""
    filter_hash: int = 0
    """64-bit hash of the partition's transforms; 0 if there are none."""
    request: str = ""
    """Id of the operator's request that started the era (mirror generation); "" if there was
    none."""
    reason: str = ""
    """Reason why the era (mirror generation) began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProducerKey:
    """Key of the record that stores the id of a producer that wrote to the mirror partition."""

    topic: str
    partition: int
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProducer:
    """Id of a producer that wrote to the mirror partition. `ordinal` numbers the partition's
    producer ids from 1, in the order in which they were recorded."""

    ordinal: int
    era: int


class OffsetRun(NamedTuple):
    """A run of the offset map, that is, a range with a constant offset difference. For source
    offsets from `source` up to the next run, target offset = source offset + `delta`."""

    source: int
    delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSegmentKey:
    """Key of a segment of the offset map: partition, era (mirror generation), owner and first
    source offset."""

    topic: str
    partition: int
    era: int
    ordinal: int
    epoch: int
    first_source: int

    @property
    def owner_sort_key(self) -> tuple[int, int, int]:
        """Sort key that orders segments by owner, oldest first: producer id (`ordinal`), producer
        epoch, era (mirror generation). The era is compared last, because an owner that had already
        been fenced may have begun an era that no newer owner continued."""
        return (self.ordinal, self.epoch, self.era)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSegment:
    """A section of the offset map: its runs (ranges with a constant offset difference) from the
    key's `first_source` up to but not including `through`."""

    leader_epoch: int
    """Leader epoch of the target partition when the owner's fence marker was written."""
    source_epoch: int
    """Leader epoch of the last source batch before `through`; -1 if unknown."""
    owner: bytes
    """Random bytes that identify one worker process."""
    acquired_from: int
    """Source offset at which the owner acquired the partition. Segments of older owners are valid
    only below this offset."""
    through: int
    target_next: int
    """Next target offset: the offset after the last replicated batch or after the owner's last
    transaction marker, whichever is higher."""
    last_crc: int | None
    """CRC-32C of the target batch that ends at `target_next - 1`; None if a transaction marker ends
    there."""
    runs: tuple[OffsetRun, ...]
    closed: bool = False
    below: int = 0
    """Largest amount by which the delta (target minus source offset) of a removed run was smaller
    than the delta of the kept run before it."""
    above: int = 0
    """Largest amount by which the delta (target minus source offset) of a removed run was greater
    than the delta of the kept run before it."""

    @property
    def has_removed_runs(self) -> bool:
        """True if offset runs were removed from the segment, so that translation is approximate."""
        return self.below > 0 or self.above > 0


class MapSegmentHead(NamedTuple):
    """The fields of an offset map segment that are read without decoding its runs (ranges with a
    constant offset difference)."""

    is_thinned: bool
    acquired_from: int
    through: int
    target_next: int
    slack: int
    """Width of the segment's translation bounds: the sum of `MapSegment.below` and
    `MapSegment.above`."""
    first_run: int | None
    """Source offset of the first run (range with a constant offset difference); None if the segment
    has no runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEraRequestKey:
    """Key of an operator's request for a new era (mirror generation)."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEraRequest:
    """An operator's request for a new era (mirror generation) that starts at `position`:
    "earliest", "latest", a timestamp (ms), or `OFFSET_POSITION_PREFIX` followed by a source
    offset."""

    request: str
    position: str


MapKey = EraKey | MapProducerKey | MapSegmentKey | NewEraRequestKey
MapValue = Era | MapProducer | MapSegment | NewEraRequest


def encode_map_key(key: MapKey) -> bytes:
    """Encode the key of a record of the offset map topic."""
    match key:
        case EraKey():
            rest = _ERA_KEY.pack(key.era, key.ordinal, key.epoch)
            return _encode_key_head(_ERA_KIND, key.topic, key.partition) + rest
        case MapProducerKey():
            return _encode_key_head(_PRODUCER_KIND, key.topic, key.partition) + _I64.pack(
                key.producer_id
            )
        case MapSegmentKey():
            rest = _SEGMENT_KEY.pack(key.era, key.ordinal, key.epoch, key.first_source)
            return _encode_key_head(_SEGMENT_KIND, key.topic, key.partition) + rest
        case NewEraRequestKey():
            return _encode_key_head(_REQUEST_KIND, key.topic, key.partition)


def decode_map_key(data: bytes) -> MapKey:
    """Decode the key of a record of the offset map topic. Raises `UnknownMapVersionError` for an
    unknown version or kind, and `struct.error`, `IndexError` or `ValueError` for missing or invalid
    bytes."""
    version, kind = _KEY_HEAD.unpack_from(data)
    if version != VERSION or kind not in (_ERA_KIND, _PRODUCER_KIND, _SEGMENT_KIND, _REQUEST_KIND):
        raise UnknownMapVersionError(
            f"unsupported offset-map key of version {version}, kind {kind}"
        )
    topic, at = _read_string(data, _KEY_HEAD.size)
    (partition,) = _I32.unpack_from(data, at)
    at += _I32.size
    if kind == _ERA_KIND:
        era, ordinal, epoch = _ERA_KEY.unpack_from(data, at)
        _check_era(era)
        return EraKey(topic=topic, partition=partition, era=era, ordinal=ordinal, epoch=epoch)
    if kind == _PRODUCER_KIND:
        (producer_id,) = _I64.unpack_from(data, at)
        return MapProducerKey(topic=topic, partition=partition, producer_id=producer_id)
    if kind == _SEGMENT_KIND:
        era, ordinal, epoch, first = _SEGMENT_KEY.unpack_from(data, at)
        _check_era(era)
        return MapSegmentKey(
            topic=topic,
            partition=partition,
            era=era,
            ordinal=ordinal,
            epoch=epoch,
            first_source=first,
        )
    return NewEraRequestKey(topic=topic, partition=partition)


def _check_era(era: int) -> None:
    if era < 0:  # 0 is the era of a rebuilt map, before all others
        raise ValueError(f"the era {era} is negative")


def read_partition(key: bytes) -> tuple[str, int] | None:
    """Read topic and partition from a key whose other fields may be unreadable. Returns None if
    topic and partition are unreadable too, or if the key has an unknown version: other versions may
    store these fields at other positions."""
    try:
        if key[0] != VERSION:
            return None
        topic, at = _read_string(key, _KEY_HEAD.size)
        (partition,) = _I32.unpack_from(key, at)
    except (struct.error, ValueError, IndexError):
        return None
    return topic, partition


def encode_map_value(value: MapValue) -> bytes:
    """Encode the value of a record of the offset map topic."""
    match value:
        case Era():
            return _encode_era(value)
        case MapProducer():
            return _PRODUCER_VALUE.pack(VERSION, value.ordinal, value.era)
        case MapSegment():
            return _encode_segment(value)
        case NewEraRequest():
            return (
                bytes([VERSION])
                + primitive_types.encode_string(value.request)
                + primitive_types.encode_string(value.position)
            )


def decode_map_value(key: MapKey, data: bytes) -> MapValue:
    """Decode the value of the offset map topic's record with this key. Raises the errors of
    `decode_map_key`."""
    thinned = isinstance(key, MapSegmentKey) and data[0] == THINNED_SEGMENT_VERSION
    if data[0] != VERSION and not thinned:
        raise UnknownMapVersionError(
            f"unsupported offset-map value of version {data[0]} under {key}"
        )
    match key:
        case EraKey():
            return _decode_era(data)
        case MapProducerKey():
            _, ordinal, era = _PRODUCER_VALUE.unpack_from(data)
            return MapProducer(ordinal=ordinal, era=era)
        case MapSegmentKey():
            return _decode_segment(key.first_source, data)
        case NewEraRequestKey():
            request, at = _read_string(data, 1)
            return NewEraRequest(request=request, position=_read_string(data, at)[0])


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
    return head + b"".join(primitive_types.encode_string(text) for text in texts)


def _decode_era(data: bytes) -> Era:
    _, source_id, target_id, first_source, first_target, filters = _ERA_VALUE.unpack_from(data)
    texts, at = [], _ERA_VALUE.size
    for _ in range(4):
        text, at = _read_string(data, at)
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


def _encode_segment(segment: MapSegment) -> bytes:
    flags = (_CLOSED_FLAG if segment.closed else 0) | (
        _HAS_CRC_FLAG if segment.last_crc is not None else 0
    )
    out = bytearray(
        _SEGMENT_VALUE.pack(
            THINNED_SEGMENT_VERSION if segment.has_removed_runs else VERSION,
            flags,
            segment.leader_epoch,
            segment.source_epoch,
            segment.owner,
            segment.acquired_from,
            segment.through,
            segment.target_next,
            segment.last_crc or 0,
        )
    )
    if segment.has_removed_runs:
        primitive_types.append_unsigned_varint(out, segment.below)
        primitive_types.append_unsigned_varint(out, segment.above)
    primitive_types.append_unsigned_varint(out, len(segment.runs))
    append_offset_runs(out, segment.runs, previous=None)
    return bytes(out)


def read_segment_head(data: bytes) -> MapSegmentHead:
    """Read the head of an encoded segment. `data` must be valid for `decode_map_value`."""
    version, _, _, _, _, take_start, through, target_next, _ = _SEGMENT_VALUE.unpack_from(data)
    below, above, at = _read_segment_bounds(data)
    count, at = primitive_types.read_unsigned_varint(data, at)
    return MapSegmentHead(
        is_thinned=version == THINNED_SEGMENT_VERSION,
        acquired_from=take_start,
        through=through,
        target_next=target_next,
        slack=below + above,
        first_run=primitive_types.read_varint(data, at)[0] if count else None,
    )


def _read_segment_bounds(data: bytes) -> tuple[int, int, int]:
    """Read `MapSegment.below` and `MapSegment.above` from an encoded segment. Return both and the
    position after these fields."""
    if data[0] != THINNED_SEGMENT_VERSION:
        return 0, 0, _SEGMENT_VALUE.size
    below, at = primitive_types.read_unsigned_varint(data, _SEGMENT_VALUE.size)
    above, at = primitive_types.read_unsigned_varint(data, at)
    return below, above, at


def _decode_segment(first_source: int, data: bytes) -> MapSegment:
    if len(data) > SEGMENT_VALUE_BYTES_MAX:
        raise ValueError(
            f"the segment has {len(data)} bytes, but at most {SEGMENT_VALUE_BYTES_MAX} are "
            "supported"
        )
    fields = _SEGMENT_VALUE.unpack_from(data)
    _, flags, epoch, source_epoch, owner, take_start, through, target_next, crc = fields
    below, above, at = _read_segment_bounds(data)
    count, at = primitive_types.read_unsigned_varint(data, at)
    pairs, at = read_offset_runs(data, at, count=count)
    if at != len(data):
        raise ValueError(f"the segment has {len(data) - at} bytes after its last run")
    runs = tuple(map(OffsetRun._make, pairs))
    if runs and runs[0].source < first_source:
        raise ValueError(
            f"the segment's runs begin at source offset {runs[0].source}, before the first source "
            f"offset in its key ({first_source})"
        )
    return MapSegment(
        leader_epoch=epoch,
        source_epoch=source_epoch,
        owner=owner,
        acquired_from=take_start,
        through=through,
        target_next=target_next,
        last_crc=crc if flags & _HAS_CRC_FLAG else None,
        runs=runs,
        closed=bool(flags & _CLOSED_FLAG),
        below=below,
        above=above,
    )


def _encode_key_head(kind: int, topic: str, partition: int) -> bytes:
    return (
        _KEY_HEAD.pack(VERSION, kind) + primitive_types.encode_string(topic) + _I32.pack(partition)
    )


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _I16.unpack_from(data, at)
    at += _I16.size
    text = data[at : at + length]
    if len(text) != length:
        raise struct.error(f"string of {length} bytes is truncated after {len(text)} bytes")
    return text.decode(), at + length
