from __future__ import annotations

import pathlib

from connect_runtime.adapters.config import properties_source, value_providers
from connect_runtime.app.settings import declared_providers, problems

PACKAGE = "org.apache.kafka.common.config.provider."
Kind = value_providers.Kind


def read(content: str):
    refused: list[problems.Problem] = []
    warned: list[problems.Problem] = []
    pairs = {each.key: each for each in properties_source.entries(content)}
    found = declared_providers.read(pairs, refuse=refused.append, warn=warned.append)
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
        (3, "needs absolute paths"),
        (5, "cannot be used"),
    ]
