from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mm2.formats import compression, primitive_types, record_batch, record_codec
from mm2.formats.compression import DecompressionError
from mm2.formats.record_codec import BatchRecord, MalformedRecordsError, RecordFields
from tests.fakes import batches, generated
from tests.fakes.batches import Record, Stamp
from tests.support import examples

NOW_MS = 1_790_000_000_000
BODY = record_codec.encode_record_body(RecordFields(b"k", b"v"))
codecs = st.sampled_from(sorted(compression.CODEC_NAMES))


def opened(batch):
    view = memoryview(batch)
    return record_codec.decode_batch(record_batch.read_batch_header(view), view)


def header_of(batch):
    return record_batch.read_batch_header(memoryview(batch))


def record(offset=0, timestamp=NOW_MS, body=BODY):
    return BatchRecord(offset, timestamp, body)


# Built and opened


@settings(deadline=None, max_examples=examples.of(60))
@given(generated.some_records(), codecs)
def test_what_is_built_with_its_gaps_opens_to_the_same(found, codec):
    batch = record_codec.encode_batch(found, codec=codec, keep_offsets=True)
    assert opened(batch) == found
    header = header_of(batch)
    assert (header.base_offset, header.last_offset) == (found[0].offset, found[-1].offset)


@settings(deadline=None, max_examples=examples.of(60))
@given(generated.some_records(), codecs)
def test_what_is_built_densely_counts_its_records_from_zero(found, codec):
    batch = record_codec.encode_batch(found, codec=codec)
    assert opened(batch) == [each._replace(offset=at) for at, each in enumerate(found)]
    header = header_of(batch)
    assert (header.base_offset, header.last_offset_delta) == (0, len(found) - 1)


@settings(deadline=None, max_examples=examples.of(50))
@given(generated.some_records(), st.booleans())
def test_a_built_batch_is_the_one_that_the_specification_says(found, sparse):
    if not sparse:
        found = [each._replace(offset=at) for at, each in enumerate(found)]
    nobody = Stamp(base_offset=found[0].offset, leader_epoch=-1)
    batch = record_codec.encode_batch(found, codec=0, keep_offsets=sparse)
    assert bytes(batch) == generated.by_hand(found, nobody)


@settings(deadline=None, max_examples=examples.of(50))
@given(generated.some_records(), codecs)
def test_a_built_batch_is_whole_and_of_nobody(found, codec):
    batch = record_codec.encode_batch(found, codec=codec)
    header = header_of(batch)
    assert header.size == len(batch)
    assert record_batch.has_valid_crc(memoryview(batch), header)
    assert (header.attributes, header.record_count, header.magic) == (codec, len(found), 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.base_timestamp == found[0].timestamp
    assert header.max_timestamp == max(each.timestamp for each in found)


@settings(deadline=None, max_examples=examples.of(50))
@given(generated.some_records(), codecs, st.integers(0, 5))
def test_what_others_write_is_opened(found, codec, behind):
    batch = generated.by_hand(found, codec=codec, last=found[-1].offset + behind)
    assert opened(batch) == found


def test_a_first_record_that_compaction_took_leaves_the_base_where_it_was():
    batch = generated.by_hand([record(15), record(17)], Stamp(base_offset=10))
    assert [each.offset for each in opened(batch)] == [15, 17]


def test_under_log_append_time_every_record_has_the_batchs_largest_timestamp():
    found = [record(3, NOW_MS), record(4, NOW_MS + 500), record(6, NOW_MS - 500)]
    stamp = Stamp(base_offset=3, attributes=record_batch.LOG_APPEND_TIME)
    for codec in compression.CODEC_NAMES:
        batch = generated.by_hand(found, stamp, codec=codec)
        assert opened(batch) == [each._replace(timestamp=NOW_MS + 500) for each in found]


def test_timestamps_count_from_the_batchs_base_whatever_the_first_record_has():
    """A delete horizon stands where the base timestamp was (KIP-534)."""
    held = [Record(value=b"v", timestamp=NOW_MS + at) for at in (-70_000, 0, 5)]
    batch = batches.data(held, base_timestamp=NOW_MS + 86_400_000)
    assert [each.timestamp - NOW_MS for each in opened(batch)] == [-70_000, 0, 5]


@pytest.mark.parametrize("codec", sorted(compression.CODEC_NAMES))
def test_the_farthest_timestamps_stand_in_one_batch(codec):
    times = [-1, (1 << 63) - 1, NOW_MS, 0, 1 << 62, (1 << 62) - 1]
    for first in range(len(times)):
        found = [record(at, ms) for at, ms in enumerate(times[first:] + times[:first])]
        assert opened(record_codec.encode_batch(found, codec=codec)) == found


@pytest.mark.parametrize(
    ("base", "delta"), [(NOW_MS, (1 << 63) - 1), ((1 << 63) - 1, 5), (-5, -(1 << 63))]
)
def test_a_timestamp_never_leaves_64_bits(base, delta):
    """Java adds longs: what no batch should say is read as Java reads it, and can be built."""
    behind = raw(b"\0", delta, 0, -1, -1, 0)
    data = raw(len(behind), behind)
    (found,) = record_codec.decode_records(data, count=1, base_offset=0, base_timestamp=base)
    assert (found.timestamp - base - delta) % (1 << 64) == 0
    assert opened(record_codec.encode_batch([found], codec=0)) == [found]


@pytest.mark.parametrize("size", [16_380, 16_384, 1 << 21, 10 << 20])
@pytest.mark.parametrize("codec", sorted(compression.CODEC_NAMES))
def test_records_of_any_size_are_opened(codec, size):
    large = record_codec.encode_record_body(RecordFields(b"k", bytes(size)))
    found = [record(5, NOW_MS, large), record(6), record(9, NOW_MS + 1, large)]
    assert opened(record_codec.encode_batch(found, codec=codec, keep_offsets=True)) == found


def test_more_records_than_the_prepared_varints_are_opened():
    found = [record(at, NOW_MS + at * 3) for at in range(20_000)]
    assert opened(record_codec.encode_batch(found, codec=0)) == found
    sparse = [record(at * 7) for at in range(5000)]
    assert opened(record_codec.encode_batch(sparse, codec=0, keep_offsets=True)) == sparse


def test_a_batch_without_records_opens_to_none():
    assert opened(batches.data([], last_offset_delta=7)) == []


def test_what_cannot_be_unpacked_is_told_as_such():
    batch = batches.assemble(b"garbage", Stamp(attributes=1), count=1, last=0, timestamps=(0, 0))
    with pytest.raises(DecompressionError):
        opened(batch)


# The only record


@settings(deadline=None, max_examples=examples.of(200))
@given(generated.some_records(most=2), st.integers(0, 3), st.integers(0, 3))
def test_the_only_record_is_the_one_that_opening_finds_or_is_left_to_it(found, before, behind):
    before = min(before, found[0].offset)
    base = Stamp(base_offset=found[0].offset - before)
    batch = generated.by_hand(found, base, last=found[-1].offset + behind)
    view = memoryview(batch)
    only = record_codec.decode_single_record(record_batch.read_batch_header(view), view)
    assert [only] == opened(batch) if len(found) == 1 and not before else only is None


@pytest.mark.parametrize("size", [0, 50, 53, 54, 60, 120, 8170, 8180])
def test_the_only_record_is_found_behind_lengths_of_one_and_two_bytes(size):
    one = record(7, NOW_MS, record_codec.encode_record_body(RecordFields(None, bytes(size))))
    view = memoryview(generated.by_hand([one]))
    assert record_codec.decode_single_record(record_batch.read_batch_header(view), view) == one


@pytest.mark.parametrize("size", [8192, 16_384, 1 << 21])
def test_the_only_record_behind_a_longer_length_is_left_to_opening(size):
    one = record(7, NOW_MS, record_codec.encode_record_body(RecordFields(None, bytes(size))))
    batch = generated.by_hand([one])
    view = memoryview(batch)
    assert record_codec.decode_single_record(record_batch.read_batch_header(view), view) is None
    assert opened(batch) == [one]


@settings(deadline=None, max_examples=examples.of(200))
@given(st.binary(max_size=40) | st.builds(lambda b: b"\x14\0\0\0" + b, st.binary(max_size=12)))
@example(b"\x92\x80" + bytes(8201))
def test_a_record_is_only_taken_for_the_only_one_when_opening_finds_it_too(data):
    stamp = Stamp(base_offset=9)
    batch = batches.assemble(data, stamp, count=1, last=0, timestamps=(NOW_MS, NOW_MS))
    view = memoryview(batch)
    only = record_codec.decode_single_record(record_batch.read_batch_header(view), view)
    if only is not None:
        assert opened(batch) == [only]


# Bytes that are no records


def split(data, count):
    return record_codec.decode_records(data, count=count, base_offset=100, base_timestamp=NOW_MS)


@settings(deadline=None, max_examples=examples.of(200))
@given(st.binary(max_size=200), st.integers(-3, 40))
def test_arbitrary_bytes_are_records_or_refused(data, count):
    records_or_refused(data, count)


@settings(deadline=None, max_examples=examples.of(200))
@given(generated.some_records(), st.data(), st.integers(-1, 1))
def test_changed_records_are_records_or_refused(found, data, more):
    body = bytearray(record_codec.encode_batch(found, codec=0)[record_batch.HEADER_BYTES :])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, min(len(body) - 1, 60)))] = data.draw(st.integers(0, 255))
    records_or_refused(bytes(body), len(found) + more)


@settings(deadline=None, max_examples=examples.of(200))
@given(generated.some_records(), st.data())
def test_records_that_are_cut_off_are_refused(found, data):
    body = bytes(record_codec.encode_batch(found, codec=0)[record_batch.HEADER_BYTES :])
    kept = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedRecordsError):
        split(body[:kept], len(found))


def records_or_refused(data, count):
    """Every byte is accounted for: what was found, written again, says the same."""
    try:
        found = split(data, count)
    except MalformedRecordsError:
        return
    assert len(found) == count
    offsets = [each.offset for each in found]
    assert offsets == sorted(set(offsets)), "records do not follow each other"
    assert all(offset >= 100 for offset in offsets)
    if found and offsets[-1] - offsets[0] < 1 << 31:
        assert opened(record_codec.encode_batch(found, codec=0, keep_offsets=True)) == found


def raw(*parts):
    out = bytearray()
    for part in parts:
        if isinstance(part, int):
            primitive_types.append_varint(out, part)
        else:
            out += part
    return bytes(out)


FINE = raw(6, b"\0", 0, 0, -1, -1, 0)


@pytest.mark.parametrize(
    ("data", "count", "saying"),
    [
        (FINE, 2, "2 records do not fit into 7 bytes"),
        (FINE, -1, "-1 records do not fit"),
        (FINE + b"x", 1, "1 unexpected bytes after the last record"),
        (FINE, 0, "7 unexpected bytes after"),
        (raw(60, b"\0", 0, 0, -1, -1, 0), 1, "record 0 has an invalid length"),
        (raw(-6, b"\0", 0, 0, -1, -1, 0), 1, "record 0 has an invalid length"),
        (FINE + raw(6, b"\0", 0, -1, -1, -1, 0), 2, "record 1 has an invalid offset"),
        (raw(1, b"\0", 0, 0, -1, -1, 0), 1, "record 0 has an invalid offset or length"),
        (b"\xff" * 12, 1, "record 0 is truncated or malformed"),
        (raw(6, b"\0") + b"\x80" * 5, 1, "record 0 is truncated or malformed"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_damage_is_told(data, count, saying):
    with pytest.raises(MalformedRecordsError, match=saying):
        split(data, count)


def test_more_records_than_are_opened_at_once_are_refused(monkeypatch):
    """A few hundred KB of zstd hold a million, and each takes 200 bytes."""
    monkeypatch.setattr(record_codec, "DECODED_RECORDS_MAX", 2)
    built = record_codec.encode_batch([record(at) for at in range(3)], codec=0)
    assert len(opened(record_codec.encode_batch([record(at) for at in range(2)], codec=0))) == 2
    with pytest.raises(
        MalformedRecordsError, match="3 records, of which at most 2 can be decoded at once"
    ):
        opened(built)


def test_records_that_do_not_follow_each_other_are_refused():
    after = raw(6, b"\0", 0, 5, -1, -1, 0)
    for data in (after + FINE, after + after):
        with pytest.raises(MalformedRecordsError, match="record 1"):
            split(data, 2)


def test_a_record_behind_the_end_of_its_batch_is_refused():
    batch = generated.by_hand([record(5), record(9)], last=8)
    with pytest.raises(MalformedRecordsError, match="after the batch's last offset 8"):
        opened(batch)


# Bodies


@given(generated.fields)
def test_a_body_says_what_was_written(fields):
    assert record_codec.decode_record_body(record_codec.encode_record_body(fields)) == fields


@settings(max_examples=examples.of(200))
@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_body_or_refused(data):
    body_or_refused(data)


@settings(max_examples=examples.of(200))
@given(generated.bodies, st.data())
def test_a_changed_or_cut_body_is_a_body_or_refused(body, data):
    changed = bytearray(body[: data.draw(st.integers(0, len(body)))])
    assume(changed)
    changed[data.draw(st.integers(0, min(12, len(changed) - 1)))] = data.draw(st.integers(0, 255))
    body_or_refused(bytes(changed))


def body_or_refused(data):
    try:
        fields = record_codec.decode_record_body(data)
    except MalformedRecordsError:
        return
    again = record_codec.encode_record_body(fields)
    assert record_codec.decode_record_body(again) == fields


@pytest.mark.parametrize(
    ("body", "saying"),
    [
        (b"", "truncated or malformed"),
        (raw(-1, -1), "truncated or malformed"),
        (raw(-1, 9, b"abc"), "a field has a length of 9 bytes, but only 3 are left"),
        (raw(-1, -1, 5), "a record has an invalid header count of 5"),
        (raw(-1, -1, -1), "a record has an invalid header count of -1"),
        (raw(-1, -1, 1, -1, -1), "a header has no name"),
        (raw(-1, -1, 0, b"x"), "1 unexpected bytes after a record's headers"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_damaged_body_is_told(body, saying):
    with pytest.raises(MalformedRecordsError, match=saying):
        record_codec.decode_record_body(body)


def test_null_and_empty_and_repeated_names_are_told_apart():
    fields = RecordFields(b"", None, ((b"a", b""), (b"a", None), (b"", b"x")))
    assert record_codec.decode_record_body(record_codec.encode_record_body(fields)) == fields
