from __future__ import annotations

import pathlib

import pytest

from connect_runtime.adapters.config import value_providers


@pytest.fixture
def providers(tmp_path: pathlib.Path) -> value_providers.ValueProviders:
    (tmp_path / "secrets.properties").write_text("password=hunter2\nempty=\n")
    (tmp_path / "broken.properties").write_text("a=\\uzzzz\n")
    (tmp_path / "mount").mkdir()
    (tmp_path / "mount" / "password").write_text("hunter3\r\n")
    (tmp_path / "mount" / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "mount" / "huge").write_bytes(b"x" * (1024 * 1024 + 1))
    return value_providers.ValueProviders(
        environment={"PASSWORD": "${env:OTHER}", "OTHER": "x"}, folder=tmp_path
    )


def test_plain_text_is_left_alone_and_no_secret(providers):
    assert providers.resolve("a $ b {c} $d") == value_providers.Resolved(
        "a $ b {c} $d", secret=False
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
    found = providers.resolve(text)
    assert found.secret
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
        ("${env:NOPE}", "no variable 'NOPE'"),
        ("${env:HOME:-hunter2}", "have no path"),
        ("${vault:a:b}", "no provider 'vault'"),
        ("${HOME}", "holds a ${ that begins no placeholder"),
        ("${env:OTHER", "begins no placeholder"),
        ("${}", "begins no placeholder"),
        ('password="${hunter2";', "begins no placeholder"),
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
    with pytest.raises(value_providers.ProviderError) as caught:
        providers.resolve(text)
    assert words in str(caught.value)
    assert str(caught.value).count("nope.properties") <= 1
    assert "hunter" not in str(caught.value)


def test_resolved_values_are_not_in_the_repr(providers):
    assert "hunter3" not in repr(providers.resolve("${dir:mount:password}"))
