"""What the REST API is told at the start: where it listens, what it allows, what it promises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from connect_runtime.api import errors
from connect_runtime.builtin import version

_LISTENER = re.compile(r"(?P<scheme>.*?)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")
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


def listener(text: str) -> Listener:
    """One of `listeners` or `admin.listeners`. Raises `ConfigError`."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None:
        raise errors.ConfigError(
            f"listeners: '{text}' does not have the form protocol://host:port, such as"
            " http://:8083 or https://connect-1:8443"
        )
    scheme, port = match["scheme"].lower(), int(match["port"])
    if scheme not in SCHEMES:
        raise errors.ConfigError(
            f"listeners: '{text}' has the protocol '{scheme}'; allowed are http and https"
        )
    if not 0 <= port <= _PORT_MAX:
        raise errors.ConfigError(
            f"listeners: '{text}' has the port {port}; allowed are 0 (any free one) to {_PORT_MAX}"
        )
    return Listener(scheme=scheme, host=match["host"], port=port)


def listeners(values: Sequence[str], *, key: str = "listeners") -> tuple[Listener, ...]:
    """Raises `ConfigError`; two that are the same would be in each other's way."""
    found = tuple(listener(each) for each in values)
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
    `response_headers`: `response.http.headers.config`, as given.
    """

    listeners: tuple[Listener, ...] = (Listener(scheme="http", host="", port=8083),)
    admin_listeners: tuple[Listener, ...] | None = None
    advertised: Advertised = field(default_factory=Advertised)
    access: Access = field(default_factory=Access)
    response_headers: str = ""
    topic_tracking: bool = True
    topic_reset: bool = True
    identity: Identity = field(default_factory=Identity)
