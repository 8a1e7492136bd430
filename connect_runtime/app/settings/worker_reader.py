"""Reads what every worker has from its properties, and judges all of it before anything starts."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.adapters.plugins import discovery
from connect_runtime.api import config_def, errors
from connect_runtime.app.settings import account as accounts
from connect_runtime.app.settings import (
    brokers,
    connector_values,
    problems,
    properties_file,
    rest_reader,
    worker,
)
from connect_runtime.core.task import worker_config, worker_keys
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import client_settings
from connect_runtime.ports import plugins as port
from connect_runtime.wire.codec import security_settings, tls_settings
from connect_runtime.wire.connection import store_files

Discover = Callable[[Sequence[str], Sequence[str]], port.Plugins]
"""As `discovery.discover`."""

_CONVERTERS = {
    "key.converter": port.Kind.CONVERTER,
    "value.converter": port.Kind.CONVERTER,
    "header.converter": port.Kind.HEADER_CONVERTER,
}
_OF_CLIENTS = {*client_settings.SHARED, *client_settings.NAMED}
_OF_JAVA = "has no effect here: it is about Java"
_NO_EFFECT = {
    "plugin.discovery": _OF_JAVA,
    "metric.reporters": "has no effect here: Java classes cannot be loaded",
    "metrics.recording.level": _OF_JAVA,
    "socket.connection.setup.timeout.max.ms": "has no effect here: every attempt may take"
    " socket.connection.setup.timeout.ms",
    "metadata.recovery.rebootstrap.trigger.ms": "has no effect here: bootstrap.servers are asked"
    " as soon as no known broker answers",
    "bootstrap.resolve.timeout.ms": "has no effect here",
    "metadata.cluster.check.enable": "has no effect here",
    **{
        f"{name}.plugin.version": "has no effect here: one version of a plugin is installed"
        for name in _CONVERTERS
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a worker's settings are read from. Relative paths start at `folder`."""

    file: str
    folder: pathlib.Path
    environment: Mapping[str, str] = field(repr=False)
    discover: Discover = discovery.discover


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is found, right or wrong: the account knows.

    `properties`: without what is for the REST API alone. None: it is no good.
    """

    rest: rest_reader.Rest
    properties: Mapping[str, str] = field(repr=False)
    safety: security_settings.Security | None
    access: kafka_access.Access | None
    files: tls_settings.Files
    plugins: port.Plugins
    providers: properties_file.Given


def read(
    source: Source, given: properties_file.Given, definition: config_def.ConfigDef
) -> tuple[accounts.Account, Parts]:
    """Everything is judged; `account.finish` raises what is wrong."""
    account = accounts.Account(given)
    _judge_keys(account, definition)
    files = store_files.below(source.folder)
    rest = rest_reader.read(
        account, files=files, environment=source.environment, folder=source.folder
    )
    properties = brokers.properties(given.values, rest_uses_ssl=rest.uses_plain_ssl)
    safety = brokers.judge_security(account, properties, files=files)
    brokers.judge_clients(account, properties, files=files)
    access = None
    if safety is not None and "bootstrap.servers" not in account.wrong:
        access = brokers.access(account, properties, files=files)
    parts = Parts(
        rest=rest,
        properties=properties,
        safety=safety,
        access=access,
        files=files,
        plugins=_plugins(account, source.discover),
        providers=given,
    )
    return account, parts


def settings(source: Source, parts: Parts, warnings: tuple[str, ...]) -> dict[str, Any]:
    """The fields of `worker.WorkerSettings`, but for the herder's; nothing was wrong."""
    assert parts.access is not None
    resolve: worker.Resolve = connector_values.ConnectorValues(
        providers=parts.providers.providers,
        environment=source.environment,
        folder=source.folder,
    )
    return {
        "file": source.file,
        "rest": parts.rest.settings,
        "https": parts.rest.https,
        "admin_https": parts.rest.admin_https,
        "users": parts.rest.users,
        "access": parts.access,
        "files": parts.files,
        "plugins": parts.plugins,
        "resolve": resolve,
        "warnings": warnings,
    }


def _judge_keys(account: accounts.Account, definition: config_def.ConfigDef) -> None:
    for each in worker_config.mistakes(account.values, definition):
        account.refuse(each.key, each.text)
    for key in worker_config.unknown(account.values, definition):
        if key in _OF_CLIENTS or key.startswith("security."):
            continue  # known to the worker's own clients, which judge it
        account.warn(
            key,
            "has no effect: no worker knows it",
            nearest=problems.nearest(key, definition.keys),
        )
    for key, text in _NO_EFFECT.items():
        if key in account.values:
            account.warn(key, text)


def _plugins(account: accounts.Account, discover: Discover) -> port.Plugins:
    """Of the folders that are named; converters that are not among them are refused."""
    found = discover(_listed(account, "plugin.path"), _file_paths(account))
    for key, kind in _CONVERTERS.items():
        name = account.values.get(key, "").strip()
        if not name:
            continue
        try:
            found.find(name, kind)
        except errors.ConfigError as error:
            account.refuse(key, str(error))
    return found


def _file_paths(account: accounts.Account) -> list[str]:
    """Absolute and there, as Java's file providers want their `allowed.paths` (KIP-993)."""
    found = _listed(account, worker_keys.FILE_PATHS)
    for each in found:
        path = pathlib.Path(each)
        if not path.is_absolute() or not path.exists():
            problem = "does not exist" if path.is_absolute() else "is not an absolute path"
            account.refuse(
                worker_keys.FILE_PATHS, f"{each} {problem}", allowed="absolute paths that exist"
            )
            return []
    return found


def _listed(account: accounts.Account, key: str) -> list[str]:
    return [each.strip() for each in account.values.get(key, "").split(",") if each.strip()]
