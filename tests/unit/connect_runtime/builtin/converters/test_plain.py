from __future__ import annotations

import pytest

from connect_runtime.api import errors, headers, schema
from connect_runtime.builtin.converters import plain


class Reversed(plain.PlainConverter):
    def set_up(self, config):
        self.config_seen = config

    def encode(self, data):
        return data.value[::-1]

    def decode(self, payload):
        return schema.SchemaAndValue(None, payload[::-1])


def test_keys_values_and_headers_are_treated_alike():
    one = Reversed()
    data = schema.SchemaAndValue(None, b"abc")
    assert one.from_connect_data("t", data, headers.Headers()) == b"cba"
    assert one.from_connect_header("t", "k", data) == b"cba"
    assert one.to_connect_data("t", b"cba", headers.Headers()) == data
    assert one.to_connect_header("t", "k", b"cba") == data


def test_it_is_told_what_it_converts():
    one = Reversed()
    one.configure({}, is_key=True)
    assert one.config_seen == {"converter.type": "key"}
    one.configure({"converter.type": "header"})
    assert one.config_seen == {"converter.type": "header"}
    with pytest.raises(errors.ConfigError):
        one.configure({"converter.type": "x"})
