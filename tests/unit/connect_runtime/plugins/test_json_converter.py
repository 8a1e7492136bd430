from __future__ import annotations

import contextlib
import decimal
import time

import pytest

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import ConfigError, DataError
from connect_runtime.api.records import Headers
from connect_runtime.api.schema import SchemaAndValue
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import header_converter, java_value_formatting
from connect_runtime.plugins.json_converter import JsonConverter

Builder = SchemaBuilder


def made(**configs: str) -> JsonConverter:
    one = JsonConverter()
    one.configure({name.replace("_", "."): value for name, value in configs.items()})
    return one


def plain() -> JsonConverter:
    return made(schemas_enable="false")


def test_with_schemas_the_envelope_holds_both():
    data = SchemaAndValue(schema.OPTIONAL_STRING_SCHEMA, "x")
    payload = b'{"schema":{"type":"string","optional":true},"payload":"x"}'
    assert made().encode(data) == payload
    assert made().decode(payload) == data
    one = made()
    assert one.from_connect_data("t", data, Headers()) == payload
    assert one.to_connect_header("t", "h", payload) == data


def test_with_schemas_there_may_be_none():
    assert made().encode(SchemaAndValue(None, True)) == b'{"schema":null,"payload":true}'
    assert made().decode(b'{"schema":null,"payload":12.24}') == SchemaAndValue(None, 12.24)


def test_without_schemas_the_data_is_alone():
    data = SchemaAndValue(schema.INT32_SCHEMA, 12)
    assert plain().encode(data) == b"12"
    assert plain().decode(b"12") == SchemaAndValue(None, 12)
    optional = SchemaAndValue(schema.OPTIONAL_INT32_SCHEMA, None)
    assert plain().encode(optional) == b"null"


@pytest.mark.parametrize("one", [made(), plain()])
def test_a_tombstone_stays_one(one):
    assert one.encode(schema.NULL_SCHEMA_AND_VALUE) is None
    assert one.decode(None) == schema.NULL_SCHEMA_AND_VALUE


def test_empty_bytes_are_null_without_schemas_and_wrong_with_them():
    assert plain().decode(b"") == schema.NULL_SCHEMA_AND_VALUE
    with pytest.raises(DataError):
        made().decode(b"")


@pytest.mark.parametrize(
    "payload",
    [b"{}", b"1", b'{"schema":null}', b'{"payload":1}', b'{"schema":null,"payload":1,"more":1}'],
)
def test_with_schemas_nothing_but_an_envelope_is_read(payload):
    with pytest.raises(DataError, match=r"set schemas\.enable=false"):
        made().decode(payload)


def test_schemas_are_remembered_up_to_a_limit():
    one = made(schemas_cache_size="2")
    for text in ('"boolean"', '"boolean"', '"boolean","optional":true', '"int8"'):
        payload = f'{{"schema":{{"type":{text}}},"payload":1}}'
        one.decode(payload.replace("1}", "true}" if "boolean" in text else "1}").encode())
    assert one.cached_schemas == (0, 2)
    for described in (schema.BOOLEAN_SCHEMA, schema.BOOLEAN_SCHEMA):
        one.encode(SchemaAndValue(described, True))
    assert one.cached_schemas == (1, 2)


def test_one_schema_may_be_given_for_all_that_is_read():
    one = made(schema_content='{"type":"struct","fields":[{"field":"a","type":"int8"}]}')
    built = Builder.struct().field("a", schema.INT8_SCHEMA).build()
    found = one.decode(b'{"a": 5}')
    assert found == SchemaAndValue(built, Struct(built, {"a": 5}))
    with pytest.raises(ConfigError, match=r"configuration schema\.content"):
        made(schema_content='{"type":"nothing"}')


def test_nulls_and_defaults():
    described = Builder.string().optional().default("default").build()
    null = SchemaAndValue(described, None)
    head = b'{"schema":{"type":"string","optional":true,"default":"default"},"payload":'
    assert made().encode(null) == head + b'"default"}'
    kept = made(replace_null_with_default="false")
    assert kept.encode(null) == head + b"null}"
    assert made().decode(head + b"null}").value == "default"
    assert kept.decode(head + b"null}").value is None


def test_its_configuration():
    with pytest.raises(ConfigError, match="String must be one of \\(case insensitive\\)"):
        made(decimal_format="roman")
    made(decimal_format="numeric")
    definition = JsonConverter().config()
    assert definition.groups == ["Schemas", "Serialization"]
    assert {name for name, key in definition.keys.items() if not key.has_default} == {
        "converter.type"
    }


DECIMAL = (
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",'
    '"parameters":{"scale":"%s"}},"payload":"%s"}'
)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (DECIMAL % (2, "f" * 8000), "at most 4,300 digits"),
        (DECIMAL % (2**31, "AQ=="), "Invalid scale"),
        (DECIMAL % (-(2**31) - 1, "AQ=="), "Invalid scale"),
        (DECIMAL % (10**30, "AQ=="), "Invalid scale"),
    ],
)
def test_decimals_beyond_what_can_be_held_are_wrong_data(payload, told):
    with pytest.raises(DataError, match=told):
        made().decode(payload.encode())


def test_the_longest_decimal_is_written_and_read():
    number = decimal.Decimal("-" + "9" * 4298)
    data = SchemaAndValue(logical_types.decimal_schema(0), number)
    payload = made().encode(data)
    assert payload is not None
    assert made().decode(payload).value == number
    longer = SchemaAndValue(logical_types.decimal_schema(0), decimal.Decimal("9" * 4301))
    with pytest.raises(DataError, match="at most 4,300 digits"):
        made().encode(longer)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_whatever_is_accepted_can_be_written(opening, closing):
    def nested(levels):
        return (opening * levels + "1" + closing * levels).encode()

    found = plain().decode(nested(200))
    assert plain().encode(found) == nested(200)
    assert java_value_formatting.format_value(found.value).count("1") == 1
    assert header_converter.format_value(None, found.value) == nested(200).decode()
    with pytest.raises(DataError, match="nested more than 200 levels deep"):
        plain().decode(nested(201))


@pytest.mark.parametrize("element", ["{}", "[]", "0", "null", "1.5", '""'])
def test_a_large_list_is_read_in_a_short_time(element):
    payload = f"[{','.join([element] * 330_000)}]".encode()
    start_s = time.thread_time()
    assert len(plain().decode(payload).value) == 330_000
    assert time.thread_time() - start_s < 1.5


@pytest.mark.parametrize("levels", [400, 700, 999, 5_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_too_deeply_is_wrong_data(levels, opening, closing):
    """Where exactly that begins depends on the depth of the caller: it is never another error."""
    nested = opening * levels + "1" + closing * levels
    described = '{"type":"array","items":' * levels + '{"type":"int8"}' + "}" * levels
    for one, payload in (
        (plain(), nested),
        (made(), f'{{"schema":{described},"payload":null}}'),
        (made(), f'{{"schema":null,"payload":{nested}}}'),
    ):
        with contextlib.suppress(DataError):
            one.decode(payload.encode())
    with pytest.raises(DataError):
        plain().decode((opening * 5_000 + "1" + closing * 5_000).encode())


def test_a_list_that_is_nested_too_deeply_is_not_written():
    value: list[object] = [1]
    for _ in range(5_000):
        value = [value]
    with pytest.raises(DataError, match="nested too deeply"):
        plain().encode(SchemaAndValue(None, value))
