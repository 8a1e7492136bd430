"""The server that several workers of one process have between them (KIP-710): its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.app.settings import account as accounts
from connect_runtime.app.settings import properties_file, rest_reader, worker_reader
from connect_runtime.rest import https as rest_https
from connect_runtime.rest import settings as rest_settings
from connect_runtime.wire.connection import store_files


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalRest:
    """`https`: None where no listener speaks it. `warnings`: what a person should hear once."""

    settings: rest_settings.RestSettings
    https: rest_https.Https | None
    warnings: tuple[str, ...] = ()


def derived(properties: Mapping[str, str], source: worker_reader.Source) -> InternalRest:
    """From the `listeners`, `rest.advertised.*` and `listeners.https.*` (or `ssl.*`) among these
    properties of `source.file`; others are not looked at. Raises `SettingsError` with all that is
    wrong."""
    account = accounts.Account(
        properties_file.given(
            properties, file=source.file, folder=source.folder, environment=source.environment
        )
    )
    found = rest_reader.read(
        account,
        files=store_files.below(source.folder),
        environment=source.environment,
        folder=source.folder,
    )
    warnings = account.finish()
    return InternalRest(settings=found.settings, https=found.https, warnings=warnings)
