"""Detects requests that a browser sends on behalf of another site's page (DNS rebinding, CSRF).

With DNS rebinding, a page makes its own host name resolve to this server's address, and the
browser lets the page read every response. The `Host` header then has the page's name. Any page
can also send requests without reading the responses (CSRF); browsers then set `Origin` and
`Sec-Fetch-Site`. Pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib import parse

ALLOWED_HOST_NAMES_KEY = "rest.allowed.host.names"
"""The setting with further host names."""
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
    """Host names that a server answers to. IP addresses, `localhost` and names without a dot are
    always allowed: no public DNS name looks like one. `suffixes` begin with a dot."""

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    everything: bool = False

    def allows(self, host: str | None) -> bool:
        """`host` is the `Host` header, with or without a port; None if it is missing: browsers
        always send it."""
        if host is None or self.everything:
            return True
        found = _HOST_PATTERN.fullmatch(host.strip())
        if found is None:
            return False
        name = found["name"].lower().rstrip(".")
        return (
            _is_address(name)
            or "." not in name
            or name in self.names
            or name.endswith((".localhost", *self.suffixes))
        )


def parse_allowed_hosts(names: Iterable[str]) -> AllowedHosts:
    """`*.example.org` is every name below `example.org`, and `*` every name."""
    given = [each.strip().lower().rstrip(".") for each in names if each.strip()]
    return AllowedHosts(
        names=frozenset(each for each in given if not each.startswith("*")),
        suffixes=tuple(each[1:] for each in given if each.startswith("*.")),
        everything="*" in given,
    )


def explain_refused_host(host: str) -> str:
    """Why a request is not served whose `Host` is not allowed."""
    return f"Host {host[:100]!a} is not allowed: use an IP address, or add the name to {ALLOWED_HOST_NAMES_KEY}"


def explain_refused_origin(origin: str | None) -> str:
    return f"{_CROSS_ORIGIN_MESSAGE}{'' if origin is None else f': {origin[:100]!a}'}; {_REMEDY}"


def is_cross_origin(*, host: str | None, origin: str | None, fetch_site: str | None) -> bool:
    """Does a page of another origin send this? `fetch_site` is the header `Sec-Fetch-Site`.
    Programs that are no browsers send neither."""
    if origin is None:
        return fetch_site is not None and fetch_site.strip().lower() == _CROSS_SITE
    sent = parse.urlsplit(origin.strip()) if _is_url(origin) else None
    found = _HOST_PATTERN.fullmatch((host or "").strip())
    if sent is None or found is None:
        return True
    usual = _DEFAULT_PORTS.get(sent.scheme.lower(), "")
    from_ = _HOST_PATTERN.fullmatch(sent.netloc)
    return from_ is None or _split_host_port(from_, usual) != _split_host_port(found, usual)


def _is_url(text: str) -> bool:
    try:
        return bool(parse.urlsplit(text.strip()).netloc)
    except ValueError:
        return False


def _split_host_port(found: re.Match[str], usual: str) -> tuple[str, str]:
    return found["name"].lower().rstrip("."), found["port"] or usual


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
