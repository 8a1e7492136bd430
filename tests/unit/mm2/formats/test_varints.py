from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import varints

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
    varints.append_unsigned(out, value)
    assert out.hex(" ") == data
    assert varints.read_unsigned(bytes(out), 0) == (value, len(out))


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
    varints.append_signed(out, value)
    assert out.hex(" ") == data
    assert varints.read_signed(bytes(out), 0) == (value, len(out))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), st.binary(max_size=5))
def test_signed_numbers_in_a_row_are_read_back(values, before):
    out = bytearray(before)
    for value in values:
        varints.append_signed(out, value)
    at, read = len(before), []
    for _ in values:
        value, at = varints.read_signed(bytes(out), at)
        read.append(value)
    assert (read, at) == (values, len(out))


@given(st.integers(0, U64_MAX))
def test_unsigned_numbers_are_read_back(value):
    out = bytearray()
    varints.append_unsigned(out, value)
    assert varints.read_unsigned(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_a_number_that_ends_inside_is_refused(data):
    with pytest.raises(IndexError):
        varints.read_unsigned(data, 0)


def test_a_number_of_more_than_ten_bytes_is_refused():
    with pytest.raises(ValueError, match="more than 64 bits before byte 10"):
        varints.read_unsigned(b"\x80" * 10 + b"\x01", 0)


def test_a_tenth_byte_that_reaches_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="more than 64 bits"):
        varints.read_unsigned(b"\xff" * 9 + b"\x02", 0)


@pytest.mark.parametrize("value", [-1, U64_MAX + 1])
def test_what_does_not_fit_is_not_written(value):
    with pytest.raises(AssertionError):
        varints.append_unsigned(bytearray(), value)
