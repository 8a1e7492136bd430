from __future__ import annotations

import pytest

from connect_runtime.api import config_def, config_validators
from connect_runtime.core.task import connector_keys, plugin_keys, worker_config
from connect_runtime.runtime import converter_validation, installed_plugins
from tests.fakes import odd_plugins

JSON = "org.apache.kafka.connect.json.JsonConverter"
DOES = odd_plugins.Odd.does


@pytest.fixture
def plugins():
    worker = worker_config.standalone(
        {
            "bootstrap.servers": "a:1",
            "key.converter": JSON,
            "value.converter": JSON,
            "offset.storage.file.filename": "f",
        }
    )
    return installed_plugins.InstalledPlugins(odd_plugins.installed(), worker=worker)


def validated(plugins, **more):
    config = {"name": "n", "connector.class": "x"}
    config |= {name.replace("_", "."): value for name, value in more.items()}
    keys = plugin_keys.enriched(
        connector_keys.SOURCE, connector_version=None, choices=plugins.choices(config)
    )
    values = keys.validate_all(config, load=plugins.load)
    infos = converter_validation.validate(config, values, plugins=plugins)
    told = {name: value.error_messages for name, value in values.items() if value.error_messages}
    return infos, told


def test_those_of_the_worker_are_not_looked_at(plugins):
    infos, told = validated(plugins, key_converter_schemas_enable="odd")
    assert (infos.configs, infos.groups, told) == ((), (), {})


def test_own_keys_have_the_prefix(plugins):
    infos, told = validated(
        plugins,
        key_converter=JSON,
        key_converter_schemas_enable="odd",
        value_converter="OddConverter",
    )
    values = {each.value.name: each.value for each in infos.configs}
    definitions = {each.definition.name for each in infos.configs if each.definition}
    assert told == {}
    assert definitions == set(values)
    assert values["key.converter.converter.type"].value == "key"
    assert values["key.converter.schemas.enable"].errors == (
        "Invalid value odd for configuration schemas.enable: Expected value to be either true or"
        " false",
    )
    assert values["value.converter.odd"].errors == (
        'Missing required configuration "odd" which has no default value.',
    )
    assert infos.error_count == 2
    assert set(infos.groups) == {"Schemas", "Serialization", "Odd"}


class Boom(Exception):
    def __str__(self):
        return "out of paper"


def explode(name, value):
    raise Boom


BAD = config_def.ConfigDef().define(
    "a", config_def.Type.STRING, "", validator=config_validators.Lambda(explode, "")
)


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ({"__init__": Boom()}, "Failed to load class odd.OddConverter: "),
        ({"config": Boom()}, "Failed to load ConfigDef from value converter: "),
        ({"config": 7}, "Failed to load ConfigDef from value converter: "),
        ({"config": BAD}, "Failed to perform config validation for value converter: "),
        ({"close": Boom()}, None),
        ({"version": Boom()}, None),
    ],
)
def test_one_that_fails_is_an_error_on_its_key(plugins, does, told):
    DOES.update({f"OddConverter.{name}": what for name, what in does.items()})
    infos, found = validated(
        plugins, value_converter="OddConverter", value_converter_odd="1", key_converter=JSON
    )
    assert len(infos.configs) == (6 if told else 7)
    if told is None:
        assert found == {}
        return
    [message] = found.pop("value.converter")
    assert message.startswith(told)
    assert found == {}


def test_a_version_must_be_there(plugins):
    _, told = validated(plugins, key_converter=JSON, key_converter_plugin_version="9")
    assert set(told) == {"key.converter", "key.converter.plugin.version"}
    _, told = validated(plugins, key_converter=JSON, key_converter_plugin_version="[9")
    assert set(told) == {"key.converter.plugin.version"}
    _, told = validated(plugins, key_converter=JSON, key_converter_plugin_version="4.3.1")
    assert told == {}


def test_a_class_of_another_kind_is_told_so(plugins):
    infos, told = validated(plugins, key_converter="OddSource", header_converter="OddConverter")
    assert infos.configs == ()
    assert "does not implement the Converter interface" in told["key.converter"][0]
    assert "does not implement the HeaderConverter interface" in told["header.converter"][0]
