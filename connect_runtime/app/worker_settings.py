"""Reads and validates the settings common to all workers before anything starts.

They include the settings for connections to the brokers, which the worker's clients and its group
membership use. All problems are collected and reported together.
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
from connect_runtime.config import config_errors, worker_config, worker_config_keys
from connect_runtime.config.config_providers import ConnectorConfigTransformer
from connect_runtime.config.connector_client_settings import ClientKind
from connect_runtime.config.properties_file import ErrorCollector, ResolvedProperties
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network import connection_settings, keystore_files, tls_contexts
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.plugins import plugin_discovery
from connect_runtime.plugins.plugin_aliases import Kind, PluginRegistry
from connect_runtime.protocol import security_settings
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.protocol.tls_settings import KeyStoreFileReader
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.system import secure_file_access

_CLIENT_AUTH_KEY = "ssl.client.auth"
_PROTOCOL_KEY = "security.protocol"
_PLUGIN_PATH_KEY = "plugin.path"
_SECURITY_PREFIXES = ("security.", "sasl.", "ssl.")
_CLIENT_KINDS = ClientKind


def select_broker_properties(values: Mapping[str, str], *, rest_uses_ssl: bool) -> dict[str, str]:
    """Return the worker properties without those that apply only to the REST API.

    If `rest_uses_ssl` is true, the REST listeners use the `ssl.*` settings. These settings then
    apply to broker connections only if `security.protocol` is SSL or SASL_SSL.
    """
    uses_tls = values.get(_PROTOCOL_KEY, "").strip().upper().endswith("SSL")
    drops = rest_uses_ssl and not uses_tls
    return {
        key: value
        for key, value in values.items()
        if key != _CLIENT_AUTH_KEY and not (drops and key.startswith("ssl."))
    }


def validate_broker_security(
    account: ErrorCollector, values: Mapping[str, str], *, files: KeyStoreFileReader
) -> SecuritySettings | None:
    """Parse and check the security settings for connections to brokers.

    Return None if they are invalid. Problems are added to the error collector `account`.
    """
    parsed = security_settings.parse_security_settings(values, files=files)
    for each in parsed.errors:
        account.add_problem(each.key, each.problem, allowed=each.allowed)
    if parsed.security is None:
        return None
    for broken in tls_contexts.find_unusable_certificates(parsed.security):
        account.add_problem(broken.store, broken.problem)
    return parsed.security


def warn_about_client_security(
    account: ErrorCollector, values: Mapping[str, str], *, files: KeyStoreFileReader
) -> None:
    """Check the worker's security settings for its tasks' Kafka clients.

    Problems are reported only as warnings, because connectors may override these settings.
    """
    for kind in _CLIENT_KINDS:
        own = {
            key.removeprefix(kind.value): value
            for key, value in values.items()
            if key.startswith(kind.value)
        }
        if not any(key.startswith(_SECURITY_PREFIXES) for key in own):
            continue
        inherited = values if kind is _CLIENT_KINDS.ADMIN else {}
        for each in security_settings.parse_security_settings(
            {**inherited, **own}, files=files
        ).errors:
            text = f"{each.problem}; {each.allowed}: tasks cannot create such a client unless"
            text += " the connector overrides this"
            account.add_warning(f"{kind.value}{each.key}", text)


def parse_broker_access(
    account: ErrorCollector, values: Mapping[str, str], *, files: KeyStoreFileReader
) -> KafkaClusterAccess | None:
    """Parse the settings with which the worker's clients access the Kafka cluster.

    Call `validate_broker_security` first. Returns None if the settings are invalid. Problems are
    added to the error collector `account`.
    """
    try:
        return librdkafka_connection_settings.parse_cluster_access(values, files=files)
    except FatalError as error:
        account.add_problem("", str(error))
        return None


def build_connection_settings(
    values: Mapping[str, str], parsed: Mapping[str, Any], security: SecuritySettings
) -> ConnectionSettings:
    """Build the connection settings of a group member from raw and parsed properties.

    Socket buffers that are not set keep the operating system's size, because Java's defaults are
    too small for connections with a long round trip.
    """
    names = (
        connection_settings.CONNECTION_KEYS.difference(connection_settings.BUFFER_SIZE_KEYS)
        | values.keys()
    )
    return connection_settings.create_connection_settings(
        {name: str(parsed[name]) for name in names & connection_settings.CONNECTION_KEYS},
        bootstrap=tuple(parsed["bootstrap.servers"]),
        security=security,
        client_id=parsed["client.id"],
    )


ResolveConnectorConfig: TypeAlias = Callable[[RawConfig], Mapping[str, str | None]]
"""Function that resolves `${provider:path:key}` references in a connector's configuration. Raises
`ConnectError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker. Its plugins are already imported, but nothing is started."""

    file: str
    """Path of the settings file, for messages."""
    rest: RestSettings
    https: HttpsContexts | None
    """TLS contexts of the https listeners; None if no listener uses https."""
    admin_https: HttpsContexts | None
    """TLS contexts of the https admin listeners; None if no admin listener uses https."""
    users: Mapping[str, str] | None = field(repr=False)
    """Passwords of the REST API's users, by user name; None if basic authentication is not
    enabled."""
    access: KafkaClusterAccess
    """Settings for the worker's own clients to access the Kafka cluster."""
    files: KeyStoreFileReader
    """Reads certificate files. Relative paths are resolved against the working directory."""
    plugins: PluginRegistry
    resolve_connector_config: ResolveConnectorConfig
    herder: HerderSettings
    allowed_connectors: frozenset[str] | None = None
    """Names of the connectors that this worker may run; None for all. It ignores all other
    connectors in the config topic."""
    warnings: tuple[str, ...] = ()
    """Warnings to log once."""


DiscoverPlugins = Callable[[Sequence[str], Sequence[str]], PluginRegistry]
"""Function type of `plugin_discovery.discover_plugins`."""

_KIND_BY_CONVERTER_KEY = {
    "key.converter": Kind.CONVERTER,
    "value.converter": Kind.CONVERTER,
    "header.converter": Kind.HEADER_CONVERTER,
}
_CLIENT_KEYS = {
    *librdkafka_connection_settings.NUMBER_SETTINGS,
    *librdkafka_connection_settings.TEXT_SETTINGS,
}
_JAVA_ONLY = "has no effect: it configures the Java worker, and this worker does not use Java"
_KEYS_WITHOUT_EFFECT = {
    "plugin.discovery": _JAVA_ONLY,
    "metric.reporters": "has no effect: Java classes cannot be loaded",
    "metrics.recording.level": _JAVA_ONLY,
    "socket.connection.setup.timeout.max.ms": (
        "has no effect: each connection attempt is limited to socket.connection.setup.timeout.ms"
    ),
    "metadata.recovery.rebootstrap.trigger.ms": "has no effect: bootstrap.servers are used"
    " as soon as no known broker responds",
    "bootstrap.resolve.timeout.ms": "has no effect",
    "metadata.cluster.check.enable": "has no effect",
    **{
        f"{name}.plugin.version": "has no effect: only one version of a plugin can be installed"
        for name in _KIND_BY_CONVERTER_KEY
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettingsSource:
    """Sources of a worker's settings: file, environment variables and plugin discovery. Relative
    paths are resolved against `folder`."""

    file: str
    folder: pathlib.Path
    environment: Mapping[str, str] = field(repr=False)
    discover: DiscoverPlugins = plugin_discovery.discover_plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedWorkerSettings:
    """Parsed settings of a worker. An invalid part is None; its problem has been added to the
    `ErrorCollector`."""

    rest: RestConfiguration
    properties: Mapping[str, str] = field(repr=False)
    """Worker properties without those that apply only to the REST API."""
    security: SecuritySettings | None
    access: KafkaClusterAccess | None
    files: KeyStoreFileReader
    plugins: PluginRegistry
    providers: ResolvedProperties


def read_common_settings(
    source: WorkerSettingsSource, given: ResolvedProperties, definition: ConfigDef
) -> tuple[ErrorCollector, ParsedWorkerSettings]:
    """Read and validate all settings that are common to distributed and standalone workers.

    Problems are added to the returned error collector, whose `raise_errors_or_get_warnings` raises
    them.
    """
    account = ErrorCollector(given)
    _validate_worker_keys(account, definition)
    files = keystore_files.create_store_files(source.folder)
    rest = rest_listeners.read_rest_configuration(
        account, files=files, environment=source.environment, folder=source.folder
    )
    properties = select_broker_properties(given.values, rest_uses_ssl=rest.uses_plain_ssl)
    safety = validate_broker_security(account, properties, files=files)
    warn_about_client_security(account, properties, files=files)
    access = None
    if safety is not None and "bootstrap.servers" not in account.invalid_keys:
        access = parse_broker_access(account, properties, files=files)
    parts = ParsedWorkerSettings(
        rest=rest,
        properties=properties,
        security=safety,
        access=access,
        files=files,
        plugins=_discover_plugins(account, source.discover),
        providers=given,
    )
    return account, parts


def build_common_settings(
    source: WorkerSettingsSource, parts: ParsedWorkerSettings, warnings: tuple[str, ...]
) -> dict[str, Any]:
    """Return the fields of `WorkerSettings` except `herder`. Call only if no problems were
    reported."""
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
        "resolve_connector_config": resolve,
        "warnings": warnings,
    }


def _validate_worker_keys(account: ErrorCollector, definition: ConfigDef) -> None:
    for each in worker_config.find_property_problems(account.values, definition):
        account.add_problem(each.key, each.text)
    for key in worker_config.find_unknown_properties(account.values, definition):
        if key in _CLIENT_KEYS or key.startswith("security."):
            continue  # a key of the worker's own clients, which validate it
        account.add_warning(
            key,
            "has no effect: it is not a configuration key of Kafka Connect workers",
            nearest=config_errors.find_nearest_name(key, definition.keys),
        )
    for key, text in _KEYS_WITHOUT_EFFECT.items():
        if key in account.values:
            account.add_warning(key, text)


def _discover_plugins(account: ErrorCollector, discover: DiscoverPlugins) -> PluginRegistry:
    """Discover the plugins in `plugin.path`, and reject configured converters that are not
    installed."""
    found = discover(_read_plugin_folders(account), _read_absolute_paths(account))
    for key, kind in _KIND_BY_CONVERTER_KEY.items():
        name = account.values.get(key, "").strip()
        if not name:
            continue
        try:
            found.find_plugin_class(name, kind)
        except ConfigError as error:
            account.add_problem(key, str(error))
    return found


def _read_plugin_folders(account: ErrorCollector) -> list[str]:
    """Read the directories of `plugin.path`.

    Rejects a directory if a user other than the one running the worker can change its modules,
    because the worker runs their code.
    """
    found = _split_list(account, _PLUGIN_PATH_KEY)
    for each in found:
        try:
            writer = secure_file_access.find_untrusted_folder_writer(pathlib.Path(each))
        except FileNotFoundError:
            continue  # reported by the plugin discovery
        except OSError as error:
            problem = (
                f"the worker cannot determine who can write to the modules in {each}: "
                f"{error.strerror or error}; use a folder that the worker can read and that "
                "contains only plugins"
            )
            account.add_problem(_PLUGIN_PATH_KEY, problem)
            return []
        if writer is not None:
            can_write, remedy = config_errors.explain_other_user_write_access(None, writer)
            if writer.path.is_relative_to(pathlib.Path(each).resolve()):
                remedy += f", or mount {each} read-only"
            problem = (
                f"the worker would run the modules in {each}, but {can_write}; to fix this, "
                f"{remedy}"
            )
            account.add_problem(_PLUGIN_PATH_KEY, problem)
            return []
    return found


def _read_absolute_paths(account: ErrorCollector) -> list[str]:
    """Read a list of paths that must be absolute and exist, like Java's `allowed.paths`
    (KIP-993)."""
    found = _split_list(account, worker_config_keys.FILE_PATHS_KEY)
    for each in found:
        path = pathlib.Path(each)
        if not path.is_absolute() or not path.exists():
            problem = "does not exist" if path.is_absolute() else "is not an absolute path"
            account.add_problem(
                worker_config_keys.FILE_PATHS_KEY,
                f"{each} {problem}",
                allowed="absolute paths that exist",
            )
            return []
    return found


def _split_list(account: ErrorCollector, key: str) -> list[str]:
    return [each.strip() for each in account.values.get(key, "").split(",") if each.strip()]
