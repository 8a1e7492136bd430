from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from connect_runtime.app import distributed_settings, standalone_settings
from connect_runtime.app.distributed_settings import DistributedSettings
from connect_runtime.app.standalone_settings import StandaloneSettings
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.config import properties_file
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.config.properties_file import ErrorCollector
from connect_runtime.plugins import plugin_discovery

COMMON = {
    "bootstrap.servers": "a:1,b:2",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "StringConverter",
}
GROUP = {
    **COMMON,
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}
ALONE = {**COMMON, "offset.storage.file.filename": "offsets"}
_INSTALLED = plugin_discovery.discover_plugins()

Read = Callable[..., Any]


def source(folder: pathlib.Path, environment: Mapping[str, str]) -> WorkerSettingsSource:
    return WorkerSettingsSource(
        file="w", folder=folder, environment=environment, discover=lambda *_: _INSTALLED
    )


def text(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in properties.items())


@pytest.fixture
def in_group(tmp_path: pathlib.Path) -> Callable[..., DistributedSettings]:
    """A worker in a group, with these properties besides; None takes one away."""

    def read(changed: Mapping[str, str | None] | None = None, **environment: str):
        merged = {**GROUP, **(changed or {})}
        kept = {key: value for key, value in merged.items() if value is not None}
        return distributed_settings.parse_settings(text(kept), source(tmp_path, environment))

    return read


@pytest.fixture
def derived(tmp_path: pathlib.Path) -> Callable[..., DistributedSettings]:
    """A worker in a group, of properties that are in no file."""

    def read(changed: Mapping[str, str], **environment: str):
        return distributed_settings.parse_fleet_worker_settings(
            {**GROUP, **changed}, source(tmp_path, environment)
        )

    return read


@pytest.fixture
def alone(tmp_path: pathlib.Path) -> Callable[..., StandaloneSettings]:
    def read(changed: Mapping[str, str] | None = None, **environment: str):
        return standalone_settings.parse_settings(
            text({**ALONE, **(changed or {})}), source(tmp_path, environment)
        )

    return read


@pytest.fixture
def refused(in_group: Read) -> Callable[..., list[str]]:
    """What is told of such a worker, a line for each problem."""

    def told(changed: Mapping[str, str | None], **environment: str) -> list[str]:
        with pytest.raises(SettingsError) as raised:
            in_group(changed, **environment)
        return str(raised.value).splitlines()[:-1]

    return told


@pytest.fixture
def an_account(tmp_path: pathlib.Path) -> Callable[[Mapping[str, str]], ErrorCollector]:
    def make(properties: Mapping[str, str]) -> ErrorCollector:
        return ErrorCollector(
            properties_file.parse_properties_file(
                text(properties), file="w", folder=tmp_path, environment={}
            )
        )

    return make
