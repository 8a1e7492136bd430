from __future__ import annotations

import datetime
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import schema
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import java_value_formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.34, "-12.34"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1234567.5, "1234567.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e16, "1.0E16"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles(value, text):
    assert java_value_formatting.format_double(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.34, "12.34"),
        (0.1, "0.1"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1.0e10, "1.0E10"),
        (3.4028234663852886e38, "3.4028235E38"),
        (1e39, "Infinity"),
        (1.401298464324817e-45, "1.4E-45"),
        (16777216.0, "1.6777216E7"),
        (math.nan, "NaN"),
    ],
)
def test_floats_have_the_digits_that_32_bits_need(value, text):
    assert java_value_formatting.format_float(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_read_back_exactly(value):
    assert float(java_value_formatting.format_double(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_read_back_exactly(value):
    back = float(java_value_formatting.format_float(value))
    assert struct.pack(">f", back) == struct.pack(">f", value)


@pytest.mark.parametrize(
    ("value", "narrow"), [(12.34, 12.34000015258789), (1e39, math.inf), (-1e39, -math.inf)]
)
def test_32_bits_hold_less(value, narrow):
    assert java_value_formatting.narrow_to_float32(value) == narrow


def test_everything_else():
    described = (
        SchemaBuilder.struct()
        .field("a", schema.INT8_SCHEMA)
        .field("b", schema.OPTIONAL_STRING_SCHEMA)
        .field("c", schema.BOOLEAN_SCHEMA)
        .build()
    )
    for value, text in [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        ("text", "text"),
        (Decimal("1.50"), "1.50"),
        ([1, None, "x"], "[1, null, x]"),
        ({"a": 1, "b": [False]}, "{a=1, b=[false]}"),
        (Struct(described, {"a": 1, "c": True}), "Struct{a=1,c=true}"),
        (b"caf\xc3\xa9\xff", "caf\u00e9\\xff"),
        (datetime.date(2024, 5, 6), "2024-05-06"),
    ]:
        assert java_value_formatting.format_value(value) == text
