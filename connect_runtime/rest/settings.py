"""What the REST API is told at the start: where it listens, what it allows, what it promises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api import errors
from connect_runtime.base import request_origin
from connect_runtime.builtin import version

_LISTENER = re.compile(r"(?P<scheme>.*?)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")
_HOST_NAME = re.compile(r"\*|(\*\.)?[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*\.?")
_PORT_MAX = 65_535
SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """`host` "" is every interface, `port` 0 any free one."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def listener(text: str, *, key: str = "listeners") -> Listener:
    """One of `listeners` or `admin.listeners`. Raises `ConfigError`."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None:
        raise errors.ConfigError(
            f"{key}: '{text}' does not have the form protocol://host:port, such as"
            " http://:8083 or https://connect-1:8443"
        )
    scheme, port = match["scheme"].lower(), int(match["port"])
    if scheme not in SCHEMES:
        raise errors.ConfigError(
            f"{key}: '{text}' has the protocol '{scheme}'; allowed are http and https"
        )
    if not 0 <= port <= _PORT_MAX:
        raise errors.ConfigError(
            f"{key}: '{text}' has the port {port}; allowed are 0 (any free one) to {_PORT_MAX}"
        )
    return Listener(scheme=scheme, host=match["host"], port=port)


def listeners(values: Sequence[str], *, key: str = "listeners") -> tuple[Listener, ...]:
    """Raises `ConfigError`; two that are the same would be in each other's way."""
    if not all(values):
        raise errors.ConfigError(f"{key}: '{', '.join(values)}' has an empty entry; remove it")
    found = tuple(listener(each, key=key) for each in values)
    fixed = [(each.host, each.port) for each in found if each.port != 0]
    if len(set(fixed)) != len(fixed):
        raise errors.ConfigError(f"{key}: two of {', '.join(values)} listen at the same address")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """What other workers are told: the worker's settings `rest.advertised.*`, None if not set."""

    host: str | None = None
    port: int | None = None
    scheme: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What `GET /` says: which Kafka Connect this is as good as."""

    version: str = version.KAFKA
    commit: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`access.control.allow.*`, as given: comma lists. No origins: nothing is allowed."""

    origins: str = ""
    methods: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """`admin_listeners` None: logger levels are served where everything else is; empty: nowhere.

    `topic_tracking`, `topic_reset`: `topic.tracking.enable`, `topic.tracking.allow.reset`;
    `response_headers`: `response.http.headers.config`, as given. `basic_auth`: users must log in.
    `allowed_hosts`: under which host names it may be asked besides its own
    (`request_origin.ALLOWED_NAMES`).
    """

    listeners: tuple[Listener, ...] = (Listener(scheme="http", host="127.0.0.1", port=8083),)
    admin_listeners: tuple[Listener, ...] | None = None
    advertised: Advertised = field(default_factory=Advertised)
    access: Access = field(default_factory=Access)
    response_headers: str = ""
    topic_tracking: bool = True
    topic_reset: bool = True
    basic_auth: bool = False
    allowed_hosts: tuple[str, ...] = ()
    identity: Identity = field(default_factory=Identity)

    def needs_https(self) -> bool:
        """Does a listener, but for administrators', speak https?"""
        return any(each.scheme == "https" for each in self.listeners)

    def needs_admin_https(self) -> bool:
        return any(each.scheme == "https" for each in self.admin_listeners or ())


BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
"""What may stand in `rest.extension.classes`, in full or without its package."""


def read(properties: Mapping[str, str]) -> RestSettings:
    """From a worker's properties, of which others are not looked at. Raises `ConfigError`."""
    main = _listeners(properties)
    return RestSettings(
        listeners=main,
        admin_listeners=_admin_listeners(properties, main),
        advertised=_advertised(properties),
        access=Access(
            origins=properties.get("access.control.allow.origin", ""),
            methods=properties.get("access.control.allow.methods", ""),
        ),
        response_headers=properties.get("response.http.headers.config", ""),
        topic_tracking=_boolean(properties, "topic.tracking.enable"),
        topic_reset=_boolean(properties, "topic.tracking.allow.reset"),
        basic_auth=_basic_auth(properties),
        allowed_hosts=_allowed_hosts(properties),
    )


def _listeners(properties: Mapping[str, str]) -> tuple[Listener, ...]:
    given = properties.get("listeners")
    if given is None:
        return RestSettings().listeners
    found = listeners(_entries(given))
    if not found:
        raise errors.ConfigError("listeners: it is empty; name one at least, such as http://:8083")
    return found


def _entries(text: str) -> list[str]:
    """All between commas, also what is empty; none of a blank text."""
    return [each.strip() for each in text.split(",")] if text.strip() else []


def _admin_listeners(
    properties: Mapping[str, str], main: tuple[Listener, ...]
) -> tuple[Listener, ...] | None:
    key = "admin.listeners"
    given = properties.get(key)
    if given is None:
        return None
    found = listeners(_entries(given), key=key)
    taken = {(each.host, each.port) for each in main if each.port != 0}
    for each in found:
        if (each.host, each.port) in taken:
            raise errors.ConfigError(
                f"{key}: {each} is one of listeners too; give it a port of its own"
            )
    return found


def _advertised(properties: Mapping[str, str]) -> Advertised:
    scheme = properties.get("rest.advertised.listener", "").strip().lower() or None
    if scheme not in (None, *SCHEMES):
        raise errors.ConfigError(
            f"rest.advertised.listener: '{scheme}' is not allowed; allowed are http and https"
        )
    port = properties.get("rest.advertised.port", "").strip() or None
    if port is not None and not (port.isdecimal() and 0 < int(port) <= _PORT_MAX):
        raise errors.ConfigError(f"rest.advertised.port: '{port}' is no port from 1 to {_PORT_MAX}")
    return Advertised(
        host=properties.get("rest.advertised.host.name", "").strip() or None,
        port=None if port is None else int(port),
        scheme=scheme,
    )


def _allowed_hosts(properties: Mapping[str, str]) -> tuple[str, ...]:
    found = tuple(_listed(properties.get(request_origin.ALLOWED_NAMES, "")))
    for each in found:
        if not _HOST_NAME.fullmatch(each):
            raise errors.ConfigError(
                f"{request_origin.ALLOWED_NAMES}: '{each}' is no host name; allowed are names such"
                " as connect.example.org, without a scheme or port, *.example.org for all below"
                " one, and * for any"
            )
    return found


def _basic_auth(properties: Mapping[str, str]) -> bool:
    given = _listed(properties.get("rest.extension.classes", ""))
    for each in given:
        if each not in (BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]):
            raise errors.ConfigError(
                f"rest.extension.classes: '{each}' is unknown: Java classes cannot be loaded here;"
                f" there is {BASIC_AUTH}"
            )
    return bool(given)


def _boolean(properties: Mapping[str, str], key: str) -> bool:
    text = properties.get(key, "true").strip().lower()
    if text not in {"true", "false"}:
        raise errors.ConfigError(f"{key}: '{text}' is not allowed; allowed are true and false")
    return text == "true"


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
