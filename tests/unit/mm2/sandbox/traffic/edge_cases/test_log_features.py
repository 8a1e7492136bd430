"""What is seen of record sets from outside, on batches written by hand."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from mm2.sandbox.traffic.edge_cases import record_features
from mm2.sandbox.traffic.edge_cases.record_features import RecordFeature, RecordFeatureCounts
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

ODD = RecordFeature
PRODUCED = Stamp(producer_id=7, producer_epoch=0, base_sequence=0)


def records(count: int) -> list[Record]:
    return [Record(value=b"v", key=b"k", timestamp=1_000 + at) for at in range(count)]


def at(offset: int, **fields: int) -> Stamp:
    return dataclasses.replace(PRODUCED, base_offset=offset, **fields)


def old(offset: int, magic: int, attributes: int, body: bytes = b"x" * 30) -> bytes:
    """A message of format v0 or v1, as far as anybody looks."""
    return struct.pack(">qiIbb", offset, 6 + len(body), 0, magic, attributes) + body


def seen(*parts: bytes) -> RecordFeatureCounts:
    return RecordFeatureCounts().count_batches([memoryview(b"".join(parts))])


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (batches.data(records(3), at(0)), set()),
        (batches.data(records(1), at(0)), {ODD.SINGLE}),
        (batches.data(records(2), at(0), last_offset_delta=9), {ODD.GAPS}),
        (batches.data(records(1), at(0), last_offset_delta=1), {ODD.GAPS}),
        (batches.data([], at(0), last_offset_delta=4), {ODD.EMPTY, ODD.NO_TIME}),
        (batches.data(records(2), at(0, attributes=0x08)), {ODD.APPEND_TIME}),
        (batches.data(records(2), at(0, attributes=0x40)), {ODD.HORIZON}),
        (batches.data(records(2), at(0, attributes=0x10)), {ODD.TRANSACTIONAL}),
        (batches.marker(at(0), commit=True, timestamp=1), {ODD.MARKER}),
        (batches.data([Record(value=b"", timestamp=-1)] * 2, at(0)), {ODD.NO_TIME}),
        (batches.data([Record(value=b"x" * 700_000, timestamp=1)] * 2, at(0)), {ODD.LARGE}),
        (
            batches.data([Record(value=b"x" * 1_100_000, timestamp=1)], at(0)),
            {ODD.HUGE_RECORD, ODD.SINGLE},
        ),
        (old(5, 0, 1), {ODD.V0}),
        (old(5, 1, 0x08), {ODD.V1, ODD.APPEND_TIME}),
    ],
)
def test_each_oddity_is_seen(batch, expected):
    assert set(seen(batch).features) == expected


def test_codecs_are_counted_without_markers():
    found = seen(
        batches.data(records(2), at(0, attributes=4)),
        batches.data(records(2), at(2, attributes=3)),
        batches.marker(at(4), commit=True, timestamp=1),
        old(5, 1, 2),
    )
    assert found.codecs == {"zstd": 1, "lz4": 1, "snappy": 1}


def test_offsets_that_no_batch_has_are_holes():
    whole = [batches.data(records(2), at(offset)) for offset in (0, 2, 4)]
    assert not seen(*whole).features
    assert seen(whole[0], whole[2]).features == {ODD.HOLES: 1}


def test_another_partition_begins_anew():
    found = RecordFeatureCounts()
    for offset in (0, 50):
        found.start_counting_next_partition()
        found.count_batches([memoryview(batches.data(records(2), at(offset)))])
    assert not found.features


def test_an_incomplete_batch_is_left_for_the_next_set():
    whole = batches.data(records(2), at(8))
    assert record_features.find_next_offset(memoryview(whole + whole[:-1])) == 10
    assert record_features.find_next_offset(memoryview(whole[:-1])) is None
    assert record_features.find_next_offset(memoryview(b"")) is None
