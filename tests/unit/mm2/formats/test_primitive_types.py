from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import primitive_types
from mm2.formats.primitive_types import (
    FieldReader,
    MalformedRecordError,
    StringTooLongError,
    UnknownRecordVersionError,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(texts, st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_what_was_written_is_read(text, small, large):
    data = (
        primitive_types.encode_int64(large)
        + primitive_types.encode_string(text)
        + primitive_types.encode_int32(small)
    )
    reader = FieldReader(data)
    assert (reader.read_int64(), reader.read_string(), reader.read_int32()) == (large, text, small)


def test_golden_bytes():
    assert primitive_types.encode_string("orders") == b"\0\x06orders"
    assert primitive_types.encode_string("ü") == b"\0\x02\xc3\xbc"
    assert primitive_types.encode_int16(-2) == b"\xff\xfe"
    assert primitive_types.encode_int32(7) == b"\0\0\0\x07"


def test_the_longest_text_has_32767_bytes():
    assert len(primitive_types.encode_string("x" * 32_767)) == 32_769
    with pytest.raises(StringTooLongError, match="32768 bytes"):
        primitive_types.encode_string("x" * 32_768)
    with pytest.raises(StringTooLongError):
        primitive_types.encode_string("ü" * 16_384)


def test_what_is_no_text_is_replaced_as_in_java():
    assert primitive_types.encode_string("a\ud800b") == b"\0\x03a?b"
    assert FieldReader(b"\0\x03a\xffb").read_string() == "a\ufffdb"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x01", b"\0\x05abcd", b"\xff\xff", b"\x80\x00a"])
def test_texts_that_are_cut_short_or_of_no_length_are_malformed(data):
    with pytest.raises(MalformedRecordError):
        FieldReader(data).read_string()


@pytest.mark.parametrize(
    ("field", "size"), [("read_int16", 2), ("read_int32", 4), ("read_int64", 8)]
)
def test_numbers_that_are_cut_short_are_malformed(field, size):
    assert getattr(FieldReader(bytes(size)), field)() == 0
    for less in range(size):
        with pytest.raises(MalformedRecordError, match=f"but only {less} bytes are left"):
            getattr(FieldReader(bytes(less)), field)()


def test_an_unknown_version_is_refused():
    FieldReader(b"\0\0").check_version(0)
    with pytest.raises(UnknownRecordVersionError, match="version 1, expected 0"):
        FieldReader(b"\0\1").check_version(0)
    with pytest.raises(MalformedRecordError):
        FieldReader(b"\0").check_version(0)


U64_MAX = (1 << 64) - 1


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "80 01"),
        (300, "ac 02"),
        (16_383, "ff 7f"),
        (16_384, "80 80 01"),
        (U64_MAX, "ff ff ff ff ff ff ff ff ff 01"),
    ],
)
def test_unsigned_golden_bytes(value, data):
    out = bytearray()
    primitive_types.append_unsigned_varint(out, value)
    assert out.hex(" ") == data
    assert primitive_types.read_unsigned_varint(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "80 01"),
        (-65, "81 01"),
        ((1 << 63) - 1, "fe ff ff ff ff ff ff ff ff 01"),
        (-(1 << 63), "ff ff ff ff ff ff ff ff ff 01"),
    ],
)
def test_signed_golden_bytes(value, data):
    out = bytearray()
    primitive_types.append_varint(out, value)
    assert out.hex(" ") == data
    assert primitive_types.read_varint(bytes(out), 0) == (value, len(out))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), st.binary(max_size=5))
def test_signed_numbers_in_a_row_are_read_back(values, before):
    out = bytearray(before)
    for value in values:
        primitive_types.append_varint(out, value)
    at, read = len(before), []
    for _ in values:
        value, at = primitive_types.read_varint(bytes(out), at)
        read.append(value)
    assert (read, at) == (values, len(out))


@given(st.integers(0, U64_MAX))
def test_unsigned_numbers_are_read_back(value):
    out = bytearray()
    primitive_types.append_unsigned_varint(out, value)
    assert primitive_types.read_unsigned_varint(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_a_number_that_ends_inside_is_refused(data):
    with pytest.raises(IndexError):
        primitive_types.read_unsigned_varint(data, 0)


def test_a_number_of_more_than_ten_bytes_is_refused():
    with pytest.raises(ValueError, match="more than 64 bits before byte 10"):
        primitive_types.read_unsigned_varint(b"\x80" * 10 + b"\x01", 0)


def test_a_tenth_byte_that_reaches_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="more than 64 bits"):
        primitive_types.read_unsigned_varint(b"\xff" * 9 + b"\x02", 0)


@pytest.mark.parametrize("value", [-1, U64_MAX + 1])
def test_what_does_not_fit_is_not_written(value):
    with pytest.raises(AssertionError):
        primitive_types.append_unsigned_varint(bytearray(), value)
