from __future__ import annotations

import pytest

from connect_runtime.api import converter
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.records import Headers
from connect_runtime.api.schema import SchemaAndValue


class Upper(Converter, HeaderConverter):
    """Both at once, as most are."""

    def from_connect_data(self, topic, data, record_headers):
        return data.value.upper()

    def to_connect_data(self, topic, payload, record_headers):
        return SchemaAndValue(None, payload)

    def from_connect_header(self, topic, key, data):
        return data.value

    def to_connect_header(self, topic, key, payload):
        return SchemaAndValue(None, payload)


def test_one_class_may_convert_records_and_headers():
    upper = Upper()
    upper.configure({}, is_key=True)
    data = SchemaAndValue(None, b"a")
    assert upper.from_connect_data("t", data, Headers()) == b"A"
    assert upper.from_connect_header("t", "k", data) == b"a"
    upper.close()


def test_the_type_is_known_to_every_converter():
    definition = converter.create_converter_config_def()
    for is_key, expected in ((True, "key"), (False, "value")):
        configs = converter.add_converter_type({}, is_key=is_key)
        assert definition.parse(configs) == {"converter.type": expected}
    header = converter.add_converter_type({"converter.type": "header"}, is_key=False)
    assert definition.parse(header)["converter.type"] == "header"
    with pytest.raises(ConfigError, match="one of: key, value, header"):
        definition.parse({"converter.type": "footer"})
