from __future__ import annotations

from connect_runtime.config import connector_config_keys
from connect_runtime.plugins.header_converter import SimpleHeaderConverter
from connect_runtime.plugins.json_converter import JsonConverter
from connect_runtime.plugins.simple_converters import StringConverter
from connect_runtime.worker import plugin_recommenders
from connect_runtime.worker.plugin_recommenders import ConverterChoice

JSON, STRING = JsonConverter, StringConverter
GIVEN = {"name": "c", "connector.class": "X"}
CHOICE = ConverterChoice(default=JSON, default_version="2", available={STRING: None, JSON: "2"})


def values(config, choice=CHOICE):
    keys = plugin_recommenders.enrich_config_def(
        connector_config_keys.SOURCE, connector_version="7", choices={"key.converter": choice}
    )
    return keys, keys.validate_all({**GIVEN, **config})


def test_what_goes_without_saying_is_shown():
    keys, found = values({})
    assert list(keys.keys) == list(connector_config_keys.SOURCE.keys)
    assert list(keys.groups) == list(connector_config_keys.SOURCE.groups)
    assert found["connector.plugin.version"].value == "7"
    assert found["connector.plugin.version"].recommended_values == ["7"]
    assert found["key.converter"].value is JSON
    assert found["key.converter"].recommended_values == [JSON, STRING]
    assert found["key.converter.plugin.version"].value == "2"
    assert found["key.converter.plugin.version"].recommended_values == ["2"]
    assert found["value.converter"].value is None


def test_versions_follow_the_class_that_was_chosen():
    _, found = values({"key.converter": STRING})
    assert found["key.converter.plugin.version"].recommended_values == []
    assert found["key.converter.plugin.version"].visible
    _, found = values({"key.converter": SimpleHeaderConverter})
    assert found["key.converter.plugin.version"].recommended_values == []
    _, found = values({}, ConverterChoice(available={JSON: "2"}))
    assert found["key.converter"].value is None
    assert not found["key.converter.plugin.version"].visible


def test_a_connector_may_have_no_version():
    keys = plugin_recommenders.enrich_config_def(
        connector_config_keys.SINK, connector_version=None, choices={}
    )
    found = keys.validate_all(GIVEN)["connector.plugin.version"]
    assert (found.value, found.recommended_values, found.visible) == (None, [], True)
