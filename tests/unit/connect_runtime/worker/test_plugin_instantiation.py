from __future__ import annotations

import pytest

from connect_runtime.api.connector import SourceConnector
from connect_runtime.api.errors import ConfigError, ConnectError
from connect_runtime.config import worker_config
from connect_runtime.plugins import file_stream, plugin_discovery
from connect_runtime.plugins.json_converter import JsonConverter
from connect_runtime.plugins.simple_converters import StringConverter
from connect_runtime.worker import plugin_instantiation
from connect_runtime.worker.plugin_instantiation import InstalledPlugins
from tests.fakes import odd_plugins
from tests.fakes.odd_plugins import NoPlugin, Odd, OddSource

INSTALLED = plugin_discovery.discover_plugins(file_paths=["/"])


class Mine(SourceConnector):
    def version(self):
        raise OSError("no")

    def task_class(self):
        return str

    def start(self, props): ...
    def stop(self): ...
    def config(self): ...
    def task_configs(self, max_tasks): ...


def test_what_stands_in_for_a_java_class_goes_by_its_name():
    made = INSTALLED.find_plugin_class("FileStreamSink", *plugin_instantiation.CONNECTOR_KINDS)()
    java = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    assert type(made).__module__ == file_stream.__name__
    assert (
        plugin_instantiation.find_java_class_name(
            type(made), INSTALLED, *plugin_instantiation.CONNECTOR_KINDS
        )
        == java
    )
    assert plugin_instantiation.get_task_class_name(made, INSTALLED) == java.replace(
        "Connector", "Task"
    )
    assert plugin_instantiation.collect_connector_attributes(made, INSTALLED) == {
        "connector-type": "sink",
        "connector-class": java,
        "connector-version": made.version(),
    }


def test_a_source_may_have_a_converter_of_its_own():
    assert plugin_instantiation.get_default_converter(Mine()) is None
    made = Mine()
    made.default_converter = "Bytes"  # type: ignore[misc]  # what a class of its own would say
    assert plugin_instantiation.get_default_converter(made) == "Bytes"
    sink = INSTALLED.find_plugin_class("FileStreamSink", *plugin_instantiation.CONNECTOR_KINDS)()
    assert plugin_instantiation.get_default_converter(sink) is None


def test_what_is_nobodys_has_its_own_name_and_whatever_version():
    made = Mine()
    assert (
        plugin_instantiation.find_java_class_name(
            Mine, INSTALLED, *plugin_instantiation.CONNECTOR_KINDS
        )
        is None
    )
    assert plugin_instantiation.get_task_class_name(made, INSTALLED) == "builtins.str"
    assert plugin_instantiation.collect_connector_attributes(made, INSTALLED) == {
        "connector-type": "source",
        "connector-class": f"{__name__}.Mine",
        "connector-version": "",
    }


def test_a_version_that_is_no_text_is_none():
    class Odd:
        def version(self):
            return 7

    assert plugin_instantiation.get_plugin_version(Odd()) is None


JSON = "org.apache.kafka.connect.json.JsonConverter"


def plugins(**more):
    given = {
        "bootstrap.servers": "a:1",
        "key.converter": JSON,
        "value.converter": "Gone",
        "offset.storage.file.filename": "f",
    }
    given |= {name.replace("_", "."): value for name, value in more.items()}
    worker = worker_config.parse_standalone_config(given)
    return InstalledPlugins(odd_plugins.installed(), worker=worker)


def test_a_class_of_any_kind_is_loaded_and_nothing_else():
    found = plugins()
    assert found.load_class("JsonConverter") is JsonConverter
    assert found.load_class("OddSource") is OddSource
    assert found.load_class("tests.fakes.odd_plugins.NoPlugin") is NoPlugin
    with pytest.raises(LookupError):
        found.load_class("Nope")
    with pytest.raises(ConfigError):
        found.find_plugin_class("Nope")


def test_classes_have_the_names_of_java():
    found = plugins()
    assert found.get_displayed_class_name(JsonConverter) == JSON
    assert found.get_displayed_class_name(NoPlugin) == "tests.fakes.odd_plugins.NoPlugin"


def test_what_a_connector_gets_in_place_of_what_it_leaves():
    choices = plugins().get_converter_choices({"value.converter": "StringConverter"})
    key, value = choices["key.converter"], choices["value.converter"]
    assert (key.default, key.default_version) == (JsonConverter, "4.3.1")
    assert (value.default, value.default_version) == (None, "4.3.1")
    assert key.available[StringConverter] == "4.3.1"
    assert choices["header.converter"].default is not None
    stated = plugins(key_converter_plugin_version="[4,)").get_converter_choices({})["key.converter"]
    assert stated.default_version == "[4,)"
    wrong = plugins().get_converter_choices({"key.converter": "OddSource"})["key.converter"]
    assert (wrong.default, wrong.default_version) == (JsonConverter, None)
    own = plugins(key_converter_plugin_version="9").get_converter_choices(
        {}, default="StringConverter"
    )
    for name in ("key.converter", "value.converter"):
        found = own[name]
        assert (found.default, found.default_version) == (StringConverter, "4.3.1")
    assert own["header.converter"] == choices["header.converter"]
    nothing = plugins().get_converter_choices()["key.converter"]
    assert (nothing.default, nothing.default_version) == (None, None)


DOES = Odd.does


@pytest.fixture
def plugin():
    odd_plugins.installed()
    return OddSource()


def test_what_it_has_is_given(plugin):
    assert plugin_instantiation.get_config_def(plugin) is odd_plugins.KEYS
    [value] = plugin_instantiation.validate_connector_config(plugin, {"odd": "x"})
    assert value.name == "odd"
    assert plugin_instantiation.list_plugin_versions(plugin) == ("2.1",)


def test_its_mistakes_name_it(plugin):
    DOES["OddSource.config"] = ValueError()
    with pytest.raises(ConnectError, match=r"odd_plugins\.OddSource\.config\(\) failed: V"):
        plugin_instantiation.get_config_def(plugin)


def test_it_cannot_change_what_it_is_given():
    class Greedy(OddSource):
        def validate(self, props):
            props.clear()
            return []

    props = {"a": "1"}
    assert plugin_instantiation.validate_connector_config(Greedy(), props) == []
    assert props == {"a": "1"}


@pytest.mark.parametrize("version", [ValueError(), SystemExit(), None, 7, "undefined"])
def test_a_version_may_be_missing(plugin, version):
    DOES["OddSource.version"] = version
    assert plugin_instantiation.list_plugin_versions(plugin) == ()
    plugin_instantiation.check_plugin_version(plugin, "odd", None)


def test_a_version_that_is_wanted_must_be_there(plugin):
    plugin_instantiation.check_plugin_version(plugin, "odd", "[2,3)")
    with pytest.raises(ConfigError, match="Plugin odd not found"):
        plugin_instantiation.check_plugin_version(plugin, "odd", "3")
