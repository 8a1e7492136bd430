"""Reads what the REST API is told: listeners, their certificates, who may use it."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.api import errors
from connect_runtime.app.settings import account as accounts
from connect_runtime.app.settings import users
from connect_runtime.rest import cors, header_rules
from connect_runtime.rest import https as rest_https
from connect_runtime.rest import settings as rest_settings
from connect_runtime.wire.codec import tls_settings

_EXTENSIONS = "rest.extension.classes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """`uses_plain_ssl`: the worker's `ssl.*` are those of an https listener."""

    settings: rest_settings.RestSettings
    https: rest_https.Https | None
    admin_https: rest_https.Https | None
    users: Mapping[str, str] | None = field(repr=False)
    uses_plain_ssl: bool


def read(
    account: accounts.Account,
    *,
    files: tls_settings.Files,
    environment: Mapping[str, str],
    folder: pathlib.Path,
) -> Rest:
    """What is wrong is noted, and left out of what comes back."""
    found = _settings(account)
    main = _https(account, found.needs_https(), prefix=rest_https.LISTENERS, files=files)
    admin = _https(
        account, found.needs_admin_https(), prefix=rest_https.ADMIN_LISTENERS, files=files
    )
    return Rest(
        settings=found,
        https=main,
        admin_https=admin,
        users=_users(account, environment, folder) if found.basic_auth else None,
        uses_plain_ssl=any(
            needed and not any(key.startswith(prefix) for key in account.values)
            for needed, prefix in (
                (found.needs_https(), rest_https.LISTENERS),
                (found.needs_admin_https(), rest_https.ADMIN_LISTENERS),
            )
        ),
    )


def _settings(account: accounts.Account) -> rest_settings.RestSettings:
    """Read again and again, each time without the key that was found wrong."""
    properties = dict(account.values)
    while True:
        try:
            found = rest_settings.read(properties)
            cors.origins(found.access.origins)
            header_rules.parse(found.response_headers)
        except errors.ConfigError as error:
            key, _, text = str(error).partition(": ")
            account.refuse(key, text)
            if properties.pop(key, None) is None:
                return rest_settings.RestSettings()
        else:
            return found


def _https(
    account: accounts.Account, needed: bool, *, prefix: str, files: tls_settings.Files
) -> rest_https.Https | None:
    if not needed:
        return None
    try:
        return rest_https.read(account.values, files=files, prefix=prefix)
    except rest_https.BadHttps as error:
        for key, text in error.problems:
            account.refuse(key, text)
        return None


def _users(
    account: accounts.Account, environment: Mapping[str, str], folder: pathlib.Path
) -> Mapping[str, str]:
    found: Mapping[str, str] = {}
    try:
        found = users.read(environment, folder)
    except errors.ConfigError as error:
        account.refuse(_EXTENSIONS, str(error))
    else:
        if not found:
            account.warn(_EXTENSIONS, "the file of users is empty: everybody is let in")
    return found
