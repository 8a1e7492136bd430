from __future__ import annotations

import os
import pathlib
import time

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import config_providers, java_properties
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.config.config_providers import (
    ConfigProvider,
    ConfigTransformer,
    ConnectorConfigTransformer,
    ProviderError,
    ProviderKind,
    ResolvedText,
)
from connect_runtime.system import secure_file_access

PACKAGE = "org.apache.kafka.common.config.provider."
Kind = ProviderKind


def read(content: str):
    refused: list[ConfigProblem] = []
    warned: list[ConfigProblem] = []
    pairs = {each.key: each for each in java_properties.parse_property_entries(content)}
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
    assert providers.resolve_placeholders("a $ b {c} $d") == ResolvedText(
        "a $ b {c} $d", is_secret=False
    )


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
    found = providers.resolve_placeholders(text)
    assert found.is_secret
    assert found.text == expected


def test_what_a_provider_returns_is_not_searched_again(providers):
    assert providers.resolve_placeholders("${env:PASSWORD}").text == "${env:OTHER}"


def test_variables_that_were_used_are_known(providers):
    assert providers.referenced_env_variables == frozenset()
    providers.resolve_placeholders("${env:OTHER}")
    assert providers.referenced_env_variables == {"OTHER"}


def test_absolute_paths_stand_for_themselves(providers, tmp_path):
    assert providers.resolve_placeholders(f"${{dir:{tmp_path}/mount:password}}").text == "hunter3"


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
        ("${dir:mount:../secrets.properties}", "without directories"),
        ("${dir:mount:..}", "without directories"),
        ("${dir:mount:}", "without directories"),
        ("${dir:mount:a\0b}", "is not a valid path"),
        ("${dir:mount:binary}", "not UTF-8"),
        ("${dir:mount:huge}", "larger than"),
    ],
)
def test_what_cannot_be_filled_is_an_error_without_values(providers, text, words):
    with pytest.raises(ProviderError) as caught:
        providers.resolve_placeholders(text)
    assert words in str(caught.value)
    assert str(caught.value).count("nope.properties") <= 1
    assert "hunter" not in str(caught.value)


def test_resolved_values_are_not_in_the_repr(providers):
    assert "hunter3" not in repr(providers.resolve_placeholders("${dir:mount:password}"))


def limited(folder: pathlib.Path, *allowed: pathlib.Path) -> ConfigTransformer:
    declared = {
        kind.value: ConfigProvider(kind=kind, paths=allowed)
        for kind in (ProviderKind.FILE, ProviderKind.FOLDER)
    }
    return ConfigTransformer(environment={}, folder=folder, declared=declared)


@pytest.fixture
def links(tmp_path: pathlib.Path) -> pathlib.Path:
    """`allowed/link` leads to `other/inner`, `allowed/to-s` to `other/s`, `own` to `allowed/s`."""
    for name in ("allowed", "other/inner"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other" / "s").write_text("k=hunter2")
    (tmp_path / "allowed" / "s").write_text("k=fine")
    (tmp_path / "allowed" / "link").symlink_to("../other/inner")
    (tmp_path / "allowed" / "to-s").symlink_to("../other/s")
    (tmp_path / "allowed" / "own").symlink_to("s")
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "${dir:allowed/../other:s}",
        "${dir:allowed/link/..:s}",
        "${file:allowed/link/../s:k}",
        "${dir:allowed:to-s}",
        "${file:allowed/to-s:k}",
        "${dir:/proc/self/cwd:x}",
    ],
)
def test_links_do_not_lead_out_of_the_allowed_paths(links, text):
    with pytest.raises(ProviderError, match=r"is not in allowed\.paths") as caught:
        limited(links, links / "allowed").resolve_placeholders(text)
    assert "hunter" not in str(caught.value)


def test_links_within_the_allowed_paths_are_followed(links):
    through_a_link = links / "allowed-too"
    through_a_link.symlink_to("allowed")
    for allowed in (links / "allowed", through_a_link):
        assert limited(links, allowed).resolve_placeholders("${file:allowed/own:k}").text == "fine"
        assert (
            limited(links, allowed).resolve_placeholders("${dir:allowed-too:own}").text == "k=fine"
        )


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_what_cannot_be_a_path_is_refused(links, name):
    with pytest.raises(ProviderError, match="is not a valid path"):
        limited(links).resolve_placeholders(f"${{dir:allowed:{name}}}")


@pytest.mark.parametrize("path", ["a/" * 200_000, "../" * 100_000, "x" * 5_000])
def test_a_path_that_is_too_long_is_refused_at_once(links, path):
    start_s = time.thread_time()
    for text in (f"${{file:{path}:k}}", f"${{dir:{path}:k}}"):
        with pytest.raises(ProviderError, match="is not a valid path: a path has at most") as found:
            limited(links).resolve_placeholders(text)
        assert len(str(found.value)) < 500
    assert time.thread_time() - start_s < 1.0


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    made = ConfigTransformer(environment={}, folder=tmp_path)
    for text in ("${file:pipe:key}", "${dir:.:pipe}"):
        with pytest.raises(ProviderError, match=r"cannot read .*/pipe: not a regular file"):
            made.resolve_placeholders(text)


def test_a_file_is_read_once_for_a_configuration(tmp_path, monkeypatch):
    (tmp_path / "s").write_text("k=v")
    reads = []

    def read(file: pathlib.Path, *, max_bytes: int, regular_only: bool) -> bytes:
        reads.append(file)
        return file.read_bytes()

    monkeypatch.setattr(secure_file_access, "read_file_with_limit", read)
    providers = limited(tmp_path)
    for text in ("${dir:.:s}${dir:./.:s}", "${file:s:k}", "${dir:.:s}", "${file:x/../s:k}"):
        providers.resolve_placeholders(text)
    assert len(reads) == 2  # as text, and as properties


def test_a_short_configuration_cannot_become_a_huge_one(tmp_path):
    (tmp_path / "mb").write_text("x" * 1_000_000)
    providers = limited(tmp_path)
    assert len(providers.resolve_placeholders("${dir:.:mb}" * 4).text) == 4_000_000
    with pytest.raises(ProviderError, match="more than 4,194,304 characters in total"):
        providers.resolve_placeholders("${dir:.:mb}")


def test_the_number_of_placeholders_is_limited(tmp_path):
    (tmp_path / "s").write_text("")
    limited(tmp_path).resolve_placeholders("${dir:.:s}" * config_providers.PLACEHOLDERS_MAX)
    with pytest.raises(ProviderError, match="more than 10,000 placeholders"):
        limited(tmp_path).resolve_placeholders(
            "${dir:.:s}" * (config_providers.PLACEHOLDERS_MAX + 1)
        )


def test_what_is_read_for_a_configuration_is_limited(tmp_path):
    for number in range(17):
        (tmp_path / f"f{number}").write_text("k=v\n#" + "x" * (1024 * 1024 - 5))
    providers = limited(tmp_path)
    for number in range(16):
        providers.resolve_placeholders(f"${{file:f{number}:k}}")
    with pytest.raises(ProviderError, match="more than 16 MiB in total"):
        providers.resolve_placeholders("${file:f16:k}")
