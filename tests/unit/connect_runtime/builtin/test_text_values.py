from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from connect_runtime.api import errors, logical, schema, schema_builder, structs
from connect_runtime.builtin import text_values

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("described", "value", "text"),
    [
        (None, None, None),
        (None, True, "true"),
        (None, 12, "12"),
        (schema.FLOAT32_SCHEMA, 12.34, "12.34"),
        (schema.FLOAT32_SCHEMA, 12.34000015258789, "12.34"),
        (schema.FLOAT64_SCHEMA, 12.34000015258789, "12.34000015258789"),
        (None, Decimal("1E+3"), "1E+3"),
        (None, 'say "a\\b"', 'say "a\\b"'),
        (None, b"\xff", "/w=="),
        (None, [1, "x", None, b"\xff"], '[1,"x",null,"/w=="]'),
        (None, ['say "a\\b"'], '["say \\"a\\\\b\\""]'),
        (None, {"a": {"b": 1}, 2: []}, '{"a":{"b":1},2:[]}'),
        (
            schema_builder.SchemaBuilder.array(schema.FLOAT32_SCHEMA).build(),
            [0.1, 12.34000015258789],
            "[0.1,12.34]",
        ),
        (logical.DATE_SCHEMA, datetime.date(2024, 5, 6), "2024-05-06"),
        (logical.TIME_SCHEMA, datetime.time(4, 5, 6, 7000), "04:05:06.007Z"),
        (
            logical.TIMESTAMP_SCHEMA,
            datetime.datetime(2024, 5, 6, 4, 5, 6, tzinfo=UTC),
            "2024-05-06T04:05:06.000Z",
        ),
        (logical.TIMESTAMP_SCHEMA, datetime.datetime(2024, 5, 6, tzinfo=UTC), "2024-05-06"),
    ],
)
def test_texts(described, value, text):
    assert text_values.to_text(described, value) == text


def test_structs_are_maps_of_their_fields_with_defaults():
    described = (
        schema_builder.SchemaBuilder.struct()
        .field("a", schema.INT8_SCHEMA)
        .field("b", schema_builder.SchemaBuilder.string().default("d"))
        .build()
    )
    struct = structs.Struct(described, {"a": 1})
    assert text_values.to_text(described, struct) == '{"a":1,"b":"d"}'


def test_what_connect_has_no_type_for():
    with pytest.raises(errors.DataError, match="unexpected value type complex"):
        text_values.to_text(None, [1j])
