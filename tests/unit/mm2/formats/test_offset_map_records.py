from __future__ import annotations

import dataclasses
import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import offset_map_records, primitive_types
from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapProducer,
    MapProducerKey,
    MapSegment,
    MapSegmentHead,
    MapSegmentKey,
    NewEraRequest,
    NewEraRequestKey,
    OffsetRun,
    UnknownMapVersionError,
)

HEAD = "0006 6f7264657273 00000007"  # "orders", partition 7
ERA_KEY = EraKey(topic="orders", partition=7, era=2, ordinal=3, epoch=4)
PRODUCER_KEY = MapProducerKey(topic="orders", partition=7, producer_id=4711)
SEGMENT_KEY = MapSegmentKey(
    topic="orders", partition=7, era=2, ordinal=3, epoch=4, first_source=100
)
REQUEST_KEY = NewEraRequestKey(topic="orders", partition=7)

KEYS = [
    (ERA_KEY, f"01 01 {HEAD} 00000002 00000003 0004"),
    (PRODUCER_KEY, f"01 02 {HEAD} 0000000000001267"),
    (SEGMENT_KEY, f"01 03 {HEAD} 00000002 00000003 0004 0000000000000064"),
    (REQUEST_KEY, f"01 04 {HEAD}"),
]

ERA = Era(
    source_cluster="cl-a",
    target_cluster="cl-b",
    source_topic_id=bytes(range(16)),
    target_topic_id=bytes(range(16, 32)),
    first_source=5,
    first_target=6,
    filter_hash=0xFEDCBA9876543210,
    request="r1",
    reason="first",
)
OPEN = MapSegment(
    leader_epoch=9,
    source_epoch=-1,
    owner=b"OWNER678",
    acquired_from=100,
    through=260,
    target_next=271,
    last_crc=0xCAFEBABE,
    runs=(OffsetRun(100, 5), OffsetRun(200, 9), OffsetRun(230, -3)),
)
RUNS = "03 c801 0a c801 08 3c 17"  # 3 runs: (100, 5), then (+100, +4), then (+30, -12)
NUMBERS = "0000000000000064 0000000000000104 000000000000010f"
OWNER = "4f574e4552363738"

VALUES = [
    (
        ERA_KEY,
        ERA,
        "01 000102030405060708090a0b0c0d0e0f 101112131415161718191a1b1c1d1e1f"
        " 0000000000000005 0000000000000006 fedcba9876543210"
        " 0004 636c2d61 0004 636c2d62 0002 7231 0005 6669727374",
    ),
    (PRODUCER_KEY, MapProducer(ordinal=3, era=2), "01 00000003 00000002"),
    (SEGMENT_KEY, OPEN, f"01 02 00000009 ffffffff {OWNER} {NUMBERS} cafebabe {RUNS}"),
    (
        SEGMENT_KEY,
        dataclasses.replace(OPEN, closed=True, last_crc=None, runs=()),
        f"01 01 00000009 ffffffff {OWNER} {NUMBERS} 00000000 00",
    ),
    (
        REQUEST_KEY,
        NewEraRequest(request="r2", position="latest"),
        "01 0002 7232 0006 6c6174657374",
    ),
]
THINNED = dataclasses.replace(OPEN, closed=True, below=3, above=200)
VALUES.append(
    (SEGMENT_KEY, THINNED, f"02 03 00000009 ffffffff {OWNER} {NUMBERS} cafebabe 03 c801 {RUNS}")
)
KINDS = ["era", "producer", "segment", "request"]
VALUE_KINDS = ["era", "producer", "open segment", "closed segment", "request", "thinned segment"]


@pytest.mark.parametrize(("key", "data"), KEYS, ids=KINDS)
def test_golden_bytes_of_keys(key, data):
    assert offset_map_records.encode_map_key(key).hex() == data.replace(" ", "")
    assert offset_map_records.decode_map_key(bytes.fromhex(data)) == key


@pytest.mark.parametrize(("key", "value", "data"), VALUES, ids=VALUE_KINDS)
def test_golden_bytes_of_values(key, value, data):
    assert offset_map_records.encode_map_value(value).hex() == data.replace(" ", "")
    assert offset_map_records.decode_map_value(key, bytes.fromhex(data)) == value


def test_only_segments_are_thinned():
    data = offset_map_records.encode_map_value(MapProducer(ordinal=1, era=1))
    with pytest.raises(UnknownMapVersionError, match="value of version 2"):
        offset_map_records.decode_map_value(PRODUCER_KEY, b"\x02" + data[1:])


@pytest.mark.parametrize("segment", [OPEN, THINNED, dataclasses.replace(OPEN, runs=())])
def test_the_head_of_a_segment_is_read_without_its_runs(segment):
    head = offset_map_records.read_segment_head(offset_map_records.encode_map_value(segment))
    assert head == MapSegmentHead(
        is_thinned=segment.has_removed_runs,
        acquired_from=100,
        through=260,
        target_next=271,
        slack=segment.below + segment.above,
        first_run=100 if segment.runs else None,
    )


def test_a_crc_of_zero_is_not_no_crc():
    for crc in (0, None):
        segment = dataclasses.replace(OPEN, last_crc=crc)
        data = offset_map_records.encode_map_value(segment)
        assert offset_map_records.decode_map_value(SEGMENT_KEY, data) == segment


texts = st.text(max_size=50)
i16, i32, i64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
slacks = st.integers(0, (1 << 60) - 1)
topic_ids = st.binary(min_size=16, max_size=16)
names = {"topic": texts, "partition": i32}
era_numbers = st.integers(0, (1 << 31) - 1)
owned = {**names, "era": era_numbers, "ordinal": i32, "epoch": i16}
eras = st.builds(
    Era,
    source_cluster=texts,
    target_cluster=texts,
    source_topic_id=topic_ids,
    target_topic_id=topic_ids,
    first_source=i64,
    first_target=i64,
    filter_hash=st.integers(0, (1 << 64) - 1),
    request=texts,
    reason=texts,
)


@st.composite
def runs_from(draw, first):
    """Runs in source order from `first` on; deltas such that differences fit into 64 bits."""
    sources = itertools.accumulate(draw(st.lists(st.integers(0, 1 << 40))), initial=first)
    deltas = st.integers(-(1 << 60), 1 << 60)
    return tuple(OffsetRun(source, draw(deltas)) for source in sources)


@st.composite
def segments(draw):
    first = draw(st.integers(0, 1 << 60))
    key = MapSegmentKey(**{name: draw(kind) for name, kind in owned.items()}, first_source=first)
    return key, MapSegment(
        leader_epoch=draw(i32),
        source_epoch=draw(i32),
        owner=draw(st.binary(min_size=8, max_size=8)),
        acquired_from=draw(i64),
        through=draw(i64),
        target_next=draw(i64),
        last_crc=draw(st.none() | st.integers(0, (1 << 32) - 1)),
        runs=draw(runs_from(first)),
        closed=draw(st.booleans()),
        below=draw(slacks),
        above=draw(slacks),
    )


records = st.one_of(
    st.tuples(st.builds(EraKey, **owned), eras),
    st.tuples(
        st.builds(MapProducerKey, **names, producer_id=i64),
        st.builds(MapProducer, ordinal=i32, era=i32),
    ),
    segments(),
    st.tuples(
        st.builds(NewEraRequestKey, **names),
        st.builds(NewEraRequest, request=texts, position=texts),
    ),
)


@given(records)
def test_every_record_is_read_back(record):
    key, value = record
    again = offset_map_records.decode_map_key(offset_map_records.encode_map_key(key))
    assert again == key
    assert (
        offset_map_records.decode_map_value(again, offset_map_records.encode_map_value(value))
        == value
    )


@given(records, st.data())
def test_a_record_that_was_cut_off_is_refused(record, data):
    key, value = record
    whole_key, whole_value = (
        offset_map_records.encode_map_key(key),
        offset_map_records.encode_map_value(value),
    )
    with pytest.raises(struct.error):
        offset_map_records.decode_map_key(
            whole_key[: data.draw(st.integers(0, len(whole_key) - 1))]
        )
    with pytest.raises((struct.error, IndexError, ValueError)):
        offset_map_records.decode_map_value(
            key, whole_value[: data.draw(st.integers(0, len(whole_value) - 1))]
        )


@pytest.mark.parametrize(
    "head", [b"\x00\x01", b"\x02\x01", b"\x01\x00", b"\x01\x05"], ids=lambda head: head.hex()
)
def test_a_key_of_another_version_or_kind_is_refused(head):
    with pytest.raises(UnknownMapVersionError, match="key of version"):
        offset_map_records.decode_map_key(head + offset_map_records.encode_map_key(ERA_KEY)[2:])


@pytest.mark.parametrize(("key", "value", "_"), VALUES, ids=VALUE_KINDS)
def test_a_value_of_another_version_is_refused(key, value, _):
    with pytest.raises(UnknownMapVersionError, match="value of version 3"):
        offset_map_records.decode_map_value(
            key, b"\x03" + offset_map_records.encode_map_value(value)[1:]
        )


def test_runs_that_begin_before_their_segment_are_refused():
    data = offset_map_records.encode_map_value(OPEN)
    late = dataclasses.replace(SEGMENT_KEY, first_source=OPEN.runs[0].source + 1)
    with pytest.raises(ValueError, match=f"offset in its key .{late.first_source}."):
        offset_map_records.decode_map_value(late, data)


def test_newer_is_by_fence_before_era():
    newest_first = [(3, 0, 1), (2, 9, 1), (2, 1, 8), (2, 1, 7)]
    for kind, more in ((EraKey, {}), (MapSegmentKey, {"first_source": 0})):
        keys = [
            kind(topic="t", partition=0, era=era, ordinal=ordinal, epoch=epoch, **more)
            for ordinal, epoch, era in newest_first
        ]
        assert sorted(keys, key=lambda key: key.owner_sort_key, reverse=True) == keys


@pytest.mark.parametrize("key", [ERA_KEY, SEGMENT_KEY])
def test_an_era_before_all_others_is_unreadable(key):
    rebuilt = dataclasses.replace(key, era=0)
    assert offset_map_records.decode_map_key(offset_map_records.encode_map_key(rebuilt)) == rebuilt
    negative = offset_map_records.encode_map_key(dataclasses.replace(key, era=-1))
    with pytest.raises(ValueError, match="era -1 is negative"):
        offset_map_records.decode_map_key(negative)


def test_a_segment_that_no_topic_would_take_is_unreadable_before_it_is_decoded(monkeypatch):
    runs = tuple(OffsetRun(100 + at, at) for at in range(5))
    value = offset_map_records.encode_map_value(dataclasses.replace(OPEN, runs=runs))
    monkeypatch.setattr(offset_map_records, "SEGMENT_VALUE_BYTES_MAX", len(value))
    assert offset_map_records.decode_map_value(SEGMENT_KEY, value).runs == runs
    monkeypatch.setattr(offset_map_records, "SEGMENT_VALUE_BYTES_MAX", len(value) - 1)
    monkeypatch.setattr(
        offset_map_records, "read_offset_runs", lambda *_, **__: pytest.fail("decoded")
    )
    with pytest.raises(ValueError, match=f"the segment has {len(value)} bytes"):
        offset_map_records.decode_map_value(SEGMENT_KEY, value)


def test_a_segment_with_more_runs_than_the_limit_is_unreadable_before_it_is_decoded(monkeypatch):
    limit = offset_map_records.SEGMENT_RUNS_MAX
    runs = tuple(OffsetRun(100 + at, at) for at in range(limit + 1))
    most = offset_map_records.encode_map_value(dataclasses.replace(OPEN, runs=runs[:-1]))
    decoded = offset_map_records.decode_map_value(SEGMENT_KEY, most)
    assert isinstance(decoded, MapSegment)
    assert decoded.runs == runs[:-1]
    too_many = offset_map_records.encode_map_value(dataclasses.replace(OPEN, runs=runs))
    monkeypatch.setattr(
        offset_map_records, "read_offset_runs", lambda *_, **__: pytest.fail("decoded")
    )
    with pytest.raises(ValueError, match=f"{limit + 1} runs, but at most {limit}"):
        offset_map_records.decode_map_value(SEGMENT_KEY, too_many)


@given(st.lists(st.binary(max_size=3) | st.binary(min_size=9, max_size=11)), st.integers(0, 6))
def test_a_segment_that_is_accepted_without_decoding_can_be_decoded(parts, count):
    empty = offset_map_records.encode_map_value(dataclasses.replace(OPEN, runs=()))
    runs = b"".join(parts)
    value = empty[:-1] + bytes([count]) + runs
    try:
        found = offset_map_records.read_offset_runs(runs, 0, count=count)
        is_whole = len(runs) == _find_end(runs, varints=2 * count)
        expected = is_whole and (not found or found[0][0] >= SEGMENT_KEY.first_source)
    except (ValueError, IndexError):
        expected = False
    try:
        offset_map_records.check_segment(SEGMENT_KEY, value)
    except offset_map_records.UNREADABLE_RECORD_ERRORS:
        assert not expected
    else:
        assert expected


def _find_end(data: bytes, *, varints: int) -> int:
    at = 0
    for _ in range(varints):
        _, at = primitive_types.read_varint(data, at)
    return at
