from __future__ import annotations

import encodings

import pytest

from connect_runtime.api import schema
from connect_runtime.api.errors import ConfigError, DataError
from connect_runtime.api.records import Headers
from connect_runtime.api.schema import SchemaAndValue
from connect_runtime.plugins.simple_converters import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    SchemalessConverter,
    ShortConverter,
    StringConverter,
)

ONE = ByteArrayConverter()


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x")])
@pytest.mark.parametrize("described", [None, schema.BYTES_SCHEMA, schema.OPTIONAL_BYTES_SCHEMA])
def test_bytes_go_through(value, described):
    assert ONE.encode(SchemaAndValue(described, value)) == b"x"


def test_null_stays_null():
    assert ONE.encode(SchemaAndValue(schema.BYTES_SCHEMA, None)) is None
    assert ONE.decode(None) == SchemaAndValue(schema.OPTIONAL_BYTES_SCHEMA, None)
    assert ONE.decode(b"x") == SchemaAndValue(schema.OPTIONAL_BYTES_SCHEMA, b"x")


def test_nothing_else_does():
    with pytest.raises(DataError, match="Invalid schema type for ByteArrayConverter: INT8"):
        ONE.encode(SchemaAndValue(schema.INT8_SCHEMA, 1))
    with pytest.raises(DataError, match="not compatible with objects of type str"):
        ONE.encode(SchemaAndValue(schema.BYTES_SCHEMA, "x"))


@pytest.mark.parametrize(
    ("kind", "value", "payload", "described"),
    [
        (ShortConverter, -2, b"\xff\xfe", schema.OPTIONAL_INT16_SCHEMA),
        (IntegerConverter, 1, b"\x00\x00\x00\x01", schema.OPTIONAL_INT32_SCHEMA),
        (LongConverter, -1, b"\xff" * 8, schema.OPTIONAL_INT64_SCHEMA),
        (FloatConverter, 1.5, b"\x3f\xc0\x00\x00", schema.OPTIONAL_FLOAT32_SCHEMA),
        (
            DoubleConverter,
            1.5,
            b"\x3f\xf8\x00\x00\x00\x00\x00\x00",
            schema.OPTIONAL_FLOAT64_SCHEMA,
        ),
        (BooleanConverter, True, b"\x01", schema.OPTIONAL_BOOLEAN_SCHEMA),
        (BooleanConverter, False, b"\x00", schema.OPTIONAL_BOOLEAN_SCHEMA),
    ],
)
def test_each_writes_and_reads_its_type(kind, value, payload, described):
    one = kind()
    one.configure({}, is_key=True)
    assert one.encode(SchemaAndValue(described, value)) == payload
    assert one.encode(SchemaAndValue(described, None)) is None
    assert one.decode(payload) == SchemaAndValue(described, value)
    assert one.decode(None) == SchemaAndValue(described, None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ShortConverter, 40000),
        (IntegerConverter, "1"),
        (LongConverter, True),
        (FloatConverter, 1e39),
        (DoubleConverter, 1),
        (BooleanConverter, 1),
    ],
)
def test_other_values_are_refused(kind, value):
    with pytest.raises(DataError):
        kind().encode(SchemaAndValue(None, value))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (ShortConverter, b"\x00"),
        (IntegerConverter, b""),
        (LongConverter, b"123456789"),
        (BooleanConverter, b"\x02"),
        (BooleanConverter, b"\x00\x00"),
    ],
)
def test_other_bytes_are_refused(kind, payload):
    with pytest.raises(DataError, match="Failed to deserialize"):
        kind().decode(payload)


def test_a_truth_value_has_its_schema():
    with pytest.raises(DataError, match="Invalid schema type for BooleanConverter: INT8"):
        BooleanConverter().encode(SchemaAndValue(schema.INT8_SCHEMA, True))


class Reversed(SchemalessConverter):
    def apply_config(self, config):
        self.config_seen = config

    def encode(self, data):
        return data.value[::-1]

    def decode(self, payload):
        return SchemaAndValue(None, payload[::-1])


def test_keys_values_and_headers_are_treated_alike():
    one = Reversed()
    data = SchemaAndValue(None, b"abc")
    assert one.from_connect_data("t", data, Headers()) == b"cba"
    assert one.from_connect_header("t", "k", data) == b"cba"
    assert one.to_connect_data("t", b"cba", Headers()) == data
    assert one.to_connect_header("t", "k", b"cba") == data


def test_it_is_told_what_it_converts():
    one = Reversed()
    one.configure({}, is_key=True)
    assert one.config_seen == {"converter.type": "key"}
    one.configure({"converter.type": "header"})
    assert one.config_seen == {"converter.type": "header"}
    with pytest.raises(ConfigError):
        one.configure({"converter.type": "x"})


def made(**configs: str) -> StringConverter:
    one = StringConverter()
    one.configure({name.replace("_", "."): value for name, value in configs.items()})
    return one


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        ("a string", b"a string"),
        ("\u00e9", b"\xc3\xa9"),
        (12, b"12"),
        (True, b"true"),
        (None, None),
    ],
)
def test_any_value_is_written_as_text(value, payload):
    assert made().encode(SchemaAndValue(None, value)) == payload


def test_what_is_read_is_text():
    optional = schema.OPTIONAL_STRING_SCHEMA
    assert made().decode(b"a string") == SchemaAndValue(optional, "a string")
    assert made().decode(None) == SchemaAndValue(optional, None)
    assert made().decode(b"\xff").value == "\ufffd"


def test_other_character_sets():
    latin = made(converter_encoding="ISO-8859-1")
    assert latin.encode(SchemaAndValue(None, "\u00e9\u20ac")) == b"\xe9?"
    assert latin.decode(b"\xe9").value == "\u00e9"
    with pytest.raises(ConfigError, match="unknown charset"):
        made(converter_encoding="klingon")


@pytest.mark.parametrize(
    "name",
    ["UTF-8", "utf8", "UTF-16", "UTF-16BE", "US-ASCII", "ISO-8859-1", "ISO8859_1", "Cp1252"],
)
def test_charsets_of_java_are_accepted_by_their_names(name):
    encoded = made(converter_encoding=name).encode(SchemaAndValue(None, "a"))
    assert encoded.strip(b"\xff\xfe\0") == b"a"


@pytest.mark.parametrize(
    "name", ["windows-1252", "IBM850", "Shift_JIS", "EUC-JP", "GB18030", "Big5", "KOI8-R", "GBK"]
)
def test_charsets_of_other_languages_are_accepted(name):
    assert made(converter_encoding=name).decode(b"a").value == "a"


@pytest.mark.parametrize("name", ["", "punycode", "idna", "utf-7", "rot13", "hex", "mbcs", "a\0b"])
def test_codecs_that_java_does_not_have_are_refused(name):
    with pytest.raises(ConfigError, match="unknown charset; use a charset that Java and Python"):
        made(converter_encoding=name)


def test_an_unknown_charset_leaves_nothing_in_memory_and_its_error_is_short():
    known = len(encodings._cache)
    for number in range(3):
        with pytest.raises(ConfigError) as refused:
            made(converter_encoding=f"{number}" + "x" * 1_000_000)
        assert len(str(refused.value)) < 300
        with pytest.raises(ConfigError):
            made(converter_encoding=f"klingon{number}")
    with pytest.raises(ConfigError):
        made(converter_encoding="utf-8" + "-" * 40)
    assert len(encodings._cache) == known
