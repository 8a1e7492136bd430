from __future__ import annotations

import pytest

from connect_runtime.adapters.config import value_providers
from connect_runtime.api import errors
from connect_runtime.app.settings import connector_values


@pytest.fixture
def resolve(tmp_path) -> connector_values.ConnectorValues:
    return connector_values.ConnectorValues(
        providers={
            "file": value_providers.BUILT_IN["file"],
            "env": value_providers.BUILT_IN["env"],
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
    with pytest.raises(errors.ConfigError, match="password cannot be filled in: cannot read"):
        resolve({"a": "x", "password": "${file:gone:k}"})


def test_the_environment_is_not_printed(resolve):
    assert "NAME" not in repr(resolve)
