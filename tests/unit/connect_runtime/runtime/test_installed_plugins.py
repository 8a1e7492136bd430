from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.builtin.converters import json, string
from connect_runtime.core.task import worker_config
from connect_runtime.runtime import installed_plugins
from tests.fakes import odd_plugins

JSON = "org.apache.kafka.connect.json.JsonConverter"


def plugins(**more):
    given = {
        "bootstrap.servers": "a:1",
        "key.converter": JSON,
        "value.converter": "Gone",
        "offset.storage.file.filename": "f",
    }
    given |= {name.replace("_", "."): value for name, value in more.items()}
    worker = worker_config.standalone(given)
    return installed_plugins.InstalledPlugins(odd_plugins.installed(), worker=worker)


def test_a_class_of_any_kind_is_loaded_and_nothing_else():
    found = plugins()
    assert found.load("JsonConverter") is json.JsonConverter
    assert found.load("OddSource") is odd_plugins.OddSource
    assert found.load("tests.fakes.odd_plugins.NoPlugin") is odd_plugins.NoPlugin
    with pytest.raises(LookupError):
        found.load("Nope")
    with pytest.raises(errors.ConfigError):
        found.find("Nope")


def test_classes_have_the_names_of_java():
    found = plugins()
    assert found.name(json.JsonConverter) == JSON
    assert found.name(odd_plugins.NoPlugin) == "tests.fakes.odd_plugins.NoPlugin"


def test_what_a_connector_gets_in_place_of_what_it_leaves():
    choices = plugins().choices({"value.converter": "StringConverter"})
    key, value = choices["key.converter"], choices["value.converter"]
    assert (key.default, key.default_version) == (json.JsonConverter, "4.3.1")
    assert (value.default, value.default_version) == (None, "4.3.1")
    assert key.there_are[string.StringConverter] == "4.3.1"
    assert choices["header.converter"].default is not None
    stated = plugins(key_converter_plugin_version="[4,)").choices({})["key.converter"]
    assert stated.default_version == "[4,)"
    wrong = plugins().choices({"key.converter": "OddSource"})["key.converter"]
    assert (wrong.default, wrong.default_version) == (json.JsonConverter, None)
    own = plugins(key_converter_plugin_version="9").choices({}, default="StringConverter")
    for name in ("key.converter", "value.converter"):
        found = own[name]
        assert (found.default, found.default_version) == (string.StringConverter, "4.3.1")
    assert own["header.converter"] == choices["header.converter"]
    nothing = plugins().choices()["key.converter"]
    assert (nothing.default, nothing.default_version) == (None, None)
