"""Reads the REST settings of a worker: listeners, certificates, users, and warnings about exposed
listeners.

Users of basic authentication are configured as in Kafka Connect: `KAFKA_OPTS` names a JAAS file
(`-Djava.security.auth.login.config`). Its entry `KafkaConnect` names a properties file with a
password for each user (PropertyFileLoginModule). A listener that is reachable over the network
without authentication or without TLS causes a warning.
"""

from __future__ import annotations

import ipaddress
import pathlib
import shlex
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import config_errors, java_properties
from connect_runtime.config.properties_file import ErrorCollector
from connect_runtime.protocol.tls_settings import KeyStoreFileReader
from connect_runtime.rest import basic_auth, cors, response_headers, rest_settings, rest_tls
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from connect_runtime.rest.rest_tls import HttpsConfigError, HttpsContexts
from connect_runtime.system import secure_file_access

JVM_OPTIONS_VARIABLE = "KAFKA_OPTS"
_MAX_FILE_BYTES = 4 * 1024 * 1024
_JAAS_OPTION = "-Djava.security.auth.login.config="


def read_rest_users(environment: Mapping[str, str], folder: pathlib.Path) -> dict[str, str]:
    """Read the users of the REST API, as a map from user name to password. If the map is empty, the
    REST API requires no authentication.

    Raises `ConfigError` if the JAAS file or the users file is missing or invalid.
    """
    jaas = folder / _find_jaas_file(environment.get(JVM_OPTIONS_VARIABLE, ""))
    users = folder / basic_auth.find_users_file(_read_text_file(jaas, "utf-8"))
    try:
        return java_properties.parse_properties(_read_text_file(users, "iso-8859-1"))
    except ValueError as error:
        raise ConfigError(f"basic authentication: {users}: {error}") from None


def _find_jaas_file(options: str) -> str:
    try:
        given = shlex.split(options)
    except ValueError:
        raise ConfigError(
            f"basic authentication: {JVM_OPTIONS_VARIABLE} has an unclosed quote"
        ) from None
    found = [each.removeprefix(_JAAS_OPTION) for each in given if each.startswith(_JAAS_OPTION)]
    if not found or not found[-1]:
        raise ConfigError(
            "basic authentication needs a JAAS file: set the environment variable "
            f"{JVM_OPTIONS_VARIABLE} to"
            f" {_JAAS_OPTION}/path/of/jaas.conf"
        )
    return found[-1].removeprefix("=")


def _read_text_file(file: pathlib.Path, encoding: str) -> str:
    try:
        content, writer = secure_file_access.read_file_and_find_untrusted_writer(
            file, max_bytes=_MAX_FILE_BYTES
        )
        text = content.decode(encoding)
    except OSError as error:
        raise ConfigError(f"basic authentication: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"basic authentication: {file} is not UTF-8 text") from None
    if writer is not None:
        can_write, remedy = config_errors.explain_other_user_write_access(file, writer)
        raise ConfigError(
            f"basic authentication: {file} decides who may use the REST API, but {can_write}; to "
            f"fix this, {remedy}"
        )
    return text


_EXTENSIONS_KEY = "rest.extension.classes"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestConfiguration:
    """REST settings of a worker, with certificates and users for its servers."""

    settings: RestSettings
    https: HttpsContexts | None
    admin_https: HttpsContexts | None
    users: Mapping[str, str] | None = field(repr=False)
    uses_plain_ssl: bool
    """True if an https listener uses the worker's `ssl.*` settings."""


def read_rest_configuration(
    account: ErrorCollector,
    *,
    files: KeyStoreFileReader,
    environment: Mapping[str, str],
    folder: pathlib.Path,
) -> RestConfiguration:
    """Read a worker's REST configuration. Problems are added to the error collector `account`,
    and invalid values are omitted."""
    found = _read_rest_settings(account)
    main = _read_https_contexts(
        account, found.needs_https(), prefix=rest_tls.LISTENERS_PREFIX, files=files
    )
    admin = _read_https_contexts(
        account, found.needs_admin_https(), prefix=rest_tls.ADMIN_LISTENERS_PREFIX, files=files
    )
    return RestConfiguration(
        settings=found,
        https=main,
        admin_https=admin,
        users=_read_basic_auth_users(account, environment, folder) if found.basic_auth else None,
        uses_plain_ssl=any(
            needed and not any(key.startswith(prefix) for key in account.values)
            for needed, prefix in (
                (found.needs_https(), rest_tls.LISTENERS_PREFIX),
                (found.needs_admin_https(), rest_tls.ADMIN_LISTENERS_PREFIX),
            )
        ),
    )


def _read_rest_settings(account: ErrorCollector) -> RestSettings:
    """Parse the REST settings repeatedly, each time without the key that caused the previous error,
    so that all problems are reported."""
    properties = dict(account.values)
    while True:
        try:
            found = rest_settings.read_rest_settings(properties)
            cors.parse_allowed_origins(found.access.origins)
            response_headers.parse_header_rules(found.response_headers)
        except ConfigError as error:
            key, _, text = str(error).partition(": ")
            account.add_problem(key, text)
            if properties.pop(key, None) is None:
                return RestSettings()
        else:
            return found


def _read_https_contexts(
    account: ErrorCollector, needed: bool, *, prefix: str, files: KeyStoreFileReader
) -> HttpsContexts | None:
    if not needed:
        return None
    try:
        return rest_tls.read_https_contexts(account.values, files=files, prefix=prefix)
    except HttpsConfigError as error:
        for key, text in error.problems:
            account.add_problem(key, text)
        return None


def _read_basic_auth_users(
    account: ErrorCollector, environment: Mapping[str, str], folder: pathlib.Path
) -> Mapping[str, str]:
    found: Mapping[str, str] = {}
    try:
        found = read_rest_users(environment, folder)
    except ConfigError as error:
        account.add_problem(_EXTENSIONS_KEY, str(error))
    else:
        if not found:
            account.add_warning(
                _EXTENSIONS_KEY,
                "the users file is empty: the REST API accepts requests without authentication",
            )
    return found


_LISTENERS_KEY, _ADMIN_LISTENERS_KEY = "listeners", "admin.listeners"


def warn_about_exposed_rest_api(
    account: ErrorCollector, rest: RestConfiguration, *, in_group: bool
) -> None:
    """Add a warning for `listeners` and another for `admin.listeners` if they are reachable without
    protection.

    `in_group` is True if other workers must be able to reach this worker.
    """
    if account.invalid_keys & {_LISTENERS_KEY, _ADMIN_LISTENERS_KEY}:
        return
    has_users = bool(rest.users)
    found = rest.settings
    _warn_about_exposed_listeners(
        account, _LISTENERS_KEY, found.listeners, rest.https, has_users=has_users
    )
    _warn_about_exposed_listeners(
        account,
        _ADMIN_LISTENERS_KEY,
        found.admin_listeners or (),
        rest.admin_https,
        has_users=has_users,
    )
    if in_group and _LISTENERS_KEY not in account.values:
        account.add_warning(
            _LISTENERS_KEY,
            f"is not set: the REST API listens on {found.listeners[0]}, which other hosts cannot"
            " reach. To run a group on several hosts, set listeners=https://HOST:PORT and enable"
            " authentication (rest.extension.classes)",
        )


def _warn_about_exposed_listeners(
    account: ErrorCollector,
    key: str,
    listeners: Sequence[RestListener],
    https: HttpsContexts | None,
    *,
    has_users: bool,
) -> None:
    beyond = [each for each in listeners if not is_loopback(each.host)]
    anybody = [
        each for each in beyond if not has_users and not _requires_client_certificate(each, https)
    ]
    if anybody:
        account.add_warning(
            key,
            f"OPEN TO THE NETWORK WITHOUT AUTHENTICATION at {_format_addresses(anybody)}: "
            "anyone who can reach"
            " it can run connectors with this worker's rights on Kafka and on this host. Set"
            f" rest.extension.classes={rest_settings.BASIC_AUTH_EXTENSION.rpartition('.')[2]} "
            "with an https"
            f" listener, or require client certificates ({key}.https.ssl.client.auth=required), or"
            f" listen on this host only ({key}=http://127.0.0.1:PORT)",
        )
    plain = [each for each in beyond if has_users and each.scheme == "http"]
    if plain:
        account.add_warning(
            key,
            "passwords of the REST API's users are sent unencrypted over the network at "
            f"{_format_addresses(plain)}:"
            " use an https listener",
        )


def _requires_client_certificate(listener: RestListener, https: HttpsContexts | None) -> bool:
    return (
        listener.scheme == "https"
        and https is not None
        and https.server.verify_mode is ssl.CERT_REQUIRED
    )


def is_loopback(host: str) -> bool:
    """Return True if a listener with this host is reachable only locally. The host "" means every
    interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _format_addresses(listeners: Sequence[RestListener]) -> str:
    """Format listener addresses for messages. The address of all interfaces is shown as 0.0.0.0."""
    return ", ".join(
        str(each) if each.host else f"{each.scheme}://0.0.0.0:{each.port} (every interface)"
        for each in listeners
    )
