"""Whole documents in and out, as in the peer's JsonConverterTest, with its numbers."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import SchemaAndValue
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import compatible_kafka_version
from connect_runtime.plugins.json_converter import JsonConverter

Builder = SchemaBuilder
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NAMES = {
    "Decimal": {"type": "bytes", "version": 1, "parameters": {"scale": "2"}},
    "Date": {"type": "int32", "version": 1},
    "Time": {"type": "int32", "version": 1},
    "Timestamp": {"type": "int64", "version": 1},
}
BUILDERS = {
    "Decimal": lambda: logical_types.decimal_builder(2),
    "Date": logical_types.date_builder,
    "Time": logical_types.time_builder,
    "Timestamp": logical_types.timestamp_builder,
}


def made(**configs: str) -> JsonConverter:
    one = JsonConverter()
    one.configure({name.replace("_", "."): value for name, value in configs.items()})
    return one


def read(described: Any, payload: Any, **configs: str) -> SchemaAndValue:
    document = {"schema": described, "payload": payload}
    return made(**configs).decode(json.dumps(document).encode())


# Logical types, with and without default


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("Decimal", "AJw=", Decimal("1.56")),
        ("Date", 0, EPOCH.date()),
        ("Date", 10_000, datetime.date(1997, 5, 19)),
        ("Time", 0, datetime.time()),
        ("Time", 14_400_000, datetime.time(4)),
        ("Timestamp", 42, EPOCH + datetime.timedelta(milliseconds=42)),
        ("Timestamp", 4_000_000_000, EPOCH + datetime.timedelta(seconds=4_000_000)),
    ],
)
def test_logical_values_may_be_absent_or_have_a_default(
    kind: str, written: Any, value: Any
) -> None:
    described = NAMES[kind] | {"name": f"org.apache.kafka.connect.data.{kind}"}
    builder = BUILDERS[kind]
    expected = SchemaAndValue(builder().build(), value)
    assert read(described, written) == expected
    assert json.loads(made().encode(expected) or b"") == {
        "schema": described | {"optional": False},
        "payload": written,
    }
    optional = described | {"optional": True}
    absent = SchemaAndValue(builder().optional().build(), None)
    assert read(optional, None) == absent
    with_default = builder().default(value).build()
    assert read(described | {"default": written}, None).value == value
    assert read(described | {"default": written}, None).schema == with_default
    both = read(optional | {"default": written}, None)
    assert both == SchemaAndValue(builder().optional().default(value).build(), value)
    kept = read(optional | {"default": written}, None, replace_null_with_default="false")
    assert kept.value is None


def test_a_decimal_keeps_more_digits_than_a_double_has() -> None:
    described = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "17"},
    }
    document = b'{"schema":%s,"payload":1.23456789123456789}' % json.dumps(described).encode()
    found = made().decode(document)
    assert found == SchemaAndValue(logical_types.decimal_schema(17), Decimal("1.23456789123456789"))
    numeric = made(decimal_format="NUMERIC").encode(found)
    assert numeric is not None
    assert numeric.endswith(b'"payload":1.23456789123456789}')


# Numbers


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int8", "0012", 12),
        ("int16", "000123", 123),
        ("int32", "000012345", 12_345),
        ("int64", "00000123456789", 123_456_789),
    ],
)
def test_numbers_may_have_zeros_in_front(kind: str, text: str, value: int) -> None:
    document = f'{{ "schema": {{ "type": "{kind}" }}, "payload": {text} }}'
    assert made().decode(document.encode()).value == value


# Structs


PAIR = (
    Builder.struct()
    .field("optional", schema.OPTIONAL_STRING_SCHEMA)
    .field("required", schema.STRING_SCHEMA)
    .build()
)


def test_an_optional_field_may_be_missing() -> None:
    fields = [
        {"field": "optional", "type": "string", "optional": True},
        {"field": "required", "type": "string"},
    ]
    found = read({"type": "struct", "fields": fields}, {"required": "required"})
    expected = Struct(PAIR, {"required": "required"})
    assert found == SchemaAndValue(PAIR, expected)


@pytest.mark.parametrize(("replaced", "value"), [("true", "default"), ("false", None)])
def test_a_field_of_null_is_its_default_where_that_is_wished(
    replaced: str, value: str | None
) -> None:
    """serializeFieldNullTo*, deserializeFieldNullTo*."""
    text = Builder.string().optional().default("default").build()
    described = Builder.struct().field("field1", text).build()
    written = {
        "schema": {
            "type": "struct",
            "fields": [
                {"type": "string", "optional": True, "default": "default", "field": "field1"}
            ],
            "optional": False,
        },
        "payload": {"field1": value},
    }
    one = made(replace_null_with_default=replaced)
    null = Struct(described)
    assert json.loads(one.encode(SchemaAndValue(described, null)) or b"") == written
    found = read(written["schema"], {"field1": None}, replace_null_with_default=replaced)
    assert found.schema == described
    assert isinstance(found.value, Struct)
    assert found.value.get_without_default("field1") == value


def test_a_struct_of_an_equal_schema_is_written() -> None:
    same = (
        Builder.struct()
        .field("optional", schema.OPTIONAL_STRING_SCHEMA)
        .field("required", schema.STRING_SCHEMA)
        .build()
    )
    data = SchemaAndValue(PAIR, Struct(same, {"required": "r"}))
    assert json.loads(made().encode(data) or b"")["payload"] == {"optional": None, "required": "r"}


# Without schemas


def test_objects_without_a_schema_keep_what_is_empty() -> None:
    found = made(schemas_enable="false").decode(b'{ "a": "", "b": null}')
    assert found == SchemaAndValue(None, {"a": "", "b": None})


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (None, None),
        (True, True),
        (12, 12),
        (12.24, 12.24),
        ("a string", "a string"),
        ([1, "2", 3], [1, "2", 3]),
        ({"field1": 1, "field2": 2}, {"field1": 1, "field2": 2}),
    ],
)
def test_a_schema_of_null_takes_anything(payload: Any, value: Any) -> None:
    assert read(None, payload) == SchemaAndValue(None, value)


@pytest.mark.parametrize(
    ("described", "value"), [(schema.FLOAT64_SCHEMA, True), (None, Decimal("1.56"))]
)
def test_what_its_schema_does_not_describe_is_refused(described: Any, value: Any) -> None:
    with pytest.raises(DataError):
        made().encode(SchemaAndValue(described, value))


# What is remembered


def test_schemas_that_are_read_are_remembered_as_they_were_written() -> None:
    one, sizes = made(), []
    for more in ("", "", ',"optional":true', ',"optional":false'):
        one.decode(f'{{"schema":{{"type":"boolean"{more}}},"payload":true}}'.encode())
        sizes.append(one.cached_schemas[1])
    assert sizes == [1, 1, 2, 3]


def test_schemas_that_are_written_are_remembered_by_what_they_are() -> None:
    one, sizes = made(), [made().cached_schemas[0]]
    for builder in (Builder.boolean(), Builder.boolean(), Builder.boolean().optional()):
        one.encode(SchemaAndValue(builder.build(), True))
        sizes.append(one.cached_schemas[0])
    assert sizes == [0, 1, 1, 2]


def test_a_workers_own_properties_are_no_mistake() -> None:
    one = made(
        schemas_enable="true",
        schemas_cache_size="50",
        bootstrap_servers="h:1",
        converter_type="key",
    )
    assert one.encode(SchemaAndValue(schema.INT8_SCHEMA, 1)) is not None
    assert one.version() == compatible_kafka_version.KAFKA_VERSION
