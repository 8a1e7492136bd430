from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.formats.primitive_types import MalformedRecordError, UnknownRecordVersionError

POINT = Checkpoint(
    group="billing",
    partition=TopicPartition("A.orders", 7),
    upstream=1500,
    downstream=951,
    metadata="m",
)
KEY = bytes.fromhex("000762696c6c696e670008412e6f726465727300000007")
VALUE = bytes.fromhex("000000000000000005dc00000000000003b700016d")

offsets = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
points = st.builds(
    Checkpoint,
    group=texts,
    partition=st.builds(TopicPartition, texts, st.integers(-(1 << 31), (1 << 31) - 1)),
    upstream=offsets,
    downstream=offsets,
    metadata=texts,
)


def test_golden_bytes():
    assert mirrormaker2_records.encode_checkpoint(POINT) == (KEY, VALUE)
    assert mirrormaker2_records.decode_checkpoint(KEY, VALUE) == POINT
    assert mirrormaker2_records.decode_checkpoint_key(KEY) == POINT.key


def test_golden_bytes_without_metadata():
    found = mirrormaker2_records.decode_checkpoint(
        KEY, bytes.fromhex("000000000000000005dc00000000000003b70000")
    )
    assert found.metadata == ""
    assert found.downstream == 951


@given(points)
def test_what_was_encoded_is_decoded(point):
    assert (
        mirrormaker2_records.decode_checkpoint(*mirrormaker2_records.encode_checkpoint(point))
        == point
    )


def test_what_stands_behind_is_not_looked_at():
    assert mirrormaker2_records.decode_checkpoint(KEY + b"x", VALUE + b"x") == POINT


def test_cut_bytes_are_malformed():
    for size in range(len(KEY)):
        with pytest.raises(MalformedRecordError):
            mirrormaker2_records.decode_checkpoint(KEY[:size], VALUE)
    for size in range(len(VALUE)):
        with pytest.raises(MalformedRecordError):
            mirrormaker2_records.decode_checkpoint(KEY, VALUE[:size])


def test_another_version_is_refused():
    with pytest.raises(UnknownRecordVersionError):
        mirrormaker2_records.decode_checkpoint(KEY, b"\0\1" + VALUE[2:])
