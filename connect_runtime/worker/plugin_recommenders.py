"""Provides defaults and recommended values for connector keys that name plugins and plugin
versions.

Java: ConnectorConfig.enrichedConfigDef, PluginsRecommenders.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigDef

CONNECTOR_VERSION = "connector.plugin.version"
KEY_CONVERTER, VALUE_CONVERTER = "key.converter", "value.converter"
HEADER_CONVERTER = "header.converter"

PluginVersions = Mapping[type, str | None]
"""Version of each plugin class; None if the plugin declares no version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverterChoice:
    """Default converter of a converter key, and the installed converters to choose from."""

    default: type | None = None
    default_version: str | None = None
    available: PluginVersions


def build_version_config_key(of: str) -> str:
    """Return the configuration key for a plugin's version, such as
    `key.converter.plugin.version`."""
    return f"{of}.plugin.version"


def enrich_config_def(
    base: ConfigDef, *, connector_version: str | None, choices: Mapping[str, ConverterChoice]
) -> ConfigDef:
    """Return a copy of a config definition with defaults and recommenders for the keys that name
    plugins. `choices` contains the converter choices by key."""
    changes: dict[str, dict[str, Any]] = {
        CONNECTOR_VERSION: {
            "default": connector_version,
            "recommender": _FixedVersionRecommender(connector_version),
        }
    }
    for name, choice in choices.items():
        changes[name] = {
            "default": choice.default,
            "recommender": _ClassRecommender(choice.available),
        }
        changes[build_version_config_key(name)] = {
            "default": choice.default_version,
            "recommender": _SelectedVersionRecommender(name, choice.available),
        }
    keys = ConfigDef()
    for key in base.keys.values():
        keys.add(dataclasses.replace(key, **changes.get(key.name, {})))
    return keys


class _FixedVersionRecommender:
    """Recommends the version of the installed connector."""

    def __init__(self, version: str | None) -> None:
        self._versions = [] if version is None else [version]

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self._versions

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


class _ClassRecommender:
    """Recommends the installed classes of one kind of converter."""

    def __init__(self, there_are: PluginVersions) -> None:
        self._classes = sorted(there_are, key=config_types.get_class_name)

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self._classes

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


class _SelectedVersionRecommender:
    """Recommends the installed version of the converter class that the configuration key `of`
    names, such as `key.converter`."""

    def __init__(self, of: str, there_are: PluginVersions) -> None:
        self._of = of
        self._there_are = there_are

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        found = parsed.get(self._of)
        version = None if found is None else self._there_are.get(found)
        return [] if version is None else [version]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return parsed.get(self._of) is not None
