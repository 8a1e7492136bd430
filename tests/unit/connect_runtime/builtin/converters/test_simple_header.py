from __future__ import annotations

from connect_runtime.api import schema
from connect_runtime.builtin.converters import json, simple_header

ONE = simple_header.SimpleHeaderConverter()


def test_values_are_written_as_text_and_guessed_back():
    data = schema.SchemaAndValue(schema.INT16_SCHEMA, 300)
    assert ONE.from_connect_header("t", "k", data) == b"300"
    assert ONE.to_connect_header("t", "k", b"300") == data
    assert ONE.from_connect_header("t", "k", schema.NOTHING) is None
    assert ONE.to_connect_header("t", "k", None) == schema.NOTHING


def test_what_is_no_text_are_bytes():
    found = ONE.to_connect_header("t", "k", b"\xff\x00")
    assert found == schema.SchemaAndValue(schema.BYTES_SCHEMA, b"\xff\x00")


def test_a_mixed_list_can_be_written_as_json():
    found = ONE.to_connect_header("t", "k", b'[1, "two"]')
    as_json = json.JsonConverter().encode(found)
    assert as_json == (
        b'{"schema":{"type":"array","items":null,"optional":false},"payload":[1,"two"]}'
    )
