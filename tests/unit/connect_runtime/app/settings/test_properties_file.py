from __future__ import annotations

import pathlib

import pytest

from connect_runtime.app.settings import problems, properties_file

PROVIDERS = """config.providers=env,file
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
"""


def parse(content: str, folder: pathlib.Path = pathlib.Path("/"), **environment: str):
    return properties_file.parse(
        content, file="w.properties", folder=folder, environment=environment
    )


def test_placeholders_of_declared_providers_are_filled(tmp_path):
    (tmp_path / "secrets.properties").write_text("password=hush\n")
    given = parse(
        PROVIDERS + "a=x${env:NAME}\nb=${file:secrets.properties:password}\nc=${vault:a:b}\n",
        tmp_path,
        NAME="y",
    )
    assert (given.values["a"], given.values["b"], given.values["c"]) == (
        "xy",
        "hush",
        "${vault:a:b}",
    )
    assert given.filled == {"a", "b"}
    assert given.unfilled == frozenset()
    assert "hush" not in repr(given)
    (told,) = given.warned
    assert told.describe("w") == "w:6: c: is taken as it stands: config.providers has no 'vault'"


def test_what_cannot_be_filled_is_refused_with_its_line():
    given = parse(PROVIDERS + "a=${env:GONE}\nconfig.providers.env.param.allowlist.pattern=[\n")
    assert given.unfilled == {"a"}
    assert "a" not in given.values
    assert [each.describe("w").partition(": ")[0] for each in given.refused] == ["w:5", "w:4"]
    assert "no variable 'GONE'" in given.refused[1].text


def test_nothing_is_filled_without_providers():
    given = parse("a=${env:HOME}\n", HOME="/h")
    assert given.values == {"a": "${env:HOME}"}


def test_the_last_of_equal_keys_counts_and_the_first_is_told_of():
    given = parse("a=1\nb=2\na=3\n")
    assert given.values == {"a": "3", "b": "2"}
    assert [(each.line, each.key) for each in given.warned] == [(1, "a")]
    assert "again in line 3" in given.warned[0].text


def test_more_than_ascii_is_told_of():
    given = parse("# ü\na=ü\n")
    assert [each.line for each in given.warned] == [2]


def test_a_broken_escape_is_refused():
    with pytest.raises(problems.SettingsError, match=r"w.properties:2: \\u needs four"):
        parse("a=1\nb=\\u12\n")


def test_files_are_read_as_kafka_does(tmp_path):
    file = tmp_path / "w.properties"
    file.write_bytes(b"a=\xfc\n")
    assert properties_file.text(file) == "a=ü\n"
    with pytest.raises(problems.SettingsError, match="cannot be read: No such file"):
        properties_file.text(tmp_path / "gone")
    with pytest.raises(problems.SettingsError, match="cannot be read"):
        properties_file.text(tmp_path)
