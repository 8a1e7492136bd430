"""Base class of converters, header converters, transforms and predicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api.config_def import ConfigDef

UNDEFINED_VERSION = "undefined"
"""What a plugin answers that does not tell its version."""


class Plugin:
    """Made without arguments, configured once, used by one task, closed once."""

    def version(self) -> str:
        """Shown in the list of plugins."""
        return UNDEFINED_VERSION

    def config(self) -> ConfigDef:
        """The keys that `configure` knows."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called first, with the keys under the plugin's own prefix, without it.

        Such as `transforms.<alias>.` or `header.converter.`. Raises ConfigError.
        """

    def close(self) -> None:
        """Release what is held; called last."""
