from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Heartbeat
from mm2.formats.primitive_types import MalformedRecordError, UnknownRecordVersionError

BEAT = Heartbeat(source="A", target="B", at_ms=1_700_000_000_000)
KEY = bytes.fromhex("000141000142")
VALUE = bytes.fromhex("00000000018bcfe56800")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_golden_bytes():
    assert mirrormaker2_records.encode_heartbeat(BEAT) == (KEY, VALUE)
    assert mirrormaker2_records.decode_heartbeat(KEY, VALUE) == BEAT


@given(
    st.builds(
        Heartbeat,
        source=texts,
        target=texts,
        at_ms=st.integers(-(1 << 63), (1 << 63) - 1),
    )
)
def test_what_was_encoded_is_decoded(beat):
    assert (
        mirrormaker2_records.decode_heartbeat(*mirrormaker2_records.encode_heartbeat(beat)) == beat
    )


def test_what_stands_behind_is_not_looked_at():
    assert mirrormaker2_records.decode_heartbeat(KEY + b"x", VALUE + b"x") == BEAT


def test_cut_bytes_are_malformed():
    for size in range(len(KEY)):
        with pytest.raises(MalformedRecordError):
            mirrormaker2_records.decode_heartbeat(KEY[:size], VALUE)
    for size in range(len(VALUE)):
        with pytest.raises(MalformedRecordError):
            mirrormaker2_records.decode_heartbeat(KEY, VALUE[:size])


def test_another_version_is_refused():
    with pytest.raises(UnknownRecordVersionError):
        mirrormaker2_records.decode_heartbeat(KEY, b"\0\1" + VALUE[2:])
