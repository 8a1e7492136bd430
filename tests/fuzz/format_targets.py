"""Byte formats: record batches, what mm2 keeps in its topics, control frames, incidents."""

from __future__ import annotations

import random
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator

import crc32c

from connect_runtime.base.ids import TopicPartition
from mm2.copier import control_channel_wire_format
from mm2.copier.control_channel_wire_format import ControlFrameDecoder, ControlFrameError, CopyHello
from mm2.failover import failover_journal
from mm2.failover.failover_journal import FailoverIdentity, JournalError
from mm2.failover.failover_request import ClusterIds, FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.formats import (
    compression,
    incident_records,
    mirrormaker2_records,
    offset_map_records,
    record_batch,
    record_codec,
    record_set_splitter,
)
from mm2.formats.compression import DecompressionError
from mm2.formats.incident_records import Incident, IncidentKind, MalformedIncidentError
from mm2.formats.mirrormaker2_records import Checkpoint, Heartbeat, OffsetSync
from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapKey,
    MapProducer,
    MapProducerKey,
    MapSegment,
    MapSegmentKey,
    MapValue,
    NewEraRequest,
    NewEraRequestKey,
    OffsetRun,
    UnknownMapVersionError,
)
from mm2.formats.primitive_types import MalformedRecordError
from mm2.formats.record_codec import BatchDecoder, BatchRecord, MalformedRecordsError, RecordFields
from mm2.formats.record_set_splitter import DamagedBatchError, MalformedLegacyMessageError
from mm2.replication import read_committed_batch_filter
from tests.fakes import batches, messages
from tests.fakes.batches import Record, Stamp
from tests.fuzz import targets

NOW_MS = 1_790_000_000_000
MADE = random.Random(5)
MAP_ERRORS = (UnknownMapVersionError, struct.error, IndexError, ValueError)

# Record batches


def _record(number: int) -> Record:
    value = MADE.choice([None, b"", b"v" * number, MADE.randbytes(number)])
    headers = ((b"\xffname", None), (b"h", b"1")) if number % 3 == 0 else ()
    key = MADE.choice([None, b"k", b"\xff\xfe"])
    return Record(value=value, timestamp=NOW_MS + number, key=key, headers=headers)


def _batches() -> Iterator[bytes]:
    for codec in compression.CODEC_NAMES:
        for count in (1, 2, 7):
            stamp = Stamp(
                base_offset=77,
                leader_epoch=3,
                producer_id=9,
                producer_epoch=1,
                base_sequence=5,
                attributes=MADE.choice([0, 0x10, 8]),
            )
            yield batches.data([_record(each) for each in range(count)], stamp, codec=codec)
    far = Stamp(base_offset=2**63 - 10)
    yield batches.data([_record(each) for each in range(3)], far)


def _messages() -> Iterator[bytes]:
    for magic in (0, 1):
        yield messages.message(5, b"vv", magic=magic, key=b"k", timestamp=NOW_MS)
        for codec in (1, 2, 3, 4):
            held = [messages.message(at, b"v", magic=magic, timestamp=NOW_MS) for at in range(3)]
            yield messages.wrapper(9, held, magic=magic, codec=codec, timestamp=NOW_MS)


def _record_sets() -> list[bytes]:
    alone = [*_batches(), *_messages()]
    return [*alone, alone[0] + alone[3] + alone[-1]]


def _rechecked(data: bytes) -> bytes:
    """With the right length and checksum, so that what was changed is looked at."""
    whole = bytearray(data)
    if len(whole) >= record_batch.HEADER_BYTES and whole[16] == record_batch.MAGIC_V2:
        struct.pack_into(">i", whole, 8, len(whole) - record_batch.LENGTH_END)
        struct.pack_into(">I", whole, 17, crc32c.crc32c(bytes(whole[21:])))
    elif len(whole) >= 26 and whole[16] in record_set_splitter.LEGACY_MAGICS:
        struct.pack_into(">i", whole, 8, len(whole) - record_batch.LENGTH_END)
        struct.pack_into(">I", whole, 12, zlib.crc32(bytes(whole[16:])))
    return bytes(whole)


def _header(data: bytes) -> None:
    header = record_batch.read_batch_header(memoryview(data))
    record_batch.has_valid_crc(memoryview(data), header)
    assert header.last_offset - header.last_offset_delta == header.base_offset


def _open(data: bytes) -> None:
    data = _rechecked(data)
    header = record_batch.read_batch_header(memoryview(data))
    found = record_codec.decode_batch(header, memoryview(data))
    parts = BatchDecoder(header, memoryview(data))
    in_parts: list[BatchRecord] = []
    while parts.remaining:
        in_parts += parts.decode_next_records(3, max_bytes=50)
    assert in_parts == found
    for each in found[:50]:
        try:
            record_codec.encode_record_body(record_codec.decode_record_body(each.body))
        except MalformedRecordsError:
            continue
    if found:
        record_codec.encode_batch(
            found, codec=2, keep_offsets=found[-1].offset - found[0].offset < 1 << 31
        )


def _stamp(data: bytes) -> None:
    record_batch.stamp_producer_fields(
        memoryview(bytearray(data)), attributes=0x10, producer=(5, 1, 2)
    )


def _scan(data: bytes) -> None:
    read_committed_batch_filter.scan_batches(
        memoryview(bytearray(_rechecked(data))), position=70, aborted=[(9, 70), (-5, 2**62)]
    )


def _bodies() -> Iterator[bytes]:
    headers = ((b"h", None), (b"\xff", b"2"))
    yield record_codec.encode_record_body(RecordFields(b"k", b"v" * 40, headers))
    yield record_codec.encode_record_body(RecordFields(None, None))


def _first_of(data: bytes) -> None:
    record_codec.decode_single_record(
        record_batch.read_batch_header(memoryview(data)), memoryview(data)
    )


def _packed(codec: int) -> Callable[[], list[bytes]]:
    plain = [b"", b"abc" * 100, bytes(70_000), random.Random(codec).randbytes(70_000)]
    return lambda: [
        *(compression.compress(codec, each) for each in plain),
        *(batches.packed(codec, each) for each in plain),
    ]


def _unpack(codec: int) -> Callable[[bytes], object]:
    return lambda data: compression.decompress(codec, memoryview(data), max_bytes=16 << 20)


OPENED = (struct.error, MalformedRecordsError, DecompressionError)
targets.register("batch-header", _header, seeds=_batches, allowed=(struct.error,))
targets.register(
    "control-type", lambda data: record_batch.read_control_type(memoryview(data)), seeds=_batches
)
targets.register("batch-stamp", _stamp, seeds=_batches, allowed=(struct.error,))
targets.register(
    "record-sets",
    lambda data: list(record_set_splitter.iter_batches(memoryview(data))),
    seeds=_record_sets,
    allowed=(DamagedBatchError,),
)
targets.register("scan", _scan, seeds=_record_sets)
targets.register("open-batch", _open, seeds=_batches, allowed=OPENED)
targets.register("only-record", _first_of, seeds=_batches, allowed=(struct.error,))
targets.register(
    "record-body",
    lambda data: record_codec.encode_record_body(record_codec.decode_record_body(data)),
    seeds=_bodies,
    allowed=(MalformedRecordsError,),
)
targets.register(
    "old-message",
    lambda data: record_set_splitter.convert_legacy_message(memoryview(_rechecked(data))),
    seeds=_messages,
    allowed=(MalformedLegacyMessageError,),
)
for codec, codec_name in compression.CODEC_NAMES.items():
    targets.register(
        f"unpack-{codec_name}",
        _unpack(codec),
        seeds=_packed(codec),
        allowed=(DecompressionError,),
    )

# The offset map

KEYS: tuple[MapKey, ...] = (
    EraKey(topic="tö", partition=1, era=2, ordinal=3, epoch=1),
    MapProducerKey(topic="t", partition=1, producer_id=5),
    MapSegmentKey(topic="t", partition=1, era=1, ordinal=1, epoch=1, first_source=10),
    NewEraRequestKey(topic="t", partition=0),
)
RUNS = (OffsetRun(10, -3), OffsetRun(20, -5))
VALUES: tuple[MapValue, ...] = (
    Era(
        source_cluster="a",
        target_cluster="b",
        source_topic_id=bytes(16),
        target_topic_id=bytes(16),
        first_source=0,
        first_target=0,
        request="r",
        reason="first start",
    ),
    MapProducer(ordinal=1, era=1),
    MapSegment(
        leader_epoch=1,
        source_epoch=1,
        owner=b"x" * 8,
        acquired_from=0,
        through=100,
        target_next=90,
        last_crc=5,
        runs=RUNS,
    ),
    NewEraRequest(request="x", position="offset:5"),
)


def _map_value(key: MapKey) -> Callable[[bytes], object]:
    def read(data: bytes) -> None:
        offset_map_records.decode_map_value(key, data)
        if isinstance(key, MapSegmentKey):
            offset_map_records.read_segment_head(data)

    return read


targets.register(
    "map-key",
    offset_map_records.decode_map_key,
    seeds=[offset_map_records.encode_map_key(key) for key in KEYS],
    allowed=MAP_ERRORS,
)
for number, map_key in enumerate(KEYS):
    map_value = VALUES[number]
    targets.register(
        f"map-value-{type(map_value).__name__.lower()}",
        _map_value(map_key),
        seeds=[offset_map_records.encode_map_value(map_value)],
        allowed=MAP_ERRORS,
    )

# Records with a key and a value: the first byte is the key's length


def _pair(decode: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        size = data[0] if data else 0
        return decode(data[1 : 1 + size], data[1 + size :])

    return read


def _joined(pair: tuple[bytes, bytes]) -> bytes:
    key, value = pair
    return bytes([len(key)]) + key + value


PARTITION = TopicPartition("töpic", 3)
SYNC = OffsetSync(partition=PARTITION, upstream=5, downstream=6)
CHECKPOINT = Checkpoint(
    group="g\U0001f600", partition=PARTITION, upstream=5, downstream=6, metadata="m"
)
HEARTBEAT = Heartbeat(source="a", target="b", at_ms=NOW_MS)
INCIDENT = Incident(
    topic="t",
    partition=0,
    id="x",
    kind=IncidentKind.NOT_PAIRED,
    flow="a->b",
    at_ms=NOW_MS,
    detail="d",
    source=(1, 2),
)
MALFORMED = (MalformedRecordError,)
targets.register(
    "offset-sync",
    _pair(mirrormaker2_records.decode_offset_sync),
    seeds=[_joined(mirrormaker2_records.encode_offset_sync(SYNC))],
    allowed=MALFORMED,
)
targets.register(
    "checkpoint",
    _pair(mirrormaker2_records.decode_checkpoint),
    seeds=[_joined(mirrormaker2_records.encode_checkpoint(CHECKPOINT))],
    allowed=MALFORMED,
)
targets.register(
    "heartbeat",
    _pair(mirrormaker2_records.decode_heartbeat),
    seeds=[_joined(mirrormaker2_records.encode_heartbeat(HEARTBEAT))],
    allowed=MALFORMED,
)
targets.register(
    "incident",
    _pair(incident_records.decode_incident),
    seeds=[_joined(incident_records.encode_incident(INCIDENT))],
    allowed=(MalformedIncidentError,),
    text=True,
)

# Control frames


def _frames() -> Iterator[bytes]:
    hello = control_channel_wire_format.encode_hello(CopyHello(token=b"x" * 32, pid=5, host="h"))
    gauges = {"type": "progress", "partitions": [], "troubles": {}, "pulse": []}
    for sent in (
        [hello],
        [control_channel_wire_format.encode_welcome()],
        [control_channel_wire_format.encode_refusal("no")],
        [gauges] * 3,
    ):
        yield control_channel_wire_format.take_frame(
            deque(map(control_channel_wire_format.encode_message, sent))
        )


def _frame(data: bytes) -> None:
    for limit in (
        control_channel_wire_format.MAX_GREETING_BYTES,
        control_channel_wire_format.MAX_FRAME_BYTES,
    ):
        decoder = ControlFrameDecoder(max_frame_bytes=limit)
        for at in range(0, len(data), 97):
            for message in decoder.decode_messages(data[at : at + 97]):
                for read in (
                    control_channel_wire_format.decode_hello,
                    control_channel_wire_format.check_greeting_reply,
                ):
                    try:
                        read(message)
                    except ControlFrameError:
                        continue


def _sized_frame(data: bytes) -> None:
    _frame(struct.pack(">I", len(data) - 4) + data[4:] if len(data) > 4 else data)


for frame_name, read_frame in (("control-frame", _frame), ("control-frame-sized", _sized_frame)):
    targets.register(frame_name, read_frame, seeds=_frames, allowed=(ControlFrameError,), text=True)

# The journal of a failover


def _journals() -> Iterator[bytes]:
    wanted = FailoverRequest(
        origin="east",
        destination="west",
        kind=FailoverKind.EMERGENCY,
        accepted=frozenset({"stopped"}),
        groups=frozenset({"billing"}),
        export="tail.jsonl",
    )
    clusters = ClusterIds(origin="idE", destination="idW")
    begun = FailoverIdentity(
        request=wanted, flow="east->west", hooks=("start-consumers",), clusters=clusters
    )
    first = failover_journal.encode_begun_entry(begun, at_ms=5)
    yield first.encode()
    more = failover_journal.encode_step_started(FailoverStep.RECORD, at_ms=6)
    more += failover_journal.encode_step_done(FailoverStep.RECORD, {"n": 1}, at_ms=7)
    more += failover_journal.encode_group_moved_entry(
        "b", at_ms=8
    ) + failover_journal.encode_accepted_entry(["lag"], at_ms=9)
    yield (first + more).encode()


targets.register(
    "journal",
    lambda data: failover_journal.read_journal(data.decode("utf-8", "replace")),
    seeds=_journals,
    allowed=(JournalError,),
    text=True,
)
