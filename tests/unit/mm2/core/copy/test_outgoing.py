from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.copy import opening, outgoing, source_batches
from mm2.formats import record_batch, records
from tests.fakes import generated, scripts
from tests.support import examples

NOW_MS = scripts.NOW_MS
ANY = 1 << 31


def entries(*held, position=0):
    return source_batches.scan(memoryview(b"".join(held)), position=position, aborted=()).batches


def made(found, *, opened=None, codec=0, batch_bytes=1 << 20, records_max=ANY, why="a test"):
    if opened is None:
        opened = [record for each in found for record in opening.open_batch(each)]
    return outgoing.made(
        found, opened, codec=codec, batch_bytes=batch_bytes, records_max=records_max, why=why
    )


def sources(out):
    """Where each record of a batch came from, as its pieces say."""
    pieces = out.pieces or (outgoing.Piece(out.source, 0),)
    found = []
    for place in range(out.records):
        piece = [each for each in pieces if each.place <= place][-1]
        found.append(piece.source + place - piece.place)
    return found


def content(out):
    """Its records, at the source offsets that its pieces name."""
    header = record_batch.read_header(out.batch)
    assert record_batch.crc_matches(out.batch, header)
    assert (header.record_count, header.last_offset_delta) == (out.records, out.records - 1)
    assert (header.base_offset, header.attributes) == (0, out.attributes)
    assert header.max_timestamp == out.max_timestamp
    assert header.oldest_timestamp == out.oldest_timestamp
    found = records.open_batch(header, out.batch)
    return [each._replace(offset=at) for each, at in zip(found, sources(out), strict=True)]


# Passed through


def test_a_batch_that_is_passed_through_is_the_sources_own():
    batch = scripts.data(10, b"a", b"b", b"c", leader_epoch=4, attributes=0x10, codec=3)
    (entry,) = entries(batch)
    assert outgoing.passed(entry) == outgoing.Outgoing(
        batch=entry.batch,
        attributes=0x13,
        records=3,
        source=10,
        next_source=13,
        pieces=(),
        oldest_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
        source_epoch=4,
        held=len(batch),
        why="",
    )
    assert outgoing.passed(entry).batch is entry.batch


# Made


def test_what_is_made_of_one_batch_stands_for_all_of_it():
    batch = scripts.data(10, b"a", b"b", b"c", deltas=(1, 2, 5), last_delta=8, leader_epoch=4)
    (out,) = made(entries(batch), why="gaps")
    assert (out.source, out.next_source, out.records, out.why) == (11, 19, 3, "gaps")
    assert out.pieces == ((11, 0), (15, 2))
    assert (out.held, out.source_epoch) == (len(batch), 4)
    assert sources(out) == [11, 12, 15]


def test_what_is_made_of_dense_batches_needs_no_pieces():
    held = [scripts.data(10, b"a", b"b"), scripts.data(12, b"c"), scripts.data(13, b"d", b"e")]
    (out,) = made(entries(*held))
    assert (out.source, out.next_source, out.records, out.pieces) == (10, 15, 5, ())
    assert out.held == len(out.batch)


def test_a_gap_between_batches_begins_a_piece():
    held = [scripts.data(10, b"a", b"b"), scripts.data(14, b"c"), scripts.data(15, b"d")]
    (out,) = made(entries(*held))
    assert out.pieces == ((10, 0), (14, 2))


def test_a_batch_of_which_nothing_is_left_is_stood_for_by_its_neighbours():
    held = entries(scripts.data(10, b"a"), scripts.data(11, b"b"), scripts.data(12, b"c"))
    b_alone = [records.Record(11, NOW_MS, records.write_body(records.Fields(None, b"b")))]
    (out,) = made(held, opened=b_alone)
    assert (out.source, out.next_source, out.records, out.pieces) == (11, 13, 1, ())
    assert out.held == len(out.batch)


def test_nothing_is_made_of_nothing():
    assert made(entries(scripts.data(10, b"a")), opened=[]) == []


@pytest.mark.parametrize(("most", "counts"), [(1, [1] * 5), (2, [2, 2, 1]), (4, [4, 1]), (5, [5])])
def test_no_batch_has_more_records_than_it_may(most, counts):
    batch = scripts.data(10, b"a", b"b", b"c", b"d", b"e", last_delta=6)
    found = made(entries(batch), records_max=most)
    assert [each.records for each in found] == counts
    assert [each.next_source for each in found][-1] == 17
    assert [each.held for each in found] == [len(each.batch) for each in found]
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
    assert [each.pieces for each in found] == [((0, 0), (3, 2)), ((4, 0), (9, 1))]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_the_codec_is_the_one_asked_for(codec):
    (out,) = made(entries(scripts.data(0, b"a" * 99, b"b")), codec=codec)
    assert out.attributes == codec
    assert [records.read_body(each.body).value for each in content(out)] == [b"a" * 99, b"b"]


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
