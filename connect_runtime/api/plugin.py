"""Base class of converters, header converters, transforms and predicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api.config_def import ConfigDef

UNDEFINED_VERSION = "undefined"
"""Version of a plugin that does not declare one."""


class Plugin:
    """Created without arguments, configured once, used by one task, closed once."""

    def version(self) -> str:
        """Return the version that is shown in the list of plugins."""
        return UNDEFINED_VERSION

    def config(self) -> ConfigDef:
        """Return the configuration keys that `configure` accepts."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called first, with the keys under the plugin's prefix, without the prefix.

        The prefix is `transforms.<alias>.` or `header.converter.`, for example. Raises ConfigError.
        """

    def close(self) -> None:
        """Release all resources; called last."""
