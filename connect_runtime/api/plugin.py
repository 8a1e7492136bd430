"""What converters, transforms and predicates have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import config_def

NO_VERSION = "undefined"
"""What a plugin answers that does not tell its version."""


class Plugin:
    """Made without arguments, configured once, used by one task, closed once."""

    def version(self) -> str:
        """Shown in the list of plugins."""
        return NO_VERSION

    def config(self) -> config_def.ConfigDef:
        """The keys that `configure` knows."""
        return config_def.ConfigDef()

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called first, with the keys under the plugin's own prefix, without it.

        Such as `transforms.<alias>.` or `header.converter.`. Raises ConfigError.
        """

    def close(self) -> None:
        """Release what is held; called last."""
