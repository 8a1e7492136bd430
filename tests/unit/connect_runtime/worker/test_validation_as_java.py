"""How many errors on which keys: AbstractHerderTest and ConnectorValidationIntegrationTest.

What they have of transforms, predicates, dead letters and topic creation is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from connect_runtime.api import (
    ConfigDef,
    Converter,
    HeaderConverter,
    SinkConnector,
    SourceConnector,
    Task,
    Type,
)
from connect_runtime.api.errors import NotFoundError
from connect_runtime.config import connector_config_keys, worker_config
from connect_runtime.herder.herder_interface import ConnectorType, ConnectRestError
from connect_runtime.plugins.plugin_aliases import PluginKind, ShippedPlugin
from connect_runtime.plugins.plugin_discovery import DiscoveredPlugins
from connect_runtime.worker.connector_validation import ConnectorValidator

GROUP = "worker-group-id"


class SampleSource(SourceConnector):
    """One key of its own has no default."""

    def version(self) -> str:
        return "1"

    def task_class(self) -> type[Task]:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}] * max_tasks

    def config(self) -> ConfigDef:
        definition = ConfigDef()
        definition.define("required", Type.STRING, "needed")
        return definition.define("optional", Type.STRING, "", default="defaultVal")


class SampleSink(SinkConnector):
    def version(self) -> str:
        return "1"

    def task_class(self) -> type[Task]:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}] * max_tasks

    def config(self) -> ConfigDef:
        return ConfigDef().define("required", Type.STRING, "", default="x")


class Plain(Converter, HeaderConverter):
    """Of both kinds; subclasses are wrong in one way each."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, Any], *, is_key: bool = False) -> None:
        del configs, is_key

    def from_connect_data(self, topic: str, data: Any, headers: Any) -> bytes | None:
        raise NotImplementedError

    def to_connect_data(self, topic: str, data: bytes | None, headers: Any) -> Any:
        raise NotImplementedError

    def from_connect_header(self, topic: str, key: str, data: Any) -> bytes | None:
        raise NotImplementedError

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> Any:
        raise NotImplementedError


class NeedsArguments(Plain):
    def __init__(self, something: str) -> None:
        self.something = something


class ThrowsWhenMade(Plain):
    def __init__(self) -> None:
        raise RuntimeError("no way")


class WithABoolean(Plain):
    def config(self) -> ConfigDef:
        return ConfigDef().define("prop", Type.BOOLEAN, "", default=True)


class WithoutKeys(Plain):
    def config(self) -> ConfigDef:
        return None  # type: ignore[return-value]


CLASSES: dict[type, tuple[PluginKind, ...]] = {
    SampleSource: (PluginKind.SOURCE,),
    SampleSink: (PluginKind.SINK,),
} | dict.fromkeys(
    (Plain, NeedsArguments, ThrowsWhenMade, WithABoolean, WithoutKeys),
    (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER),
)


@pytest.fixture(scope="module")
def installed() -> DiscoveredPlugins:
    return DiscoveredPlugins(
        [
            (ShippedPlugin(kind, f"sample.{of.__name__}", f"sample:{of.__name__}"), of)
            for of, kinds in CLASSES.items()
            for kind in kinds
        ]
    )


@pytest.fixture
def checks(installed: DiscoveredPlugins) -> ConnectorValidator:
    return made(installed)


def made(installed: DiscoveredPlugins, policy: str = "All") -> ConnectorValidator:
    worker = worker_config.parse_distributed_config(
        {
            "bootstrap.servers": "a:1",
            "group.id": GROUP,
            "key.converter": "sample.Plain",
            "value.converter": "sample.Plain",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "statuses",
            "connector.client.config.override.policy": policy,
        }
    )
    return ConnectorValidator(installed=installed, worker=worker, resolve=dict)


SOURCE = {"connector.class": "sample.SampleSource", "name": "somename", "required": "value"}
SINK = {"connector.class": "sample.SampleSink", "name": "c", "topics": "t1"}
Config = dict[str, str | None]


def wrong(checks: ConnectorValidator, config: Config) -> dict[str, int]:
    """How many errors each key has; their sum is what is told."""
    infos = checks.validate_connector_config(config)
    found = {
        each.value.name: len(each.value.errors)
        for each in infos.configs
        if each.value is not None and each.value.errors
    }
    assert infos.error_count == sum(found.values())
    return found


# AbstractHerderTest


def test_every_null_is_an_error_of_its_own(checks: ConnectorValidator) -> None:
    """testConfigValidationNullConfig, …MultipleNullConfig."""
    assert wrong(checks, {**SOURCE, "testKey": None}) == {"testKey": 1}
    both: Config = {**SOURCE, "testKey": None, "secondTestKey": None}
    assert wrong(checks, both) == {"testKey": 1, "secondTestKey": 1}


@pytest.mark.parametrize("config", [{}, {"connector.class": None}, {"name": "c"}])
def test_without_a_class_nothing_can_be_validated(
    checks: ConnectorValidator, config: Config
) -> None:
    with pytest.raises(ConnectRestError, match="contains no connector type") as refused:
        checks.validate_connector_config(config)
    assert refused.value.status == 400


def test_a_missing_name_and_a_missing_key_are_told(checks: ConnectorValidator) -> None:
    """testConfigValidationMissingName, with the groups that a source has."""
    config: Config = {"connector.class": "sample.SampleSource"}
    assert wrong(checks, config) == {"name": 1, "required": 1}
    infos = checks.validate_connector_config(config)
    assert infos.name == "sample.SampleSource"
    assert infos.groups == (
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
    )
    names = [each.definition.name for each in infos.configs if each.definition is not None]
    assert len(set(names)) == len(names) == len(connector_config_keys.SOURCE.keys) + 2


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"topics": "topic1,topic2", "topics.regex": "topic.*"}, {"topics": 1, "topics.regex": 1}),
        ({"topics": ""}, {"topics": 1, "topics.regex": 1}),
        ({"errors.deadletterqueue.topic.name": "t1"}, {"topics": 1}),
        (
            {
                "topics": "",
                "topics.regex": "r.*",
                "errors.deadletterqueue.topic.name": "ruh.roh",
            },
            {"topics.regex": 1},
        ),
        ({"name": GROUP.removeprefix("connect-")}, {}),
        ({"consumer.override.group.id": GROUP}, {"consumer.override.group.id": 1}),
    ],
)
def test_what_a_sink_reads_must_make_sense(
    checks: ConnectorValidator, more: Config, expected: dict[str, int]
) -> None:
    found = wrong(checks, {**SINK, **more})
    not_offered = {"errors.deadletterqueue.topic.name"}
    assert {name: count for name, count in found.items() if name not in not_offered} == expected


def test_a_sink_is_not_named_so_that_its_group_is_the_workers(
    installed: DiscoveredPlugins,
) -> None:
    """testSinkConnectorDefaultGroupIdConflictsWithWorkerGroupId."""
    worker = worker_config.parse_distributed_config(
        {
            "bootstrap.servers": "a:1",
            "group.id": "connect-c",
            "key.converter": "sample.Plain",
            "value.converter": "sample.Plain",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "statuses",
        }
    )
    checks = ConnectorValidator(installed=installed, worker=worker, resolve=dict)
    assert wrong(checks, dict(SINK)) == {"name": 1}
    assert wrong(checks, {**SINK, "consumer.override.group.id": "another"}) == {}


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", set()),
        ("Principal", {"producer.override.acks"}),
        ("None", {"producer.override.acks", "producer.override.sasl.jaas.config"}),
    ],
)
def test_overrides_are_shown_and_judged_by_the_policy(
    installed: DiscoveredPlugins, policy: str, refused: set[str]
) -> None:
    """testConfigValidationPrincipalOnlyOverride, …AllOverride; ConnectorClientPolicy…Test."""
    overrides: Config = {
        "producer.override.acks": "none",
        "producer.override.sasl.jaas.config": "jaas_config",
    }
    checks = made(installed, policy)
    assert wrong(checks, {**SOURCE, **overrides}) == dict.fromkeys(refused, 1)
    plain = checks.validate_connector_config(dict(SOURCE))
    with_them = checks.validate_connector_config({**SOURCE, **overrides})
    assert len(with_them.configs) == len(plain.configs) + len(overrides)


def test_values_of_overrides_are_as_they_were_given(checks: ConnectorValidator) -> None:
    overrides: Config = {
        "producer.override.security.protocol": "SASL_PLAINTEXT",
        "producer.override.max.request.size": "420",
        "producer.override.max.block.ms": "28980",
        "producer.override.enable.idempotence": "true",
        "producer.override.bootstrap.servers": "SASL_PLAINTEXT://h:12345,SASL_PLAINTEXT://h:23456",
    }
    infos = checks.validate_connector_config({**SOURCE, **overrides})
    shown = {each.value.name: each.value.value for each in infos.configs if each.value is not None}
    assert {name: shown[name] for name in overrides} == overrides


# What plugins have


@pytest.mark.parametrize(
    ("plugin", "own", "base"),
    [
        ("sample.SampleSource", {"required", "optional"}, connector_config_keys.SOURCE),
        ("sample.SampleSink", {"required"}, connector_config_keys.SINK),
        ("sample.WithABoolean", {"prop"}, None),
    ],
)
def test_a_plugins_keys_come_with_those_of_its_kind(
    checks: ConnectorValidator, plugin: str, own: set[str], base: ConfigDef | None
) -> None:
    """test…PluginConfig: a connector's with all that connectors have."""
    keys = {each.name for each in checks.connector_plugin_config(plugin, None)}
    assert keys == own | (set() if base is None else set(base.keys))


def test_keys_of_nothing_are_not_found(checks: ConnectorValidator) -> None:
    """testGetConnectorConfigDefWithBadName."""
    with pytest.raises(NotFoundError, match="AnotherPlugin"):
        checks.connector_plugin_config("AnotherPlugin", None)


@pytest.mark.parametrize("config", [None, {}, {"connector.class": "AnotherPlugin"}])
def test_what_is_no_connector_here_is_of_unknown_type(
    checks: ConnectorValidator, config: Config | None
) -> None:
    """testGetConnectorTypeWith*."""
    assert checks.connector_type(config) is ConnectorType.UNKNOWN


def test_connectors_are_of_their_type(checks: ConnectorValidator) -> None:
    assert checks.connector_type(SOURCE) is ConnectorType.SOURCE
    assert checks.connector_type(SINK) is ConnectorType.SINK


# Converters, as ConnectorValidationIntegrationTest has them


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "header.converter"])
@pytest.mark.parametrize(
    ("name", "more", "on"),
    [
        ("WheresTheFruit", {}, ""),
        ("sample.SampleSink", {}, ""),
        ("connect_runtime.api.converter.Converter", {}, ""),
        ("sample.NeedsArguments", {}, ""),
        ("sample.ThrowsWhenMade", {}, ""),
        ("sample.WithABoolean", {"prop": "notaboolean"}, ".prop"),
    ],
)
def test_a_converter_that_cannot_be_used_is_one_error(
    checks: ConnectorValidator, *, key: str, name: str, more: dict[str, str], on: str
) -> None:
    config: Config = {**SINK, key: name}
    config |= {f"{key}.{name}": value for name, value in more.items()}
    assert wrong(checks, config) == {f"{key}{on}": 1}


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "header.converter"])
@pytest.mark.parametrize("name", ["sample.Plain", "sample.WithABoolean", "sample.WithoutKeys"])
def test_a_converter_that_can_be_used_is_none(
    checks: ConnectorValidator, key: str, name: str
) -> None:
    assert wrong(checks, {**SINK, key: name}) == {}


# What is said twice


@pytest.mark.parametrize("key", ["transforms", "predicates", "topic.creation.groups"])
def test_an_alias_given_twice_is_one_error(checks: ConnectorValidator, key: str) -> None:
    assert wrong(checks, {**SOURCE, key: "g1, g2, g1"}) == {key: 1}
