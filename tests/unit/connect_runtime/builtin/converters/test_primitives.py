from __future__ import annotations

import pytest

from connect_runtime.api import errors, schema
from connect_runtime.builtin.converters import primitives


@pytest.mark.parametrize(
    ("kind", "value", "payload", "described"),
    [
        (primitives.ShortConverter, -2, b"\xff\xfe", schema.OPTIONAL_INT16_SCHEMA),
        (primitives.IntegerConverter, 1, b"\x00\x00\x00\x01", schema.OPTIONAL_INT32_SCHEMA),
        (primitives.LongConverter, -1, b"\xff" * 8, schema.OPTIONAL_INT64_SCHEMA),
        (primitives.FloatConverter, 1.5, b"\x3f\xc0\x00\x00", schema.OPTIONAL_FLOAT32_SCHEMA),
        (
            primitives.DoubleConverter,
            1.5,
            b"\x3f\xf8\x00\x00\x00\x00\x00\x00",
            schema.OPTIONAL_FLOAT64_SCHEMA,
        ),
        (primitives.BooleanConverter, True, b"\x01", schema.OPTIONAL_BOOLEAN_SCHEMA),
        (primitives.BooleanConverter, False, b"\x00", schema.OPTIONAL_BOOLEAN_SCHEMA),
    ],
)
def test_each_writes_and_reads_its_type(kind, value, payload, described):
    one = kind()
    one.configure({}, is_key=True)
    assert one.encode(schema.SchemaAndValue(described, value)) == payload
    assert one.encode(schema.SchemaAndValue(described, None)) is None
    assert one.decode(payload) == schema.SchemaAndValue(described, value)
    assert one.decode(None) == schema.SchemaAndValue(described, None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (primitives.ShortConverter, 40000),
        (primitives.IntegerConverter, "1"),
        (primitives.LongConverter, True),
        (primitives.FloatConverter, 1e39),
        (primitives.DoubleConverter, 1),
        (primitives.BooleanConverter, 1),
    ],
)
def test_other_values_are_refused(kind, value):
    with pytest.raises(errors.DataError):
        kind().encode(schema.SchemaAndValue(None, value))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (primitives.ShortConverter, b"\x00"),
        (primitives.IntegerConverter, b""),
        (primitives.LongConverter, b"123456789"),
        (primitives.BooleanConverter, b"\x02"),
        (primitives.BooleanConverter, b"\x00\x00"),
    ],
)
def test_other_bytes_are_refused(kind, payload):
    with pytest.raises(errors.DataError, match="Failed to deserialize"):
        kind().decode(payload)


def test_a_truth_value_has_its_schema():
    with pytest.raises(errors.DataError, match="Invalid schema type for BooleanConverter: INT8"):
        primitives.BooleanConverter().encode(schema.SchemaAndValue(schema.INT8_SCHEMA, True))
