from __future__ import annotations

import datetime
import decimal

import pytest

from connect_runtime.api import logical_types, schema, structs
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import SchemaType
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct

Builder = SchemaBuilder

FLAT = (
    Builder.struct()
    .field("int8", schema.INT8_SCHEMA)
    .field("float32", schema.FLOAT32_SCHEMA)
    .field("string", schema.STRING_SCHEMA)
    .field("maybe", schema.OPTIONAL_STRING_SCHEMA)
    .field("filled", Builder.int32().default(7))
    .build()
)
NOON = datetime.datetime(2024, 5, 6, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("described", "value"),
    [
        (schema.INT8_SCHEMA, -128),
        (schema.INT8_SCHEMA, 127),
        (schema.INT16_SCHEMA, 32767),
        (schema.INT32_SCHEMA, -(2**31)),
        (schema.INT64_SCHEMA, 2**63 - 1),
        (schema.FLOAT32_SCHEMA, 3.4028234663852886e38),
        (schema.FLOAT32_SCHEMA, 3.4028235e38),
        (schema.FLOAT32_SCHEMA, float("inf")),
        (schema.FLOAT64_SCHEMA, 1e300),
        (schema.BOOLEAN_SCHEMA, False),
        (schema.STRING_SCHEMA, ""),
        (schema.BYTES_SCHEMA, b"x"),
        (schema.BYTES_SCHEMA, bytearray(b"x")),
        (schema.BYTES_SCHEMA, memoryview(b"x")),
        (schema.OPTIONAL_STRING_SCHEMA, None),
        (Builder.array(schema.INT8_SCHEMA).build(), [1, 2]),
        (Builder.array(schema.INT8_SCHEMA).build(), ()),
        (Builder.map(schema.STRING_SCHEMA, schema.OPTIONAL_INT8_SCHEMA).build(), {"a": None}),
        (FLAT, Struct(FLAT, {"int8": 1, "float32": 1.0, "string": "s"})),
        (logical_types.decimal_schema(2), decimal.Decimal("1.5")),
        (logical_types.DATE_SCHEMA, datetime.date(2024, 5, 6)),
        (logical_types.TIME_SCHEMA, datetime.time(12)),
        (logical_types.TIMESTAMP_SCHEMA, NOON),
    ],
)
def test_what_fits(described, value):
    structs.validate_value(described, value)


@pytest.mark.parametrize(
    ("described", "value"),
    [
        (schema.INT8_SCHEMA, 128),
        (schema.INT8_SCHEMA, True),
        (schema.INT8_SCHEMA, 1.0),
        (schema.INT16_SCHEMA, -32769),
        (schema.INT32_SCHEMA, 2**31),
        (schema.INT64_SCHEMA, 2**63),
        (schema.FLOAT32_SCHEMA, 1),
        (schema.FLOAT32_SCHEMA, 3.4028236e38),
        (schema.FLOAT64_SCHEMA, "1.0"),
        (schema.BOOLEAN_SCHEMA, 1),
        (schema.STRING_SCHEMA, b"x"),
        (schema.STRING_SCHEMA, None),
        (schema.BYTES_SCHEMA, "x"),
        (Builder.array(schema.INT8_SCHEMA).build(), {1: 2}),
        (Builder.array(schema.INT8_SCHEMA).build(), [1, None]),
        (Builder.array(schema.INT8_SCHEMA).build(), ["1"]),
        (Builder.map(schema.STRING_SCHEMA, schema.INT8_SCHEMA).build(), [1]),
        (Builder.map(schema.STRING_SCHEMA, schema.INT8_SCHEMA).build(), {1: 1}),
        (Builder.map(schema.STRING_SCHEMA, schema.INT8_SCHEMA).build(), {"a": "1"}),
        (FLAT, {"int8": 1}),
        (FLAT, Struct(FLAT)),
        (logical_types.decimal_schema(2), b"\x01"),
        (logical_types.decimal_schema(2), decimal.Decimal("NaN")),
        (logical_types.DATE_SCHEMA, NOON),
        (logical_types.DATE_SCHEMA, 1),
        (logical_types.TIME_SCHEMA, datetime.time(12, tzinfo=datetime.UTC)),
        (logical_types.TIMESTAMP_SCHEMA, NOON.replace(tzinfo=None)),
        (logical_types.TIMESTAMP_SCHEMA, 1),
    ],
)
def test_what_does_not(described, value):
    with pytest.raises(DataError):
        structs.validate_value(described, value)


def test_the_message_says_where_and_never_what():
    nested = Builder.map(schema.STRING_SCHEMA, Builder.array(schema.INT8_SCHEMA)).build()
    with pytest.raises(DataError) as caught:
        structs.validate_value(nested, {"a": [1, "secret"]}, field="outer")
    assert str(caught.value) == (
        "Invalid Python object for schema with type INT8: str for "
        'element of array value of map field: "outer"'
    )
    with pytest.raises(DataError, match="null used for required value, schema type: INT8"):
        structs.validate_value(schema.INT8_SCHEMA, None)
    with pytest.raises(DataError, match=r'schema "org\.apache\.kafka\.connect\.data\.Date"'):
        structs.validate_value(logical_types.DATE_SCHEMA, "2024")


def test_a_struct_checks_each_field_and_fills_in_defaults():
    struct = Struct(FLAT).put("int8", 12).put("string", "s")
    assert struct["int8"] == struct.get("int8") == 12
    assert struct.get("filled") == 7
    assert struct.get_without_default("filled") is None
    assert struct.get("maybe") is None
    with pytest.raises(DataError, match='field: "int8"'):
        struct["int8"] = "12"
    with pytest.raises(DataError, match="nowhere is not a valid field name"):
        struct.get("nowhere")
    with pytest.raises(DataError, match="Not a struct schema"):
        Struct(schema.STRING_SCHEMA)


def test_validate_finds_what_was_never_put():
    struct = Struct(FLAT, {"int8": 12, "string": "s"})
    with pytest.raises(DataError, match='"float32"'):
        struct.validate()
    struct.put("float32", 1.0).validate()


def test_typed_reading_checks_the_schema_and_ignores_defaults():
    struct = Struct(FLAT, {"int8": 12})
    assert struct.get_typed("int8", SchemaType.INT8) == 12
    assert struct.get_typed("filled", SchemaType.INT32) is None
    with pytest.raises(DataError, match="Field 'int8' is not of type INT16"):
        struct.get_typed("int8", SchemaType.INT16)


def test_structs_with_equal_values_are_equal_and_may_be_keys():
    lists = Builder.struct().field("l", Builder.array(schema.INT8_SCHEMA)).build()
    one, two = Struct(lists, {"l": [1, 2]}), Struct(lists, {"l": [1, 2]})
    assert one == two
    assert {one: "x"}[two] == "x"
    assert one != Struct(lists, {"l": [1]})
    other = Builder.struct().field("l", Builder.array(schema.INT16_SCHEMA)).build()
    assert one != Struct(other, {"l": [1, 2]})
    assert repr(one) == "Struct{l=[1, 2]}"


@pytest.mark.parametrize(
    ("value", "of"),
    [
        (True, SchemaType.BOOLEAN),
        (1, SchemaType.INT64),
        (1.0, SchemaType.FLOAT64),
        ("", SchemaType.STRING),
        (b"", SchemaType.BYTES),
        ([], SchemaType.ARRAY),
        ({}, SchemaType.MAP),
        (Struct(FLAT), SchemaType.STRUCT),
        (decimal.Decimal(1), None),
        (NOON, None),
        (object(), None),
    ],
)
def test_what_schemaless_values_are_taken_for(value, of):
    assert structs.infer_schema_type(value) is of
