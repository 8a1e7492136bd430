from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.storage import offset_file_format
from connect_runtime.storage.offset_file_format import MalformedOffsetFile

HEADER = (
    "aced0005"
    "737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72"
    "4900097468726573686f6c647870"
)
EMPTY = HEADER + "3f4000000000000077080000001000000000" + "78"
BYTES_CLASS = "7200025b42acf317f8060854e00200007870"
ONE = (
    HEADER + "3f4000000000000c77080000001000000001"
    + "75" + BYTES_CLASS + "00000003" + "6b6579"
    + "75" + "71007e0002" + "00000002" + "7b7d"
    + "78"
)  # fmt: skip
"""As Java wrote them: an empty map, and {"key": "{}"}."""


def test_the_file_is_written_as_java_writes_it():
    assert offset_file_format.encode_offsets({}).hex() == EMPTY
    assert offset_file_format.encode_offsets({b"key": b"{}"}).hex() == ONE


def test_what_java_wrote_is_read():
    assert offset_file_format.decode_offsets(bytes.fromhex(EMPTY)) == {}
    assert offset_file_format.decode_offsets(bytes.fromhex(ONE)) == {b"key": b"{}"}


def test_an_empty_file_has_no_offsets():
    assert offset_file_format.decode_offsets(b"") == {}


def test_deleted_offsets_are_left_out_and_one_array_may_stand_for_another():
    entries = (
        "75" + BYTES_CLASS + "0000000161" + "70"  # "a": null
        + "75" + "71007e0002" + "0000000162" + "71007e0003"  # "b": the array of the key "a"
    )  # fmt: skip
    data = HEADER + "3f4000000000000c77080000001000000002" + entries + "78"
    assert offset_file_format.decode_offsets(bytes.fromhex(data)) == {b"b": b"a"}


@given(st.dictionaries(st.binary(max_size=20), st.binary(max_size=20), max_size=30))
def test_what_is_written_is_read_back_in_its_order(offsets):
    data = offset_file_format.encode_offsets(offsets)
    assert list(offset_file_format.decode_offsets(data).items()) == list(offsets.items())


@pytest.mark.parametrize(
    ("entries", "buckets", "threshold"), [(12, 16, 12), (13, 32, 24), (25, 64, 48)]
)
def test_the_table_is_as_large_as_java_makes_it(entries, buckets, threshold):
    data = offset_file_format.encode_offsets(
        {str(each).encode(): b"" for each in range(entries)}
    ).hex()
    sizes = f"3f400000{threshold:08x}7708{buckets:08x}{entries:08x}"
    assert data.startswith(HEADER + sizes)


@pytest.mark.parametrize("length", range(1, len(ONE) // 2))
def test_a_file_that_ends_early_is_told_and_not_taken_for_an_empty_one(length):
    with pytest.raises(MalformedOffsetFile, match="malformed offset file: byte"):
        offset_file_format.decode_offsets(bytes.fromhex(ONE)[:length])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("aced", "beef", "a Java object stream"),
        ("6a617661", "6a617662", "a java.util.HashMap"),
        ("77080000001000000001", "770800000010ffffffff", "a map of -1 entries"),
        ("00000003" + "6b6579", "fffffff0" + "6b6579", "an array of length -16"),
        ("71007e0002", "71007e0001", r"an array whose type is not byte\[\]"),
        (BYTES_CLASS, "7200025b43" + BYTES_CLASS[10:], r"the class descriptor of byte\[\]"),
        (
            "75" + "71007e0002" + "00000002" + "7b7d",
            "71007e0002",
            "an object that is not a byte array",
        ),
        (
            "75" + "71007e0002" + "00000002" + "7b7d",
            "7100000000",
            "an object that is not a byte array",
        ),
        ("75" + "71007e0002" + "00000002" + "7b7d", "73", "not 0x73"),
    ],
)
def test_anything_but_a_map_of_bytes_is_refused(old, new, reason):
    assert old in ONE
    with pytest.raises(MalformedOffsetFile, match=reason):
        offset_file_format.decode_offsets(bytes.fromhex(ONE.replace(old, new)))
