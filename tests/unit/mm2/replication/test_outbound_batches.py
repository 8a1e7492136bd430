from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import record_batch, record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from mm2.replication import outbound_batches, read_committed_batch_filter
from mm2.replication.outbound_batches import (
    BatchUnreadableError,
    OffsetSpan,
    OutboundBatch,
    RecordTransformError,
)
from tests.fakes import batches, copying, generated, scripts
from tests.fakes.batches import Record, Stamp
from tests.fakes.transforms import Filter
from tests.support import examples

NOW_MS = scripts.NOW_MS


def entry(batch, *, position=0):
    """The one copyable batch of a fetch."""
    found = read_committed_batch_filter.scan_batches(
        memoryview(batch), position=position, aborted=()
    )
    (only,) = found.batches
    return only


def opened(batch, *, position=0, transform=None):
    found = outbound_batches.decode_source_batch(entry(batch, position=position), transform)
    return [(each.offset, record_codec.decode_record_body(each.body).value) for each in found]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_all_records_are_there_with_their_offsets(codec):
    batch = scripts.data(10, b"a", b"b", b"c", deltas=(0, 2, 7), codec=codec)
    assert opened(batch) == [(10, b"a"), (12, b"b"), (17, b"c")]


def test_a_batch_of_one_is_opened_by_the_short_way_to_the_same():
    one = entry(scripts.data(10, b"a"))
    assert outbound_batches.decode_source_batch(one) == record_codec.decode_batch(
        one.header, one.batch
    )


@pytest.mark.parametrize("attributes", [0, 0x10, 0x40])
@pytest.mark.parametrize(("position", "left"), [(0, 3), (10, 3), (11, 2), (12, 1), (13, 1)])
def test_records_before_the_start_do_not_count(position, left, attributes):
    batch = scripts.data(10, b"a", b"b", b"c", deltas=(0, 1, 3), attributes=attributes)
    assert opened(batch, position=position) == [(10, b"a"), (11, b"b"), (13, b"c")][-left:]


@pytest.mark.parametrize(
    "attributes",
    [
        0,
        0x10,
    ],
)
def test_the_only_record_of_a_batch_may_lie_before_the_start(attributes):
    batch = scripts.data(10, b"a", last_delta=5, attributes=attributes)
    assert opened(batch, position=10) == [(10, b"a")]
    assert opened(batch, position=12) == []


def test_under_log_append_time_records_have_the_time_that_readers_see():
    held = [Record(value=b"v", timestamp=NOW_MS + at) for at in (0, 9, 4)]
    stamp = Stamp(attributes=0x08)
    found = outbound_batches.decode_source_batch(entry(batches.data(held, stamp)))
    assert [each.timestamp for each in found] == [NOW_MS + 9] * 3
    single = batches.data(held[:1], stamp)
    assert outbound_batches.decode_source_batch(entry(single))[0].timestamp == NOW_MS


@pytest.mark.parametrize(
    ("batch", "saying"),
    [
        (copying.unreadable(10), "gzip data is damaged"),
        (copying.unreadable(10, codec=0), "2 records do not fit into 7 bytes"),
        (scripts.data(10, b"a", b"b", attributes=6), "codec 6"),
        (scripts.data(10, b"a", deltas=(9,), last_delta=3), "after the batch's last offset"),
        (scripts.data(10, b"a", b"b", deltas=(1, 0), last_delta=1), "record 1"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_cannot_be_opened_says_why(batch, saying):
    with pytest.raises(BatchUnreadableError, match=saying):
        opened(batch)


# Transforms


def test_a_transform_sees_every_record_and_its_time():
    seen = Filter()
    batch = scripts.data(10, b"a", b"b", codec=1)
    assert opened(batch, transform=seen) == [(10, b"a"), (11, b"b")]
    assert seen.seen == [
        (RecordFields(None, b"a"), NOW_MS),
        (RecordFields(None, b"b"), NOW_MS),
    ]


def test_what_a_transform_leaves_out_is_gone_and_the_rest_stays_where_it_was():
    batch = scripts.data(10, b"a", b"b", b"c")
    assert opened(batch, transform=Filter(b"b")) == [(10, b"a"), (12, b"c")]
    assert opened(batch, transform=Filter(b"a", b"b", b"c")) == []


def test_a_batch_of_one_is_transformed_too():
    assert opened(scripts.data(10, b"a"), transform=Filter(change=b"new ")) == [(10, b"new a")]
    assert opened(scripts.data(10, b"a"), transform=Filter(b"a")) == []


def test_a_transform_does_not_see_what_lies_before_the_start():
    seen = Filter()
    opened(scripts.data(10, b"a", b"b"), position=11, transform=seen)
    assert [fields.value for fields, _ in seen.seen] == [b"b"]


def test_a_body_that_a_transform_cannot_be_given_is_unreadable():
    body = batches.varint(7) + b"\0\0\0" + batches.varint(50) + b"xyz"
    batch = batches.assemble(body, batches.PLAIN, count=1, last=0, timestamps=(NOW_MS, NOW_MS))
    assert outbound_batches.decode_source_batch(entry(batch))
    with pytest.raises(BatchUnreadableError, match="a field has a length of 50 bytes"):
        opened(batch, transform=Filter())


@pytest.mark.parametrize("became", [RecordFields._make(("text", None, ())), ("only one",), 5])
def test_a_transform_that_makes_no_record_failed_on_it(became):
    class Odd(Filter):
        def __call__(self, fields, timestamp_ms):
            return became

    with pytest.raises(RecordTransformError, match="transform filter failed with"):
        opened(scripts.data(10, b"a"), transform=Odd())


def test_what_makes_another_thing_each_time_is_none_for_pairing():
    fixed, loose = Filter(), Filter()
    loose.deterministic = False
    assert outbound_batches.keep_transform_if_deterministic(fixed) is fixed
    assert outbound_batches.keep_transform_if_deterministic(loose) is None
    assert outbound_batches.keep_transform_if_deterministic(None) is None


def test_transforms_are_told_apart_by_64_bits_of_their_names():
    one, other = Filter(), Filter()
    assert outbound_batches.hash_transform(None) == 0
    assert outbound_batches.hash_transform(one) == outbound_batches.hash_transform(other)
    other.name = "filter of other values"
    hashes = [outbound_batches.hash_transform(each) for each in (one, other)]
    assert hashes[0] != hashes[1]
    assert all(0 < each < 1 << 64 for each in hashes)


ANY = 1 << 31


def entries(*held, position=0):
    return read_committed_batch_filter.scan_batches(
        memoryview(b"".join(held)), position=position, aborted=()
    ).batches


def made(found, *, opened=None, codec=0, batch_bytes=1 << 20, records_max=ANY, why="a test"):
    if opened is None:
        opened = [record for each in found for record in outbound_batches.decode_source_batch(each)]
    return outbound_batches.encode_batches(
        found, opened, codec=codec, batch_bytes=batch_bytes, records_max=records_max, reason=why
    )


def sources(out):
    """Where each record of a batch came from, as its pieces say."""
    pieces = out.offset_spans or (OffsetSpan(out.source, 0),)
    found = []
    for place in range(out.records):
        piece = [each for each in pieces if each.place <= place][-1]
        found.append(piece.source + place - piece.place)
    return found


def content(out):
    """Its records, at the source offsets that its pieces name."""
    header = record_batch.read_batch_header(out.batch)
    assert record_batch.has_valid_crc(out.batch, header)
    assert (header.record_count, header.last_offset_delta) == (out.records, out.records - 1)
    assert (header.base_offset, header.attributes) == (0, out.attributes)
    assert header.max_timestamp == out.max_timestamp
    assert header.oldest_timestamp == out.oldest_timestamp
    found = record_codec.decode_batch(header, out.batch)
    return [each._replace(offset=at) for each, at in zip(found, sources(out), strict=True)]


# Passed through


def test_a_batch_that_is_passed_through_is_the_sources_own():
    batch = scripts.data(10, b"a", b"b", b"c", leader_epoch=4, attributes=0x10, codec=3)
    (entry,) = entries(batch)
    assert outbound_batches.create_pass_through_batch(entry) == OutboundBatch(
        batch=entry.batch,
        attributes=0x13,
        records=3,
        source=10,
        next_source=13,
        offset_spans=(),
        oldest_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
        source_epoch=4,
        held_bytes=len(batch),
        reencode_reason="",
    )
    assert outbound_batches.create_pass_through_batch(entry).batch is entry.batch


# Made


def test_what_is_made_of_one_batch_stands_for_all_of_it():
    batch = scripts.data(10, b"a", b"b", b"c", deltas=(1, 2, 5), last_delta=8, leader_epoch=4)
    (out,) = made(entries(batch), why="gaps")
    assert (out.source, out.next_source, out.records, out.reencode_reason) == (11, 19, 3, "gaps")
    assert out.offset_spans == ((11, 0), (15, 2))
    assert (out.held_bytes, out.source_epoch) == (len(batch), 4)
    assert sources(out) == [11, 12, 15]


def test_what_is_made_of_dense_batches_needs_no_pieces():
    held = [scripts.data(10, b"a", b"b"), scripts.data(12, b"c"), scripts.data(13, b"d", b"e")]
    (out,) = made(entries(*held))
    assert (out.source, out.next_source, out.records, out.offset_spans) == (10, 15, 5, ())
    assert out.held_bytes == len(out.batch)


def test_a_gap_between_batches_begins_a_piece():
    held = [scripts.data(10, b"a", b"b"), scripts.data(14, b"c"), scripts.data(15, b"d")]
    (out,) = made(entries(*held))
    assert out.offset_spans == ((10, 0), (14, 2))


def test_a_batch_of_which_nothing_is_left_is_stood_for_by_its_neighbours():
    held = entries(scripts.data(10, b"a"), scripts.data(11, b"b"), scripts.data(12, b"c"))
    b_alone = [BatchRecord(11, NOW_MS, record_codec.encode_record_body(RecordFields(None, b"b")))]
    (out,) = made(held, opened=b_alone)
    assert (out.source, out.next_source, out.records, out.offset_spans) == (11, 13, 1, ())
    assert out.held_bytes == len(out.batch)


def test_nothing_is_made_of_nothing():
    assert made(entries(scripts.data(10, b"a")), opened=[]) == []


@pytest.mark.parametrize(("most", "counts"), [(1, [1] * 5), (2, [2, 2, 1]), (4, [4, 1]), (5, [5])])
def test_no_batch_has_more_records_than_it_may(most, counts):
    batch = scripts.data(10, b"a", b"b", b"c", b"d", b"e", last_delta=6)
    found = made(entries(batch), records_max=most)
    assert [each.records for each in found] == counts
    assert [each.next_source for each in found][-1] == 17
    assert [each.held_bytes for each in found] == [len(each.batch) for each in found]
    for one, two in itertools.pairwise(found):
        assert one.next_source == two.source


def test_no_batch_has_more_bytes_of_records_than_it_may_but_a_single_one():
    values = [bytes(size) for size in (100, 100, 500, 10, 10, 100)]
    found = made(entries(scripts.data(0, *values)), batch_bytes=300)
    assert [each.records for each in found] == [2, 1, 3]
    assert all(len(each.batch) <= 300 + 61 for each in found if each.records > 1)
    assert [each.records for each in made(entries(scripts.data(0, *values)), batch_bytes=1)] == (
        [1] * 6
    )


def test_pieces_count_within_their_own_batch():
    batch = scripts.data(0, *[b"v"] * 6, deltas=(0, 1, 3, 4, 9, 10))
    found = made(entries(batch), records_max=3)
    assert [each.offset_spans for each in found] == [((0, 0), (3, 2)), ((4, 0), (9, 1))]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_the_codec_is_the_one_asked_for(codec):
    (out,) = made(entries(scripts.data(0, b"a" * 99, b"b")), codec=codec)
    assert out.attributes == codec
    assert [record_codec.decode_record_body(each.body).value for each in content(out)] == [
        b"a" * 99,
        b"b",
    ]


@settings(deadline=None, max_examples=examples.of(80))
@given(
    generated.some_records(most=12),
    st.sampled_from([0, 0, 1, 2, 3, 4]),
    st.sampled_from([1, 40, 200, 1 << 20]),
    st.sampled_from([1, 2, 3, ANY]),
)
def test_together_they_hold_exactly_the_records_that_were_there(found, codec, size, most):
    batch = generated.by_hand(found, last=found[-1].offset + 3)
    held = entries(batch)
    parts = made(held, codec=codec, batch_bytes=size, records_max=most)
    assert [each for out in parts for each in content(out)] == found
    assert parts[0].source == found[0].offset
    assert parts[-1].next_source == found[-1].offset + 4
    for one, two in itertools.pairwise(parts):
        assert one.next_source == two.source
    assert all(each.records <= most for each in parts)
