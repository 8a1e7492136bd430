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

from connect_runtime.api import logical, schema, schema_builder
from connect_runtime.builtin import text_parsing, text_values
from tests.support import examples

Builder = schema_builder.SchemaBuilder
UTC = datetime.UTC
DAY = datetime.date(2019, 8, 23)
TIME = datetime.time(14, 34, 54, 346000)
INSTANT = datetime.datetime.combine(DAY, TIME, UTC)


def array(of: schema.Schema | None) -> schema.Schema:
    return schema.Schema(type=schema.Type.ARRAY, elements=of)


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
    assert text_parsing.parse(text) == schema.SchemaAndValue(schema.STRING_SCHEMA, text)


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
        ("9223372036854775808", logical.decimal_schema(0), Decimal(2**63)),
        ("1e999999999", logical.decimal_schema(-999999999), Decimal("1E+999999999")),
        ("2019-08-23", logical.DATE_SCHEMA, DAY),
        ("14:34:54.346Z", logical.TIME_SCHEMA, TIME),
        ("14\\:34\\:54.346Z", logical.TIME_SCHEMA, TIME),
        ("2019-08-23T14:34:54.346Z", logical.TIMESTAMP_SCHEMA, INSTANT),
    ],
)
def test_single_values(text, described, value):
    found = text_parsing.parse(text)
    assert found == schema.SchemaAndValue(described, value)
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
        ("[14:34:54.346Z]", array(logical.TIME_SCHEMA), [TIME]),
        ('["2019-08-23"]', array(logical.DATE_SCHEMA), [DAY]),
        (
            '[2019-08-23T14:34:54.346Z, "2019-08-23T14:34:54.346Z"]',
            array(logical.TIMESTAMP_SCHEMA),
            [INSTANT, INSTANT],
        ),
    ],
)
def test_lists(text, described, value):
    found = text_parsing.parse(text)
    assert found == schema.SchemaAndValue(described, value)
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
        ('{"a":{}}', schema.STRING_SCHEMA, schema.Schema(type=schema.Type.MAP), {"a": {}}),
        ('{"t":14:34:54.346Z}', schema.STRING_SCHEMA, logical.TIME_SCHEMA, {"t": TIME}),
    ],
)
def test_maps(text, keys, values, value):
    described = schema.Schema(type=schema.Type.MAP, keys=keys, elements=values)
    assert text_parsing.parse(text) == schema.SchemaAndValue(described, value)


@given(st.text(alphabet=st.sampled_from('0123456789.e-+:,{}[]"\\ tZnul'), max_size=40))
def test_any_text_means_something(text):
    found = text_parsing.parse(text)
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
    text = text_values.to_text(None, [value])
    assert text is not None
    found = text_parsing.parse(text).value
    assert text_values.to_text(None, found) == text


PLAIN_TOKEN = re.compile(r'(?:\\.|\\\Z|[^\\:,{}\[\]"])+|[:,{}\[\]"]', re.DOTALL)
"""Without possessive repetitions, as simple as it can be written."""


def parsed_plainly(text):
    tokens = PLAIN_TOKEN.findall(text)
    first = next((each for each in tokens if each.strip()), "").strip()
    if text.strip() not in text_parsing._WORDS and first in ("[", "{"):
        with contextlib.suppress(text_parsing._NoValueError):
            return text_parsing._Parser(tokens).value(0)
        return schema.SchemaAndValue(schema.STRING_SCHEMA, text)
    return None


@hypothesis.settings(max_examples=examples.of(1_500))
@given(st.text(st.sampled_from('[]{}:,"\\ \n\x85\u2003a1.-tn'), max_size=14))
def test_tokens_are_found_as_by_the_plain_expression(text):
    assert text_parsing._TOKEN.findall(text) == PLAIN_TOKEN.findall(text)
    for each in (text, f"[{text}]", f"{{{text}}}", f" [1,{text},2]"):
        plain = parsed_plainly(each)
        if plain is not None:
            assert text_parsing.parse(each) == plain
        else:
            assert not each.strip().startswith(("[", "{"))


@pytest.mark.parametrize("begin", ["", "[", '["', "x:", "\\"])
@pytest.mark.parametrize("part", ["a", "\\a", "a\\", " ", "é\\:"])
def test_a_long_text_takes_little_memory(begin, part):
    text = begin + part * (1_000_000 // len(part))
    tracemalloc.start()
    try:
        assert text_parsing.parse(text).value == text
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * len(text)
