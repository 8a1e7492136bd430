"""Settings that every worker has, read and validated before anything starts.

Includes how the worker connects to its brokers, for its own clients and for its group. All problems
are collected and reported together.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from connect_runtime.api.config_def import ConfigDef
from connect_runtime.api.errors import ConfigError
from connect_runtime.app import rest_listeners
from connect_runtime.app.rest_listeners import RestConfiguration
from connect_runtime.base.errors import FatalError
from connect_runtime.config import config_errors, worker_config, worker_keys
from connect_runtime.config.client_settings import ClientKind
from connect_runtime.config.config_providers import ConnectorConfigTransformer
from connect_runtime.config.properties_file import ErrorCollector, ResolvedProperties
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.kafka import cluster_access
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.network import connection_settings, key_stores, tls
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.plugins import plugin_discovery
from connect_runtime.plugins.plugin_aliases import Kind, PluginRegistry
from connect_runtime.protocol import security_settings
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.protocol.tls_settings import StoreFiles
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.storage.cluster_config_state import RawConfig

_CLIENT_AUTH_KEY = "ssl.client.auth"
_PROTOCOL_KEY = "security.protocol"
_SECURITY_PREFIXES = ("security.", "sasl.", "ssl.")
_CLIENT_KINDS = ClientKind


def select_broker_properties(values: Mapping[str, str], *, rest_uses_ssl: bool) -> dict[str, str]:
    """Without what is meant for the REST API alone.

    `rest_uses_ssl`: its listeners are protected by the plain `ssl.*`, which say nothing of the
    brokers then unless the protocol does.
    """
    uses_tls = values.get(_PROTOCOL_KEY, "").strip().upper().endswith("SSL")
    drops = rest_uses_ssl and not uses_tls
    return {
        key: value
        for key, value in values.items()
        if key != _CLIENT_AUTH_KEY and not (drops and key.startswith("ssl."))
    }


def validate_broker_security(
    account: ErrorCollector, values: Mapping[str, str], *, files: StoreFiles
) -> SecuritySettings | None:
    """None where it is no good, and then the account knows why."""
    parsed = security_settings.parse_security(values, files=files)
    for each in parsed.errors:
        account.refuse(each.key, each.problem, allowed=each.allowed)
    if parsed.security is None:
        return None
    for broken in tls.find_unusable_certificates(parsed.security):
        account.refuse(broken.store, broken.problem)
    return parsed.security


def warn_about_client_security(
    account: ErrorCollector, values: Mapping[str, str], *, files: StoreFiles
) -> None:
    """Of the clients of tasks: only a warning, for connectors may set what is missing."""
    for kind in _CLIENT_KINDS:
        own = {
            key.removeprefix(kind.value): value
            for key, value in values.items()
            if key.startswith(kind.value)
        }
        if not any(key.startswith(_SECURITY_PREFIXES) for key in own):
            continue
        inherited = values if kind is _CLIENT_KINDS.ADMIN else {}
        for each in security_settings.parse_security({**inherited, **own}, files=files).errors:
            text = f"{each.problem}; {each.allowed}: no task gets such a client as it stands"
            account.warn(f"{kind.value}{each.key}", text)


def parse_broker_access(
    account: ErrorCollector, values: Mapping[str, str], *, files: StoreFiles
) -> KafkaClusterAccess | None:
    """To be asked once the security is found to be right. None: the account knows why."""
    try:
        return cluster_access.parse_cluster_access(values, files=files)
    except FatalError as error:
        account.refuse("", str(error))
        return None


def build_connection_settings(
    values: Mapping[str, str], found: Mapping[str, Any], safety: SecuritySettings
) -> ConnectionSettings:
    """From the properties of a worker in a group, as they are and parsed. Buffers are the system's
    own where they are not given: what Java takes instead is too little for long lines."""
    names = (
        connection_settings.CONNECTION_KEYS.difference(connection_settings.BUFFER_SIZE_KEYS)
        | values.keys()
    )
    return connection_settings.create_connection_settings(
        {name: str(found[name]) for name in names & connection_settings.CONNECTION_KEYS},
        bootstrap=tuple(found["bootstrap.servers"]),
        security=safety,
        client_id=found["client.id"],
    )


ResolveConnectorConfig: TypeAlias = Callable[[RawConfig], Mapping[str, str | None]]
"""Fills `${provider:path:key}` of a connector's configuration in, as of now; raises
`ConnectError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Nothing of it is started; `plugin_aliases` are imported.

    `file` is where all came from, for messages. `https` and `admin_https` are None where no such
    listener is. `users`: passwords by name, None without basic authentication. `access`: how the
    worker's own clients reach the cluster. `files`: how certificates are read, relative paths from
    where the process was started. `warnings`: what a person should hear once.
    """

    file: str
    rest: RestSettings
    https: HttpsContexts | None
    admin_https: HttpsContexts | None
    users: Mapping[str, str] | None = field(repr=False)
    access: KafkaClusterAccess
    files: StoreFiles
    plugins: PluginRegistry
    resolve: ResolveConnectorConfig
    herder: HerderSettings
    warnings: tuple[str, ...] = ()


DiscoverPlugins = Callable[[Sequence[str], Sequence[str]], PluginRegistry]
"""As `plugin_discovery.discover_plugins`."""

_KIND_BY_CONVERTER_KEY = {
    "key.converter": Kind.CONVERTER,
    "value.converter": Kind.CONVERTER,
    "header.converter": Kind.HEADER_CONVERTER,
}
_CLIENT_KEYS = {*cluster_access.NUMBER_SETTINGS, *cluster_access.TEXT_SETTINGS}
_JAVA_ONLY = "has no effect here: it is about Java"
_KEYS_WITHOUT_EFFECT = {
    "plugin.discovery": _JAVA_ONLY,
    "metric.reporters": "has no effect here: Java classes cannot be loaded",
    "metrics.recording.level": _JAVA_ONLY,
    "socket.connection.setup.timeout.max.ms": "has no effect here: every attempt may take"
    " socket.connection.setup.timeout.ms",
    "metadata.recovery.rebootstrap.trigger.ms": "has no effect here: bootstrap.servers are asked"
    " as soon as no known broker answers",
    "bootstrap.resolve.timeout.ms": "has no effect here",
    "metadata.cluster.check.enable": "has no effect here",
    **{
        f"{name}.plugin.version": "has no effect here: one version of a plugin is installed"
        for name in _KIND_BY_CONVERTER_KEY
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettingsSource:
    """What a worker's settings are read from. Relative paths start at `folder`."""

    file: str
    folder: pathlib.Path
    environment: Mapping[str, str] = field(repr=False)
    discover: DiscoverPlugins = plugin_discovery.discover_plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettingsParts:
    """What is found, right or wrong: the account knows.

    `properties`: without what is for the REST API alone. None: it is no good.
    """

    rest: RestConfiguration
    properties: Mapping[str, str] = field(repr=False)
    safety: SecuritySettings | None
    access: KafkaClusterAccess | None
    files: StoreFiles
    plugins: PluginRegistry
    providers: ResolvedProperties


def read_common_settings(
    source: WorkerSettingsSource, given: ResolvedProperties, definition: ConfigDef
) -> tuple[ErrorCollector, WorkerSettingsParts]:
    """Everything is judged; `account.finish` raises what is wrong."""
    account = ErrorCollector(given)
    _validate_keys(account, definition)
    files = key_stores.create_store_files(source.folder)
    rest = rest_listeners.read_rest_configuration(
        account, files=files, environment=source.environment, folder=source.folder
    )
    properties = select_broker_properties(given.values, rest_uses_ssl=rest.uses_plain_ssl)
    safety = validate_broker_security(account, properties, files=files)
    warn_about_client_security(account, properties, files=files)
    access = None
    if safety is not None and "bootstrap.servers" not in account.wrong:
        access = parse_broker_access(account, properties, files=files)
    parts = WorkerSettingsParts(
        rest=rest,
        properties=properties,
        safety=safety,
        access=access,
        files=files,
        plugins=_discover_plugins(account, source.discover),
        providers=given,
    )
    return account, parts


def build_common_settings(
    source: WorkerSettingsSource, parts: WorkerSettingsParts, warnings: tuple[str, ...]
) -> dict[str, Any]:
    """The fields of `WorkerSettings`, but for the herder's; nothing was wrong."""
    assert parts.access is not None
    resolve: ResolveConnectorConfig = ConnectorConfigTransformer(
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


def _validate_keys(account: ErrorCollector, definition: ConfigDef) -> None:
    for each in worker_config.find_problems(account.values, definition):
        account.refuse(each.key, each.text)
    for key in worker_config.find_unknown_properties(account.values, definition):
        if key in _CLIENT_KEYS or key.startswith("security."):
            continue  # known to the worker's own clients, which judge it
        account.warn(
            key,
            "has no effect: no worker knows it",
            nearest=config_errors.find_nearest_name(key, definition.keys),
        )
    for key, text in _KEYS_WITHOUT_EFFECT.items():
        if key in account.values:
            account.warn(key, text)


def _discover_plugins(account: ErrorCollector, discover: DiscoverPlugins) -> PluginRegistry:
    """Of the folders that are named; converters that are not among them are refused."""
    found = discover(_split_list(account, "plugin.path"), _read_file_paths(account))
    for key, kind in _KIND_BY_CONVERTER_KEY.items():
        name = account.values.get(key, "").strip()
        if not name:
            continue
        try:
            found.find(name, kind)
        except ConfigError as error:
            account.refuse(key, str(error))
    return found


def _read_file_paths(account: ErrorCollector) -> list[str]:
    """Absolute and there, as Java's file providers want their `allowed.paths` (KIP-993)."""
    found = _split_list(account, worker_keys.FILE_PATHS_KEY)
    for each in found:
        path = pathlib.Path(each)
        if not path.is_absolute() or not path.exists():
            problem = "does not exist" if path.is_absolute() else "is not an absolute path"
            account.refuse(
                worker_keys.FILE_PATHS_KEY, f"{each} {problem}", allowed="absolute paths that exist"
            )
            return []
    return found


def _split_list(account: ErrorCollector, key: str) -> list[str]:
    return [each.strip() for each in account.values.get(key, "").split(",") if each.strip()]
