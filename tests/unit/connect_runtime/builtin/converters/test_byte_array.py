from __future__ import annotations

import pytest

from connect_runtime.api import errors, schema
from connect_runtime.builtin.converters import byte_array

ONE = byte_array.ByteArrayConverter()


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x")])
@pytest.mark.parametrize("described", [None, schema.BYTES_SCHEMA, schema.OPTIONAL_BYTES_SCHEMA])
def test_bytes_go_through(value, described):
    assert ONE.encode(schema.SchemaAndValue(described, value)) == b"x"


def test_null_stays_null():
    assert ONE.encode(schema.SchemaAndValue(schema.BYTES_SCHEMA, None)) is None
    assert ONE.decode(None) == schema.SchemaAndValue(schema.OPTIONAL_BYTES_SCHEMA, None)
    assert ONE.decode(b"x") == schema.SchemaAndValue(schema.OPTIONAL_BYTES_SCHEMA, b"x")


def test_nothing_else_does():
    with pytest.raises(errors.DataError, match="Invalid schema type for ByteArrayConverter: INT8"):
        ONE.encode(schema.SchemaAndValue(schema.INT8_SCHEMA, 1))
    with pytest.raises(errors.DataError, match="not compatible with objects of type str"):
        ONE.encode(schema.SchemaAndValue(schema.BYTES_SCHEMA, "x"))
