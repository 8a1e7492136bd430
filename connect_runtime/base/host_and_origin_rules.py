"""Detects requests that a browser sends on behalf of another site's page (DNS rebinding, CSRF).

With DNS rebinding, a page's own host name is changed to resolve to this server's address, so that
the browser lets the page read every response. Such requests have the page's host name in the `Host`
header. Any page can also send requests without reading the responses (CSRF). For these requests,
browsers set `Origin` and `Sec-Fetch-Site`. No I/O.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib import parse

ALLOWED_HOST_NAMES_KEY = "rest.allowed.host.names"
"""Configuration key for additional host names."""
_HOST_PATTERN = re.compile(
    r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:/@?#\s]+)(?::(?P<port>[0-9]{1,5}))?"
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_CROSS_SITE = "cross-site"
_CROSS_ORIGIN_MESSAGE = "This request comes from a page of another origin"
_REMEDY = (
    "to let pages of another origin make changes, add the origin to access.control.allow.origin"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedHosts:
    """Host names that a server accepts in the `Host` header.

    IP addresses and `localhost` are always accepted. Names without a dot are not public DNS names,
    but a hostile local network can resolve them to any address. They are therefore accepted only
    for read-only requests.
    """

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    """Allowed domain suffixes, each with a leading dot."""
    allow_all: bool = False
    """True to accept every host name."""

    def allows_reading(self, host: str | None) -> bool:
        """Return whether the `Host` header (with or without port) is accepted for a read-only
        request.

        A missing header (None) is accepted, because browsers always send the header.
        """
        return self.allows_changes(host) or "." not in (_parse_host_name(host) or ".")

    def allows_changes(self, host: str | None) -> bool:
        """Return whether the `Host` header is accepted for a browser's request that makes
        changes."""
        if host is None or self.allow_all:
            return True
        name = _parse_host_name(host)
        return name is not None and (
            _is_ip_address(name)
            or name == "localhost"
            or name in self.names
            or name.endswith((".localhost", *self.suffixes))
        )


def parse_allowed_hosts(names: Iterable[str]) -> AllowedHosts:
    """Parse configured host names.

    `*.example.org` allows every subdomain of `example.org`, and `*` allows every name.
    """
    given = [each.strip().lower().rstrip(".") for each in names if each.strip()]
    return AllowedHosts(
        names=frozenset(each for each in given if not each.startswith("*")),
        suffixes=tuple(each[1:] for each in given if each.startswith("*.")),
        allow_all="*" in given,
    )


def explain_refused_host(host: str) -> str:
    """Return the error message for a request whose `Host` header is not allowed."""
    return (
        f"Host {host[:100]!a} is not allowed: use an IP address, or add the name to "
        f"{ALLOWED_HOST_NAMES_KEY}"
    )


def explain_refused_origin(origin: str | None) -> str:
    """Return the error message for a request from a page of another origin."""
    return f"{_CROSS_ORIGIN_MESSAGE}{'' if origin is None else f': {origin[:100]!a}'}; {_REMEDY}"


def is_cross_origin(*, host: str | None, origin: str | None, fetch_site: str | None) -> bool:
    """Return whether a request was sent by a page of another origin.

    `fetch_site` is the `Sec-Fetch-Site` header. Clients other than browsers send neither this
    header nor `Origin`.
    """
    if origin is None:
        return fetch_site is not None and fetch_site.strip().lower() == _CROSS_SITE
    sent = parse.urlsplit(origin.strip()) if _is_url(origin) else None
    match = _HOST_PATTERN.fullmatch((host or "").strip())
    if sent is None or match is None:
        return True
    default_port = _DEFAULT_PORTS.get(sent.scheme.lower(), "")
    origin_host = _HOST_PATTERN.fullmatch(sent.netloc)
    return origin_host is None or _get_host_and_port(
        origin_host, default_port
    ) != _get_host_and_port(match, default_port)


def _is_url(text: str) -> bool:
    try:
        return bool(parse.urlsplit(text.strip()).netloc)
    except ValueError:
        return False


def _get_host_and_port(match: re.Match[str], default_port: str) -> tuple[str, str]:
    return match["name"].lower().rstrip("."), match["port"] or default_port


def _parse_host_name(host: str | None) -> str | None:
    """Return the lower-case host name in a `Host` header; None if the header is malformed."""
    match = _HOST_PATTERN.fullmatch((host or "").strip())
    return None if match is None else match["name"].lower().rstrip(".")


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
