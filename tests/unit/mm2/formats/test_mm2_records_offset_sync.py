from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.primitive_types import MalformedRecordError

SYNC = OffsetSync(partition=TopicPartition("orders", 7), upstream=1000, downstream=950)
KEY = bytes.fromhex("00066f726465727300000007")
VALUE = bytes.fromhex("00000000000003e800000000000003b6")

offsets = st.integers(0, (1 << 63) - 2)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
partitions = st.builds(TopicPartition, texts, st.integers(-(1 << 31), (1 << 31) - 1))


def test_golden_bytes():
    assert mirrormaker2_records.encode_offset_sync(SYNC) == (KEY, VALUE)
    assert mirrormaker2_records.decode_offset_sync(KEY, VALUE) == SYNC
    assert mirrormaker2_records.decode_offset_sync_key(KEY) == SYNC.partition


@given(st.builds(OffsetSync, partition=partitions, upstream=offsets, downstream=offsets))
def test_what_was_encoded_is_decoded(sync):
    assert (
        mirrormaker2_records.decode_offset_sync(*mirrormaker2_records.encode_offset_sync(sync))
        == sync
    )


@pytest.mark.parametrize("offset", [-(1 << 63), -1, (1 << 63) - 1])
@pytest.mark.parametrize("name", ["upstream", "downstream"])
def test_offsets_that_no_record_can_have_are_malformed(name, offset):
    sync = dataclasses.replace(SYNC, **{name: offset})
    with pytest.raises(MalformedRecordError, match="not in 0 to 9223372036854775806"):
        mirrormaker2_records.decode_offset_sync(*mirrormaker2_records.encode_offset_sync(sync))


def test_what_stands_behind_is_not_looked_at():
    assert mirrormaker2_records.decode_offset_sync(KEY + b"x", VALUE + b"x") == SYNC


def test_cut_bytes_are_malformed():
    for size in range(len(KEY)):
        with pytest.raises(MalformedRecordError):
            mirrormaker2_records.decode_offset_sync(KEY[:size], VALUE)
    for size in range(len(VALUE)):
        with pytest.raises(MalformedRecordError):
            mirrormaker2_records.decode_offset_sync(KEY, VALUE[:size])
