from __future__ import annotations

import pytest

from connect_runtime.api import errors, schema
from connect_runtime.builtin.converters import string


def made(**configs: str) -> string.StringConverter:
    one = string.StringConverter()
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
    assert made().encode(schema.SchemaAndValue(None, value)) == payload


def test_what_is_read_is_text():
    optional = schema.OPTIONAL_STRING_SCHEMA
    assert made().decode(b"a string") == schema.SchemaAndValue(optional, "a string")
    assert made().decode(None) == schema.SchemaAndValue(optional, None)
    assert made().decode(b"\xff").value == "\ufffd"


def test_other_character_sets():
    latin = made(converter_encoding="ISO-8859-1")
    assert latin.encode(schema.SchemaAndValue(None, "\u00e9\u20ac")) == b"\xe9?"
    assert latin.decode(b"\xe9").value == "\u00e9"
    with pytest.raises(errors.ConfigError, match="no such character set"):
        made(converter_encoding="klingon")
