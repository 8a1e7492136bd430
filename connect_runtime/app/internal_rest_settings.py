"""Reads the settings of the internal REST server that the workers of one process share
(KIP-710)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.app import rest_listeners
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.config import properties_file
from connect_runtime.config.properties_file import ErrorCollector
from connect_runtime.network import keystore_files
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalRestSettings:
    """Settings of the shared internal REST server."""

    settings: RestSettings
    https: HttpsContexts | None
    """TLS contexts of the https listeners; None if no listener uses https."""
    warnings: tuple[str, ...] = ()
    """Warnings to log once."""


def read_internal_rest_settings(
    properties: Mapping[str, str], source: WorkerSettingsSource
) -> InternalRestSettings:
    """Read the settings of the shared internal REST server from worker properties.

    Uses `listeners`, `rest.advertised.*` and `listeners.https.*` (or `ssl.*`), and ignores other
    properties. Raises `SettingsError` with all problems.
    """
    account = ErrorCollector(
        properties_file.resolve_properties(
            properties, file=source.file, folder=source.folder, environment=source.environment
        )
    )
    found = rest_listeners.read_rest_configuration(
        account,
        files=keystore_files.create_store_files(source.folder),
        environment=source.environment,
        folder=source.folder,
    )
    warnings = account.raise_errors_or_get_warnings()
    return InternalRestSettings(settings=found.settings, https=found.https, warnings=warnings)
