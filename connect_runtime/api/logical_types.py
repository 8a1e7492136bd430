"""Logical types Decimal, Date, Time and Timestamp, encoded as in Java in Connect's primitive types.

A Decimal is a `decimal.Decimal`, a Date a `datetime.date`, a Time a `datetime.time` without a time
zone (UTC time of day), and a Timestamp a `datetime.datetime` with a time zone. Times have
millisecond precision; finer fractions are truncated. DataError is raised for stored values that
Python cannot represent (years outside 1 to 9999).
"""

from __future__ import annotations

import datetime
import decimal
import re

from connect_runtime.api import schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema
from connect_runtime.api.schema_builder import SchemaBuilder

SCALE_FIELD = "scale"
MAX_DECIMAL_DIGITS = 4_300
"""Maximum number of digits of a Decimal. This is Python's limit for converting integers to text,
because the conversion takes quadratic time."""
_MAX_DECIMAL_BYTES = 1_785
"""Maximum size of an encoded Decimal in bytes: no value of this size has more than
`MAX_DECIMAL_DIGITS` digits."""
_SCALE_PATTERN = re.compile(r"[+-]?[0-9]{1,10}")
_DAY_MS = 24 * 60 * 60 * 1000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def decimal_builder(scale: int) -> SchemaBuilder:
    """Create a builder for a Decimal schema with `scale` digits after the decimal point.

    A negative scale stands for trailing zeros before the decimal point.
    """
    builder = SchemaBuilder.bytes().name(schema.DECIMAL_NAME)
    return builder.parameter(SCALE_FIELD, str(scale)).version(1)


def date_builder() -> SchemaBuilder:
    return SchemaBuilder.int32().name(schema.DATE_NAME).version(1)


def time_builder() -> SchemaBuilder:
    return SchemaBuilder.int32().name(schema.TIME_NAME).version(1)


def timestamp_builder() -> SchemaBuilder:
    return SchemaBuilder.int64().name(schema.TIMESTAMP_NAME).version(1)


DATE_SCHEMA = date_builder().build()
TIME_SCHEMA = time_builder().build()
TIMESTAMP_SCHEMA = timestamp_builder().build()


def decimal_schema(scale: int) -> Schema:
    return decimal_builder(scale).build()


def read_scale(described: Schema) -> int:
    """Return the scale of a Decimal schema. Raises DataError if the scale is missing or invalid."""
    text = (described.parameters or {}).get(SCALE_FIELD)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    # The pattern bounds the time per value: `int` would also read any number of blanks or zeros.
    scale = int(text) if _SCALE_PATTERN.fullmatch(text) else None
    if scale is None or not -(1 << 31) <= scale < 1 << 31:
        raise DataError("Invalid scale parameter found in Decimal schema.")
    return scale


def decimal_from_logical(described: Schema, value: decimal.Decimal) -> bytes:
    """Encode a Decimal's unscaled value as the shortest big-endian two's-complement bytes.

    Raises DataError if the scale of the value differs from the scale of the schema. Values are
    never rounded.
    """
    if not value.is_finite():
        raise DataError("A Decimal value must be a number, not NaN or infinite.")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if -exponent != read_scale(described):
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {read_scale(described)}, value has scale {-exponent}."
        )
    if len(digits) > MAX_DECIMAL_DIGITS:
        raise _create_decimal_too_long_error()
    unscaled = int("".join(map(str, digits)))
    if sign:
        unscaled = -unscaled
    bits = unscaled.bit_length() if unscaled >= 0 else (~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def decimal_to_logical(described: Schema, stored: bytes) -> decimal.Decimal:
    if not stored:
        raise DataError("A Decimal value must have at least one byte, but it is empty.")
    if len(stored) > _MAX_DECIMAL_BYTES:
        raise _create_decimal_too_long_error()
    unscaled = int.from_bytes(stored, "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return decimal.Decimal((int(unscaled < 0), digits, -read_scale(described)))


def _create_decimal_too_long_error() -> DataError:
    return DataError(f"A Decimal has at most {MAX_DECIMAL_DIGITS:,} digits.")


def date_from_logical(described: Schema, value: datetime.date) -> int:
    """Convert a date to the number of days since 1970-01-01."""
    _check_logical_type(described, schema.DATE_NAME, "Date")
    if isinstance(value, datetime.datetime):
        raise DataError("Kafka Connect Date type should not have any time fields.")
    return value.toordinal() - _EPOCH.toordinal()


def date_to_logical(described: Schema, days: int) -> datetime.date:
    _check_logical_type(described, schema.DATE_NAME, "Date")
    try:
        return datetime.date.fromordinal(days + _EPOCH.toordinal())
    except (ValueError, OverflowError) as error:
        raise DataError(f"Date {days} is outside the years 1 to 9999.") from error


def time_from_logical(described: Schema, value: datetime.time) -> int:
    """Convert a time of day to milliseconds since midnight."""
    _check_logical_type(described, schema.TIME_NAME, "Time")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def time_to_logical(described: Schema, stored_ms: int) -> datetime.time:
    _check_logical_type(described, schema.TIME_NAME, "Time")
    if not 0 <= stored_ms < _DAY_MS:
        raise DataError(
            f"A Time value must be from 0 to {_DAY_MS - 1} milliseconds, not {stored_ms}."
        )
    return (_EPOCH + stored_ms * _MILLISECOND).time()


def timestamp_from_logical(described: Schema, value: datetime.datetime) -> int:
    """Convert a datetime to milliseconds since 1970-01-01 UTC. Raises DataError if it has no time
    zone."""
    _check_logical_type(described, schema.TIMESTAMP_NAME, "Timestamp")
    if value.tzinfo is None:
        raise DataError("A Timestamp must be a datetime with a time zone, such as UTC.")
    return (value - _EPOCH) // _MILLISECOND


def timestamp_to_logical(described: Schema, stored_ms: int) -> datetime.datetime:
    """Convert milliseconds since 1970-01-01 UTC to a datetime in UTC."""
    _check_logical_type(described, schema.TIMESTAMP_NAME, "Timestamp")
    try:
        return _EPOCH + stored_ms * _MILLISECOND
    except OverflowError as error:
        raise DataError(f"Timestamp {stored_ms} is outside the years 1 to 9999.") from error


def _check_logical_type(described: Schema, name: str, what: str) -> None:
    if described.name != name:
        raise DataError(f"Requested conversion of {what} object but the schema does not match.")
