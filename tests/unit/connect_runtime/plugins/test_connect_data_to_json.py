from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins.connect_data_to_json import DecimalFormat, JsonWriter

Builder = SchemaBuilder
ORDER = (
    Builder.struct()
    .field("field1", schema.BOOLEAN_SCHEMA)
    .field("field2", Builder.string().default("x"))
    .build()
)


@pytest.mark.parametrize(
    ("described", "text"),
    [
        (schema.BOOLEAN_SCHEMA, '{"type":"boolean","optional":false}'),
        (schema.OPTIONAL_INT8_SCHEMA, '{"type":"int8","optional":true}'),
        (schema.FLOAT32_SCHEMA, '{"type":"float","optional":false}'),
        (schema.FLOAT64_SCHEMA, '{"type":"double","optional":false}'),
        (
            Builder.boolean().name("b").version(3).doc("d").parameter("f", "g").default(True),
            '{"type":"boolean","optional":false,"name":"b","version":3,"doc":"d",'
            '"parameters":{"f":"g"},"default":true}',
        ),
        (
            Builder.array(schema.INT32_SCHEMA),
            '{"type":"array","items":{"type":"int32","optional":false},"optional":false}',
        ),
        (
            Builder.map(schema.STRING_SCHEMA, schema.OPTIONAL_BYTES_SCHEMA).optional(),
            '{"type":"map","keys":{"type":"string","optional":false},'
            '"values":{"type":"bytes","optional":true},"optional":true}',
        ),
        (
            ORDER,
            '{"type":"struct","fields":[{"type":"boolean","optional":false,"field":"field1"},'
            '{"type":"string","optional":false,"default":"x","field":"field2"}],"optional":false}',
        ),
        (
            logical_types.decimal_builder(2).default(Decimal("1.56")),
            '{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal",'
            '"version":1,"parameters":{"scale":"2"},"default":"AJw="}',
        ),
        (None, "null"),
    ],
)
def test_schemas(described, text):
    built = described.build() if isinstance(described, Builder) else described
    writer = JsonWriter()
    assert writer.format_schema(built) == text
    assert writer.format_schema(built) == text


@pytest.mark.parametrize(
    ("described", "value", "text"),
    [
        (schema.INT64_SCHEMA, 4398046511104, "4398046511104"),
        (schema.FLOAT32_SCHEMA, 12.34, "12.34"),
        (schema.FLOAT64_SCHEMA, 1e10, "1.0E10"),
        (schema.FLOAT64_SCHEMA, math.nan, '"NaN"'),
        (schema.FLOAT64_SCHEMA, -math.inf, '"-Infinity"'),
        (schema.BYTES_SCHEMA, b"test-string", '"dGVzdC1zdHJpbmc="'),
        (schema.BYTES_SCHEMA, memoryview(b"\xff\xff"), '"//8="'),
        (schema.STRING_SCHEMA, "a\n", '"a\\n"'),
        (Builder.array(schema.INT32_SCHEMA).build(), [1, 2, 3], "[1,2,3]"),
        (
            Builder.map(schema.STRING_SCHEMA, schema.INT32_SCHEMA).build(),
            {"key1": 12, "key2": 15},
            '{"key1":12,"key2":15}',
        ),
        (
            Builder.map(schema.OPTIONAL_STRING_SCHEMA, schema.INT32_SCHEMA).build(),
            {None: 12},
            '{"null":12}',
        ),
        (
            Builder.map(schema.INT32_SCHEMA, schema.INT32_SCHEMA).build(),
            {1: 12, 2: 15},
            "[[1,12],[2,15]]",
        ),
        (ORDER, Struct(ORDER, {"field1": True}), '{"field1":true,"field2":"x"}'),
        (logical_types.decimal_schema(2), Decimal("1.56"), '"AJw="'),
        (logical_types.DATE_SCHEMA, datetime.date(1997, 5, 19), "10000"),
        (logical_types.TIME_SCHEMA, datetime.time(4), "14400000"),
        (
            logical_types.TIMESTAMP_SCHEMA,
            datetime.datetime(1970, 2, 16, 7, 6, 40, tzinfo=datetime.UTC),
            "4000000000",
        ),
        (schema.OPTIONAL_STRING_SCHEMA, None, "null"),
        (Builder.string().default("d").build(), None, '"d"'),
        (None, None, "null"),
        (None, True, "true"),
        (None, 12, "12"),
        (None, 12.24, "12.24"),
        (None, [1, "string", True, None], '[1,"string",true,null]'),
        (None, {"key1": 12, "key2": {"x": None}}, '{"key1":12,"key2":{"x":null}}'),
        (
            None,
            {"string": 12, 52: "string", False: True},
            '[["string",12],[52,"string"],[false,true]]',
        ),
        (None, b"x", '"eA=="'),
    ],
)
def test_values(described, value, text):
    assert JsonWriter().format_value(described, value) == text


@pytest.mark.parametrize(
    ("described", "value"),
    [
        (schema.BOOLEAN_SCHEMA, 1),
        (schema.INT8_SCHEMA, "1"),
        (schema.INT8_SCHEMA, 128),
        (schema.STRING_SCHEMA, None),
        (Builder.array(schema.INT32_SCHEMA).build(), "x"),
        (Builder.map(schema.STRING_SCHEMA, schema.INT32_SCHEMA).build(), [1]),
        (ORDER, {"field1": True}),
        (ORDER, Struct(Builder.struct().build())),
        (None, Struct(ORDER)),
        (None, Decimal("1.2")),
        (None, 2**63),
        (logical_types.decimal_schema(2), 1.5),
        (logical_types.decimal_schema(2), Decimal("1.5")),
        (logical_types.DATE_SCHEMA, 5),
        (logical_types.TIME_SCHEMA, 5),
        (logical_types.TIMESTAMP_SCHEMA, 5),
    ],
)
def test_what_cannot_be_written(described, value):
    with pytest.raises(DataError):
        JsonWriter().format_value(described, value)


@pytest.mark.parametrize(
    ("scale", "value", "text"),
    [(2, "1.56", "1.56"), (4, "1.5600", "1.5600"), (-3, "1E+3", "1E+3"), (9, "1E-9", "1E-9")],
)
def test_decimals_as_numbers(scale, value, text):
    writer = JsonWriter(decimal_format=DecimalFormat.NUMERIC)
    assert writer.format_value(logical_types.decimal_schema(scale), Decimal(value)) == text
    with pytest.raises(DataError):
        writer.format_value(logical_types.decimal_schema(scale), Decimal("NaN"))


def test_null_may_stay_null_where_there_is_a_default():
    writer = JsonWriter(default_for_null=False)
    described = Builder.string().optional().default("d").build()
    assert writer.format_value(described, None) == "null"
    with pytest.raises(DataError, match="required"):
        writer.format_value(Builder.string().default("d").build(), None)
