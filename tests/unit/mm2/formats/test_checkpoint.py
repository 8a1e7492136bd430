from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import ids
from mm2.formats import checkpoint, schema_fields

POINT = checkpoint.Checkpoint(
    group="billing",
    partition=ids.TopicPartition("A.orders", 7),
    upstream=1500,
    downstream=951,
    metadata="m",
)
KEY = bytes.fromhex("000762696c6c696e670008412e6f726465727300000007")
VALUE = bytes.fromhex("000000000000000005dc00000000000003b700016d")

offsets = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
points = st.builds(
    checkpoint.Checkpoint,
    group=texts,
    partition=st.builds(ids.TopicPartition, texts, st.integers(-(1 << 31), (1 << 31) - 1)),
    upstream=offsets,
    downstream=offsets,
    metadata=texts,
)


def test_golden_bytes():
    assert checkpoint.encode(POINT) == (KEY, VALUE)
    assert checkpoint.decode(KEY, VALUE) == POINT
    assert checkpoint.decode_key(KEY) == POINT.key


def test_golden_bytes_without_metadata():
    found = checkpoint.decode(KEY, bytes.fromhex("000000000000000005dc00000000000003b70000"))
    assert found.metadata == ""
    assert found.downstream == 951


@given(points)
def test_what_was_encoded_is_decoded(point):
    assert checkpoint.decode(*checkpoint.encode(point)) == point


def test_what_stands_behind_is_not_looked_at():
    assert checkpoint.decode(KEY + b"x", VALUE + b"x") == POINT


def test_cut_bytes_are_malformed():
    for size in range(len(KEY)):
        with pytest.raises(schema_fields.MalformedRecordError):
            checkpoint.decode(KEY[:size], VALUE)
    for size in range(len(VALUE)):
        with pytest.raises(schema_fields.MalformedRecordError):
            checkpoint.decode(KEY, VALUE[:size])


def test_another_version_is_refused():
    with pytest.raises(schema_fields.UnknownVersionError):
        checkpoint.decode(KEY, b"\0\1" + VALUE[2:])
