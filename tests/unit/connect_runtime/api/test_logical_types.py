from __future__ import annotations

import datetime
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema, SchemaType

Decimal = decimal.Decimal
UTC = datetime.UTC


@pytest.mark.parametrize(
    ("text", "scale", "stored"),
    [
        ("1.56", 2, b"\x00\x9c"),
        ("-1.56", 2, b"\xff\x64"),
        ("0", 0, b"\x00"),
        ("127", 0, b"\x7f"),
        ("128", 0, b"\x00\x80"),
        ("-128", 0, b"\x80"),
        ("-129", 0, b"\xff\x7f"),
        ("1E+3", -3, b"\x01"),
        ("1.5600", 4, b"\x3c\xf0"),
    ],
)
def test_a_decimal_is_its_unscaled_number(text, scale, stored):
    described = logical_types.decimal_schema(scale)
    assert logical_types.decimal_from_logical(described, Decimal(text)) == stored
    back = logical_types.decimal_to_logical(described, stored)
    assert back.as_tuple() == Decimal(text).as_tuple()


@given(unscaled=st.integers(-(2**200), 2**200), scale=st.integers(-50, 50))
def test_decimals_come_back_exactly(unscaled, scale):
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    described = logical_types.decimal_schema(scale)
    stored = logical_types.decimal_from_logical(described, value)
    assert int.from_bytes(stored, "big", signed=True) == unscaled
    assert logical_types.decimal_to_logical(described, stored).as_tuple() == value.as_tuple()


def test_decimals_are_never_rounded():
    described = logical_types.decimal_schema(2)
    for wrong in ("1.5", "1.567", "NaN", "Infinity"):
        with pytest.raises(DataError):
            logical_types.decimal_from_logical(described, Decimal(wrong))
    with pytest.raises(DataError, match="has scale 2, value has scale 1"):
        logical_types.decimal_from_logical(described, Decimal("1.5"))


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("-2147483648", -(2**31)),
        ("+2", 2),
        ("007", 7),
        ("2147483648", None),
        ("00000000002", None),
        (" 2", None),
        ("2\n", None),
        ("1_0", None),
        ("\u0662", None),
        ("", None),
        (" " * 1_000_000 + "2", None),
    ],
)
def test_a_scale_is_a_short_number_without_blanks(text, scale):
    described = Schema(type=SchemaType.BYTES, name=schema.DECIMAL_NAME, parameters={"scale": text})
    if scale is not None:
        assert logical_types.read_scale(described) == scale
        return
    with pytest.raises(DataError, match="Invalid scale parameter"):
        logical_types.read_scale(described)


def test_a_decimal_schema_has_a_scale():
    assert logical_types.decimal_schema(2).parameters == {"scale": "2"}
    bare = Schema(type=SchemaType.BYTES, name=schema.DECIMAL_NAME)
    wrong = Schema(type=SchemaType.BYTES, name=schema.DECIMAL_NAME, parameters={"scale": "x"})
    for each in (bare, wrong):
        with pytest.raises(DataError, match="scale"):
            logical_types.read_scale(each)
    with pytest.raises(DataError):
        logical_types.decimal_to_logical(logical_types.decimal_schema(2), b"")


def test_dates_are_days():
    for days, date in ((10000, datetime.date(1997, 5, 19)), (-1, datetime.date(1969, 12, 31))):
        assert logical_types.date_from_logical(logical_types.DATE_SCHEMA, date) == days
        assert logical_types.date_to_logical(logical_types.DATE_SCHEMA, days) == date
    with pytest.raises(DataError, match="time fields"):
        logical_types.date_from_logical(
            logical_types.DATE_SCHEMA, datetime.datetime(1970, 1, 1, tzinfo=UTC)
        )
    with pytest.raises(DataError, match="1 to 9999"):
        logical_types.date_to_logical(logical_types.DATE_SCHEMA, 2**31 - 1)


def test_times_are_milliseconds_of_a_day():
    time = datetime.time(23, 59, 59, 999_000)
    assert logical_types.time_from_logical(logical_types.TIME_SCHEMA, time) == 86_399_999
    assert logical_types.time_to_logical(logical_types.TIME_SCHEMA, 86_399_999) == time
    assert (
        logical_types.time_from_logical(logical_types.TIME_SCHEMA, datetime.time(4)) == 14_400_000
    )
    for wrong in (-1, 86_400_000):
        with pytest.raises(DataError):
            logical_types.time_to_logical(logical_types.TIME_SCHEMA, wrong)


def test_timestamps_are_milliseconds_since_the_epoch():
    instant = datetime.datetime(1970, 2, 16, 7, 6, 40, tzinfo=UTC)
    assert (
        logical_types.timestamp_from_logical(logical_types.TIMESTAMP_SCHEMA, instant)
        == 4_000_000_000
    )
    assert (
        logical_types.timestamp_to_logical(logical_types.TIMESTAMP_SCHEMA, 4_000_000_000) == instant
    )
    with pytest.raises(DataError, match="time zone"):
        logical_types.timestamp_from_logical(
            logical_types.TIMESTAMP_SCHEMA, instant.replace(tzinfo=None)
        )
    with pytest.raises(DataError, match="1 to 9999"):
        logical_types.timestamp_to_logical(logical_types.TIMESTAMP_SCHEMA, 2**63 - 1)


def test_another_zone_is_the_same_instant_and_microseconds_are_dropped():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    instant = datetime.datetime(1970, 1, 1, 2, 0, 0, 1999, tzinfo=zone)
    assert logical_types.timestamp_from_logical(logical_types.TIMESTAMP_SCHEMA, instant) == 1
    early = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)
    assert logical_types.timestamp_from_logical(logical_types.TIMESTAMP_SCHEMA, early) == -1


@given(stored=st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_every_timestamp_that_python_holds_comes_back(stored):
    instant = logical_types.timestamp_to_logical(logical_types.TIMESTAMP_SCHEMA, stored)
    assert logical_types.timestamp_from_logical(logical_types.TIMESTAMP_SCHEMA, instant) == stored


def test_each_asks_for_its_own_schema():
    for wrong in (
        lambda: logical_types.date_to_logical(logical_types.TIME_SCHEMA, 1),
        lambda: logical_types.time_to_logical(logical_types.DATE_SCHEMA, 1),
        lambda: logical_types.timestamp_to_logical(schema.INT64_SCHEMA, 1),
    ):
        with pytest.raises(DataError, match="does not match"):
            wrong()
    assert logical_types.TIMESTAMP_SCHEMA.version == 1
