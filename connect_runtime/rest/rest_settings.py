"""REST API settings: listeners, advertised address, access control, extensions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import host_and_origin_rules
from connect_runtime.plugins import compatible_kafka_version

_LISTENER_PATTERN = re.compile(
    r"(?P<scheme>.*?)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)"
)
_HOST_NAME_PATTERN = re.compile(r"\*|(\*\.)?[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*\.?")
_MAX_PORT = 65_535
LISTENER_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestListener:
    """A listener of the REST API. The host "" means all interfaces, port 0 any free port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_listener(text: str, *, key: str = "listeners") -> RestListener:
    """Parse an entry of `listeners` or `admin.listeners`. Raises `ConfigError` if the entry is
    invalid."""
    match = _LISTENER_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"{key}: '{text}' does not have the form protocol://host:port, such as"
            " http://:8083 or https://connect-1:8443"
        )
    scheme, port = match["scheme"].lower(), int(match["port"])
    if scheme not in LISTENER_SCHEMES:
        raise ConfigError(
            f"{key}: '{text}' has the protocol '{scheme}'; allowed are http and https"
        )
    if not 0 <= port <= _MAX_PORT:
        raise ConfigError(
            f"{key}: '{text}' has the port {port}; allowed are 0 (any free port) to {_MAX_PORT}"
        )
    return RestListener(scheme=scheme, host=match["host"], port=port)


def parse_listeners(values: Sequence[str], *, key: str = "listeners") -> tuple[RestListener, ...]:
    """Parse a list of listeners. Raises `ConfigError` if a listener is invalid or two listeners
    have the same address."""
    if not all(values):
        raise ConfigError(f"{key}: '{', '.join(values)}' contains an empty entry; remove it")
    found = tuple(parse_listener(each, key=key) for each in values)
    fixed = [(each.host, each.port) for each in found if each.port != 0]
    if len(set(fixed)) != len(fixed):
        raise ConfigError(f"{key}: two of {', '.join(values)} listen on the same address")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedAddress:
    """Address under which other workers reach this worker (`rest.advertised.*`). Parts that are not
    set are None."""

    host: str | None = None
    port: int | None = None
    scheme: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """The Kafka Connect version and commit that `GET /` reports."""

    version: str = compatible_kafka_version.KAFKA_VERSION
    commit: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorsSettings:
    """CORS settings (`access.control.allow.*`) as comma-separated lists. CORS is disabled if there
    are no origins."""

    origins: str = ""
    methods: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """All settings of a worker's REST API."""

    listeners: tuple[RestListener, ...] = (
        RestListener(scheme="http", host="127.0.0.1", port=8083),
    )
    admin_listeners: tuple[RestListener, ...] | None = None
    """Listeners of the admin endpoints. If None, the main listeners serve the admin endpoints; if
    empty, the endpoints are disabled."""
    advertised: AdvertisedAddress = field(default_factory=AdvertisedAddress)
    access: CorsSettings = field(default_factory=CorsSettings)
    response_headers: str = ""
    """Unparsed value of `response.http.headers.config`."""
    topic_tracking: bool = True
    """Value of `topic.tracking.enable`."""
    topic_reset: bool = True
    """Value of `topic.tracking.allow.reset`: True if users may reset a connector's active
    topics."""
    basic_auth: bool = False
    """True if users must log in with HTTP basic authentication."""
    allowed_hosts: tuple[str, ...] = ()
    """Accepted host names in addition to the worker's own
    (`host_and_origin_rules.ALLOWED_HOST_NAMES_KEY`)."""
    identity: WorkerIdentity = field(default_factory=WorkerIdentity)

    def needs_https(self) -> bool:
        """True if any listener other than an admin listener uses https."""
        return any(each.scheme == "https" for each in self.listeners)

    def needs_admin_https(self) -> bool:
        return any(each.scheme == "https" for each in self.admin_listeners or ())


BASIC_AUTH_EXTENSION = (
    "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
)
"""The only supported value of `rest.extension.classes`, with or without its package."""


def read_rest_settings(properties: Mapping[str, str]) -> RestSettings:
    """Read the REST API settings from worker properties. Other keys are ignored.

    Raises `ConfigError` if a value is invalid.
    """
    main = _read_listeners(properties)
    return RestSettings(
        listeners=main,
        admin_listeners=_read_admin_listeners(properties, main),
        advertised=_read_advertised_address(properties),
        access=CorsSettings(
            origins=properties.get("access.control.allow.origin", ""),
            methods=properties.get("access.control.allow.methods", ""),
        ),
        response_headers=properties.get("response.http.headers.config", ""),
        topic_tracking=_read_boolean(properties, "topic.tracking.enable"),
        topic_reset=_read_boolean(properties, "topic.tracking.allow.reset"),
        basic_auth=_read_basic_auth_setting(properties),
        allowed_hosts=_read_allowed_hosts(properties),
    )


def _read_listeners(properties: Mapping[str, str]) -> tuple[RestListener, ...]:
    given = properties.get("listeners")
    if given is None:
        return RestSettings().listeners
    found = parse_listeners(_split_entries(given))
    if not found:
        raise ConfigError("listeners: the list is empty; set at least one, such as http://:8083")
    return found


def _split_entries(text: str) -> list[str]:
    """Split a comma-separated list, keeping empty entries. A blank string yields an empty list."""
    return [each.strip() for each in text.split(",")] if text.strip() else []


def _read_admin_listeners(
    properties: Mapping[str, str], main: tuple[RestListener, ...]
) -> tuple[RestListener, ...] | None:
    key = "admin.listeners"
    given = properties.get(key)
    if given is None:
        return None
    found = parse_listeners(_split_entries(given), key=key)
    taken = {(each.host, each.port) for each in main if each.port != 0}
    for each in found:
        if (each.host, each.port) in taken:
            raise ConfigError(f"{key}: {each} is also in 'listeners'; use a different port")
    return found


def _read_advertised_address(properties: Mapping[str, str]) -> AdvertisedAddress:
    scheme = properties.get("rest.advertised.listener", "").strip().lower() or None
    if scheme not in (None, *LISTENER_SCHEMES):
        raise ConfigError(
            f"rest.advertised.listener: '{scheme}' is not allowed; allowed values are http and "
            "https"
        )
    port = properties.get("rest.advertised.port", "").strip() or None
    if port is not None and not (port.isdecimal() and 0 < int(port) <= _MAX_PORT):
        raise ConfigError(
            f"rest.advertised.port: '{port}' is not a port number from 1 to {_MAX_PORT}"
        )
    return AdvertisedAddress(
        host=properties.get("rest.advertised.host.name", "").strip() or None,
        port=None if port is None else int(port),
        scheme=scheme,
    )


def _read_allowed_hosts(properties: Mapping[str, str]) -> tuple[str, ...]:
    found = tuple(_split_list(properties.get(host_and_origin_rules.ALLOWED_HOST_NAMES_KEY, "")))
    for each in found:
        if not _HOST_NAME_PATTERN.fullmatch(each):
            raise ConfigError(
                f"{host_and_origin_rules.ALLOWED_HOST_NAMES_KEY}: '{each}' is not a host name; "
                "allowed "
                "are names such as"
                " connect.example.org without scheme or port, *.example.org for all subdomains,"
                " and * for any name"
            )
    return found


def _read_basic_auth_setting(properties: Mapping[str, str]) -> bool:
    given = _split_list(properties.get("rest.extension.classes", ""))
    for each in given:
        if each not in (BASIC_AUTH_EXTENSION, BASIC_AUTH_EXTENSION.rpartition(".")[2]):
            raise ConfigError(
                f"rest.extension.classes: '{each}' is not supported, because Java classes cannot"
                f" be loaded; the only supported extension is {BASIC_AUTH_EXTENSION}"
            )
    return bool(given)


def _read_boolean(properties: Mapping[str, str], key: str) -> bool:
    text = properties.get(key, "true").strip().lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"{key}: '{text}' is not allowed; allowed are true and false")
    return text == "true"


def _split_list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
