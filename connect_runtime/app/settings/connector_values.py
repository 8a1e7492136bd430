"""Fills `${provider:path:key}` of connectors' configurations in, when they are used."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.adapters.config import value_providers
from connect_runtime.api import errors
from connect_runtime.core.state import cluster_config


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorValues:
    """The worker's `config.providers`; what names none of them stays as it is.

    Files are read at every call: a changed secret counts from the connector's next start.
    """

    providers: Mapping[str, value_providers.Provider]
    environment: Mapping[str, str] = field(repr=False)
    folder: pathlib.Path

    def __call__(self, config: cluster_config.RawConfig) -> dict[str, str | None]:
        """Raises `ConfigError` for the first that cannot be filled in; it holds no value."""
        source = value_providers.ValueProviders(
            environment=self.environment, folder=self.folder, declared=self.providers
        )
        found: dict[str, str | None] = {}
        for key, value in config.items():
            try:
                found[key] = None if value is None else source.resolve(value).text
            except value_providers.ProviderError as error:
                raise errors.ConfigError(f"{key} cannot be filled in: {error}") from None
        return found
