from __future__ import annotations

import pathlib

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import config_providers, java_properties
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.config.config_providers import (
    ConfigTransformer,
    ConnectorConfigTransformer,
    ProviderError,
    ProviderKind,
    ResolvedText,
)

PACKAGE = "org.apache.kafka.common.config.provider."
Kind = ProviderKind


def read(content: str):
    refused: list[ConfigProblem] = []
    warned: list[ConfigProblem] = []
    pairs = {each.key: each for each in java_properties.parse_entries(content)}
    found = config_providers.read_declared_providers(
        pairs, refuse=refused.append, warn=warned.append
    )
    return found, refused, warned


def test_providers_by_their_java_classes():
    found, refused, warned = read(
        f"""config.providers = a, b
config.providers.a.class={PACKAGE}FileConfigProvider
config.providers.a.param.allowed.paths=/x,/y
config.providers.b.class={PACKAGE}EnvVarConfigProvider
config.providers.b.param.allowlist.pattern=KAFKA_.*
"""
    )
    assert (refused, warned) == ([], [])
    assert {name: each.kind for name, each in found.items()} == {
        "a": Kind.FILE,
        "b": Kind.ENVIRONMENT,
    }
    assert found["a"].paths == (pathlib.Path("/x"), pathlib.Path("/y"))
    assert found["b"].names is not None
    assert found["b"].names.text == "KAFKA_.*"


def test_what_is_wrong_is_told_with_its_line():
    found, refused, warned = read(
        """config.providers=a,b
config.providers.a.class=com.example.Vault
config.providers.a.param.token=x
config.providers.c.class=x
"""
    )
    assert found == {}
    assert [(each.line, each.key) for each in refused] == [
        (2, "config.providers.a.class"),
        (1, "config.providers.b.class"),
    ]
    assert [each.line for each in warned] == [3, 4]


def test_parameters_are_judged():
    found, refused, _ = read(
        f"""config.providers=a,b
config.providers.a.class={PACKAGE}DirectoryConfigProvider
config.providers.a.param.allowed.paths=/x,y
config.providers.b.class={PACKAGE}EnvVarConfigProvider
config.providers.b.param.allowlist.pattern=[
"""
    )
    assert set(found) == {"a", "b"}
    assert [(each.line, each.text.partition(":")[0]) for each in refused] == [
        (3, "must contain only absolute paths"),
        (5, "is not a valid pattern"),
    ]


@pytest.fixture
def resolve(tmp_path) -> ConnectorConfigTransformer:
    return ConnectorConfigTransformer(
        providers={
            "file": config_providers.BUILT_IN_PROVIDERS["file"],
            "env": config_providers.BUILT_IN_PROVIDERS["env"],
        },
        environment={"NAME": "n"},
        folder=tmp_path,
    )


def test_values_are_filled_in_as_of_now(resolve, tmp_path):
    secrets = tmp_path / "s"
    config = {"a": "${file:s:k}", "b": None, "c": "${vault:x}", "d": "${env:NAME}!"}
    for value in ("one", "two"):
        secrets.write_text(f"k={value}\n")
        assert resolve(config) == {"a": value, "b": None, "c": "${vault:x}", "d": "n!"}


def test_what_cannot_be_filled_in_is_named(resolve):
    with pytest.raises(ConfigError, match="password cannot be resolved: cannot read"):
        resolve({"a": "x", "password": "${file:gone:k}"})


def test_the_environment_is_not_printed(resolve):
    assert "NAME" not in repr(resolve)


@pytest.fixture
def providers(tmp_path: pathlib.Path) -> ConfigTransformer:
    (tmp_path / "secrets.properties").write_text("password=hunter2\nempty=\n")
    (tmp_path / "broken.properties").write_text("a=\\uzzzz\n")
    (tmp_path / "mount").mkdir()
    (tmp_path / "mount" / "password").write_text("hunter3\r\n")
    (tmp_path / "mount" / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "mount" / "huge").write_bytes(b"x" * (1024 * 1024 + 1))
    return ConfigTransformer(
        environment={"PASSWORD": "${env:OTHER}", "OTHER": "x"}, folder=tmp_path
    )


def test_plain_text_is_left_alone_and_no_secret(providers):
    assert providers.resolve("a $ b {c} $d") == ResolvedText("a $ b {c} $d", is_secret=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${file:secrets.properties:password}", "hunter2"),
        ("${file:secrets.properties:empty}", ""),
        ("${dir:mount:password}", "hunter3"),
        ("${env:OTHER}", "x"),
        ('user="a" password="${dir:mount:password}";', 'user="a" password="hunter3";'),
        ("${env:OTHER}-${dir:mount:password}", "x-hunter3"),
    ],
)
def test_placeholders_are_filled_and_secret(providers, text, expected):
    found = providers.resolve(text)
    assert found.is_secret
    assert found.text == expected


def test_what_a_provider_returns_is_not_searched_again(providers):
    assert providers.resolve("${env:PASSWORD}").text == "${env:OTHER}"


def test_variables_that_were_used_are_known(providers):
    assert providers.environment_names == frozenset()
    providers.resolve("${env:OTHER}")
    assert providers.environment_names == {"OTHER"}


def test_absolute_paths_stand_for_themselves(providers, tmp_path):
    assert providers.resolve(f"${{dir:{tmp_path}/mount:password}}").text == "hunter3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${env:NOPE}", "environment variable 'NOPE' is not set"),
        ("${env:HOME:-hunter2}", "have no path"),
        ("${vault:a:b}", "provider 'vault' does not exist"),
        ("${HOME}", "contains '${' that does not start a valid placeholder"),
        ("${env:OTHER", "does not start a valid placeholder"),
        ("${}", "does not start a valid placeholder"),
        ('password="${hunter2";', "does not start a valid placeholder"),
        ("${file:secrets.properties}", "names no key"),
        ("${file:secrets.properties:nope}", "has no key 'nope'"),
        ("${file:nope.properties:a}", "cannot read"),
        ("${file:broken.properties:a}", "line 1"),
        ("${dir:mount}", "names no file"),
        ("${dir:mount:nope}", "cannot read"),
        ("${dir:mount:../secrets.properties}", "without folders"),
        ("${dir:mount:..}", "without folders"),
        ("${dir:mount:}", "without folders"),
        ("${dir:mount:a\0b}", "NUL"),
        ("${dir:mount:binary}", "not UTF-8"),
        ("${dir:mount:huge}", "larger than"),
    ],
)
def test_what_cannot_be_filled_is_an_error_without_values(providers, text, words):
    with pytest.raises(ProviderError) as caught:
        providers.resolve(text)
    assert words in str(caught.value)
    assert str(caught.value).count("nope.properties") <= 1
    assert "hunter" not in str(caught.value)


def test_resolved_values_are_not_in_the_repr(providers):
    assert "hunter3" not in repr(providers.resolve("${dir:mount:password}"))
