"""What traffic is made of: repeatable, and as varied as it says."""

from __future__ import annotations

import itertools
import random

import pytest

from mm2.sandbox.traffic import payloads
from mm2.sandbox.traffic.payloads import BatchSpec

WALL_MS = 1_800_000_000_000


def batch(count, *, seed=1, partitions=3, first=0):
    return BatchSpec(
        rng=random.Random(seed), count=count, partitions=partitions, wall_ms=WALL_MS, first=first
    )


MAKERS = [
    payloads.make_documents,
    payloads.make_varied_shape_records,
    payloads.make_varied_size_records,
    payloads.make_counter_records,
    payloads.make_documents_with_past_timestamps,
    payloads.make_records_without_timestamps,
]


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_records(make):
    assert list(make(batch(20))) == list(make(batch(20)))
    assert list(make(batch(20))) != list(make(batch(20, seed=2)))


@pytest.mark.parametrize("make", MAKERS)
def test_as_many_as_asked_for_and_within_the_partitions(make):
    records = list(make(batch(30, partitions=2)))
    assert len(records) == 30
    assert {record.partition for record in records} == {0, 1}


def test_shapes_come_in_every_combination():
    records = list(payloads.make_varied_shape_records(batch(216)))
    keys = {record.key for record in records}
    values = {record.value for record in records}
    headers = {record.headers for record in records}
    assert {None, b""} < keys
    assert {None, b""} < values
    assert len({(each.key, each.value, each.headers) for each in records}) == 216
    flat = list(itertools.chain.from_iterable(headers))
    assert () in headers
    assert ("null", None) in flat
    assert ("empty", b"") in flat
    assert any(len(each) > 1 and each[0][0] == each[1][0] for each in headers)
    assert {record.timestamp_ms for record in records} != {None}


def test_sizes_go_from_one_byte_to_five_million():
    sizes = [record.size for record in payloads.make_varied_size_records(batch(8))]
    assert (min(sizes), max(sizes)) == (1, payloads.LARGEST_VALUE_BYTES)


def test_old_records_are_three_days_old():
    day_ms = 24 * 3600 * 1000
    for record in payloads.make_documents_with_past_timestamps(batch(10)):
        assert record.timestamp_ms is not None
        assert 0 <= record.timestamp_ms - (WALL_MS - 3 * day_ms) < 1_000


def test_timeless_records_have_no_timestamp_or_one_of_1970():
    stamps = [record.timestamp_ms for record in payloads.make_records_without_timestamps(batch(4))]
    assert stamps == [1, -1, 3, -1]
