"""Base class of converters, header converters, transforms and predicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api.config_def import ConfigDef

UNDEFINED_VERSION = "undefined"
"""Version of a plugin that does not declare one."""


class Plugin:
    """Base class of plugins that are created without arguments, configured once, used by one task,
    and closed once."""

    def version(self) -> str:
        """Return the plugin version that is shown in the plugin list."""
        return UNDEFINED_VERSION

    def config(self) -> ConfigDef:
        """Return the configuration keys that `configure` accepts."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Configure the plugin. Called first, with the keys under the plugin's prefix, without the
        prefix.

        The prefix is, for example, `transforms.<alias>.` or `header.converter.`. Raises ConfigError
        if the configuration is invalid.
        """

    def close(self) -> None:
        """Close the plugin and release all resources. Called last."""
