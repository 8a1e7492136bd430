"""What is said of a configuration; beside Java it is in tests/interop/test_java_validation.py."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from connect_runtime.api import config_infos, config_types
from connect_runtime.api.config_def import ConfigDef, ConfigKey, ConfigValue, Type
from connect_runtime.api.config_validators import Lambda
from connect_runtime.api.connector import TransactionBoundaries
from connect_runtime.api.errors import ConnectError, NotFoundError
from connect_runtime.config import connector_config_keys, worker_config
from connect_runtime.herder import herder_requests
from connect_runtime.herder.herder_interface import ConnectorType, ConnectRestError, PluginType
from connect_runtime.worker import connector_validation, plugin_recommenders
from connect_runtime.worker.config_provider_secret_masking import ProvidedValues
from connect_runtime.worker.connector_validation import ConnectorValidator
from connect_runtime.worker.plugin_instantiation import InstalledPlugins
from tests.fakes import odd_plugins
from tests.fakes.odd_plugins import Odd, OddSource

JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {"bootstrap.servers": "a:1", "key.converter": JSON, "value.converter": JSON}
GROUP = {
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}
SOURCE = {"name": "n", "connector.class": "OddSource", "odd": "1"}
SINK = {"name": "n", "connector.class": "OddSink", "odd": "1", "topics": "t"}
DOES = Odd.does
ANY_VALUE: Any = ConfigValue
ANY_KEYS: Any = ConfigDef


class OutOfPaperError(Exception): ...


BOOM = OutOfPaperError("out of paper")


def resolve(config):
    return {name: "hush" if value == "${p:k}" else value for name, value in config.items()}


def validating(**more):
    given = {**WORKER, **{name.replace("_", "."): value for name, value in more.items()}}
    return ConnectorValidator(
        installed=odd_plugins.installed(),
        worker=worker_config.parse_distributed_config({**GROUP, **given}),
        resolve=resolve,
    )


@pytest.fixture
def validates():
    return validating()


def wrong(infos):
    values = (each.value for each in infos.configs if each.value is not None)
    return {value.name: value.errors for value in values if value.errors}


def refused(call):
    with pytest.raises(ConnectRestError) as found:
        call()
    assert found.value.status == 400
    return str(found.value)


def test_a_good_configuration(validates):
    infos = validates.validate_connector_config(SOURCE)
    assert (infos.name, infos.error_count, wrong(infos)) == ("OddSource", 0, {})
    assert infos.groups[0] == "Common"
    assert infos.groups[-1] == "Odd"
    names = [each.value.name for each in infos.configs]
    assert names[:3] == ["name", "connector.class", "connector.plugin.version"]
    assert names[-1] == "odd"
    assert herder_requests.describe_config_errors(infos) is None
    values = {each.value.name: each.value for each in infos.configs}
    assert values["connector.plugin.version"].value == "2.1"
    assert values["key.converter"].value == JSON
    assert "odd.OddConverter" in values["key.converter"].recommended_values


def test_all_that_is_wrong_is_told_at_once(validates):
    infos = validates.validate_connector_config(
        {
            **SINK,
            "name": "a\tb",
            "tasks.max": "0",
            "topics.regex": "x",
            "odd": "many",
            "gone": None,
            "errors.tolerance": "all",
            "key.converter": "OddConverter",
            "value.converter": "Nothing",
        }
    )
    found = wrong(infos)
    assert set(found) == {
        "gone",
        "name",
        "tasks.max",
        "topics",
        "topics.regex",
        "errors.tolerance",
        "odd",
        "value.converter",
        "key.converter.odd",
    }
    assert infos.error_count == len(found)
    text = herder_requests.describe_config_errors(infos)
    assert text is not None
    assert "contains the following 9 error(s)" in text


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"password": "hush"}, "Connector config {password} contains no connector type"),
        ({"connector.class": None}, "contains no connector type"),
        ({"connector.class": "Nope"}, "Failed to find any class that implements Connector and"),
        ({"connector.class": JSON}, "available connectors are: .*FileStreamSinkConnector"),
        ({**SOURCE, "connector.plugin.version": "[1"}, "Unbounded range"),
    ],
)
def test_what_cannot_be_validated_is_refused(validates, config, told):
    message = refused(lambda: validates.validate_connector_config(config))
    assert "hush" not in message
    with pytest.raises(ConnectRestError, match=told):
        validates.validate_connector_config(config)


@pytest.mark.parametrize(
    ("method", "does", "told"),
    [
        ("__init__", BOOM, "out of paper"),
        ("config", None, r"config\(\) must return a ConfigDef that is not null"),
        ("config", [1], "ConfigDef, not list"),
        ("config", ANY_KEYS().define("a", Type.INT, 7), "as strings"),
        ("validate", None, "must return a Config that is not null"),
        ("validate", 7, "list of ConfigValue"),
        ("validate", "ab", "list of ConfigValue"),
        ("validate", [ANY_VALUE(name=3)], "list of ConfigValue"),
        ("validate", [ANY_VALUE(name="a", error_messages=[3])], "ConfigValue"),
        ("validate", [ANY_VALUE(name="a", error_messages=None)], "ConfigValue"),
        ("validate", [ANY_VALUE(name="a", recommended_values=3)], "ConfigValue"),
    ],
)
def test_a_connector_that_answers_rubbish_is_refused(validates, method, does, told):
    DOES[f"OddSource.{method}"] = does
    with pytest.raises(ConnectRestError, match=told):
        validates.validate_connector_config(SOURCE)


@pytest.mark.parametrize("method", ["config", "validate"])
@pytest.mark.parametrize("what", [BOOM, SystemExit("out of paper")])
def test_a_connector_that_throws_fails_its_validation_alone(validates, *, method, what):
    DOES[f"OddSource.{method}"] = what
    with pytest.raises(ConnectError, match=rf"OddSource\.{method}.*out of paper"):
        validates.validate_connector_config(SOURCE)
    DOES.clear()
    assert validates.validate_connector_config(SOURCE).error_count == 0


def test_a_value_that_cannot_be_printed_fails_its_validation_alone(validates):
    class Unprintable:
        def __str__(self):
            raise BOOM

    DOES["OddSource.validate"] = [ConfigValue(name="odd", value=Unprintable())]
    with pytest.raises(ConnectError, match="out of paper"):
        validates.validate_connector_config(SOURCE)


def test_a_connector_may_report_keys_that_it_does_not_define(validates):
    value = ConfigValue(name="else", value="x", error_messages=["no"])
    DOES["OddSource.validate"] = [value]
    infos = validates.validate_connector_config(SOURCE)
    assert infos.configs[0].definition is None
    assert wrong(infos) == {"else": ("no",)}


def test_a_connector_sees_what_providers_give_and_the_user_does_not(validates):
    infos = validates.validate_connector_config({**SOURCE, "odd": "${p:k}"})
    assert wrong(infos) == {
        "odd": ("Invalid value ${p:k} for configuration odd: the resolved value is not valid",)
    }
    assert "hush" not in str(infos)


@pytest.mark.parametrize("key", ["connector.class", "connector.plugin.version", "odd"])
def test_what_providers_give_is_in_no_error(validates, key):
    DOES["OddSource.validate"] = ValueError("what is 'hush'?")
    try:
        told = str(validates.validate_connector_config({**SOURCE, key: "${p:k}"}))
    except ConnectError as error:
        told = str(error)
    assert "hush" not in told
    assert "${p:k}" in told


def test_another_version_is_told_of_with_those_there_are(validates):
    infos = validates.validate_connector_config(
        {**SOURCE, "connector.plugin.version": "3", "tasks.max": "0"}
    )
    told = (
        "Plugin odd.OddSource not found that matches the version range [3,3],"
        " available versions: [2.1]"
    )
    assert set(wrong(infos)) == {"connector.class", "connector.plugin.version", "tasks.max"}
    assert wrong(infos)["connector.class"] == (told,)
    assert (
        validates.validate_connector_config(
            {**SOURCE, "connector.plugin.version": "[2,3)"}
        ).error_count
        == 0
    )
    DOES["OddSource.version"] = BOOM
    assert validates.validate_connector_config(SOURCE).error_count == 0
    assert (
        validates.validate_connector_config(
            {**SOURCE, "connector.plugin.version": "2.1"}
        ).error_count
        == 2
    )


@pytest.mark.parametrize(
    ("does", "told"),
    [
        (TransactionBoundaries.SUPPORTED, None),
        (TransactionBoundaries.UNSUPPORTED, "does not support"),
        (None, "does not support"),
        (BOOM, "An unexpected error occurred during validation.*out of paper"),
    ],
)
def test_who_may_end_transactions(validates, does, told):
    DOES["OddSource.boundaries"] = does
    found = wrong(
        validates.validate_connector_config({**SOURCE, "transaction.boundary": "Connector"})
    )
    if told is None:
        assert found == {}
        return
    [message] = found["transaction.boundary"]
    with pytest.raises(ConnectError, match=told):
        raise ConnectError(message)


def test_the_policy_of_the_worker_counts():
    validates = validating(connector_client_config_override_policy="None")
    config = {**SINK, "consumer.override.group.id": "g", "producer.override.acks": "1"}
    infos = validates.validate_connector_config(config)
    messages = [each.value.errors for each in infos.configs if each.value.errors]
    assert messages == [
        ("Consumer group g conflicts with Connect worker group g",),
        (
            "The 'None' policy does not allow 'group.id' to be overridden in the connector"
            " configuration.",
        ),
    ]
    assert infos.error_count == 2


def test_the_kind_of_a_connector_is_that_of_its_class(validates):
    kinds = ConnectorType
    assert validates.connector_type(SOURCE) is kinds.SOURCE
    assert validates.connector_type({"connector.class": "FileStreamSink"}) is kinds.SINK
    DOES["OddSink.__init__"] = BOOM
    assert validates.connector_type(SINK) is kinds.SINK
    for nothing in (None, {}, {"connector.class": None}, {"connector.class": "Nope"}):
        assert validates.connector_type(nothing) is kinds.UNKNOWN


def test_plugins_are_those_installed(validates):
    found = {(each.class_name, each.type, each.version) for each in validates.plugins()}
    assert ("odd.OddSource", PluginType.SOURCE, "2.1") in found
    assert (JSON, PluginType.HEADER_CONVERTER, "4.3.1") in found


def test_the_keys_of_plugins(validates):
    keys = {each.name: each for each in validates.connector_plugin_config("OddSource", None)}
    assert list(keys)[:2] == ["odd", "name"]
    assert keys["connector.plugin.version"].default_value == "2.1"
    assert keys["key.converter"].default_value is None
    assert [each.name for each in validates.connector_plugin_config("OddConverter", "2.1")] == [
        "odd"
    ]
    assert "topics" in {
        each.name for each in validates.connector_plugin_config("FileStreamSink", "latest")
    }


def test_a_key_of_its_own_goes_before_what_all_have(validates):
    own = ConfigDef().define("tasks.max", Type.INT, "Mine.", default=7)
    DOES["OddSource.config"] = own
    first, *others = validates.connector_plugin_config("OddSource", None)
    assert (first.name, first.default_value) == ("tasks.max", "7")
    assert "tasks.max" not in {each.name for each in others}


def test_keys_that_cannot_be_told(validates):
    with pytest.raises(NotFoundError, match=r"Unknown plugin Nope\."):
        validates.connector_plugin_config("Nope", None)
    assert "available versions: [2.1]" in refused(
        lambda: validates.connector_plugin_config("OddSink", "3")
    )
    DOES["OddSource.config"] = None
    refused(lambda: validates.connector_plugin_config("OddSource", None))
    DOES["OddSource.config"] = BOOM
    with pytest.raises(ConnectError, match="out of paper"):
        validates.connector_plugin_config("OddSource", None)


def test_alone_there_is_no_group_to_stay_out_of():
    alone = ConnectorValidator(
        installed=odd_plugins.installed(),
        worker=worker_config.parse_standalone_config(
            {**WORKER, "offset.storage.file.filename": "f"}
        ),
        resolve=resolve,
    )
    assert (
        alone.validate_connector_config({**SINK, "consumer.override.group.id": "g"}).error_count
        == 0
    )
    DOES["OddSource.boundaries"] = BOOM
    assert (
        alone.validate_connector_config({**SOURCE, "transaction.boundary": "connector"}).error_count
        == 0
    )


def test_a_connectors_own_converter_is_shown_in_place_of_the_workers(validates, monkeypatch):
    def shown():
        values = {
            each.value.name: each.value.value
            for each in validates.validate_connector_config(SOURCE).configs
        }
        return [values[name].rpartition(".")[2] for name in ("key.converter", "value.converter")]

    assert shown() == ["JsonConverter"] * 2
    monkeypatch.setattr(OddSource, "default_converter", "StringConverter")
    assert shown() == ["StringConverter"] * 2


@pytest.mark.parametrize(
    "key", ["connector.class", "key.converter", "value.converter", "header.converter"]
)
def test_no_name_of_a_configuration_is_imported(validates, key, monkeypatch):
    monkeypatch.delitem(sys.modules, "this", raising=False)  # it prints a poem
    for name in ("this.Poem", "this:Poem"):
        config = {**SOURCE, key: name}
        if key == "connector.class":
            refusal = refused(lambda config=config: validates.validate_connector_config(config))
            assert "Failed to find any class that implements Connector" in str(refusal)
        else:
            assert wrong(validates.validate_connector_config(config))[key]
    with pytest.raises(NotFoundError):
        validates.connector_plugin_config("this.Poem", None)
    assert "this" not in sys.modules


def test_an_issuer_of_tokens_that_the_worker_does_not_allow_is_an_error_at_its_key():
    key = "sasl.oauthbearer.token.endpoint.url"
    checks = validating(**{"connector.client.config.override.policy": "All"})
    url = "http://127.0.0.1/latest/meta-data"
    found = wrong(
        checks.validate_connector_config(
            {**SOURCE, f"producer.override.{key}": url, f"x.{key}": url}
        )
    )
    assert sorted(found) == [f"producer.override.{key}", f"x.{key}"]
    assert all("does not allow connectors to request tokens" in each[0] for each in found.values())


@pytest.fixture
def plugins():
    worker = worker_config.parse_standalone_config(
        {
            "bootstrap.servers": "a:1",
            "key.converter": JSON,
            "value.converter": JSON,
            "offset.storage.file.filename": "f",
        }
    )
    return InstalledPlugins(odd_plugins.installed(), worker=worker)


def validated(plugins, **more):
    config = {"name": "n", "connector.class": "x"}
    config |= {name.replace("_", "."): value for name, value in more.items()}
    keys = plugin_recommenders.enrich_config_def(
        connector_config_keys.SOURCE,
        connector_version=None,
        choices=plugins.get_converter_choices(config),
    )
    values = keys.validate_all(config, load=plugins.load_class)
    infos = connector_validation.validate_converters(config, values, plugins=plugins)
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


BAD = ConfigDef().define("a", Type.STRING, "", validator=Lambda(explode, ""))


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


NAMES = {"builtins.str": "java.lang.String", "builtins.int": "java.lang.Integer"}


def infos(config, *, told=()):
    keys = (
        ConfigDef()
        .define("of", Type.CLASS, "", default=str)
        .define("file", Type.STRING, "", default="")
        .define("secret", Type.PASSWORD, "", default="")
    )
    found = keys.validate_all(config)
    found["of"].recommended_values = [str, int, dict]
    for name, message in told:
        found[name].error_messages.append(message)
    return config_infos.build_config_infos("c", keys.keys, values=list(found.values()), groups=[])


def shown(config, *, given=None, told=()):
    provided = ProvidedValues(lambda _: config)
    provided.resolve_config(given or config)
    found = connector_validation.redact_config_infos(
        infos(config, told=told),
        given=given or config,
        resolved=config,
        names=NAMES,
        hide=provided.hide_provided_values,
    )
    return {each.value.name: each for each in found.configs}


def test_classes_have_the_names_that_users_write():
    told = [("of", "Class class builtins.int does not convert")]
    of = shown({"of": int}, told=told)["of"]
    assert of.definition.default_value == "java.lang.String"
    assert of.value.value == "java.lang.Integer"
    assert of.value.recommended_values == ("builtins.dict", "java.lang.Integer", "java.lang.String")
    assert of.value.errors == ("Class class java.lang.Integer does not convert",)
    assert shown({"of": None})["of"].value.value is None


def test_a_text_that_is_no_class_stays():
    assert shown({"file": "builtins.str"})["file"].value.value == "builtins.str"


def test_what_a_provider_gave_is_not_shown():
    given = {"file": "${p:f}", "secret": "${p:s}"}
    told = [("file", "there is no hush"), ("of", "the file 'hush' is no class")]
    found = shown({"file": "hush", "secret": "hush"}, given=given, told=told)
    assert found["file"].value.value == "${p:f}"
    assert found["secret"].value.value == config_types.HIDDEN_PASSWORD
    assert found["file"].value.errors == (
        "Invalid value ${p:f} for configuration file: the resolved value is not valid",
    )
    assert found["of"].value.errors == ("the file '${p:s}' is no class",)
    assert "hush" not in str(found)


def test_keys_alone():
    key = config_infos.build_key_info(ConfigKey(name="of", type=Type.CLASS, default=int))
    [found] = connector_validation.replace_class_names_in_defaults([key], NAMES)
    assert found.default_value == "java.lang.Integer"
