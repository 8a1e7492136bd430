"""Connectors' keys that know which plugins there are: what goes without saying, and what to choose.

Java: ConnectorConfig.enrichedConfigDef, PluginsRecommenders.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.api import config_def, config_types

CONNECTOR_VERSION = "connector.plugin.version"
KEY_CONVERTER, VALUE_CONVERTER = "key.converter", "value.converter"
HEADER_CONVERTER = "header.converter"

Versions = Mapping[type, str | None]
"""Plugins of a kind, by class; None: it does not tell its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """For one of the converters' keys: what is taken if nothing is said, and what there is."""

    default: type | None = None
    default_version: str | None = None
    there_are: Versions


def version_key(of: str) -> str:
    """Beside `key.converter` that is `key.converter.plugin.version`."""
    return f"{of}.plugin.version"


def enriched(
    base: config_def.ConfigDef, *, connector_version: str | None, choices: Mapping[str, Choice]
) -> config_def.ConfigDef:
    """`choices` by key, such as `KEY_CONVERTER`."""
    changes: dict[str, dict[str, Any]] = {
        CONNECTOR_VERSION: {
            "default": connector_version,
            "recommender": _Fixed(connector_version),
        }
    }
    for name, choice in choices.items():
        changes[name] = {"default": choice.default, "recommender": _Classes(choice.there_are)}
        changes[version_key(name)] = {
            "default": choice.default_version,
            "recommender": _Versions(name, choice.there_are),
        }
    keys = config_def.ConfigDef()
    for key in base.keys.values():
        keys.add(dataclasses.replace(key, **changes.get(key.name, {})))
    return keys


class _Fixed:
    """Of the connector, which is known."""

    def __init__(self, version: str | None) -> None:
        self._versions = [] if version is None else [version]

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self._versions

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


class _Classes:
    def __init__(self, there_are: Versions) -> None:
        self._classes = sorted(there_are, key=config_types.class_name)

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self._classes

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


class _Versions:
    """Of the class that another key holds."""

    def __init__(self, of: str, there_are: Versions) -> None:
        self._of = of
        self._there_are = there_are

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        found = parsed.get(self._of)
        version = None if found is None else self._there_are.get(found)
        return [] if version is None else [version]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return parsed.get(self._of) is not None
