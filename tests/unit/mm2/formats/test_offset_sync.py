from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import ids
from mm2.formats import offset_sync, schema_fields

SYNC = offset_sync.OffsetSync(
    partition=ids.TopicPartition("orders", 7), upstream=1000, downstream=950
)
KEY = bytes.fromhex("00066f726465727300000007")
VALUE = bytes.fromhex("00000000000003e800000000000003b6")

offsets = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
partitions = st.builds(ids.TopicPartition, texts, st.integers(-(1 << 31), (1 << 31) - 1))


def test_golden_bytes():
    assert offset_sync.encode(SYNC) == (KEY, VALUE)
    assert offset_sync.decode(KEY, VALUE) == SYNC
    assert offset_sync.decode_key(KEY) == SYNC.partition


@given(
    st.builds(offset_sync.OffsetSync, partition=partitions, upstream=offsets, downstream=offsets)
)
def test_what_was_encoded_is_decoded(sync):
    assert offset_sync.decode(*offset_sync.encode(sync)) == sync


def test_what_stands_behind_is_not_looked_at():
    assert offset_sync.decode(KEY + b"x", VALUE + b"x") == SYNC


def test_cut_bytes_are_malformed():
    for size in range(len(KEY)):
        with pytest.raises(schema_fields.MalformedRecordError):
            offset_sync.decode(KEY[:size], VALUE)
    for size in range(len(VALUE)):
        with pytest.raises(schema_fields.MalformedRecordError):
            offset_sync.decode(KEY, VALUE[:size])
