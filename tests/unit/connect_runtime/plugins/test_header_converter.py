from __future__ import annotations

import contextlib
import datetime
import re
import tracemalloc
from decimal import Decimal

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import logical_types, schema
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema, SchemaAndValue, SchemaType
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import header_converter
from connect_runtime.plugins.header_converter import SimpleHeaderConverter
from connect_runtime.plugins.json_converter import JsonConverter
from tests.support import examples

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
            SchemaBuilder.array(schema.FLOAT32_SCHEMA).build(),
            [0.1, 12.34000015258789],
            "[0.1,12.34]",
        ),
        (logical_types.DATE_SCHEMA, datetime.date(2024, 5, 6), "2024-05-06"),
        (logical_types.TIME_SCHEMA, datetime.time(4, 5, 6, 7000), "04:05:06.007Z"),
        (
            logical_types.TIMESTAMP_SCHEMA,
            datetime.datetime(2024, 5, 6, 4, 5, 6, tzinfo=UTC),
            "2024-05-06T04:05:06.000Z",
        ),
        (logical_types.TIMESTAMP_SCHEMA, datetime.datetime(2024, 5, 6, tzinfo=UTC), "2024-05-06"),
    ],
)
def test_texts(described, value, text):
    assert header_converter.format_value(described, value) == text


def test_structs_are_maps_of_their_fields_with_defaults():
    described = (
        SchemaBuilder.struct()
        .field("a", schema.INT8_SCHEMA)
        .field("b", SchemaBuilder.string().default("d"))
        .build()
    )
    struct = Struct(described, {"a": 1})
    assert header_converter.format_value(described, struct) == '{"a":1,"b":"d"}'


def test_what_connect_has_no_type_for():
    with pytest.raises(DataError, match="unexpected value type complex"):
        header_converter.format_value(None, [1j])


Builder = SchemaBuilder
DAY = datetime.date(2019, 8, 23)
TIME = datetime.time(14, 34, 54, 346000)
INSTANT = datetime.datetime.combine(DAY, TIME, UTC)


def array(of: Schema | None) -> Schema:
    return Schema(type=SchemaType.ARRAY, elements=of)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "simple",
        "null=",
        "true}",
        "false]",
        "{foo: 3}",
        "{3: foo}",
        "[foo]",
        "[0 1 2]",
        "{6:9 4:20}",
        "{null: 3}",
        "[1, 2, 3,,,]",
        "[1, null]",
        '["a", null]',
        "[null, 1]",
        "{1:2, 3:null}",
        "[2019-08-23T14:34:54.346Z, 5]",
        "[,1]",
        "{,}",
        "[1",
        "[1, 2",
        '["a',
        '{"a":[}',
        '"quoted"',
        "12:30",
        "5,6",
        "1_0",
        "0x10",
        "2019-99-99",
        "1.2.3",
        "\\",
        "-",
        "[" * 5000,
        "[" * 200 + "]" * 200,
    ],
)
def test_what_makes_no_sense_stays_a_text(text):
    assert header_converter.parse_value(text) == SchemaAndValue(schema.STRING_SCHEMA, text)


@pytest.mark.parametrize(
    ("text", "described", "value"),
    [
        (" null ", None, None),
        ("\n true ", schema.BOOLEAN_SCHEMA, True),
        ("false", schema.BOOLEAN_SCHEMA, False),
        ("127", schema.INT8_SCHEMA, 127),
        ("-129", schema.INT16_SCHEMA, -129),
        ("+32768", schema.INT32_SCHEMA, 32768),
        ("2147483648", schema.INT64_SCHEMA, 2**31),
        ("1e2", schema.INT8_SCHEMA, 100),
        ("5.0", schema.INT8_SCHEMA, 5),
        ("12.34", schema.FLOAT32_SCHEMA, 12.34000015258789),
        ("-1e300", schema.FLOAT64_SCHEMA, -1e300),
        ("1.5e300", schema.FLOAT64_SCHEMA, 1.5e300),
        ("9223372036854775808", logical_types.decimal_schema(0), Decimal(2**63)),
        ("1e999999999", logical_types.decimal_schema(-999999999), Decimal("1E+999999999")),
        ("2019-08-23", logical_types.DATE_SCHEMA, DAY),
        ("14:34:54.346Z", logical_types.TIME_SCHEMA, TIME),
        ("14\\:34\\:54.346Z", logical_types.TIME_SCHEMA, TIME),
        ("2019-08-23T14:34:54.346Z", logical_types.TIMESTAMP_SCHEMA, INSTANT),
    ],
)
def test_single_values(text, described, value):
    found = header_converter.parse_value(text)
    assert found == SchemaAndValue(described, value)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    ("text", "described", "value"),
    [
        ("[]", array(None), []),
        ("[null]", array(None), [None]),
        ("[[]]", array(array(None)), [[]]),
        ("[true, false]", array(schema.BOOLEAN_SCHEMA), [True, False]),
        ("[1, 2, 32768]", array(schema.INT32_SCHEMA), [1, 2, 32768]),
        ("[0.1, 100000000000]", array(schema.FLOAT32_SCHEMA), [0.10000000149011612, 99999997952.0]),
        ("[1, 2.5]", array(schema.FLOAT32_SCHEMA), [1.0, 2.5]),
        ("[2.5e300, 1]", array(schema.FLOAT64_SCHEMA), [2.5e300, 1.0]),
        ('[1, "two"]', array(None), [1, "two"]),
        ('["three", 1, 2]', array(None), ["three", 1, 2]),
        ('["a b", "", "x:y"]', array(schema.STRING_SCHEMA), ["a b", "", "x:y"]),
        ("[14:34:54.346Z]", array(logical_types.TIME_SCHEMA), [TIME]),
        ('["2019-08-23"]', array(logical_types.DATE_SCHEMA), [DAY]),
        (
            '[2019-08-23T14:34:54.346Z, "2019-08-23T14:34:54.346Z"]',
            array(logical_types.TIMESTAMP_SCHEMA),
            [INSTANT, INSTANT],
        ),
    ],
)
def test_lists(text, described, value):
    found = header_converter.parse_value(text)
    assert found == SchemaAndValue(described, value)
    assert [type(each) for each in found.value] == [type(each) for each in value]


@pytest.mark.parametrize(
    ("text", "keys", "values", "value"),
    [
        ("{}", None, None, {}),
        ("{3: null}", schema.INT8_SCHEMA, None, {3: None}),
        (
            "{true: false, false: true}",
            schema.BOOLEAN_SCHEMA,
            schema.BOOLEAN_SCHEMA,
            {True: False, False: True},
        ),
        (
            ' { "foo" :  12345 , "bar" : 0,  "baz" : -4321 }  ',
            schema.STRING_SCHEMA,
            schema.INT16_SCHEMA,
            {"foo": 12345, "bar": 0, "baz": -4321},
        ),
        ('{1:1, 300:300, "four":1}', None, None, {1: 1, 300: 300, "four": 1}),
        ('{1:1, 4:"four"}', schema.INT8_SCHEMA, None, {1: 1, 4: "four"}),
        ('{"a":{}}', schema.STRING_SCHEMA, Schema(type=SchemaType.MAP), {"a": {}}),
        ('{"t":14:34:54.346Z}', schema.STRING_SCHEMA, logical_types.TIME_SCHEMA, {"t": TIME}),
    ],
)
def test_maps(text, keys, values, value):
    described = Schema(type=SchemaType.MAP, keys=keys, elements=values)
    assert header_converter.parse_value(text) == SchemaAndValue(described, value)


@given(st.text(alphabet=st.sampled_from('0123456789.e-+:,{}[]"\\ tZnul'), max_size=40))
def test_any_text_means_something(text):
    found = header_converter.parse_value(text)
    assert found.schema is not None or found.value is None


SIMPLE = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.text(alphabet=st.sampled_from("ab: ,{}[]\u00e9"), min_size=1, max_size=4),
)
LISTS_AND_MAPS = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SIMPLE, inner, max_size=3),
    max_leaves=6,
)


@hypothesis.settings(max_examples=examples.of(50))
@given(LISTS_AND_MAPS)
def test_what_was_written_is_understood(value):
    text = header_converter.format_value(None, [value])
    assert text is not None
    found = header_converter.parse_value(text).value
    assert header_converter.format_value(None, found) == text


PLAIN_TOKEN = re.compile(r'(?:\\.|\\\Z|[^\\:,{}\[\]"])+|[:,{}\[\]"]', re.DOTALL)
"""Without possessive repetitions, as simple as it can be written."""


def parsed_plainly(text):
    tokens = PLAIN_TOKEN.findall(text)
    first = next((each for each in tokens if each.strip()), "").strip()
    if text.strip() not in header_converter._KEYWORDS and first in ("[", "{"):
        with contextlib.suppress(header_converter._NoValueError):
            return header_converter._ValueParser(tokens).parse_value_at_depth(0)
        return SchemaAndValue(schema.STRING_SCHEMA, text)
    return None


@hypothesis.settings(max_examples=examples.of(1_500))
@given(st.text(st.sampled_from('[]{}:,"\\ \n\x85\u2003a1.-tn'), max_size=14))
def test_tokens_are_found_as_by_the_plain_expression(text):
    assert header_converter._TOKEN.findall(text) == PLAIN_TOKEN.findall(text)
    for each in (text, f"[{text}]", f"{{{text}}}", f" [1,{text},2]"):
        plain = parsed_plainly(each)
        if plain is not None:
            assert header_converter.parse_value(each) == plain
        else:
            assert not each.strip().startswith(("[", "{"))


@pytest.mark.parametrize("begin", ["", "[", '["', "x:", "\\"])
@pytest.mark.parametrize("part", ["a", "\\a", "a\\", " ", "é\\:"])
def test_a_long_text_takes_little_memory(begin, part):
    text = begin + part * (1_000_000 // len(part))
    tracemalloc.start()
    try:
        assert header_converter.parse_value(text).value == text
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * len(text)


ONE = SimpleHeaderConverter()


def test_values_are_written_as_text_and_guessed_back():
    data = SchemaAndValue(schema.INT16_SCHEMA, 300)
    assert ONE.from_connect_header("t", "k", data) == b"300"
    assert ONE.to_connect_header("t", "k", b"300") == data
    assert ONE.from_connect_header("t", "k", schema.NULL_SCHEMA_AND_VALUE) is None
    assert ONE.to_connect_header("t", "k", None) == schema.NULL_SCHEMA_AND_VALUE


def test_what_is_no_text_are_bytes():
    found = ONE.to_connect_header("t", "k", b"\xff\x00")
    assert found == SchemaAndValue(schema.BYTES_SCHEMA, b"\xff\x00")


def test_a_mixed_list_can_be_written_as_json():
    found = ONE.to_connect_header("t", "k", b'[1, "two"]')
    as_json = JsonConverter().encode(found)
    assert as_json == (
        b'{"schema":{"type":"array","items":null,"optional":false},"payload":[1,"two"]}'
    )


@pytest.mark.parametrize(
    ("start", "more", "end"), [("[", "1,", "1]"), ("", "1", ""), ("", " ", "1")]
)
def test_a_text_that_takes_long_to_parse_is_a_string(start, more, end):
    length = header_converter.PARSED_LENGTH_MAX
    fits = start + more * ((length - len(start + end)) // len(more)) + end
    assert header_converter.parse_value(fits).schema is not schema.STRING_SCHEMA
    longer = " " * (length + 1 - len(fits)) + fits
    found = header_converter.parse_value(longer)
    assert found == SchemaAndValue(schema.STRING_SCHEMA, longer)
